"""Which of the packages' requirements hold in a target: markers evaluated for it, extras as they're asked for
on the way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from envspec.errors import IndexFailure
from envspec.packages.marker_environment import marker_environment
from envspec.packages.requirement import TEXTS, canonical_name, parse_requirement
from envspec.resolve.pip.metadata import Metadata
from envspec.resolve.pip.request import Request
from envspec.texts import UNSEEN, printable

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def holding(request: Request, packages: Mapping[str, Metadata]) -> dict[str, tuple[str, ...]]:
    """For every package (by normalised name) its Requires-Dist lines that hold in the request's target.

    A line with an `extra` marker holds when something asks for that extra of the package. Lines are in one spelling,
    sorted.
    """
    environment = marker_environment(request.platform, request.python)
    extras: dict[str, set[str]] = {name: set() for name in packages}
    edges: dict[str, set[str]] = {name: set() for name in packages}
    waiting = [
        name for text in request.requirements for name in _ask(parsed_requirement(text), environment, ("",), extras)
    ]
    waiting = [*dict.fromkeys([*waiting, *packages])]
    while waiting:
        name = waiting.pop()
        active = ("", *sorted(extras[name]))
        for line in packages[name].requires_dist:
            requirement = parsed_requirement(line)
            if _holds(requirement, environment, active):
                edges[name].add(_written(requirement))
                waiting += _ask(requirement, environment, active, extras)
    return {name: tuple(sorted(lines)) for name, lines in edges.items()}


def _ask(
    requirement: Requirement, environment: Mapping[str, str], active: Iterable[str], extras: dict[str, set[str]]
) -> list[str]:
    """Note the extras that a requirement asks for; gives the package if that was news."""
    name = canonical_name(requirement.name)
    wanted = {canonical_name(extra) for extra in requirement.extras}
    if name not in extras or wanted <= extras[name] or not _holds(requirement, environment, active):
        return []
    extras[name] |= wanted
    return [name]


def _holds(requirement: Requirement, environment: Mapping[str, str], active: Iterable[str]) -> bool:
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({**environment, "extra": extra}) for extra in active)


def _written(requirement: Requirement) -> str:
    text = str(requirement)
    if UNSEEN.search(text):
        raise IndexFailure(
            f"a package asks for {printable(text)!r}, which no lock can hold",
            hint="name another release of that package in the spec",
        )
    return text


_LEGACY = (
    (re.compile(r"([<>]=?|~=) *(\d+(?:\.\d+)*)\.\*"), r"\1\2"),  # >=1.19.*
    (re.compile(r", *(?=$|[;)])"), ""),  # >=1.0,
)
"""Spellings that old releases on PyPI have, that PEP 440 and 508 refuse, and that uv reads as these."""


@lru_cache(maxsize=TEXTS)
def parsed_requirement(text: str) -> Requirement:
    """A Requires-Dist line. Raises IndexFailure when even uv's indulgence makes nothing of it."""
    from packaging.requirements import InvalidRequirement

    try:
        return parse_requirement(text)
    except InvalidRequirement:
        head, semicolon, marker = text.partition(";")
        for pattern, mended in _LEGACY:
            head = pattern.sub(mended, head)
    try:
        return parse_requirement(head + semicolon + marker)
    except InvalidRequirement:
        raise IndexFailure(
            f'a package asks for "{text}", which is no requirement',
            hint="name another release of that package in the spec",
        ) from None
