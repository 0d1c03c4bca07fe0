"""The pip half of a lock as runs of uv: one per layer and index, so that each package comes from its index, and later
ones for what overwrites files of others, as uv installs a run's packages side by side."""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from envspec.base.errors import InputError, Place
from envspec.export.plan import HEAD, REQUIREMENTS, LocalIndex, PipStep, VariantFile
from envspec.facts.cuda_stack import stack_of
from envspec.lock.formats.requirements import build_constraints, requirement
from envspec.lock.graph import Graph
from envspec.lock.model import LockedTarget, Pin
from envspec.lock.shared_paths import pip_order, waves
from envspec.lock.slice import package_row
from envspec.spec.document import project_root
from envspec.spec.model import Spec

# The layers of an image's environment, from the bottom, and the packages in each: what moves most lies on top.


LAYERS = ("python", "conda", "nvidia", "torch", "source", "rest", "project", "carried")
"""Python, or conda's packages, of which it's one; CUDA's libraries, which are large and rarely move; torch and what
moves with it; what is compiled; everything else; the spec's project; the carried files."""


def layer_of(pin: Pin) -> str:
    """Name the layer of `LAYERS` that a package lies in."""
    if pin.kind == "conda":
        return "conda"
    return (stack_of(pin.name) or "rest") if pin.is_wheel else "source"


_PYTORCH = "pytorch/"
_GROUPS = (*LAYERS, "build")
"""`build` is what builds see of everything else."""
_LONG = 120
"""The most characters of targets' names in the name of a file."""

Run = tuple[PipStep, Mapping[str, str]]
"""A run of uv, and the texts of its files by path."""
_Key = tuple[str, int, str, str]
"""The key of one run of uv: the group, the wave, the index, and the name of a source with constraints of its own."""


def share_out(
    group: str, blocks: Mapping[str, Iterable[str]], kind: str = "txt", head: str = HEAD
) -> dict[str, dict[str, str]]:
    """Give every target's files of a group, by path: each block of lines stands once, in the file of exactly those
    targets that have it. No path depends on a content: a package that moves changes lines, and no names.
    """
    owners: dict[str, list[str]] = {}
    for target, own in blocks.items():
        for lines in own:
            owners.setdefault(lines, []).append(target)
    parts: dict[tuple[str, ...], list[str]] = {}
    for lines, targets in sorted(owners.items()):
        parts.setdefault(tuple(targets), [head]).append(lines)
    files: dict[str, dict[str, str]] = {target: {} for target in blocks}
    for of, lines_of in sorted(parts.items()):
        names = ",".join(of)
        if len(names) > _LONG:
            names = f"{of[0]},{hashlib.sha256(names.encode()).hexdigest()[:8]}"
        path = f"{REQUIREMENTS}/{group}{'' if len(of) == len(blocks) else f'@{names}'}.{kind}"
        text = "".join(lines_of)
        for target in of:
            files[target][path] = text
    return files


def block(name: str, line: str) -> str:
    """Give a package's line below its name: git merges two branches of which one bumps, adds or removes a neighbour."""
    return f"\n# {name}\n{line}\n"


def with_row(pin: Pin, line: str) -> str:
    """Add what the slice says of a package to its line, as a comment. No `#` stands in that: its sign is the last."""
    return f"{line}  # {json.dumps(package_row(pin)).replace('#', chr(92) + 'u0023')}"


_BUILD_TOOLS = (
    "cffi", "cmake", "cython", "flit-core", "hatchling", "meson", "meson-python", "nanobind", "ninja", "numpy",
    "packaging", "poetry-core", "psutil", "pybind11", "scikit-build", "scikit-build-core", "setuptools",
    "setuptools-scm", "wheel",
)  # fmt: skip
"""The packages that extensions of torch import in their builds, often undeclared."""


def pip_steps(spec: Spec, targets: Sequence[LockedTarget]) -> dict[str, tuple[Run, ...]]:
    """List the runs of every target, in order, each with the texts of its files: its packages' lines end with what the
    slice says of them.

    Raises InputError for an index that the spec doesn't name any more.
    """
    grouped = {target.name: [(layer_of(pin), pin) for pin in target.pins if pin.kind == "pip"] for target in targets}
    return _steps(spec, targets, grouped)


def build_steps(spec: Spec, targets: Sequence[LockedTarget], own: Collection[str] = ()) -> dict[str, tuple[Run, ...]]:
    """List the runs that install the wheels for builds, beside the CUDA stack: the dependencies of torch and of the
    sources, the lock's build tools, and what the spec says that builds need: everything for a source without isolation.
    No others: any change of theirs would compile everything again. `own` names what the build of the spec's project
    requires, where that is compiled.
    """
    return _steps(spec, targets, {target.name: [*_for_builds(spec, target, own)] for target in targets}, "build")


def _for_builds(spec: Spec, target: LockedTarget, own: Collection[str]) -> Iterator[tuple[str, Pin]]:
    pins = {pin.name: pin for pin in target.pins if pin.kind == "pip"}
    sources = [pin.name for pin in pins.values() if not pin.is_wheel]
    terms = spec.terms_of(target.name)
    needed = (requirement.text for name in sources for requirement in terms.build_dependencies.get(name, ()))
    roots = ["torch", *_BUILD_TOOLS, *sources, *needed, *own]
    if terms.no_build_isolation & set(sources):
        roots += pins
    reached = {node.name for node in Graph.of(target, roots).outgoing if node.kind == "pip"}
    return (("build", pin) for name, pin in pins.items() if name in reached and layer_of(pin) == "rest")


