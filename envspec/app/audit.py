"""An audit of exactly the locked packages, and what it couldn't read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from msgspec import Struct

from envspec import __version__
from envspec.app import inputs
from envspec.app.observer import observer, report, say, warn
from envspec.app.outputs import within_repository
from envspec.app.policy import permit_addresses
from envspec.base.finding import Finding
from envspec.base.texts import printable
from envspec.lock.model import Lock
from envspec.lock.write import digest, dumps
from envspec.review.audit.learn import How, look_up_facts
from envspec.review.audit.model import Facts, as_json, packages
from envspec.review.audit.report import AuditReport, Database, lines
from envspec.review.audit.rules import (
    about_waivers,
    findings,
    in_order,
    oldest,
    unchecked_packages,
)
from envspec.review.audit.sarif import sarif


class Audited(Struct, frozen=True):
    """An audit, its lock, and the facts that it judged by."""

    report: AuditReport
    lock: Lock
    facts: Facts

    def document(self, fail_on: str) -> dict[str, Any]:
        """Give the audit for JSON; it is ok where nothing is as bad as `fail_on`, and all could be asked."""
        report = self.report
        return {
            "spec": report.spec,
            "lock": report.lock,
            "digest": digest(self.lock),
            "ok": not report.unread and not report.at_least(fail_on),
            "complete": not report.unread,
            "fail_on": fail_on,
            "targets": report.targets,
            "packages": len(report.names),
            "database": report.database,
            "findings": [as_json(finding) for finding in report.findings],
            "not_asked": report.not_asked,
            "unread": report.unread,
        }

    def text(self, width: int | None, coloured: Callable[[str], str]) -> Iterator[str]:
        """Give lines for people."""
        return lines(self.report, width, coloured)

    def sarif(self) -> dict[str, Any]:
        """Give the audit for code scanning."""
        return sarif(self.report, within_repository(Path(self.report.lock)), dumps(self.lock), __version__)


def audit(path: str, targets: Sequence[str], locks_dir: Path | None, how: How) -> Audited:
    """Look up the packages of a lock's targets, and judge them.

    Raises as `look_at_lock`, InputError for an unknown target or a database that isn't one, OutsideError.
    """
    spec, lock = inputs.look_at_lock(path, locks_dir)
    chosen = inputs.locked_targets(lock, targets)
    now, audited = datetime.now(timezone.utc), packages(chosen)
    if not how.offline:
        permit_addresses(spec)
    with observer().progress("looking up releases") as progress:
        name, facts = look_up_facts(spec.indexes, audited, how, os.environ, now, progress.count, warn)
    judged = findings(audited, facts, spec.audit, now)
    if len(chosen) == len(lock.targets):
        judged = in_order((*judged, *about_waivers(judged, spec.audit, facts, now)))
    report = AuditReport(
        spec.path,
        str(inputs.folder_of(spec, locks_dir).path),
        tuple(target.name for target in chosen),
        audited,
        Database(name, oldest(audited, facts)),
        judged,
        unchecked_packages(audited, facts),
        (*facts.unread, *facts.unread_files),
    )
    return Audited(report, lock, facts)


def tell_unread(facts: Facts) -> bool:
    """Report what couldn't be read, with hints; say whether there was anything."""
    report(Finding("error", "", printable(reason)) for reason in (*facts.unread, *facts.unread_files))
    if facts.unread:
        say("hint: give a downloaded OSV database (PyPI's all.zip) with --database")
    if facts.unread_files:
        say("hint: --skip-files asks no index which releases were yanked")
    return bool(facts.unread or facts.unread_files)
