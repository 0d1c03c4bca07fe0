"""`exclude-newer` as a duration: the moment that it stands for, and what it doesn't hold for. The clock counts only
where a lock begins or is upgraded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta

from msgspec.structs import replace

from envspec.base.reader.nodes import BadValue
from envspec.packages.requirement import canonical_name
from envspec.spec.model import NewerFor, Spec
from envspec.spec.times import utc_time

_HOURS = {"hour": 1, "day": 24, "week": 168}


def span_of(text: str | None) -> timedelta | None:
    """Read a duration; None for a moment, and for nothing."""
    match = re.fullmatch(r"(\d+) (hour|day|week)s?", text or "", re.ASCII)
    return timedelta(hours=int(match[1]) * _HOURS[match[2]]) if match else None


def with_moments_of_now(spec: Spec, now: datetime) -> Spec:
    """Return the spec with the moments that its durations stand for now, and without the exceptions that have ended."""
    current = tuple(exception for exception in spec.newer_for if not has_ended(exception, now))
    return _with_moments(replace(spec, newer_for=current), now)


def with_moments_of_lock(spec: Spec, moment: str | None) -> Spec:
    """Return the spec with the moments that its durations stood for when `moment`, a lock's, was chosen. Without one
    they stay durations, which equal no lock's moment."""
    span = span_of(spec.exclude_newer)
    chosen = moment_of(moment)
    return spec if span is None or chosen is None else _with_moments(spec, chosen + span)


def has_ended(exception: NewerFor, now: datetime) -> bool:
    """Return whether the last day of an exception has passed."""
    return exception.until is not None and f"{now:%Y-%m-%d}" > exception.until


def is_weaker(exception: NewerFor, other: NewerFor, now: datetime) -> bool:
    """Return whether an exception lets more through than another one, or for longer."""

    def reach(bounded: NewerFor) -> tuple[str, str]:
        return _at(bounded.bound, now) or "9999", bounded.until or "9999"

    return any(mine > theirs for mine, theirs in zip(reach(exception), reach(other), strict=True))


def moot(spec: Spec) -> tuple[NewerFor, ...]:
    """List the exceptions that let nothing through any more: the spec's own bound is as late. The spec has moments."""
    general = moment_of(spec.exclude_newer)
    moments = ((exception, moment_of(exception.bound)) for exception in spec.newer_for)
    return tuple(exception for exception, moment in moments if general and moment and moment <= general)


def lock_day(spec: Spec, moment: str | None) -> str | None:
    """Return the day on which a lock with this moment began or was upgraded, for a spec with an age; None for one with
    a date, which doesn't tell."""
    span, chosen = span_of(spec.exclude_newer), moment_of(moment)
    return f"{chosen + span:%Y-%m-%d}" if span is not None and chosen is not None else None


def bounds(spec: Spec) -> Mapping[str, str | None]:
    """Return the packages that `exclude-newer` itself doesn't hold for: by name (normalised), with their own bound,
    None for none. An index's exception holds for the packages whose source it is; a package's own goes before it. Of an
    exception's moment and the general one the later holds: one lets a package through, and never holds it back."""
    by_index = {exception.name: exception.bound for exception in spec.newer_for if exception.of_index}
    own_bounds = {
        canonical_name(package): by_index[index] for package, index in spec.pip.sources.items() if index in by_index
    }
    own_bounds |= {exception.name: exception.bound for exception in spec.newer_for if not exception.of_index}
    return {name: bound and _later(bound, spec.exclude_newer) for name, bound in own_bounds.items()}


def _later(bound: str, general: str | None) -> str:
    own_moment, general_moment = moment_of(bound), moment_of(general)
    return general if general and own_moment and general_moment and general_moment > own_moment else bound


def _with_moments(spec: Spec, now: datetime) -> Spec:
    return replace(
        spec,
        exclude_newer=_at(spec.exclude_newer, now),
        newer_for=tuple(replace(exception, bound=_at(exception.bound, now)) for exception in spec.newer_for),
    )


def _at(text: str | None, now: datetime) -> str | None:
    span = span_of(text)
    return text if span is None else (now - span).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment_of(text: str | None) -> datetime | None:
    """Read a moment to the second, as `utc_time` does; None for none, and for text that isn't one."""
    with suppress(BadValue):
        return datetime.fromisoformat(f"{utc_time(text)[:-1]}+00:00") if text else None
    return None
