"""Two GPU targets and a CPU one, with a package of every kind: what single changes are tried on."""

import hashlib
from collections.abc import Callable

from msgspec.structs import replace

from envspec.lock.formats.foreign.side import Side
from envspec.lock.model import Artifact, GitSource, Lock, LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.review.diff.review import review
from envspec.review.diff.rows import Review

Change = Callable[[Lock], Lock]


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def wheel(name: str, version: str, *requires: str, index: str = "pypi", size: int = 1_000_000, **more: object) -> Pin:
    file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    pin = Pin("pip", name, version, index, Artifact(file, sha(index + file), size), requires, licence="MIT")
    return replace(pin, **more)


def conda(name: str, version: str, build: str, *requires: str, direct: bool = False) -> Pin:
    file = f"{name}-{version}-{build}.conda"
    artifact = Artifact(file, sha(file), 500_000, hashlib.md5(file.encode()).hexdigest())
    return Pin("conda", name, version, "conda-forge/linux-64", artifact, requires, direct, "MIT", build)


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def base() -> Lock:
    """The old side of every single change."""
    shared = (
        conda("ffmpeg", "7.1.0", "gpl_h1_0", "openssl >=3", direct=True),
        conda("openssl", "3.5.0", "h1_0"),
        wheel("app", "1.4.2", "lib>=1", "torch", direct=True),
        wheel("beta", "0.5.0"),
        Pin(
            "pip",
            "clip",
            "1.0",
            "git",
            None,
            ("beta",),
            True,
            "MIT",
            git=GitSource("https://git.example.org/c", COMMIT),
        ),
        wheel("inner", "3.0", index="internal"),
        wheel("lib", "2.5.1", "beta", "inner"),
        wheel("year", "2026.1.0"),
    )
    gpu = (
        wheel("nvidia-cudnn-cu12", "9.10.2.21", licence="LicenseRef-NVIDIA-Proprietary"),
        wheel("nvidia-nccl-cu12", "2.27.5", licence="LicenseRef-NVIDIA-Proprietary"),
        wheel("triton", "3.5.1"),
    )
    conda_requirements = ("ffmpeg 7.*",)
    requirements = ("app>=1", "clip @ git+https://git.example.org/c@main", "lib", "year")

    def target(name: str, cuda: str | None, gpus: tuple[str, ...], sm: tuple[str, ...], torch: Pin) -> LockedTarget:
        inputs = TargetInputs("linux-64", "3.12", "2.28", cuda, gpus, None, requirements, conda_requirements)
        pins = (*shared, torch, *(gpu if cuda else ()))
        in_order = tuple(sorted(pins, key=lambda pin: (pin.kind, pin.name)))
        return LockedTarget(name, inputs, in_order, sm, "525.60.13" if cuda else None)

    def torch(version: str, index: str, *requires: str) -> Pin:
        return wheel("torch", version, *requires, index=index, size=900_000_000, direct=True)

    needs = ("nvidia-cudnn-cu12", "nvidia-nccl-cu12", "triton")
    return Lock(
        "demo",
        SpecInputs("2026-01-01T00:00:00Z", ("slow",), {"inner": "internal"}, ("conda-forge",)),
        (
            target("cpu", None, (), (), torch("2.9.1+cpu", "pytorch/cpu")),
            target("hopper", "12.8", ("H100",), ("sm_90",), torch("2.9.1", "pypi", *needs)),
            target("volta", "12.6", ("V100",), ("sm_70",), torch("2.9.1+cu126", "pytorch/cu126", *needs)),
        ),
    )


def pins(change: Callable[[Pin], Pin | None], name: str, *targets: str) -> Change:
    """Change the pin of a package in some targets, or in all; None takes it away."""

    def apply(lock: Lock) -> Lock:
        def one(target: LockedTarget) -> LockedTarget:
            if targets and target.name not in targets:
                return target
            found = (change(pin) if pin.name == name else pin for pin in target.pins)
            return replace(target, pins=tuple(pin for pin in found if pin is not None))

        return replace(lock, targets=tuple(map(one, lock.targets)))

    return apply


def version(new: str, name: str, *targets: str) -> Change:
    """Another version, and so another file."""

    def moved(pin: Pin) -> Pin:
        if pin.artifact is None:
            return replace(pin, version=new)
        file = pin.artifact.file.replace(f"-{pin.version}-", f"-{new}-")
        return replace(pin, version=new, artifact=replace(pin.artifact, file=file, sha256=sha(pin.index + file)))

    return pins(moved, name, *targets)


def artifact(name: str, **fields: object) -> Change:
    def changed(pin: Pin) -> Pin:
        assert pin.artifact is not None
        return replace(pin, artifact=replace(pin.artifact, **fields))

    return pins(changed, name)


def fields(name: str, **values: object) -> Change:
    return pins(lambda pin: replace(pin, **values), name)


def added(pin: Pin, *targets: str) -> Change:
    def one(target: LockedTarget) -> LockedTarget:
        if targets and target.name not in targets:
            return target
        found = sorted((*target.pins, pin), key=lambda pin: (pin.kind, pin.name))
        return replace(target, pins=tuple(found))

    return lambda lock: replace(lock, targets=tuple(map(one, lock.targets)))


def target(name: str, **values: object) -> Change:
    """Other inputs of a target; `floor` is the driver's."""

    def one(found: LockedTarget) -> LockedTarget:
        if found.name != name:
            return found
        own = {key: value for key, value in values.items() if key in ("driver_floor", "architectures")}
        rest = {key: value for key, value in values.items() if key not in own}
        return replace(found, inputs=replace(found.inputs, **rest), **own)

    return lambda lock: replace(lock, targets=tuple(map(one, lock.targets)))


def every_target(**values: object) -> Change:
    def apply(lock: Lock) -> Lock:
        for one in lock.targets:
            lock = target(one.name, **values)(lock)
        return lock

    return apply


def spec(**values: object) -> Change:
    return lambda lock: replace(lock, inputs=replace(lock.inputs, **values))


def both(*changes: Change) -> Change:
    def apply(lock: Lock) -> Lock:
        for change in changes:
            lock = change(lock)
        return lock

    return apply


def in_target(name: str, change: Change) -> Change:
    """A change in one target only."""

    def apply(lock: Lock) -> Lock:
        there = change(lock).target(name)
        assert there is not None
        return replace(lock, targets=tuple(there if one.name == name else one for one in lock.targets))

    return apply


def reviewed(change: Change) -> Review:
    lock = base()
    return review(Side("old", lock), Side("new", change(lock)))
