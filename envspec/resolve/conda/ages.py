"""When conda packages were published, as their channels say now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import timezone
from typing import Any

from envspec.lock.model import Pin
from envspec.redact import without_credentials
from envspec.resolve.conda.errors import conda_failure
from envspec.resolve.conda.solve import CondaResolver


def published(resolver: CondaResolver, pins: Iterable[Pin], platforms: Iterable[str]) -> dict[tuple[str, str], str]:
    """When each file came (RFC 3339), by index and file name; what its channel doesn't date or doesn't have isn't
    there. Raises OutsideError."""
    return asyncio.run(_published(resolver, tuple(pins), sorted({*platforms, "noarch"})))


async def _published(
    resolver: CondaResolver, pins: tuple[Pin, ...], platforms: list[Any]
) -> dict[tuple[str, str], str]:
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
        raise conda_failure(error, "when conda packages were published", offline=resolver.offline) from None
    times = {}
    for record in (record for records in found for record in records):
        name = names.get(without_credentials(record.channel or "").rstrip("/"))
        if name is not None and record.timestamp is not None:
            moment = record.timestamp.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            times[f"{name}/{record.subdir}", record.file_name] = moment
    return times
