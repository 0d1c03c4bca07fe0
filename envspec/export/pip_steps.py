"""The pip half of a lock as runs of uv: one per layer and index, so that each package comes from its index, and later
ones for what overwrites files of others, as uv installs a run's packages side by side."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from envspec.base.errors import InputError, Place
from envspec.export.layers import LAYERS, layer_of
from envspec.export.plan import REQUIREMENTS, LocalIndex, PipStep, VariantFile
from envspec.lock.formats.requirements import build_constraints, requirement
from envspec.lock.graph import Graph
from envspec.lock.model import LockedTarget, Pin
from envspec.lock.shared_paths import pip_order, waves
from envspec.spec.document import project_root
from envspec.spec.model import Spec


def fetch_words(
    step: PipStep, python: str, program: str, folder: str, uv: str, quote: Callable[[str], str]
) -> list[str]:
    """List the words of the command, each name quoted as the recipe wants it. uv's options for the step's index come
    behind them."""
    files = [f"{quote(one.file)} {one.sha256} {one.size or 0}" for one in step.variants]
    return [f"{python} -I {program} {folder}", *files, f"-- {uv}"]


_PYTORCH = "pytorch/"
_GROUPS = (*LAYERS, "build")
"""`build` is what builds see of everything else."""
_DIGITS = 8
"""The number of digits of a file's SHA-256 in its name."""


Run = tuple[PipStep, tuple[str, ...]]
"""A run of uv, and the texts of its files, in their order."""


def requirements_file(group: str, text: str) -> str:
    """Give the path of a requirements text: the same text has the same path for every target."""
    return f"{REQUIREMENTS}/{group}-{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}.txt"


_BUILD_TOOLS = (
    "cffi", "cmake", "cython", "flit-core", "hatchling", "meson", "meson-python", "nanobind", "ninja", "numpy",
    "packaging", "poetry-core", "psutil", "pybind11", "scikit-build", "scikit-build-core", "setuptools",
    "setuptools-scm", "wheel",
)  # fmt: skip
"""The packages that extensions of torch import in their builds, often undeclared."""


def pip_steps(spec: Spec, target: LockedTarget) -> tuple[Run, ...]:
    """List the runs, in order, each with the texts of its files.

    Raises InputError for an index that the spec doesn't name any more.
    """
    return _steps(spec, target, ((layer_of(pin), pin) for pin in target.pins if pin.kind == "pip"))


def build_steps(spec: Spec, target: LockedTarget, own: Collection[str] = ()) -> tuple[Run, ...]:
    """List the runs that install the wheels for builds, beside the CUDA stack: the dependencies of torch and of the
    sources, the lock's build tools, and what the spec says that builds need: everything for a source without isolation.
    No others: any change of theirs would compile everything again. `own` names what the build of the spec's project
    requires, where that is compiled.
    """
    pins = {pin.name: pin for pin in target.pins if pin.kind == "pip"}
    sources = [pin.name for pin in pins.values() if not pin.is_wheel]
    terms = spec.terms_of(target.name)
    needed = (one.text for name in sources for one in terms.build_dependencies.get(name, ()))
    roots = ["torch", *_BUILD_TOOLS, *sources, *needed, *own]
    if terms.no_build_isolation & set(sources):
        roots += pins
    reached = {node.name for node in Graph.of(target, roots).outgoing if node.kind == "pip"}
    seen = (pin for name, pin in pins.items() if name in reached and layer_of(pin) == "rest")
    return _steps(spec, target, (("build", pin) for pin in seen))


def project_steps(spec: Spec, target: LockedTarget, names: Collection[str]) -> tuple[Run, ...]:
    """List the runs that install the wheels for the build of the spec's project: what it requires by `names`, and what
    that requires."""
    reached = {node.name for node in Graph.of(target, names).outgoing if node.kind == "pip"}
    seen = (pin for pin in target.pins if pin.kind == "pip" and pin.is_wheel and pin.name in reached)
    return _steps(spec, target, (("build", pin) for pin in seen))