def project_steps(spec: Spec, targets: Sequence[LockedTarget], names: Collection[str]) -> dict[str, tuple[Run, ...]]:
    """List the runs that install the wheels for the build of the spec's project: what it requires by `names`, and what
    that requires."""
    grouped: dict[str, list[tuple[str, Pin]]] = {}
    for target in targets:
        reached = {node.name for node in Graph.of(target, names).outgoing if node.kind == "pip"}
        seen = (pin for pin in target.pins if pin.kind == "pip" and pin.is_wheel and pin.name in reached)
        grouped[target.name] = [("build", pin) for pin in seen]
    return _steps(spec, targets, grouped, "project")


def _steps(
    spec: Spec, targets: Sequence[LockedTarget], grouped: Mapping[str, Iterable[tuple[str, Pin]]], name: str = ""
) -> dict[str, tuple[Run, ...]]:
    """Make the runs of all targets. Files of a `name` of their own are for builds, and hold no rows of the slice."""
    runs: dict[_Key, dict[str, list[Pin]]] = {}
    for target in targets:
        parts = waves(pip_order(target), {pin.name: pin.overwrites for pin in target.pins})
        wave = {name: number for number, names in enumerate(parts) for name in names}
        for group, pin in grouped[target.name]:
            index = "pypi" if pin.index == "url" else pin.index
            key = (group, wave[pin.name], index, "" if pin.built_with is None else pin.name)
            runs.setdefault(key, {}).setdefault(target.name, []).append(pin)
    runs_of: dict[str, list[Run]] = {target.name: [] for target in targets}
    for key in sorted(runs, key=_place):
        group, number, index, own = key
        of = "" if index == "pypi" else f"+{index.replace('/', '-')}"
        of += (f"={own}" if own else "") + (f"++{number}" if number else "")
        files = share_out(
            f"{name or group}{of}",
            {
                target: [block(pin.name, requirement(pin) if name else with_row(pin, requirement(pin))) for pin in pins]
                for target, pins in runs[key].items()
            },
        )
        wheels = {target: [_constraints(pins)] for target, pins in runs[key].items() if own}
        constraints = share_out(f"built-with{of}", wheels)
        for target in targets:
            if pins := runs[key].get(target.name):
                built_with = constraints.get(target.name, {})
                runs_of[target.name].append(_step(spec, target, key, pins, files[target.name], built_with))
    return {target: tuple(made) for target, made in runs_of.items()}


def _constraints(pins: Iterable[Pin]) -> str:
    lines = build_constraints(pins).splitlines()
    return "".join(block(line.partition("==")[0], line) for line in lines)


def _place(key: _Key) -> tuple[int, int, bool, str, str]:
    group, number, index, own = key
    return _GROUPS.index(group), number, index != "pypi", index, own


def _step(
    spec: Spec,
    target: LockedTarget,
    key: _Key,
    pins: list[Pin],
    files: Mapping[str, str],
    constraints: Mapping[str, str],
) -> Run:
    group, _, index, _ = key
    # what sources are built with may come from indexes of the target's own
    build_indexes = {wheel.index for pin in pins for wheel in target.build_wheels(pin)} - {"pypi"}
    indexes = sorted(build_indexes | {index} - {"pypi", "git"})
    backend = next((wheel.removeprefix(_PYTORCH) for wheel in indexes if wheel.startswith(_PYTORCH)), None)
    own = next((wheel for wheel in indexes if not wheel.startswith(_PYTORCH)), None)
    terms = spec.terms_of(target.name)
    pages = terms.find_links
    url = spec.pip.indexes.get(own, pages.get(own)) if own else None
    local = url is not None and is_local(url)
    if own and url is None:
        message = f'the lock has files from the index "{own}", which the spec doesn\'t name'
        hint = f'add it to the spec, [pip] indexes = {{ {own} = "https://…" }}, or lock again'
        raise InputError(message, hint=hint, place=Place(spec.path))
    step = PipStep(
        tuple(files),
        tuple(sorted(pin.name for pin in pins)),
        group,
        backend,
        own,
        None if local else url,
        hashed=index != "git",
        flat=own in pages,
        local=local,
        beside=bool(build_indexes),
        variants=tuple(_variants(pins)),
        unisolated=tuple(
            sorted(pin.name for pin in pins if group == "source" and pin.name in terms.built_against_lock)
        ),
        built_with=next(iter(constraints), None),
    )
    return step, {**files, **constraints}


def is_local(place: str) -> bool:
    """Return whether a spec's place of an index is a folder."""
    return place.startswith((".", "file:"))


def local_indexes(spec: Spec, steps: Iterable[PipStep], target: LockedTarget, place: str) -> Iterator[LocalIndex]:
    """List the indexes of steps that are folders. `place` as in `Plan`."""
    places = {**spec.pip.indexes, **spec.terms_of(target.name).find_links}
    root = project_root(spec.path)
    for name in sorted({step.index for step in steps if step.index and step.local}):
        folder = unquote(urlsplit(places[name]).path)
        if not places[name].startswith("."):
            yield LocalIndex(name, folder, folder)
            continue
        below = Path(spec.path).absolute().parent.relative_to(root).as_posix()
        path = posixpath.normpath(posixpath.join(below, folder))
        yield LocalIndex(name, path, None if place == "." else posixpath.relpath(path, posixpath.dirname(place)))


def _variants(pins: Iterable[Pin]) -> Iterator[VariantFile]:
    for pin in pins:
        if pin.artifact and pin.artifact.variant:
            yield VariantFile(pin.artifact.file, pin.artifact.sha256, pin.artifact.size)
