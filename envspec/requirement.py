"""The plain part of PEP 508 and PEP 440, read without `packaging`, whose import takes longer than reading a spec.

Plain is a name, extras and clauses with release numbers (`torch==2.9.*`, `transformers>=4.57,<5`). Everything else
(markers, URLs, pre-releases, local versions) is `packaging`'s: the functions give None for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

Clause = tuple[str, str]
"""An operator and a version: `("==", "2.9.*")`."""

_CLAUSE = r"(?:[=!]=[ \t]*\d+(?:\.\d+)*(?:\.\*)?|[<>]=?[ \t]*\d+(?:\.\d+)*|~=[ \t]*\d+(?:\.\d+)+)"
_CLAUSES = rf"{_CLAUSE}(?:[ \t]*,[ \t]*{_CLAUSE})*"
_NAME = r"[A-Za-z0-9]+(?:[._-]+[A-Za-z0-9]+)*"
_REQUIREMENT = re.compile(
    rf"[ \t]*({_NAME})[ \t]*(?:\[[ \t]*({_NAME}(?:[ \t]*,[ \t]*{_NAME})*)[ \t]*\])?[ \t]*({_CLAUSES})?[ \t]*", re.ASCII
)


@dataclass(frozen=True)
class PlainRequirement:
    """A requirement without marker and URL. Names as they were written; `clauses` in the written order."""

    name: str
    extras: tuple[str, ...]
    clauses: tuple[Clause, ...]


def canonical_name(name: str) -> str:
    """A package's or extra's name as PEP 503 and PEP 685 normalise it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def plain_requirement(text: str) -> PlainRequirement | None:
    """A plain requirement, or None for another one and for what is none."""
    found = _REQUIREMENT.fullmatch(text)
    if found is None:
        return None
    extras = tuple(extra.strip() for extra in found[2].split(",")) if found[2] else ()
    clauses = _clauses(found[3] or "")
    if len({operator for operator, _ in clauses}) < len(clauses):
        # `packaging` takes `==1,==1.0` for one clause: a requirement must be written the same however it was read
        return None
    return PlainRequirement(found[1], extras, clauses)


def plain_specifier(text: str) -> tuple[Clause, ...] | None:
    """The clauses of a plain version specifier, none for an empty one; None for another one."""
    if not text.strip():
        return ()
    return _clauses(text) if re.fullmatch(rf"[ \t]*{_CLAUSES}[ \t]*", text, re.ASCII) else None


def admits(clauses: tuple[Clause, ...], release: tuple[int, ...]) -> bool:
    """Whether plain clauses admit a final release, given as its numbers (PEP 440: missing numbers count as 0)."""
    return all(_admits(operator, version, release) for operator, version in clauses)


def _clauses(text: str) -> tuple[Clause, ...]:
    return tuple(re.findall(r"([=!<>~]{1,2})\s*([\d.]+\*?)", text))


def _admits(operator: str, version: str, release: tuple[int, ...]) -> bool:
    bound = tuple(int(number) for number in version.removesuffix(".*").split("."))
    if version.endswith(".*"):
        return _begins(release, bound) == (operator == "==")
    if operator == "~=":
        return _trimmed(release) >= _trimmed(bound) and _begins(release, bound[:-1])
    here, there = _trimmed(release), _trimmed(bound)
    return {
        "==": here == there,
        "!=": here != there,
        "<=": here <= there,
        ">=": here >= there,
        "<": here < there,
        ">": here > there,
    }[operator]


def _begins(release: tuple[int, ...], prefix: tuple[int, ...]) -> bool:
    padded = release + (0,) * (len(prefix) - len(release))
    return padded[: len(prefix)] == prefix


def _trimmed(release: tuple[int, ...]) -> tuple[int, ...]:
    while len(release) > 1 and release[-1] == 0:
        release = release[:-1]
    return release
