"""NVIDIA's images of PyTorch: which tag has which Python, C library, CUDA and torch."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from envspec.facts.tables import read

_GLIBC = {"22.04": "2.35", "24.04": "2.39"}


class VendorImage(Struct, frozen=True):
    """An image; `cuda` is "13.0", and `python` may lack the patch release."""

    tag: str
    python: str
    glibc: str
    cuda: str
    torch: str


@cache
def images() -> tuple[VendorImage, ...]:
    """Every image in the table, in its order."""
    return tuple(
        VendorImage(row["tag"], row["python"], _GLIBC[row["ubuntu"]], row["cuda"].rpartition(".")[0], row["torch"])
        for row in read("ngc")["images"]
    )
