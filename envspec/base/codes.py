"""The codes of findings and changes, from `codes.toml`: what each means, what to do, and why a spec can't accept it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import tomli
from msgspec import Struct

TABLE = Path(__file__).with_suffix(".toml")


class Meaning(Struct, frozen=True):
    """A code's meaning, its remedy, and the commands that say it. `how` a spec accepts it, None where it can't.
    `refused`: why no reason makes `[pip] accept` take it; None where one does."""

    code: str
    subject: str
    said_by: str
    means: str
    do: str
    how: str | None
    refused: str | None


@cache
def meanings() -> Mapping[str, Meaning]:
    """Read the table: every code, in the table's order."""
    table = tomli.loads(TABLE.read_text("utf-8"))
    refused, accepted = table.pop("refused"), table.pop("accepted")
    by_code: dict[str, Meaning] = {}
    for subject, group in table.items():
        for code, (means, do, *word) in group["codes"].items():
            kind = word[0] if word else group.get("refused", "")
            how = accepted[kind].replace("CODE", code) if kind in accepted else None
            by_code[code] = Meaning(code, subject, group["said-by"], means, do, how, refused.get(kind))
    return by_code
