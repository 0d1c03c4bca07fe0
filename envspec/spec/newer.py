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
    found = re.fullmatch(r"(\d+) (hour|day|week)s?", text or "", re.ASCII)
    return timedelta(hours=int(found[1]) * _HOURS[found[2]]) if found else None


def with_moments_of_now(spec: Spec, now: datetime) -> Spec:
    """Return the spec with the moments that its durations stand for now, and without the exceptions that have ended."""
    kept = tuple(one for one in spec.newer_for if not has_ended(one, now))
    return _with_moments(replace(spec, newer_for=kept), now)


def with_moments_of_lock(spec: Spec, moment: str | None) -> Spec:
    """Return the spec with the moments that its durations stood for when `moment`, a lock's, was chosen. Without one
    they stay durations, which equal no lock's moment."""
    span = span_of(spec.exclude_newer)
    chosen = moment_of(moment)
    return spec if span is None or chosen is None else _with_moments(spec, chosen + span)


def has_ended(one: NewerFor, now: datetime) -> bool:
    """Say whether the last day of an exception has passed."""
    return one.until is not None and f"{now:%Y-%m-%d}" > one.until


def is_weaker(one: NewerFor, than: NewerFor, now: datetime) -> bool:
    """Say whether an exception lets more through than another one, or for longer."""

    def reach(exception: NewerFor) -> tuple[str, str]:
        return _at(exception.bound, now) or "9999", exception.until or "9999"

    return any(own > other for own, other in zip(reach(one), reach(than), strict=True))


def moot(spec: Spec) -> tuple[NewerFor, ...]:
    """List the exceptions that let nothing through any more: the spec's own bound is as late. The spec has moments."""
    general = moment_of(spec.exclude_newer)
    moments = ((one, moment_of(one.bound)) for one in spec.newer_for)
    return tuple(one for one, moment in moments if general and moment and moment <= general)


def lock_day(spec: Spec, moment: str | None) -> str | None:
    """Return the day on which a lock with this moment began or was upgraded, for a spec with an age; None for one with
    a date, which doesn't tell."""
    span, chosen = span_of(spec.exclude_newer), moment_of(moment)
    return f"{chosen + span:%Y-%m-%d}" if span is not None and chosen is not None else None


def bounds(spec: Spec) -> Mapping[str, str | None]:
    """Return the packages that `exclude-newer` itself doesn't hold for: by name (normalised), with their own bound,
    None for none. An index's exception holds for the packages whose source it is; a package's own goes before it. Of an
    exception's moment and the general one the later holds: one lets a package through, and never holds it back."""
    by_index = {one.name: one.bound for one in spec.newer_for if one.of_index}
    found = {
        canonical_name(package): by_index[index] for package, index in spec.pip.sources.items() if index in by_index
    }
    found |= {one.name: one.bound for one in spec.newer_for if not one.of_index}
    return {name: bound and _later(bound, spec.exclude_newer) for name, bound in found.items()}


def _later(bound: str, general: str | None) -> str:
    one, other = moment_of(bound), moment_of(general)
    return general if general and one and other and other > one else bound


def _with_moments(spec: Spec, now: datetime) -> Spec:
    return replace(
        spec,
        exclude_newer=_at(spec.exclude_newer, now),
        newer_for=tuple(replace(one, bound=_at(one.bound, now)) for one in spec.newer_for),
    )


def _at(text: str | None, now: datetime) -> str | None:
    span = span_of(text)
    return text if span is None else (now - span).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment_of(text: str | None) -> datetime | None:
    """Read a moment to the second, as `utc_time` does; None for none, and for text that isn't one."""
    with suppress(BadValue):
        return datetime.fromisoformat(f"{utc_time(text)[:-1]}+00:00") if text else None
    return None
