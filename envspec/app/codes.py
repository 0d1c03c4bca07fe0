"""The codes of findings, reasons and changes: what each means, and what to do. `codes.toml` is their only home."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class Meaning:
    """What a code means, what to do about it, and which commands say it."""

    code: str
    subject: str
    said_by: str
    means: str
    do: str


@cache
def meanings() -> Mapping[str, Meaning]:
    """Read the table: every code, in the table's order."""
    import tomli

    found: dict[str, Meaning] = {}
    for subject, group in tomli.loads(TABLE.read_text("utf-8")).items():
        for code, (means, do) in group["codes"].items():
            found[code] = Meaning(code, subject, group["said-by"], means, do)
    return found
