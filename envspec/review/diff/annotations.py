"""A review as annotations: what needs eyes, at the line of the lock that it is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envspec.base.finding import Finding, Severity
from envspec.review.annotations import Annotation, Lines
from envspec.review.diff import words
from envspec.review.diff.facts import RISKS, Fact
from envspec.review.diff.rows import Review

_SEVERITIES: Mapping[str, Severity] = {"high": "error", "medium": "warning"}


def annotate(review: Review, lines: Lines) -> Iterator[Annotation]:
    """Yield the facts of high and medium risk, the highest risk first."""
    found = [one for one in dict.fromkeys(_facts(review, lines)) if one[0].risk in _SEVERITIES]
    for fact, line, title in sorted(found, key=lambda one: (RISKS.index(one[0].risk), one[1])):
        yield Annotation(Finding(_SEVERITIES[fact.risk], fact.code, words.fact(fact)), title, line, fact.message)


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
