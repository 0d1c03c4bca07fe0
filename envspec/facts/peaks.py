"""The greatest rates of GPUs, by product and by the form that it is sold in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from envspec.facts.tables import read, records

TYPES = ("fp32", "tf32", "bf16", "fp16", "fp8")


class Peak(Struct, frozen=True, rename={"nvlink_gb_s": "nvlink", "bandwidth_gb_s": "bandwidth", "sources": "source"}):
    """A form of a product. `name` has the words by which the driver's name tells the form, `gpu` is the product's name.

    `tflop_s` are products of matrices without sparsity by type, in TFLOP/s. `nvlink_gb_s` counts all links in both
    directions; None without NVLink. `bandwidth_gb_s` of memory is None where it is the product's own. `trust` is
    "high", "medium" or "low".
    """

    name: str
    gpu: str
    tflop_s: Mapping[str, int | float]
    nvlink_gb_s: int | None
    bandwidth_gb_s: int | None
    trust: str
    sources: tuple[str, ...]


@cache
def forms() -> tuple[Peak, ...]:
    """Every form in the table."""
    rows = read("peaks")["peaks"]
    return records(Peak, ({**row, "tflop_s": {name: row[name] for name in TYPES if name in row}} for row in rows))


def of(gpu: str) -> tuple[Peak, ...]:
    """Find the forms of a product by its name; empty where the table has none of it."""
    return tuple(peak for peak in forms() if gpu in (peak.gpu, peak.name))
