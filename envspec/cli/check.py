"""`envspec check`."""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from envspec.app.check import SpecState, states_of
from envspec.app.find_specs import all_specs
from envspec.base.errors import MOST, parts
from envspec.base.finding import Finding
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.console import error_json, say, silence, tell, wants_verbose

EPILOG = """\b
Examples:
  envspec check                          every spec in specs/
  envspec check specs/mm-v2.9.toml --json
  envspec check --imports                what the sources import and no lock brings

Exit codes: 0 all fresh, 1 a lock is stale or drifted, 2 a spec is wrong.
"""

_MOST = 10
"""The number of a spec's reasons that are listed."""


@click.command(epilog=EPILOG)
@options.specs
@options.locks_dir
@options.imports
@options.quiet
@options.verbose
@options.as_json
def command(paths: tuple[str, ...], locks_dir: Path | None, imports: bool) -> int:
    """Check locks against their specs, and name each difference

    envspec compares each target's inputs in the lock with the spec, judges the pins by the spec and the site's policy,
    and compares the files beside the lock with the lock itself, also the recipes of `envspec export` in recipes/<name>.
    A wheel without code for a GPU of its target is a warning: the lock is fresh. envspec uses no network and writes
    nothing.
    """
    findings = states_of(all_specs(paths), locks_dir, imports=imports)
    code = max(finding.exit_code for finding in findings)
    try:
        document = {"fresh": code == 0, "specs": [_as_json(finding) for finding in findings]}
        options.answer("check", document, _lines(findings))
    except BrokenPipeError:
        # who reads only the first line must not take a stale lock for a fresh one
        silence(sys.stdout)
    for finding in findings:
        if finding.error is not None:
            tell(finding.error)
        elif finding.hint is not None:
            say(f"hint: {finding.hint}")
    return code


def _lines(findings: list[SpecState]) -> Iterator[str]:
    for finding in findings:
        if finding.error is None:
            yield f"{finding.spec}: {finding.status}" + (f" ({finding.summary})" if finding.summary else "")
            lines = reason_lines(finding.reasons, finding.folder, finding.recipes)
            if not wants_verbose() and len(lines) > _MOST:
                lines = [*lines[:_MOST], f"… and {len(lines) - _MOST} more (--verbose lists them)"]
            yield from (f"  {printable(line)}" for line in lines)


def _as_json(finding: SpecState) -> dict[str, Any]:
    return {
        "spec": finding.spec,
        "lock": finding.lock,
        "status": finding.status,
        "reasons": [{**reason.document, "details": reason.details} for reason in finding.reasons],
        "errors": [] if finding.error is None else [error_json(error) for error in parts(finding.error)],
    }


_SEVERAL = {
    "rendered-missing": "are missing",
    "rendered-edited": "differ from the lock",
    "rendered-extra": "belong to no target of the lock",
    "recipe-missing": "are missing from their recipe",
    "recipe-differs": "differ from what the spec and its lock give",
    "recipe-extra": "belong to no recipe of the lock",
}
"""The words for several files, by the code of the reason that names one."""

_FOLDER = re.compile(r"(?:\.\./)*[^/]*")
"""Give the folder that several paths may share: a target's, or one elsewhere in the repository."""

_NAMED = 3
"""The number of files that one line names; `--json` has them all."""


def reason_lines(reasons: Iterable[Finding], locks: Path, recipes: Path) -> list[str]:
    """Describe the reasons, one line each with its code; files of a target with the same reason share a line.

    Gives at most `MOST` lines, and one that counts the rest.

    `locks` and `recipes` are the spec's folders, to which the reasons' paths are relative.
    """
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for reason in reasons:
        folder = _folder(str(reason.file)) if reason.code in _SEVERAL else reason.text
        groups.setdefault((reason.code, folder, _advice(reason)), []).append(reason)
    parts = [part for group in groups.values() for part in _split(group)]
    lines = [f"{_mark(part[0])}{_message(part, locks, recipes)}  [{part[0].code}]" for part in parts[:MOST]]
    return lines if len(parts) <= MOST else [*lines, f"and {len(parts) - MOST:,} more: --json has them all"]


_EDITED = ("rendered-edited", "recipe-differs")


def _split(group: list[Finding]) -> list[list[Finding]]:
    """Part a few files that differ: each was perhaps edited by hand, and is named with its line."""
    return [[reason] for reason in group] if group[0].code in _EDITED and len(group) <= _NAMED else [group]


def _message(group: list[Finding], locks: Path, recipes: Path) -> str:
    first = group[0]
    if first.code not in _SEVERAL:
        return first.text
    folder = recipes if first.code.startswith("recipe-") else locks
    if len(group) == 1:
        return _display_path(folder, str(first.file)) + first.message.removeprefix(str(first.file))
    common = _folder(str(first.file))
    names = [str(reason.file).removeprefix(f"{common}/") for reason in group]
    named = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    named += _advice(first).replace(" it", " them")
    return f"{_display_path(folder, common)}/: {len(group)} files {_SEVERAL[first.code]}: {named}"


def _mark(reason: Finding) -> str:
    """Return the mark of a reason that makes no lock stale."""
    return "warning: " if reason.severity == "warning" else ""


def _advice(reason: Finding) -> str:
    """Give the part of a reason about a file that says what to do with it."""
    if reason.code in _EDITED:
        return ""
    _, comma, advice = reason.message.partition(", and ")
    return comma + advice


def _folder(path: str) -> str:
    match = _FOLDER.match(path)
    return match[0] if match else ""


def _display_path(folder: Path, path: str) -> str:
    return posixpath.normpath((folder / path).as_posix())
