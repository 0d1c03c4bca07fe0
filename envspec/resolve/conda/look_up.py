"""The records of conda packages, as their channels have them now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import timezone
from typing import TYPE_CHECKING, Any

from envspec.base.redact import without_credentials
from envspec.lock.model import Pin
from envspec.resolve.conda.errors import conda_failure, is_panic, panic_failure
from envspec.resolve.conda.records import build_of, pins_of_records
from envspec.resolve.conda.solve import CondaResolver

if TYPE_CHECKING:
    from rattler import RepoDataRecord


def records_of(
    resolver: CondaResolver, pins: Iterable[Pin], platforms: Iterable[str], what: str
) -> dict[tuple[str, str], RepoDataRecord]:
    """Find the records of pins, by index and file name; what its channel doesn't have isn't there. `what` is for
    messages. Raises OutsideError."""
    return asyncio.run(_records_of(resolver, tuple(pins), sorted({*platforms, "noarch"}), what))


def upload_time(record: RepoDataRecord) -> str | None:
    """Give the time at which a record came (RFC 3339, UTC); None where its channel doesn't say."""
    if record.timestamp is None:
        return None
    return record.timestamp.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_pin(record: RepoDataRecord) -> Pin:
    """Read a record as a pin of a nameless index. Raises IndexFailure for one without a hash."""
    channel = without_credentials(record.channel or "").rstrip("/")
    return pins_of_records({build_of(record): record}, {channel: ""}, ())[0]


async def _records_of(
    resolver: CondaResolver, pins: tuple[Pin, ...], platforms: list[Any], what: str
) -> dict[tuple[str, str], RepoDataRecord]:
    from rattler import Channel, MatchSpec
    from rattler.exceptions import GatewayError

    channels = [Channel(address.address) for address in resolver.channels]
    names = {
        without_credentials(channel.base_url).rstrip("/"): address.name
        for channel, address in zip(channels, resolver.channels, strict=True)
    }
    specs = [MatchSpec(text) for text in sorted({f"{pin.name} =={pin.version} {pin.build}" for pin in pins})]
    try:
        found = await resolver.gateway.query(
            list(channels), platforms, specs, recursive=False, channel_relations="disabled"
        )
    except GatewayError as error:
        raise conda_failure(error, what, offline=resolver.offline) from None
    except BaseException as error:
        if not is_panic(error):
            raise
        raise panic_failure(what) from None
    known = {}
    for record in (record for records in found for record in records):
        name = names.get(without_credentials(record.channel or "").rstrip("/"))
        if name is not None:
            known[f"{name}/{record.subdir}", record.file_name] = record
    return known


def times_of_upload(
    resolver: CondaResolver, pins: Iterable[Pin], platforms: Iterable[str]
) -> dict[tuple[str, str], str]:
    """When each file came (RFC 3339), by index and file name; what its channel doesn't date or doesn't have isn't
    there. Raises OutsideError."""
    found = records_of(resolver, pins, platforms, "when conda packages were published")
    times = {key: upload_time(record) for key, record in found.items()}
    return {key: moment for key, moment in times.items() if moment is not None}
