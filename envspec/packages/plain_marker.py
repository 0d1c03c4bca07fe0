"""Markers that need no `packaging`, whose import takes longer than following a lock's edges: comparisons of variables
with texts, joined by `and` alone or by `or` alone (`python_version < "3.11"`, `extra == "css"`).

The markers of the shipped locks are. Everything else, parentheses and versions of more than two numbers among it, is
left to `packaging`; a property test holds both equal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_RELEASE = r"python_version[ \t]*(?:[<>]=?|[=!]=)[ \t]*(?:\"\d{1,4}\.\d{1,4}\"|'\d{1,4}\.\d{1,4}')"
# "v1" is a version to `packaging`, and versions aren't compared as texts
_WORD = (
    r"(?:os_name|sys_platform|platform_machine|platform_system|platform_python_implementation|implementation_name)"
    r"[ \t]*[=!]=[ \t]*(?:\"(?![vV]\d)[A-Za-z]\w*\"|'(?![vV]\d)[A-Za-z]\w*')"
)
_EXTRA = r"extra[ \t]*[=!]=[ \t]*(?:\"(?!v\d)[a-z][a-z0-9]*(?:-[a-z0-9]+)*\"|'(?!v\d)[a-z][a-z0-9]*(?:-[a-z0-9]+)*')"
_TERM = rf"(?:{_RELEASE}|{_WORD}|{_EXTRA})"
_MARKER = re.compile(rf"{_TERM}(?:(?:[ \t]+and[ \t]+{_TERM})*|(?:[ \t]+or[ \t]+{_TERM})*)", re.ASCII)
_PARTS = re.compile(r"([a-z_]+)[ \t]*([<>=!]+)[ \t]*[\"']([^\"']*)[\"'](?:[ \t]+(and|or))?")


class PlainMarker(NamedTuple):
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
    if not _MARKER.fullmatch(text):
        return None
    parts = _PARTS.findall(text)
    return PlainMarker(tuple((name, operator, value) for name, operator, value, _ in parts), parts[0][3] or "and")


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
