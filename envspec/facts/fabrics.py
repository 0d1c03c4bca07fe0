"""Networks between nodes: the devices, and the variables of NCCL and libfabric, by which processes use one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from msgspec import Struct

from envspec.facts.tables import read, words


class Fabric(Struct, frozen=True):
    """devices  the device files that a container needs, as shell patterns
    net         the value of NCCL_NET that lets NCCL use nothing else; None for NCCL's own choice
    variables   of NCCL and libfabric
    """

    name: str
    devices: tuple[str, ...]
    net: str | None
    variables: Mapping[str, str]
    sources: tuple[str, ...]


@cache
def fabrics() -> Mapping[str, Fabric]:
    """Every fabric in the table, by name."""
    return {
        row["name"]: Fabric(
            row["name"],
            words(row["devices"]),
            row.get("net"),
            MappingProxyType(row.get("variables", {})),
            words(row["source"]),
        )
        for row in read("fabrics")["fabrics"]
    }
