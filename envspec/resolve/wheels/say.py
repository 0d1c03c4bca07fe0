"""What the wheels of a solved target say, as bounds for another round and as notes for the rules."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from envspec.binaries.build_notes import BuildNotes
from envspec.facts import neighbours
from envspec.facts.cuda_stack import stack_of
from envspec.lock.model import Pin
from envspec.packages.names import requirement_name
from envspec.packages.version_numbers import numbers_in
from envspec.resolve.wheels.model import Question, Read, Unread, WheelSays

NO_PKG_RESOURCES = 82
"""The first major of setuptools without pkg_resources: 81.0.0 has it, 82.0.0 (2026-02-08) doesn't (wheels on PyPI)."""

SETTLED = "2026-05-08"
"""Wheels uploaded since aren't asked for pkg_resources: for three months a fresh environment had had none, so a release
that needs it at import would have failed for whoever made it."""

_THREADS = 8
_WITH_NOTES = ("xformers", "onnxruntime-gpu", "dgl")
_FOR_NEW_PYTHONS = re.compile(r"(?:cp3(?:1[3-9]|[2-9]\d)t?\.?)+")
"""NumPy has no wheels of 1.x for Python 3.13 and later, so nothing for them was compiled against it."""


@dataclass(frozen=True)
class DerivedCorrection:
    """A bound that a wheel's own content asks for, and its METADATA doesn't.

    name        by which a spec switches it off
    package, version  whose wheel it is
    constraint  what it needs besides (PEP 508)
    adds        the constraint's package isn't pinned at all, so it has to be required
    reason      what happens without it
    sha256      of the wheel that says it
    """

    name: str
    package: str
    version: str
    constraint: str
    adds: bool
    reason: str
    sha256: str


@dataclass(frozen=True)
class Heard:
    """corrections  what the pins break, by package
    notes        what wheels say that they were built for, by package: for `judge_pins`
    unread       wheels that couldn't be read
    """

    corrections: tuple[DerivedCorrection, ...] = ()
    notes: Mapping[str, BuildNotes] = field(default_factory=dict)
    unread: tuple[Unread, ...] = ()


def what_wheels_say(
    pins: Sequence[Pin], read: Read, *, off: Collection[str] = (), uploaded: Mapping[str, str] | None = None
) -> Heard:
    """Ask the wheels of a target's pins, conda's among them, what their METADATA leaves out.

    `read` asks one wheel. `off` names corrections that are switched off; `uploaded` has the time at which a wheel came
    to its index (sha256 -> RFC 3339 in UTC), as far as that is known. Equal pins and wheels give equal answers.
    """
    asked = [
        (pin, questions)
        for pin in sorted(pins, key=lambda pin: pin.name)
        if (questions := questions_for(pin, pins, uploaded or {}))
    ]
    with ThreadPoolExecutor(_THREADS) as pool:
        answers = list(pool.map(lambda one: read(*one), asked))
    heard = [(pin, says) for (pin, _), says in zip(asked, answers, strict=True) if isinstance(says, WheelSays)]
    corrections = tuple(one for pin, says in heard for one in _corrections(pin, says, pins) if one.name not in off)
    notes = {pin.name: says.notes for pin, says in heard if says.notes is not None}
    return Heard(corrections, notes, tuple(says for says in answers if isinstance(says, Unread)))


def questions_for(pin: Pin, pins: Sequence[Pin], uploaded: Mapping[str, str]) -> frozenset[Question]:
    """Choose what to ask of a pin's wheel: only what could matter among these pins, for each costs a download."""
    if pin.kind != "pip" or not pin.is_wheel or pin.artifact is None:
        return frozenset()
    found: set[Question] = set()
    # torch and its companions may lie on an index that nobody has to reach; the tables know them
    ours = stack_of(pin.name) is not None
    if not ours and _numpy_matters(pin, pins):
        found.add("numpy")
    old = uploaded.get(pin.artifact.sha256, "") < SETTLED
    if not ours and old and pin.name != "setuptools" and _has_no_pkg_resources(pins):
        found.add("pkg_resources")
    if pin.name in _WITH_NOTES and (pin.index != "pypi" or not neighbours.of_release(pin.name, pin.version)):
        found.add("notes")
    return frozenset(found)


def _numpy_matters(pin: Pin, pins: Sequence[Pin]) -> bool:
    numpy = _pinned("numpy", pins)
    if numpy is None or numbers_in(numpy.version)[:1] < (2,) or pin.name == "numpy" or pin.artifact is None:
        return False
    python, platform = (pin.artifact.file.removesuffix(".whl").split("-")[i] for i in (-3, -1))
    if platform == "any" or _FOR_NEW_PYTHONS.fullmatch(python):
        return False
    return any(requirement_name(line) == "numpy" for line in pin.dependencies)


def _has_no_pkg_resources(pins: Sequence[Pin]) -> bool:
    setuptools = _pinned("setuptools", pins)
    return setuptools is None or numbers_in(setuptools.version)[:1] >= (NO_PKG_RESOURCES,)


def _pinned(name: str, pins: Sequence[Pin]) -> Pin | None:
    return next((pin for pin in pins if name in (pin.name, *pin.provides)), None)


def _corrections(pin: Pin, says: WheelSays, pins: Sequence[Pin]) -> Iterator[DerivedCorrection]:
    label, sha256 = f"{pin.name} {pin.version}", pin.artifact.sha256 if pin.artifact else ""
    if says.numpy and says.numpy.built_for == 1 and _numpy_matters(pin, pins):
        reason = f"{label} is compiled for NumPy 1 ({_last(says.numpy.member)}), and its METADATA doesn't say so"
        yield DerivedCorrection(f"{pin.name}-numpy-1", pin.name, pin.version, "numpy<2", False, reason, sha256)
    if says.pkg_resources and says.pkg_resources.modules and _has_no_pkg_resources(pins):
        reason = (
            f"{label} imports pkg_resources ({says.pkg_resources.modules[0]}), which setuptools has had up to 81, and"
            " its METADATA doesn't say so"
        )
        bound = f"setuptools<{NO_PKG_RESOURCES}"
        adds = _pinned("setuptools", pins) is None
        yield DerivedCorrection(f"{pin.name}-pkg-resources", pin.name, pin.version, bound, adds, reason, sha256)


def _last(path: str | None) -> str:
    return (path or "").rpartition("/")[2]
