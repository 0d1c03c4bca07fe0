"""Networks between nodes: the devices, and the variables of NCCL and libfabric, by which processes use one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from envspec.facts.tables import read, records


class Fabric(Struct, frozen=True, rename={"sources": "source"}):
    """devices  the device files that a container needs, as shell patterns
    net         the value of NCCL_NET that lets NCCL use nothing else; None for NCCL's own choice
    variables   of NCCL and libfabric
    """

    name: str
    devices: tuple[str, ...]
    net: str | None
    sources: tuple[str, ...]
    variables: Mapping[str, str] = {}


@cache
def fabrics() -> Mapping[str, Fabric]:
    """Every fabric in the table, by name."""
    return {fabric.name: fabric for fabric in records(Fabric, read("fabrics")["fabrics"])}