def _steps(spec: Spec, target: LockedTarget, grouped: Iterable[tuple[str, Pin]]) -> tuple[Run, ...]:
    groups: dict[tuple[str, int, str, str], list[Pin]] = {}
    parts = waves(pip_order(target), {pin.name: pin.overwrites for pin in target.pins})
    wave = {name: number for number, names in enumerate(parts) for name in names}
    for group, pin in grouped:
        # builds with different constraints are runs of their own
        built_with = "" if pin.built_with is None else f"={build_constraints([pin])}"
        index = "pypi" if pin.index == "url" else pin.index
        groups.setdefault((group, wave[pin.name], index, built_with), []).append(pin)
    return tuple(_step(spec, target, key[0], key[2], groups[key]) for key in sorted(groups, key=_place))


def _place(key: tuple[str, int, str, str]) -> tuple[int, int, bool, str, str]:
    group, number, index, built_with = key
    return _GROUPS.index(group), number, index != "pypi", index, built_with


def _step(spec: Spec, target: LockedTarget, group: str, index: str, pins: list[Pin]) -> Run:
    # what sources are built with may come from indexes of the target's own
    others = {one.index for pin in pins for one in target.build_wheels(pin)} - {"pypi"}
    indexes = sorted(others | {index} - {"pypi", "git"})
    backend = next((one.removeprefix(_PYTORCH) for one in indexes if one.startswith(_PYTORCH)), None)
    own = next((one for one in indexes if not one.startswith(_PYTORCH)), None)
    terms = spec.terms_of(target.name)
    pages = terms.find_links
    url = spec.pip.indexes.get(own, pages.get(own)) if own else None
    local = url is not None and is_local(url)
    if own and url is None:
        raise InputError(
            f'the lock has files from the index "{own}", which the spec doesn\'t name',
            hint=f'add it to the spec, [pip] indexes = {{ {own} = "https://…" }}, or lock again',
            place=Place(spec.path),
        )
    text = "".join(f"{requirement(pin)}\n" for pin in sorted(pins, key=lambda pin: (pin.name, pin.version)))
    constraints = build_constraints(pins) if any(pin.built_with is not None for pin in pins) else None
    step = PipStep(
        requirements_file(group, text),
        tuple(sorted(pin.name for pin in pins)),
        group,
        backend,
        own,
        None if local else url,
        hashed=index != "git",
        flat=own in pages,
        local=local,
        beside=bool(others),
        variants=tuple(_variants(pins)),
        unisolated=tuple(
            sorted(pin.name for pin in pins if group == "source" and pin.name in terms.built_against_lock)
        ),
        built_with=None if constraints is None else requirements_file("built-with", constraints),
    )
    return step, (text,) if constraints is None else (text, constraints)


def is_local(place: str) -> bool:
    """Say whether a spec's place of an index is a folder."""
    return place.startswith((".", "file:"))


def local_indexes(spec: Spec, steps: Iterable[PipStep], target: LockedTarget, place: str) -> Iterator[LocalIndex]:
    """List the indexes of steps that are folders. `place` as in `Plan`."""
    places = {**spec.pip.indexes, **spec.terms_of(target.name).find_links}
    root = project_root(spec.path)
    for name in sorted({step.index for step in steps if step.index and step.local}):
        said = unquote(urlsplit(places[name]).path)
        if not places[name].startswith("."):
            yield LocalIndex(name, said, said)
            continue
        below = Path(spec.path).absolute().parent.relative_to(root).as_posix()
        path = posixpath.normpath(posixpath.join(below, said))
        yield LocalIndex(name, path, None if place == "." else posixpath.relpath(path, posixpath.dirname(place)))


def _variants(pins: Iterable[Pin]) -> Iterator[VariantFile]:
    for pin in pins:
        if pin.artifact and pin.artifact.variant:
            yield VariantFile(pin.artifact.file, pin.artifact.sha256, pin.artifact.size)
