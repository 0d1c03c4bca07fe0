"""When conda packages were published, as their channels say now."""

from __future__ import annotations

from collections.abc import Iterable

from envspec.lock.model import Pin
from envspec.resolve.conda.look_up import records_of, uploaded
from envspec.resolve.conda.solve import CondaResolver


def published(resolver: CondaResolver, pins: Iterable[Pin], platforms: Iterable[str]) -> dict[tuple[str, str], str]:
    """When each file came (RFC 3339), by index and file name; what its channel doesn't date or doesn't have isn't
    there. Raises OutsideError."""
    found = records_of(resolver, pins, platforms, "when conda packages were published")
    times = {key: uploaded(record) for key, record in found.items()}
    return {key: moment for key, moment in times.items() if moment is not None}
