"""The records in a folder: those that `link` and `verify` keep, and the smoke check's reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envspec.base.documents import Unreadable, read_json
from envspec.base.errors import InputError, Place, StorageError
from envspec.facts.compute_capability import parse
from envspec.prove.proof.model import KIND, SCHEMA, Proof
from envspec.prove.smoke.report.read import KIND as REPORT, LARGEST, report_of
from envspec.prove.smoke.report.result import SmokeReport, is_pretended

_KEPT = frozenset({"verified", "linked", "compiles"})
"""What commands record. The rest is a report's to prove, which says what was run."""


def read_records(folder: Path) -> tuple[Proof, ...]:
    """Read the records in a folder, by name; other JSON files there are none. Raises InputError, StorageError."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".json" and path.is_file())
        texts = [(path, path.read_bytes()[: LARGEST + 1]) for path in paths]
    except OSError as error:
        raise StorageError(f"{folder} can't be read: {error.strerror or error}") from error
    return tuple(_records(texts))


def _records(texts: list[tuple[Path, bytes]]) -> Iterator[Proof]:
    for path, text in texts:
        place = Place(str(path))
        if len(text) > LARGEST:
            raise InputError(f"this record is larger than {LARGEST >> 20} MiB", place=place)
        try:
            document: Any = read_json(text.decode("utf-8", errors="replace"))
        except (Unreadable, ValueError) as error:
            raise InputError(f"this record can't be read: {error}", place=place) from None
        kind = document.get("kind") if isinstance(document, dict) else None
        if kind == KIND:
            yield _read_record(document, path.name, place)
        elif kind == REPORT:
            yield of_report(report_of(document, str(path)), path.name)


def _read_record(document: dict[str, Any], name: str, place: Place) -> Proof:
    texts = {key: document.get(key) for key in ("rung", "spec", "target", "lock_digest", "made")}
    for key, value in texts.items():
        if not isinstance(value, str) or not value:
            raise InputError(f"this record has no {key}", place=place)
    if document.get("schema") != SCHEMA:
        raise InputError(f"this record has schema {document.get('schema')!r}, and this envspec reads 1", place=place)
    if texts["rung"] not in _KEPT:
        raise InputError(
            f"a record of {texts['rung']!r} proves nothing: records are of {', '.join(sorted(_KEPT))}", place=place
        )
    rungs = frozenset({str(texts["rung"])})
    spec, target, digest, made = (str(texts[key]) for key in ("spec", "target", "lock_digest", "made"))
    return Proof(spec, target, digest, rungs, made, name)


def of_report(report: SmokeReport, name: str) -> Proof:
    """Say what a report of the smoke check proves, or why it proves nothing."""
    reason = refusal(report)
    rungs = frozenset() if reason else frozenset(_rungs(report))
    python = report.machine.python
    return Proof(report.spec, report.target, report.lock_digest, rungs, report.started, name, reason, python)


def refusal(report: SmokeReport) -> str | None:
    """Say why a report proves nothing of its lock; None where it may."""
    if is_pretended(report):
        return "its GPU is pretended"
    if report.evidence != "lock":
        return f"it is of {report.evidence}, not of an environment made from the lock"
    if report.verdict != "pass":
        return report.headline
    if not _has_passed(report, "static.distributions"):
        return "it doesn't say that the environment is the lock's"
    return None


def _rungs(report: SmokeReport) -> Iterator[str]:
    if _has_passed(report, "stack.imports"):
        # who imported the packages had the loader's answer of each
        yield from ("linked", "imports")
    if not any(check.group == "training" and check.status == "pass" for check in report.checks):
        return
    if report.device == "cuda" and not report.without_gpu and _fits(report):
        yield from ("trained-cpu", "trained")
        if _has_passed(report, "compile.eager"):
            yield "compiles"
    elif report.device == "cpu":
        yield "trained-cpu"


def _fits(report: SmokeReport) -> bool:
    """Whether device.capability was asked, and every GPU is one that is known by its capability."""
    return _has_passed(report, "device.capability") and all(parse(gpu.capability) for gpu in report.machine.gpus)


def _has_passed(report: SmokeReport, name: str) -> bool:
    return any(check.name == name and check.status == "pass" for check in report.checks)
