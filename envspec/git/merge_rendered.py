"""Merging two branches' requirements.txt into one, package by package, so that it merges where the lock does.

No other rendered file needs this: conda packages that both sides changed are already a conflict in the lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from envspec.lock.render import is_rendered

Value = TypeVar("Value", str, tuple[str, ...])


@dataclass(frozen=True)
class _Parts:
    """Split a file into the header and each group's packages: entries by name, by heading."""

    header: str
    groups: Mapping[str, Mapping[str, str]]


def merge_requirements(base: str, ours: str, theirs: str) -> str | None:
    """Return what `envspec.lock.formats.requirements` renders from the merged lock; None where only locking again can.

    `base` may be empty. The result is None for files that envspec didn't render, and for two different changes of one
    package, of the header, or of the set of indexes.
    """
    if not (is_rendered(ours) and is_rendered(theirs) and (not base or is_rendered(base))):
        return None
    sides = [_parts(text) for text in (base, ours, theirs)]
    header = _three(*(side.header for side in sides))
    headings = _three(*(tuple(side.groups) for side in sides))
    if header is None or headings is None:
        return None
    out = [header]
    for heading in headings:
        names = sorted({name for side in sides for name in side.groups.get(heading, {})})
        entries = []
        for name in names:
            entry = _three(*(side.groups.get(heading, {}).get(name, "") for side in sides))
            if entry is None:
                return None
            entries.append(entry)
        out.append(heading + "".join(entries))
    return "".join(out)


def _three(base: Value, ours: Value, theirs: Value) -> Value | None:
    return ours if theirs in (ours, base) else theirs if ours == base else None


def _parts(text: str) -> _Parts:
    header, *paragraphs = text.split("\n\n")
    groups: dict[str, dict[str, str]] = {}
    for paragraph in paragraphs:
        lines = paragraph.removesuffix("\n").split("\n")
        heading = f"\n{lines.pop(0)}\n" if lines[0].startswith("#") else "\n"
        groups[heading] = _entries(lines)
    return _Parts(header + "\n" if groups else header, groups)


def _entries(lines: Sequence[str]) -> dict[str, str]:
    entries: dict[str, str] = {}
    name = ""
    for line in lines:
        if not line.startswith(" "):
            name = line.partition(" @ ")[0].partition("==")[0]
        entries[name] = f"{entries.get(name, '')}{line}\n"
    return entries
