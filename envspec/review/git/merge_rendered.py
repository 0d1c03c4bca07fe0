"""Merging two branches' requirements.txt into one, package by package, so that it merges where the lock does.

No other rendered file needs this: conda packages that both sides changed are already a conflict in the lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from envspec.lock.render import is_rendered

Value = TypeVar("Value", str, tuple[str, ...])


@dataclass(frozen=True)
class _Parts:
    """A file's header, and each group's packages: paragraphs by name, by heading; PyPI's have none."""

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
        out += [heading] if heading else []
        for name in names:
            entry = _three(*(side.groups.get(heading, {}).get(name, "") for side in sides))
            if entry is None:
                return None
            out += [entry] if entry else []
    return "\n\n".join(out) + "\n"


def _three(base: Value, ours: Value, theirs: Value) -> Value | None:
    return ours if theirs in (ours, base) else theirs if ours == base else None


def _parts(text: str) -> _Parts:
    header, *paragraphs = text.removesuffix("\n").split("\n\n")
    groups: dict[str, dict[str, str]] = {}
    entries = groups.setdefault("", {}) if paragraphs and not paragraphs[0].startswith("#") else {}
    for paragraph in paragraphs:
        if paragraph.startswith("#"):
            entries = groups.setdefault(paragraph, {})
        else:
            entries[paragraph.split("\n")[0].partition(" @ ")[0].partition("==")[0]] = paragraph
    return _Parts(header, groups)
