"""Locks for tests that a judge finds nothing wrong with: what follows from the pins and the tables is filled in."""

from collections.abc import Iterable

from msgspec.structs import replace

from envspec.facts import wheels
from envspec.facts.minimum import architectures, driver_floor
from envspec.lock.model import Artifact, LockedTarget, Pin, TargetInputs
from envspec.packages.names import conda_name, requirement_name


def sound_target(name: str, inputs: TargetInputs, pins: Iterable[Pin]) -> LockedTarget:
    """A target with these pins: `direct` by the requirements, torch's own files, the GPUs' architectures and driver."""
    named = {
        "pip": {requirement_name(text) for text in inputs.requirements},
        "conda": {conda_name(text) for text in inputs.conda_requirements},
    }
    marked = (replace(torch_file(pin, inputs), direct=pin.name in named[pin.kind]) for pin in pins)
    return LockedTarget(
        name,
        inputs,
        tuple(sorted(marked, key=lambda pin: (pin.kind, pin.name))),
        architectures(inputs.gpus),
        driver_floor(inputs.cuda, inputs.platform, inputs.gpus),
    )


def torch_file(pin: Pin, inputs: TargetInputs) -> Pin:
    """The pin with the file that the PyTorch index has for it, if it is of one that ships with envspec, and its file is
    a made-up one."""
    variant = pin.index.removeprefix("pytorch/")
    made_up = pin.artifact is not None and pin.artifact.file.endswith("-py3-none-any.whl")
    if not made_up or variant == pin.index or variant not in wheels.variants():
        return pin
    machine = {"linux-64": "x86_64", "linux-aarch64": "aarch64"}[inputs.platform]
    tag = f"-cp{inputs.python.replace('.', '')}-"
    for wheel in wheels.load(variant).files(pin.name):
        if wheel.version == pin.version and tag in wheel.file and wheel.file.endswith(f"{machine}.whl"):
            return replace(pin, artifact=Artifact(wheel.file, wheel.sha256, wheel.size))
    return pin
