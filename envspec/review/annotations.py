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
from msgspec.structs import replace

from envspec.base.finding import Finding
from envspec.base.texts import clean_text

_PACKAGE = re.compile(r'^\[\[(pip|conda)\]\]\nname = "([^"]*)"\nversion = "([^"]*)"$', re.MULTILINE)
_TARGET = re.compile(r'^\[targets\.(?:"([^"\n]*)"|([^"\n]*))\]$\n((?:^[^\[\n].*\n|^\n)*)', re.MULTILINE)
_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}
_SEVERITIES = {"error": "critical", "warning": "major", "info": "info"}

Lines = Mapping[tuple[str, str, str], int]
"""The line of each package of a lock, by kind, name and version."""

AT_ONCE = 10
"""GitHub shows ten errors and ten warnings of a step: https://github.com/actions/toolkit/pull/734."""


class Annotation(Struct, frozen=True):
    """A finding at a line of a lock, or of another `file`, whose path is from the root of the repository.

    title   the subject of the finding
    detail  the mark by which it differs from another finding with its code and title
    """

    finding: Finding
    title: str
    line: int
    detail: str
    file: PurePosixPath | None = None


def lines_of(lock_text: str) -> Lines:
    """Return the line of each package in a lock's text, counted from 1."""
    lines: dict[tuple[str, str, str], int] = {}
    for match in _PACKAGE.finditer(lock_text):
        lines.setdefault((match[1], match[2], match[3]), lock_text.count("\n", 0, match.start()) + 1)
    return lines


def target_lines(lock_text: str) -> Mapping[tuple[str, str], int]:
    """Return the line of each key of each target in a lock's text, by target and key; of "" for the target's header."""
    lines: dict[tuple[str, str], int] = {}
    for match in _TARGET.finditer(lock_text):
        name, first = match[1] or match[2], lock_text.count("\n", 0, match.start()) + 1
        lines[name, ""] = first
        for number, line in enumerate(match[3].splitlines(), first + 1):
            key, equals, _ = line.partition(" = ")
            if equals:
                lines.setdefault((name, key), number)
    return lines


def line_in(text: str, name: str, version: str) -> int | None:
    """Find a package in another tool's file: the line that names it with the version, or above its version's; else the
    first that names it."""
    spelt = re.sub(r"[-_.]+", "[-_.]", re.escape(name.replace(".", "-")).replace(r"\-", "-"))
    named = re.compile(rf"(?<![\w.-]){spelt}(?![\w.-]|[-_.]\w)", re.IGNORECASE)
    with_version = re.compile(rf"(?<![\w.-]){spelt}\W{{1,4}}{re.escape(version)}(?![\w.])", re.IGNORECASE)
    lines = text.splitlines()
    first = None
    for number, line in enumerate(lines, 1):
        below = lines[number] if number < len(lines) else ""
        if version and (
            with_version.search(line)
            or (named.search(line) and re.search(rf"version\W+{re.escape(version)}(?![\w.])", below))
        ):
            return number
        if first is None and named.search(line):
            first = number
    return first


def workflow_commands(annotations: Iterable[Annotation], lock: PurePosixPath) -> str:
    """Render the first `AT_ONCE` annotations for GitHub, a line each; the last says how many more there are. `lock` is
    the lock's path from the root of its repository."""
    every = list(annotations)
    shown = every[:AT_ONCE]
    if more := len(every) - len(shown):
        last = shown[-1].finding
        counted = replace(last, message=f"{last.message} (and {more} more in the comment)")
        shown[-1] = replace(shown[-1], finding=counted)
    return "".join(
        f"::{_COMMANDS[annotation.finding.severity]} "
        f"file={_value(str(annotation.file or lock))},line={annotation.line},"
        f"title={_value(annotation.title)}::{_data(annotation.finding.message)}\n"
        for annotation in shown
    )


def code_quality(annotations: Iterable[Annotation], lock: PurePosixPath) -> str:
    """Render annotations for GitLab. `lock` is the lock's path from the root of its repository."""
    rows = [
        {
            "description": f"{clean_text(annotation.title)}: {clean_text(annotation.finding.message)}",
            "check_name": f"envspec-{annotation.finding.code}",
            # without the line, so that GitLab knows it again where the lock grew above it
            "fingerprint": hashlib.sha256(
                f"{lock}\n{annotation.finding.code}\n{annotation.title}\n{annotation.detail}".encode()
            ).hexdigest(),
            "severity": _SEVERITIES[annotation.finding.severity],
            "location": {"path": str(annotation.file or lock), "lines": {"begin": annotation.line}},
        }
        for annotation in annotations
    ]
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def _data(text: str) -> str:
    return clean_text(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
