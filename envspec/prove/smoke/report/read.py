"""The reader of a check's report, in whatever state the report comes from another machine.

The reader is strict, because a report decides whether an environment is trusted: it refuses a missing key, a value of
another type and a duplicate check. It ignores unknown keys, because a newer check within the schema may write more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from envspec.base.documents import Unreadable, finite_number, read_json
from envspec.base.errors import InputError, Place, StorageError
from envspec.prove.smoke.report.result import CheckResult, Figure, ReportedGpu, ReportedMachine, SmokeReport, Torch
from envspec.spec.model import Reference

SCHEMA = 1
"""The newest schema of the check's JSON that this envspec can read."""

KIND = "envspec-check"

LARGEST = 32 * 2**20
"""The greatest size of a report, in bytes. A larger file isn't read."""

_DEEPEST = 20
"""The greatest nesting depth of a check's `details`."""

_T = TypeVar("_T")


def load_report(path: Path) -> SmokeReport:
    """Read the report in a file. Raises InputError for an unusable report, StorageError for an unreadable file."""
    return report_in(report_bytes(path), str(path))


def report_bytes(path: Path) -> bytes:
    """Read a report's file. Raises InputError for one that is too large, StorageError for an unreadable file."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
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
    whole = _Node(value, "", name)
    if not isinstance(value, dict) or whole.value.get("kind") != KIND:
        raise InputError(f"this isn't a report of the smoke check: its kind isn't {KIND!r}", place=Place(name))
    schema = whole.get("schema").integer()
    if not 1 <= schema < 1000:
        whole.get("schema").refuse("a schema's number")
    if schema > SCHEMA:
        hint = "update envspec, or read the report with the envspec that wrote it"
        raise InputError(
            f"this report has schema {schema}; this envspec reads up to {SCHEMA}", hint=hint, place=Place(name)
        )
    return _report(whole)


_AGAIN = "the run may have ended while writing; run the checks again"


@dataclass(frozen=True)
class _Node:
    """A value of the document, and its place for messages."""

    value: Any
    path: str
    name: str

    def refuse(self, expected: str) -> NoReturn:
        shown = repr(self.value)
        shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
        where = self.path or "the document"
        raise InputError(
            f"this report is damaged: {where} is {shown}, not {expected}", hint=_AGAIN, place=Place(self.name)
        )

    def get(self, key: str) -> _Node:
        path = f"{self.path}.{key}" if self.path else key
        if not isinstance(self.value, dict):
            self.refuse("a table")
        if key not in self.value:
            raise InputError(f"this report is damaged: {path} is missing", hint=_AGAIN, place=Place(self.name))
        return _Node(self.value[key], path, self.name)

    def find(self, key: str) -> _Node | None:
        """Give the value of a key that may be missing or null."""
        if not isinstance(self.value, dict):
            self.refuse("a table")
        return None if self.value.get(key) is None else self.get(key)

    def list_of(self, read: Callable[[_Node], _T]) -> tuple[_T, ...]:
        if not isinstance(self.value, list):
            self.refuse("a list")
        return tuple(read(_Node(one, f"{self.path}[{index}]", self.name)) for index, one in enumerate(self.value))

    def table_of(self, read: Callable[[_Node], _T]) -> dict[str, _T]:
        if not isinstance(self.value, dict):
            self.refuse("a table")
        return {_sound(key): read(_Node(one, f"{self.path}.{key}", self.name)) for key, one in self.value.items()}

    def text(self) -> str:
        if not isinstance(self.value, str):
            self.refuse("a text")
        return _sound(self.value)

    def word(self) -> str:
        """Read a name: a text that isn't empty and has one line."""
        text = self.text()
        if not text.strip() or "\n" in text:
            self.refuse("a name")
        return text

    def one_of(self, *known: str) -> str:
        if self.value not in known:
            self.refuse(f"one of {', '.join(known)}")
        return self.text()

    def truth(self) -> bool:
        if not isinstance(self.value, bool):
            self.refuse("true or false")
        return self.value

    def integer(self) -> int:
        # a whole number written as 3.0 is one
        if isinstance(self.value, bool) or not isinstance(self.value, int | float) or self.value != self.value // 1:
            self.refuse("a whole number")
        return int(self.value)

    def count(self) -> int:
        found = self.integer()
        if not 0 <= found < 2**63:
            self.refuse("a count")
        return found

    def number_or_none(self) -> float | None:
        """Read a number; None for NaN, the infinities and null, which stands for them in strict JSON."""
        if self.value is None:
            return None
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            self.refuse("a number")
        return finite_number(self.value)

    def number(self) -> float:
        found = self.number_or_none()
        if found is None:
            self.refuse("a finite number")
        return found

    def duration(self) -> float:
        found = self.number()
        if found < 0:
            self.refuse("a duration in seconds")
        return found


