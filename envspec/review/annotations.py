"""Findings at the lines of a lock, as platforms show them.

GitHub reads workflow commands
(https://docs.github.com/actions/reference/workflow-commands-for-github-actions), GitLab a Code Quality report
(https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from msgspec import Struct

from envspec.base.finding import Finding
from envspec.base.texts import clean_text

_PACKAGE = re.compile(r'^\[\[(pip|conda)\]\]\nname = "([^"]*)"\nversion = "([^"]*)"$', re.MULTILINE)
_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}
_SEVERITIES = {"error": "critical", "warning": "major", "info": "info"}

Lines = Mapping[tuple[str, str, str], int]
"""The line of each package of a lock, by kind, name and version."""


class Annotation(Struct, frozen=True):
    """A finding at a line of a lock.

    title   the subject of the finding
    detail  what tells it from another one with its code and title
    """

    finding: Finding
    title: str
    line: int
    detail: str


def lines_of(lock_text: str) -> Lines:
    """Return the line of each package in a lock's text, counted from 1."""
    found: dict[tuple[str, str, str], int] = {}
    for match in _PACKAGE.finditer(lock_text):
        found.setdefault((match[1], match[2], match[3]), lock_text.count("\n", 0, match.start()) + 1)
    return found


def workflow_commands(found: Iterable[Annotation], lock: PurePosixPath) -> str:
    """Render annotations for GitHub, a line each. `lock` is the lock's path from the root of its repository."""
    where = f"file={_value(str(lock))}"
    return "".join(
        f"::{_COMMANDS[one.finding.severity]} {where},line={one.line},title={_value(one.title)}::"
        f"{_data(one.finding.message)}\n"
        for one in found
    )


def code_quality(found: Iterable[Annotation], lock: PurePosixPath, prefix: str) -> str:
    """Render annotations for GitLab. `lock` is the lock's path from the root of its repository, `prefix` stands before
    the codes."""
    rows = [
        {
            "description": f"{clean_text(one.title)}: {clean_text(one.finding.message)}",
            "check_name": f"{prefix}-{one.finding.code}",
            # without the line, so that GitLab knows it again where the lock grew above it
            "fingerprint": hashlib.sha256(
                f"{lock}\n{one.finding.code}\n{one.title}\n{one.detail}".encode()
            ).hexdigest(),
            "severity": _SEVERITIES[one.finding.severity],
            "location": {"path": str(lock), "lines": {"begin": one.line}},
        }
        for one in found
    ]
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def _data(text: str) -> str:
    return clean_text(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
