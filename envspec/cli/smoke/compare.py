"""`envspec smoke --compare A B`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.base.errors import AnswerNo, InputError
from envspec.base.texts import plural, printable
from envspec.cli.console import out
from envspec.cli.options import print_json

if TYPE_CHECKING:
    from envspec.prove.smoke.report.compare import Comparison

_WEIGHTS = {"same": "the same, bit by bit", "differs": "differ", "not compared": "not compared"}


def compare_reports(first: Path, second: Path, *, as_json: bool) -> int:
    """Print how two reports differ; give the exit code. Raises InputError, StorageError."""
    from envspec.prove.smoke.report.compare import compare
    from envspec.prove.smoke.report.evidence import is_pretended
    from envspec.prove.smoke.report.read import load_report

    one, other = load_report(_report_in(first)), load_report(_report_in(second))
    for path, report in ((first, one), (second, other)):
        if is_pretended(report):
            raise InputError(f"{path} is of a pretended GPU, which proves nothing")
    found = compare(one, other)
    if as_json:
        names = ("name", "one", "other")
        print_json(
            "smoke-compare",
            {
                "ok": found.ok,
                "weights": found.weights,
                "reason": found.reason,
                "facts": [dict(zip(names, row, strict=True)) for row in found.facts],
                "checks": [dict(zip(names, row, strict=True)) for row in found.checks],
                "figures": [dict(zip((*names, "share"), row, strict=True)) for row in found.figures],
            },
        )
    else:
        out("\n".join(_lines(found)))
    return 0 if found.ok else AnswerNo.exit_code


def _report_in(path: Path) -> Path:
    """Give the report at a path: itself, or the one in a folder of results. Raises InputError."""
    if not path.is_dir():
        return path
    reports = sorted(path.glob("runs/*/check.json")) or sorted(path.glob("check.json"))
    if len(reports) != 1:
        raise InputError(f"{path} has {plural(len(reports), 'report')}", hint="name one: DIR/runs/RUN/check.json")
    return reports[0]


def _lines(found: Comparison) -> Iterator[str]:
    why = f": {printable(found.reason)}" if found.reason else ""
    yield f"weights: {_WEIGHTS[found.weights]}{why}"
    for name, one, other in found.facts:
        yield f"  {name}: {printable(one)} | {printable(other)}"
    if found.checks:
        yield "checks that came out otherwise:"
        for name, first, second in found.checks:
            yield f"  {printable(name)}: {first or 'not there'} | {second or 'not there'}"
    if found.figures:
        yield "figures:"
        for name, one, other, share in found.figures:
            beside = "" if share is None else f" ({share:.0%})"
            yield f"  {printable(name)}: {printable(one)} | {printable(other)}{beside}"
