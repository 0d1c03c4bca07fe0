"""The layers of a target's image, from the bottom: what each holds, and the key of what it is made from.

A layer's key says what is in it and nothing else, so that targets with the same packages have the same layers, and a
package that moves makes one layer new.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

from envspec.errors import InputError
from envspec.facts.cuda_stack import TORCH, stack_of
from envspec.image.base_files import BaseFiles
from envspec.image.conda import LinkedPackages, history_entry
from envspec.image.entry import PROGRAM, LayerEntry, text_entry
from envspec.image.layer import LayerPlan
from envspec.image.python import ImagePython, activation_entries, environment_entries
from envspec.image.users import system_entries
from envspec.image.wheel import Scheme, wheel_entries
from envspec.install.collect import Paths
from envspec.install.model import identity
from envspec.lock.conda_files import artifact_of
from envspec.lock.model import LockedTarget, Pin
from envspec.recipes.plan import CARRIED, ENVIRONMENT, Plan
from envspec.record import dataclass

ORDER = ("system", "python", "nvidia", "torch", "rest", "project", "carried")
"""The layers above the base's own, from the bottom: what moves rarely comes first."""
FORM = 1
"""Raised where the same inputs get other layers than before."""
SBOM = "sbom.cdx.json"
"""The bill of materials among the carried files."""


@dataclass(frozen=True)
class LayerInputs:
    """What a target's layers are made from.

    base     what the base brings
    python   None where conda brings it
    carried  the carried files, by path
    build    the files of the build of Python that the image brings
    wheels   the wheels of the lock, by index and file name
    conda    the conda packages, None without any
    project  the wheel of the spec's project, None without one
    built    the wheels that were built here of what the lock has as source, by package, each with the key of what it is
             built from
    """

    plan: Plan
    target: LockedTarget
    base: BaseFiles
    python: ImagePython | None
    carried: Mapping[str, str]
    wheels: Paths
    conda: LinkedPackages | None = None
    build: Sequence[LayerEntry] = ()
    project: Path | None = None
    built: Mapping[str, tuple[Path, str]] = field(default_factory=dict)
    scheme: Scheme = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scheme", Scheme(ENVIRONMENT, self.plan.python))


def group_of(pin: Pin) -> str:
    """Name the layer of a package."""
    if (pin.kind, pin.name) == ("conda", "python"):
        return "python"
    return "torch" if pin.name in TORCH else stack_of(pin.name) or "rest"


def layer_plans(inputs: LayerInputs) -> tuple[LayerPlan, ...]:
    """List the layers of a target's image, from the bottom; none of them is empty. Raises InputError."""
    system = tuple(system_entries(inputs.plan, inputs.base))
    files = (text_entry(f"{CARRIED.strip('/')}/{path}", text, PROGRAM) for path, text in inputs.carried.items())
    carried = (*files, *activation_entries(inputs.plan, inputs.scheme))
    own = partial(_project, inputs.project, inputs.plan, inputs.scheme)
    found = [
        _layer("system", [_content(one) for one in system], lambda: system),
        *_package_layers(inputs),
        *([_layer("project", _file_digest(inputs.project), own)] if inputs.project else []),
        _layer("carried", [_content(one) for one in carried], lambda: carried),
    ]
    return tuple(found)


def _package_layers(inputs: LayerInputs) -> Iterable[LayerPlan]:
    for name in ("python", "nvidia", "torch", "rest"):
        pins = [pin for pin in inputs.target.pins if group_of(pin) == name]
        key: list[Any] = [inputs.scheme.prefix, inputs.plan.python, *(_identity(pin, inputs.built) for pin in pins)]
        around = name == "python"
        if around:
            key += [inputs.python.key if inputs.python else "conda", bool(inputs.plan.explicit)]
        if pins or around:
            yield _layer(name, key, partial(_packages, inputs, pins, around=around))


def _packages(inputs: LayerInputs, pins: Sequence[Pin], *, around: bool) -> Iterable[LayerEntry]:
    if around and inputs.python:
        yield from inputs.build
        yield from environment_entries(inputs.plan, inputs.python, inputs.scheme)
    if around and inputs.conda:
        yield history_entry(inputs.scheme.root)
    if inputs.conda:
        yield from inputs.conda.entries([pin for pin in pins if pin.kind == "conda"], inputs.scheme.root)
    for pin in pins:
        if pin.kind == "pip":
            path, _ = inputs.built.get(pin.name) or (inputs.wheels[pin.index, artifact_of(pin).file], "")
            yield from wheel_entries(path, pin, inputs.scheme)


def _project(wheel: Path | None, plan: Plan, scheme: Scheme) -> Iterable[LayerEntry]:
    assert wheel is not None and plan.project is not None
    return wheel_entries(wheel, Pin("pip", plan.project.name, "0", "own", None), scheme)


def refuse_unfit(plan: Plan, target: LockedTarget, *, building: bool = False) -> None:
    """Raise InputError for packages that would have to be built, unless that is asked for, as an image is made without
    running anything, and for programs of other images."""
    if plan.borrowed:
        names = ", ".join(f"{one.name} from {one.image.name}" for one in plan.borrowed)
        raise InputError(
            f"the image of {target.name} takes {names}, and envspec copies nothing out of other images yet",
            hint="leave it out of the spec's [image] and targets, or build the Dockerfile of `envspec export`",
        )
    sources = [pin.name for pin in target.pins if pin.kind == "pip" and not pin.is_wheel]
    if sources and not building:
        raise InputError(
            f"an image is made of wheels, and the lock of {target.name} has {', '.join(sources)} as source",
            hint="`--build-sources` builds them on this machine; or publish wheels of them on an index of your own",
        )


def _layer(name: str, key: Any, entries: Callable[[], Iterable[LayerEntry]]) -> LayerPlan:
    text = json.dumps([FORM, name, key], sort_keys=True, separators=(",", ":"))
    return LayerPlan(name, f"sha256:{hashlib.sha256(text.encode()).hexdigest()}", entries)


def _identity(pin: Pin, built: Mapping[str, tuple[Path, str]]) -> list[str]:
    key = built[pin.name][1] if pin.kind == "pip" and pin.name in built else None
    return [pin.kind, pin.name, pin.version, identity(pin, key), pin.url or ""]


def _content(entry: LayerEntry) -> list[Any]:
    digest = ""
    if entry.content is not None:
        with entry.content() as file:
            digest = hashlib.sha256(file.read()).hexdigest()
    return [entry.path, entry.mode, entry.owner, entry.link, digest]


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else _digest(file)


def _digest(file: Any) -> str:
    return hashlib.sha256(file.read()).hexdigest()
