"""The records in a folder: those that `link` and `verify` keep, and the smoke check's reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from envspec.base.documents import Unreadable, read_json
from envspec.base.errors import InputError, Place, StorageError
from envspec.base.plain_files import read_plain
from envspec.facts.compute_capability import parse
from envspec.lock.model import Lock, LockedTarget
from envspec.lock.slice import slice_digest, slice_of
from envspec.prove.rungs import highest_rung, phrase, rungs_of
from envspec.prove.smoke.report.read import KIND as REPORT, LARGEST, report_of
from envspec.prove.smoke.report.result import SmokeReport, is_pretended

# The proof that a record gives, and a target's standing, as frozen values.


KIND = "envspec-proof"
SCHEMA = 1


class Proof(Struct, frozen=True):
    """The proof of one target of one lock by one record.

    rungs        what it proves
    lock_digest  of the target's slice of the lock: another lock is another target
    made         when (RFC 3339)
    file         the record's name
    refused      why it proves nothing
    python       the version of Python that it was made with, where it says so: a run's
    """

    spec: str
    target: str
    lock_digest: str
    rungs: frozenset[str]
    made: str
    file: str
    refused: str | None = None
    python: str | None = None


class Standing(Struct, frozen=True):
    """The rungs that a target has reached. `records` are the records' names by rung, `outdated` those of another
    lock or that prove nothing, each with the reason. `pythons` are the versions of Python that rungs were proved
    with alone, where the lock names another build: "3.11.7" by rung; `locked_python` is that build's version.
    """

    target: str
    gpus: bool
    platform: str
    records: dict[str, tuple[str, ...]] = field(default_factory=dict)
    outdated: tuple[tuple[str, str], ...] = ()
    pythons: dict[str, str] = field(default_factory=dict)
    locked_python: str | None = None

    @property
    def reached(self) -> str | None:
        """The highest rung that is proved with all below it."""
        return highest_rung(self.records, gpus=self.gpus)

    @property
    def rungs(self) -> tuple[tuple[str, bool], ...]:
        """The rungs that the target has, and whether each is proved."""
        return tuple((rung, rung in self.records) for rung in rungs_of(gpus=self.gpus))

    @property
    def lacks(self) -> str | None:
        """The need of the lowest rung without a record: a machine that reaches the target's indexes ("index"), one of
        its platform ("host"), or its GPU. None where each rung has one."""
        rung = next((rung for rung, is_proved in self.rungs if not is_proved), None)
        if rung in (None, "verified", "linked"):
            return rung and "index"
        if self.platform != "linux-64":
            return "host"
        # the run that imported would have trained on a CPU
        return "GPU" if rung == "trained" or "imports" in self.records else "index"

    @property
    def line(self) -> str:
        """ "locked → compiles (without verified, linked)": the rungs that are proved, and those below that aren't."""
        proved = [rung for rung, is_proved in self.rungs if is_proved]
        if not proved:
            return "not proved"
        names = [rung for rung, _ in self.rungs]
        missing = [rung for rung in names[: names.index(proved[-1])] if rung not in proved]
        path = " → ".join(map(phrase, proved))
        notes = [f"without {', '.join(map(phrase, missing))}"] if missing else []
        notes += [self.other_python] if self.other_python else []
        return f"{path} ({'; '.join(notes)})" if notes else path

    @property
    def other_python(self) -> str:
        """The rungs that were proved with another Python than the lock's; empty without any."""
        rungs = [rung for rung, _ in self.rungs if rung in self.pythons]
        versions = ", ".join(dict.fromkeys(self.pythons[rung] for rung in rungs))
        return f"{', '.join(map(phrase, rungs))} with Python {versions}, not {self.locked_python}" if rungs else ""


def standings(lock: Lock, targets: Iterable[LockedTarget], records: Iterable[Proof]) -> tuple[Standing, ...]:
    """Return the proved rung of each of these targets. The lock must have been judged: that is the first rung."""
    known = tuple(record for record in records if record.spec == lock.name)
    return tuple(_standing(lock, target, known) for target in targets)


def _standing(lock: Lock, target: LockedTarget, records: tuple[Proof, ...]) -> Standing:
    digest = slice_digest(slice_of(lock, target))
    build = lock.python(target)
    proved: dict[str, tuple[str, ...]] = {"locked": ()}
    pythons: dict[str, set[str | None]] = {}
    outdated = []
    for record in records:
        if record.target != target.name:
            continue
        if record.refused is not None:
            outdated.append((record.file, record.refused))
        elif record.lock_digest != digest:
            outdated.append((record.file, "it is of another lock of this target"))
        else:
            other = record.python if build and record.python != build.version else None
            for rung in record.rungs:
                proved[rung] = (*proved.get(rung, ()), record.file)
                pythons.setdefault(rung, set()).add(other)
    # a rung that some record proves with the lock's own, or without any, needs no word
    other_pythons = {rung: max(filter(None, versions)) for rung, versions in pythons.items() if None not in versions}
    version = build.version if build else None
    inputs = target.inputs
    return Standing(
        target.name, inputs.cuda is not None, inputs.platform, proved, tuple(outdated), other_pythons, version
    )


_KEPT = frozenset({"verified", "linked", "compiles"})
"""What commands record. The rest is a report's to prove, which says what was run."""


def read_records(folder: Path) -> tuple[Proof, ...]:
    """Read the records in a folder, by name; other JSON files there are none. Raises InputError, StorageError."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".json" and path.is_file())
        texts = [(path, read_plain(path, LARGEST + 1)) for path in paths]
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
    """Return the proof in a report of the smoke check, or the reason why it proves nothing."""
    reason = refusal(report)
    rungs = frozenset() if reason else frozenset(_rungs(report))
    python = report.machine.python
    return Proof(report.spec, report.target, report.lock_digest, rungs, report.started, name, reason, python)


def refusal(report: SmokeReport) -> str | None:
    """Return the reason why a report proves nothing of its lock; None where it may."""
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
    # torch's own group, or the check of that name of another framework
    if not any("training" in check.name.split(".") and check.status == "pass" for check in report.checks):
        return
    if report.device == "cuda" and not report.without_gpu and _fits(report):
        yield from ("trained-cpu", "trained")
        if _has_passed(report, "compile.eager"):
            yield "compiles"
    elif report.device == "cpu":
        yield "trained-cpu"


def _fits(report: SmokeReport) -> bool:
    """Return whether a framework says that the GPUs are the target's, and the capability of every GPU is known. A GPU
    that merely runs the target's code isn't the target's."""
    if any(check.name == "device.capability" and check.details.get("near") for check in report.checks):
        return False
    names = ("device.capability", *(f"{name}.devices" for name in report.frameworks))
    known = all(parse(gpu.capability) for gpu in report.machine.gpus)
    return known and any(_has_passed(report, name) for name in names)


def _has_passed(report: SmokeReport, name: str) -> bool:
    return any(check.name == name and check.status == "pass" for check in report.checks)
