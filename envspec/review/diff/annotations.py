"""A review as annotations: what needs eyes, at the line of the lock that it is about. GitHub reads workflow commands
(https://docs.github.com/actions/reference/workflow-commands-for-github-actions), GitLab a Code Quality report
(https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from envspec.base.texts import clean_text
from envspec.review.diff import words
from envspec.review.diff.facts import RISKS, Fact
from envspec.review.diff.rows import Review

_COMMANDS = {"high": "error", "medium": "warning"}
_SEVERITIES = {"high": "critical", "medium": "major"}

Lines = Mapping[tuple[str, str, str], int]
"""The line of each package of a lock, by kind, name and version."""


def as_annotations(review: Review, lock: PurePosixPath, lines: Lines) -> str:
    """Render the facts of high and medium risk as a line each, the highest risk first. `lock` is the path of the new
    lock from the root of its repository."""
    where = f"file={_value(str(lock))}"
    return "".join(
        f"::{_COMMANDS[fact.risk]} {where},line={line},title={_value(title)}::{_data(words.fact(fact))}\n"
        for fact, line, title in _needing_eyes(review, lines)
    )


def as_code_quality(review: Review, lock: PurePosixPath, lines: Lines) -> str:
    """Render the same facts as GitLab reads them, in the same order."""
    rows = [
        {
            "description": f"{clean_text(title)}: {clean_text(words.fact(fact))}",
            "check_name": f"envspec-{fact.code}",
            # without the line, so that GitLab knows it again where the lock grew above it
            "fingerprint": hashlib.sha256(f"{lock}\n{fact.code}\n{title}\n{fact.message}".encode()).hexdigest(),
            "severity": _SEVERITIES[fact.risk],
            "location": {"path": str(lock), "lines": {"begin": line}},
        }
        for fact, line, title in _needing_eyes(review, lines)
    ]
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def _needing_eyes(review: Review, lines: Lines) -> list[tuple[Fact, int, str]]:
    found = [one for one in dict.fromkeys(_facts(review, lines)) if one[0].risk in _COMMANDS]
    return sorted(found, key=lambda one: (RISKS.index(one[0].risk), one[1]))


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
    return clean_text(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
