"""What the wheels of a solved target say against each other, as bounds for another round."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from envspec.base.texts import without_unseen
from envspec.facts.wheel_bounds import NO_PKG_RESOURCES, NUMPY_1, PKG_RESOURCES, WHEEL_BOUNDS, WheelBound
from envspec.lock.model import LockedCorrection, Pin
from envspec.packages.names import requirement_name
from envspec.packages.version_numbers import numbers_in
from envspec.resolve.wheels.asked import ask
from envspec.resolve.wheels.model import Question, Read, Recall, Unread, WheelSays

NUMPY_SETTLED = "2025-06-16"
"""Wheels uploaded since aren't asked for their NumPy: NumPy 2 had been out for a year, so a release that admits it and
can't use it would have failed for whoever made it."""

SETUPTOOLS_SETTLED = "2026-05-08"
"""Wheels that require setuptools, uploaded since, aren't asked for pkg_resources: for three months no new setuptools
had had it."""

NO_SETUPTOOLS_SETTLED = "2024-10-02"
"""The same of wheels that don't require setuptools: for a year a fresh environment of Python 3.12 had had none."""

_SHOWN = 100
"""Characters of the name of a file or a module that a reason has."""

About = Collection[tuple[str, str]]
"""Packages, each with the bound that its wheel is asked for in any case."""


@dataclass(frozen=True)
class Heard:
    """corrections  what the pins break, and what holds of the bounds that were asked for in any case, by package
    unread       the pins whose wheels couldn't be read, and why
    """

    corrections: tuple[LockedCorrection, ...] = ()
    unread: tuple[tuple[Pin, Unread], ...] = ()


def what_wheels_say(
    pins: Sequence[Pin],
    read: Read,
    *,
    recall: Recall = lambda pin, questions: None,
    uploaded: Mapping[str, str] | None = None,
    about: About = (),
) -> Heard:
    """Ask the wheels of a target's pins, conda's among them, what their METADATA leaves out.

    `read` asks one wheel, of which `recall` doesn't know the answers. `uploaded` has the time at which a wheel came to
    its index (sha256 -> RFC 3339 in UTC), as far as that is known. Equal pins and wheels give equal answers.
    """
    broken = _broken(pins)
    of_pins = {pin: _asked_bounds(pin, broken, uploaded or {}, about) for pin in sorted(pins, key=lambda pin: pin.name)}
    answers = ask({pin: _questions(asked) for pin, asked in of_pins.items() if asked}, read, recall)
    said = [(pin, of_pins[pin], says) for pin, says in answers.items() if isinstance(says, WheelSays)]
    corrections = tuple(
        found for pin, bounds, says in said for bound in bounds if (found := correction_of(bound, pin, says))
    )
    return Heard(corrections, tuple((pin, says) for pin, says in answers.items() if isinstance(says, Unread)))


def questions_for(pin: Pin, pins: Sequence[Pin], uploaded: Mapping[str, str], about: About = ()) -> frozenset[Question]:
    """Choose what to ask of a pin's wheel: only what could matter among these pins, for each costs a download."""
    return _questions(_asked_bounds(pin, _broken(pins), uploaded, about))


def _questions(bounds: Iterable[WheelBound]) -> frozenset[Question]:
    return frozenset(one.question for one in bounds)


def _is_wheel(pin: Pin) -> bool:
    return pin.kind == "pip" and pin.is_wheel and pin.artifact is not None


def _asked_bounds(
    pin: Pin, broken: Collection[WheelBound], uploaded: Mapping[str, str], about: About
) -> tuple[WheelBound, ...]:
    """Choose the bounds that a pin's wheel is asked for, of which the pins together break some."""
    if not _is_wheel(pin) or pin.artifact is None:
        return ()
    file, moment = pin.artifact.file, uploaded.get(pin.artifact.sha256, "")
    return tuple(
        bound
        for bound in WHEEL_BOUNDS.values()
        if ((pin.name, bound.constraint) in about or (bound in broken and moment < _settled(bound, pin)))
        and bound.could_say(pin.name, file, pin.dependencies)
    )


def _settled(bound: WheelBound, pin: Pin) -> str:
    """Give the time since when a release that breaks a bound would have been noticed at once."""
    if bound is NUMPY_1:
        return NUMPY_SETTLED
    requires_it = any(requirement_name(line) == "setuptools" for line in pin.dependencies)
    return SETUPTOOLS_SETTLED if requires_it else NO_SETUPTOOLS_SETTLED


def _broken(pins: Sequence[Pin]) -> tuple[WheelBound, ...]:
    """Find the bounds that these pins would break."""
    return tuple(bound for bound in WHEEL_BOUNDS.values() if _is_broken(bound, pins))


def _is_broken(bound: WheelBound, pins: Sequence[Pin]) -> bool:
    if bound is NUMPY_1:
        numpy = _pinned("numpy", pins)
        return numpy is not None and numbers_in(numpy.version)[:1] >= (2,)
    setuptools = _pinned("setuptools", pins)
    return setuptools is None or numbers_in(setuptools.version)[:1] >= (NO_PKG_RESOURCES,)


def _pinned(name: str, pins: Sequence[Pin]) -> Pin | None:
    return next((pin for pin in pins if name in (pin.name, *pin.provides)), None)


def correction_of(bound: WheelBound, pin: Pin, says: WheelSays) -> LockedCorrection | None:
    """Give the bound as a row of a lock, if that is what a pin's wheel says."""
    label = f"{pin.name} {pin.version}"
    if bound is NUMPY_1 and says.numpy and says.numpy.built_for == 1:
        module = (says.numpy.member or "").rpartition("/")[2][-_SHOWN:]
        reason = f"{label} is compiled for NumPy 1 ({module}), and its METADATA doesn't say so"
    elif bound is PKG_RESOURCES and says.pkg_resources and says.pkg_resources.modules:
        module = says.pkg_resources.modules[0][:_SHOWN]
        has = "which setuptools has had up to 81"
        reason = f"{label} imports pkg_resources ({module}), {has}, and its METADATA doesn't say so"
    else:
        return None
    if pin.artifact is None:
        return None
    # names of files are whatever a wheel's maker wrote
    said = without_unseen(reason)
    return LockedCorrection(pin.name, pin.version, pin.artifact.file, pin.artifact.sha256, bound.constraint, said)
