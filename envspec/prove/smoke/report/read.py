"""The reader of a check's report, in whatever state the report comes from another machine.

The reader is strict, because a report decides whether an environment is trusted: it refuses a missing key, a value of
another type and a duplicate check. It ignores unknown keys, because a newer check within the schema may write more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import to_builtins
from msgspec.structs import asdict

from envspec.base.documents import Unreadable, convert, finite_number, read_json
from envspec.base.errors import InputError, Place, StorageError
from envspec.base.plain_files import read_operand
from envspec.prove.smoke.report.result import Figure, Results, Run, SmokeReport

SCHEMA = 1
"""The newest schema of the check's JSON that this envspec can read."""

KIND = "envspec-check"

LARGEST = 32 * 2**20
"""The greatest size of a report, in bytes. A larger file isn't read."""

_DEEPEST = 24
"""The greatest nesting depth of a report: twenty levels of a check's `details`."""


def load_report(path: Path) -> SmokeReport:
    """Read the report in a file. Raises InputError for an unusable report, StorageError for an unreadable file."""
    return report_in(report_bytes(path), str(path))


def report_bytes(path: Path) -> bytes:
    """Read a report's file. Raises InputError for one that is too large, StorageError for an unreadable file."""
    try:
        data = read_operand(path, LARGEST + 1)
    except OSError as error:
        raise StorageError(f"{path} can't be read: {error.strerror or error}") from error
    if len(data) > LARGEST:
        raise InputError(f"this report is larger than {LARGEST // 2**20} MiB", place=Place(str(path)))
    return data


def report_in(data: bytes, name: str) -> SmokeReport:
    """Read the report in a file's bytes. Raises InputError."""
    return read_report(data.decode("utf-8", errors="replace"), name)


def read_report(text: str, name: str) -> SmokeReport:
    """Read the report in a text; `name` is its source in messages. Raises InputError."""
    if not text.strip():
        raise InputError("this report is empty", hint=_AGAIN, place=Place(name))
    try:
        value = read_json(text)
    except Unreadable as error:
        # what ends too early is found wrong at its end
        cut = (error.line, error.column) >= _end(text)
        message = "this report is cut off" if cut else f"this report is no JSON: {error}"
        raise InputError(message, hint=_AGAIN, place=Place(name, error.line, error.column)) from error
    return report_of(value, name)


def _end(text: str) -> tuple[int, int]:
    """Line and column behind the last character that isn't blank."""
    lines = text.rstrip().split("\n")
    return len(lines), len(lines[-1]) + 1


def report_of(value: object, name: str) -> SmokeReport:
    """Read the report in a parsed JSON document. Raises InputError."""
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise InputError(f"this isn't a report of the smoke check: its kind isn't {KIND!r}", place=Place(name))
    schema = value.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        hint = "update envspec, or read the report with the envspec that wrote it"
        raise InputError(
            f"this report has schema {schema:.9g}; this envspec reads up to {SCHEMA}", hint=hint, place=Place(name)
        )
    try:
        if isinstance(schema, bool) or schema != SCHEMA:
            raise Unreadable("its schema isn't a number above 0")
        document = _writable(value, _DEEPEST)
        if isinstance(torch := document.get("torch"), dict) and torch.get("version") is None:
            document["torch"] = None  # torch couldn't be imported
        report = convert(document, SmokeReport)
        _refuse_twice("checks", [check.name for check in report.checks])
        _refuse_twice("figures", [figure.name for figure in report.figures])
    except Unreadable as error:
        raise InputError(f"this report is damaged: {error}", hint=_AGAIN, place=Place(name)) from None
    return report


_AGAIN = "the run may have ended while writing; run the checks again"


def _refuse_twice(what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise Unreadable(f"{what} has {name!r} twice")


_LEFT_OUT = ("details", "unit")
"""The keys whose null is the same as no key."""


def _writable(value: Any, deep: int) -> Any:
    """Make a value fit for writing: numbers are finite or None, and lone surrogates, which JSON can spell, become the
    replacement character. Raises Unreadable for one that is nested too deeply."""
    if deep == 0:
        raise Unreadable("it's nested too deeply")
    if isinstance(value, dict):
        given = {key: part for key, part in value.items() if part is not None or key not in _LEFT_OUT}
        return {_writable(key, deep): _writable(part, deep - 1) for key, part in given.items()}
    if isinstance(value, list):
        return [_writable(part, deep - 1) for part in value]
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, int | float) and not isinstance(value, bool) and finite_number(value) is None:
        return None
    return value


# Results as plain data for JSON, complete and unshortened. Their schema is `envspec/cli/schemas/smoke.json`.


def as_json(results: Results) -> dict[str, Any]:
    """Make the document of `envspec smoke --json` without its `schema` key."""
    return {"runs": [_run(run) for run in results.runs], "summary": asdict(results.summary)}


_SUMMARY = ("passed", "failed", "skipped", "gpu_skipped", "gpu_total", "verdict", "headline", "slow")


def report_json(report: SmokeReport) -> dict[str, Any]:
    """Write a report as the check does (`check.schema.json`); `read.report_of` reads it back."""
    return {
        "schema": SCHEMA,
        "kind": KIND,
        **to_builtins(report),
        "figures": [_figure(figure) for figure in report.figures],
        "summary": {name: getattr(report, name) for name in _SUMMARY},
    }


def _run(run: Run) -> dict[str, Any]:
    return {**asdict(run), "report": report_json(run.report) if run.report else None}


def _figure(figure: Figure) -> dict[str, Any]:
    document = to_builtins(figure)
    if figure.reference:
        del document["reference"]["gpus"]  # the check has judged already for which GPUs it is
    return {**document, "verdict": figure.verdict}
