"""A review as GitHub's workflow commands: what needs eyes, at the line of the lock that it is about.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from envspec.diff import words
from envspec.diff.facts import RISKS, Fact
from envspec.diff.rows import Review
from envspec.texts import shown

_COMMANDS = {"high": "error", "medium": "warning"}

Lines = Mapping[tuple[str, str, str], int]
"""The line of each package of a lock, by kind, name and version."""


def as_annotations(review: Review, lock: PurePosixPath, lines: Lines) -> str:
    """Render the facts of high and medium risk as a line each, the highest risk first. `lock` is the path of the new
    lock from the root of its repository."""
    found = dict.fromkeys(_facts(review, lines))
    in_order = sorted(found, key=lambda one: (RISKS.index(one[0].risk), one[1]))
    where = f"file={_value(str(lock))}"
    return "".join(
        f"::{_COMMANDS[fact.risk]} {where},line={line},title={_value(title)}::{_data(words.fact(fact))}\n"
        for fact, line, title in in_order
        if fact.risk in _COMMANDS
    )


def _facts(review: Review, lines: Lines) -> Iterator[tuple[Fact, int, str]]:
    """Yield each fact with its line and its title."""
    by_name: dict[str, int] = {}
    for row in review.rows:
        for move in row.moves:
            key = (row.kind, row.name, move.new.version if move.new else "")
            line = lines.get(key, 1)
            by_name.setdefault(row.name, line)
            yield from ((fact, line, row.name) for fact in move.facts)
    for kind, name, version in lines:
        by_name.setdefault(name, lines[kind, name, version])
    for fact in (*review.flaws, *review.gpu, *review.settings):
        yield fact, by_name.get(fact.package or "", 1), fact.package or review.name or "lock"


def _data(text: str) -> str:
    return shown(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
