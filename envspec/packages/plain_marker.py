"""Markers that need no `packaging`, whose import takes longer than following a lock's edges: comparisons of variables
with texts, joined by `and` alone or by `or` alone (`python_version < "3.11"`, `extra == "css"`).

The markers of the shipped locks are. Everything else, parentheses and versions of more than two numbers among it, is
left to `packaging`; a property test holds both equal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_JOINT = re.compile(r"[ \t]+(and|or)[ \t]+")
_TERM = re.compile(
    r"([a-z_]+)[ \t]*(==|!=|[<>]=?)[ \t]*(?:\"([^\"]*)\"|'([^']*)')",
)
_RELEASE = re.compile(r"\d{1,4}\.\d{1,4}", re.ASCII)
_EXTRA = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_WORD = re.compile(r"[A-Za-z]\w*", re.ASCII)
# "v1" is a version to `packaging`, and versions aren't compared as texts
_NUMBERED = re.compile(r"[vV][0-9]")
_WORDS = (
    "os_name", "sys_platform", "platform_machine", "platform_system", "platform_python_implementation",
    "implementation_name",
)  # fmt: skip


@dataclass(frozen=True)
class PlainMarker:
    """The comparisons of a marker, each a variable, an operator and a text, and what joins them: "and" or "or"."""

    terms: tuple[tuple[str, str, str], ...]
    joint: str

    def evaluate(self, environment: Mapping[str, str]) -> bool:
        """Say whether the marker holds in an environment that has all variables, `extra` too."""
        holds = (_holds(environment[name], operator, text, name) for name, operator, text in self.terms)
        return all(holds) if self.joint == "and" else any(holds)

    def __str__(self) -> str:
        return f" {self.joint} ".join(f'{name} {operator} "{text}"' for name, operator, text in self.terms)


def plain_marker(text: str) -> PlainMarker | None:
    """Parse a plain marker. None for any other text."""
    parts = _JOINT.split(text)
    terms, joints = tuple(map(_term, parts[::2])), set(parts[1::2])
    if len(joints) > 1 or None in terms:
        return None
    return PlainMarker(tuple(filter(None, terms)), joints.pop() if joints else "and")


def _term(text: str) -> tuple[str, str, str] | None:
    """Parse a comparison that judges as texts do, or as two numbers do."""
    found = _TERM.fullmatch(text)
    if found is None:
        return None
    name, operator, double, single = found.groups()
    value = single if double is None else double
    if name == "python_version":
        return (name, operator, value) if _RELEASE.fullmatch(value) else None
    known = _EXTRA if name == "extra" else _WORD if name in _WORDS else None
    if known is None or operator not in ("==", "!=") or not known.fullmatch(value) or _NUMBERED.match(value):
        return None
    return name, operator, value


def _holds(here: str, operator: str, text: str, name: str) -> bool:
    if name != "python_version":
        return (here == text) == (operator == "==")
    own, bound = (tuple(map(int, version.split("."))) for version in (here, text))
    return {
        "==": own == bound,
        "!=": own != bound,
        "<=": own <= bound,
        ">=": own >= bound,
        "<": own < bound,
        ">": own > bound,
    }[operator]
