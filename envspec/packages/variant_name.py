"""The names of variant wheels (PEP 825): `torch-2.14.0-cp312-cp312-manylinux_2_28_x86_64-cu130.whl`.

The label stands behind the tags. Without it the name is that of a plain wheel, which every tool reads.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_LABEL = 64
"""Characters of a label. PEP 817 allows 16, PEP 825 any number; a file's name has 255."""

LABEL = re.compile(rf"[0-9a-z_.]{{1,{MAX_LABEL}}}")
VARIANTS_END = "-variants.json"
NULL = "null"
"""The label of the variant without properties, which every machine can have."""


class VariantName(NamedTuple):
    """plain  the file's name without the label
    label  the variant's label; None for a plain wheel
    """

    plain: str
    label: str | None


def read_name(file: str) -> VariantName:
    """Split the label from a wheel's file name. Any other name is plain."""
    stem = file.removesuffix(".whl")
    parts = stem.split("-")
    # with a build tag, which begins with a digit as no Python tag does, the tags stand one further on
    tagged = 6 if len(parts) > 2 and parts[2][:1].isdigit() else 5
    if stem == file or len(parts) != tagged + 1 or not LABEL.fullmatch(parts[-1]):
        return VariantName(file, None)
    return VariantName(f"{'-'.join(parts[:-1])}.whl", parts[-1])


def variants_file(wheel: str) -> str:
    """Give the name of the file beside a wheel that maps its release's labels to properties."""
    return f"{'-'.join(wheel.split('-')[:2])}{VARIANTS_END}"


def with_build(plain: str, build: str) -> str:
    """Give a plain wheel's name a build tag that differs from that of every other file, and ranks like its own."""
    name, version, *tags = plain.split("-")
    own = tags.pop(0) if len(tags) == 4 else "0"
    return "-".join((name, version, f"{own}v{build}", *tags))