def _report(whole: _Node) -> SmokeReport:
    checks = whole.get("checks").list_of(_check)
    _refuse_twice(whole, "checks", [check.name for check in checks])
    figures = whole.get("figures").list_of(_figure)
    _refuse_twice(whole, "figures", [figure.name for figure in figures])
    torch = whole.find("torch")
    return SmokeReport(
        spec=whole.get("spec").word(),
        target=whole.get("target").word(),
        lock_digest=whole.get("lock_digest").text(),
        fingerprint=whole.get("fingerprint").text(),
        workload=whole.get("workload").text(),
        steps=whole.get("steps").count(),
        device=whole.get("device").text(),
        quick=whole.get("quick").truth(),
        seed=whole.get("seed").integer(),
        started=whole.get("started").text(),
        seconds=whole.get("seconds").duration(),
        machine=_machine(whole.get("machine")),
        torch=_torch(torch) if torch else None,
        checks=checks,
        figures=figures,
        curves=whole.get("curves").table_of(lambda curve: curve.list_of(_Node.number_or_none)),
        complete=whole.get("complete").truth(),
        cuda=_text_or_none(whole, "cuda"),
        evidence=_text_or_none(whole, "evidence") or "lock",
        check_digest=_text_or_none(whole, "check_digest"),
    )


def _refuse_twice(whole: _Node, what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            message = f"this report is damaged: {what} has {name!r} twice"
            raise InputError(message, hint=_AGAIN, place=Place(whole.name))
        seen.add(name)


def _check(node: _Node) -> CheckResult:
    name = node.get("name").word()
    group = node.get("group").word()
    status = node.get("status").one_of("pass", "fail", "skip")
    details = node.find("details")
    return CheckResult(
        name=name,
        group=group,
        status=status,  # type: ignore[arg-type]
        needs_gpu=node.get("needs_gpu").truth(),
        reason=_text_or_none(node, "reason"),
        remedy=_text_or_none(node, "remedy"),
        seconds=node.get("seconds").duration(),
        details=details.table_of(lambda value: _plain(value, _DEEPEST)) if details else {},
        output=_text_or_none(node, "output"),
        slow=slow.list_of(_Node.text) if (slow := node.find("slow")) else (),
    )


def _figure(node: _Node) -> Figure:
    reference, peak = node.find("reference"), node.find("peak")
    least = peak.find("least") if peak else None
    return Figure(
        name=node.get("name").word(),
        value=node.get("value").number_or_none(),
        unit=node.get("unit").text(),
        reference=_reference(reference) if reference else None,
        peak=peak.get("value").number() if peak else None,
        least=least.number() if least else None,
    )


def _reference(node: _Node) -> Reference:
    low, high, unit = node.find("low"), node.find("high"), node.find("unit")
    return Reference(
        value=node.get("value").number(),
        low=low.number() if low else None,
        high=high.number() if high else None,
        unit=unit.text() if unit else "",
    )


def _machine(node: _Node) -> ReportedMachine:
    gpus = node.find("gpus")
    return ReportedMachine(
        python=node.get("python").text(),
        system=node.get("system").text(),
        glibc=_text_or_none(node, "glibc"),
        cpus=_count_or_none(node, "cpus"),
        memory_bytes=_count_or_none(node, "memory_bytes"),
        shm_bytes=_count_or_none(node, "shm_bytes"),
        driver=_text_or_none(node, "driver"),
        gpus=gpus.list_of(_gpu) if gpus else (),
    )


def _gpu(node: _Node) -> ReportedGpu:
    return ReportedGpu(node.get("name").text(), node.get("capability").text(), node.get("memory_bytes").count())


def _torch(node: _Node) -> Torch | None:
    """Read torch's facts; None when torch couldn't be imported and so has no version."""
    if node.find("version") is None:
        return None
    architectures = node.find("architectures")
    return Torch(
        version=node.get("version").text(),
        cuda=_text_or_none(node, "cuda"),
        cudnn=_text_or_none(node, "cudnn"),
        nccl=_text_or_none(node, "nccl"),
        architectures=architectures.list_of(_Node.text) if architectures else (),
    )


def _text_or_none(node: _Node, key: str) -> str | None:
    found = node.find(key)
    return found.text() if found else None


def _count_or_none(node: _Node, key: str) -> int | None:
    found = node.find(key)
    return found.count() if found else None


def _plain(node: _Node, deep: int) -> Any:
    """Clean a value of `details` for writing: finite numbers, valid texts, limited depth."""
    if deep == 0:
        node.refuse("a value with less nesting")
    if isinstance(node.value, dict):
        return node.table_of(lambda value: _plain(value, deep - 1))
    if isinstance(node.value, list):
        return list(node.list_of(lambda value: _plain(value, deep - 1)))
    if isinstance(node.value, str):
        return node.text()
    if isinstance(node.value, float):
        return node.number_or_none()
    return node.value


def _sound(text: str) -> str:
    """Make a text fit for UTF-8: lone surrogates, which JSON can spell, become the replacement character."""
    return text.encode("utf-8", errors="surrogatepass").decode("utf-8", errors="replace") if _has_halves(text) else text


def _has_halves(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
