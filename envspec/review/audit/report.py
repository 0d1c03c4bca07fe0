"""The whole of an audit as one value."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from textwrap import fill

from msgspec import Struct

from envspec.base.finding import LEVELS, Finding
from envspec.base.texts import clean_text, few, printable
from envspec.review.audit.model import AuditedPackage, NotAsked, subject


class Database(Struct, frozen=True):
    """The source of the known vulnerabilities: its name without credentials, and the time of the oldest answer used
    (RFC 3339, UTC), None where there is none."""

    name: str
    oldest: str | None


class AuditReport(Struct, frozen=True):
    """One audited lock.

    not_asked  the findings that some packages weren't checked for, with the reason
    unread     the sources that couldn't be read: with any, the audit is incomplete and doesn't pass
    """

    spec: str
    lock: str
    targets: tuple[str, ...]
    packages: tuple[AuditedPackage, ...]
    database: Database
    findings: tuple[Finding, ...]
    not_asked: tuple[NotAsked, ...]
    unread: tuple[str, ...]

    @property
    def names(self) -> frozenset[tuple[str, str]]:
        """Kind and name of each package, once for all its versions."""
        return frozenset((package.kind, package.name) for package in self.packages)

    def at_least(self, level: str) -> tuple[Finding, ...]:
        """Return the findings that count: at `level` or worse, and not ignored."""
        levels = list(LEVELS.values())
        counting = levels[levels.index(level) :]
        return tuple(
            finding for finding in self.findings if finding.accepted is None and LEVELS[finding.severity] in counting
        )


def remedy_of(finding: Finding, spec: str) -> str | None:
    """Return the remedy of a finding, with commands that run as they stand."""
    return finding.remedy and finding.remedy.replace("envspec lock SPEC", f"envspec lock {shlex.quote(spec)}")


_WIDTH = 80


def lines(report: AuditReport, width: int | None, coloured: Callable[[str], str]) -> Iterator[str]:
    """Render the report in so many columns, 80 for None. `coloured` colours a level for a terminal."""

    def wrap(text: str, indent: str = "") -> str:
        return fill(
            clean_text(text),
            width or _WIDTH,
            initial_indent=indent,
            subsequent_indent=indent + "  ",
            break_on_hyphens=False,
            break_long_words=False,
        )

    read = f", as of {report.database.oldest[:10]}" if report.database.oldest else ""
    targets = ", ".join(report.targets)
    yield wrap(f"{report.spec}: {len(report.names)} packages of {targets} ({report.database.name}{read})")
    for finding in report.findings:
        level = "ignored" if finding.accepted is not None else finding.severity
        where = "" if finding.targets in ((), report.targets) else f" [{', '.join(finding.targets)}]"
        sources = finding.evidence.package.builds if finding.package else ()
        builds = f" (builds {', '.join(sources)})" if sources else ""
        yield ""
        yield f"{coloured(level)}: {printable(f'{subject(finding)}{builds}{where}')}  [{finding.code}]"
        yield wrap(finding.message, "  ")
        if finding.accepted is not None:
            yield wrap(f"ignored: {finding.accepted}", "  ")
        elif remedy := remedy_of(finding, report.spec):
            yield wrap(f"remedy: {remedy}", "  ")
    if report.not_asked or not report.findings:
        yield ""
    for unchecked in report.not_asked:
        # a target's conda packages are hundreds
        yield wrap(f"not checked for {', '.join(unchecked.codes)}: {unchecked.reason}: {few(unchecked.packages)}")
    if not report.findings and not report.unread:
        yield "nothing found"
