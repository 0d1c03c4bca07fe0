"""Findings: what a judge found, where, and what to do about it. Every judge of envspec gives this one type."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import EnvspecError, Place, format_ways

Told = TypeVar("Told", bound=Any)
Severity = Literal["error", "warning", "info"]
LEVELS: Mapping[Severity, str] = {"info": "note", "warning": "warning", "error": "error"}
"""The severities in SARIF's words, the least serious first."""


class Finding(Struct, frozen=True):
    """One thing that a judge found.

    severity  error: it can't work as it stands; warning: it may not work, or only in part; info: there is something to
              know
    code      stable, for machines; `envspec explain` has its meaning
    message   for people, without the targets
    place     the cause's place in the spec
    remedy    the remedy: ways that a judge has passed, and advice that names no version; None if there is nothing to do
    ways      changes of the spec that no judge has passed yet; `tell_ways` makes remedies of those that it has
    key       the key that the finding is about: of the target, the spec or the site's policy
    targets   the names of the targets that it holds for, as far as the judge saw several
    package   the package that it is about, by its normalised name
    file      the file that it is about: a package's, a rendered one
    bound     the versions of the package without the fault (PEP 508), where it lies in a pin: the target may be solved
              again with it
    outgrown  the pin is made for less than the target has: an older release that doesn't name what the target has is
              no answer
    accepted  the spec's reason to take the finding knowingly; None if it doesn't
    evidence  the judge's evidence: a frozen value of its own, or pairs of a name and a value
    repeated  the last lock came with it too
    change    envspec itself made this change on the way: only people read it
    """

    severity: Severity
    code: str
    message: str
    place: Place | None = None
    remedy: str | None = None
    key: str | None = None
    # Whatever a judge is of, its subjects are targets and packages: every command's JSON names them, and nothing here
    # knows what they are.
    targets: tuple[str, ...] = ()
    package: str | None = None
    file: str | None = None
    bound: str | None = None
    outgrown: bool = False
    accepted: str | None = None
    evidence: Any = None
    ways: tuple[Any, ...] = ()
    repeated: bool = False
    change: bool = False

    def tell_ways(self) -> Finding:
        """Put its ways, which a judge has passed, before what the remedy says."""
        return replace(self, remedy=format_ways(self.ways, self.remedy), ways=()) if self.ways else self

    @property
    def text(self) -> str:
        """The message, behind the targets that it holds for."""
        return f"{', '.join(self.targets)}: {self.message}" if self.targets else self.message

    @property
    def document(self) -> dict[str, Any]:
        """The finding as every `--json` has it; a command may add to it."""
        names = ("severity", "code", "message", "remedy", "targets", "package")
        return {name: getattr(self, name) for name in names}

    @property
    def details(self) -> dict[str, Any]:
        """The subject of a reason or a breach, for `check --json`."""
        about = {name: value for name, value in (("key", self.key), ("path", self.file)) if value}
        return {"targets": self.targets, "package": self.package, **about, **dict(self.evidence or ())}


def note(message: str, remedy: str | None = None) -> Finding:
    """Make a note that only people read."""
    return Finding("info", "", message, remedy=remedy)


def warning(message: str, remedy: str | None = None) -> Finding:
    """Make a warning that only people read."""
    return Finding("warning", "", message, remedy=remedy)


def change(message: str, remedy: str | None = None) -> Finding:
    """Make the line on a change that envspec itself made on the way, of the spec or beside the lock."""
    return Finding("info", "", message, remedy=remedy, change=True)


class Report(list[Finding]):
    """The findings of some work, in the order in which they came."""

    def take(self, result: tuple[Told, Iterable[Finding]]) -> Told:
        """Add a step's findings, and give its value."""
        value, findings = result
        self += findings
        return value


@contextmanager
def carrying(mark: Callable[[Iterable[Finding]], tuple[Finding, ...]] = tuple) -> Iterator[Report]:
    """Give a report for the findings of some work: an error that ends the work carries them, marked."""
    findings = Report()
    try:
        yield findings
    except EnvspecError as error:
        error.findings = mark((*findings, *error.findings))
        raise


def errors(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that stop a lock."""
    return tuple(finding for finding in findings if finding.severity == "error")


def merge_targets(findings: Iterable[Told], every: Collection[str] = ()) -> tuple[Told, ...]:
    """Give each finding, or another frozen value with targets, once, with all targets that it holds for, in the order
    in which they came. One that holds for `every` target has none.
    """
    targets: dict[Told, dict[str, None]] = {}
    for finding in findings:
        targets.setdefault(replace(finding, targets=()), {}).update(dict.fromkeys(finding.targets))
    merged = ((finding, tuple(names)) for finding, names in targets.items())
    return tuple(replace(finding, targets=() if len(names) == len(every) else names) for finding, names in merged)
