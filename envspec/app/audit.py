"""An audit of exactly the locked packages, and what it couldn't read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from envspec.app import inputs
from envspec.app.observer import observer, say, warn
from envspec.base.texts import printable
from envspec.lock.model import Lock
from envspec.review.audit.learn import How, look_up_facts
from envspec.review.audit.model import Facts
from envspec.review.audit.packages import packages
from envspec.review.audit.report import AuditReport, Database
from envspec.review.audit.rules import findings, in_order, newest_upload_day, oldest, page_of, unchecked_packages
from envspec.review.audit.waivers import about_waivers


@dataclass(frozen=True)
class Audited:
    """An audit, its lock, and the facts that it judged by."""

    report: AuditReport
    lock: Lock
    facts: Facts


def audit(path: str, targets: Sequence[str], locks_dir: Path | None, how: How) -> Audited:
    """Look up the packages of a lock's targets, and judge them.

    Raises as `look_at_lock`, InputError for an unknown target or a database that isn't one, OutsideError.
    """
    spec, lock = inputs.look_at_lock(path, locks_dir)
    chosen = inputs.locked_targets(lock, targets)
    now, found = datetime.now(timezone.utc), packages(chosen)
    with observer().progress("looking up releases") as progress:
        name, facts = look_up_facts(spec.pip.indexes, found, how, os.environ, now, progress.count, warn)
    told = findings(found, facts, spec.audit, now, how.min_age)
    if len(chosen) == len(lock.targets):
        told = in_order((*told, *about_waivers(told, spec.audit, facts, now)))
    report = AuditReport(
        spec.path,
        str(inputs.folder_of(spec, locks_dir).path),
        tuple(target.name for target in chosen),
        found,
        Database(name, oldest(found, facts)),
        told,
        unchecked_packages(found, facts),
        (*facts.unread, *facts.unread_files),
        tuple((one, newest_upload_day((one,), facts), page_of(one, facts)) for one in found),
    )
    return Audited(report, lock, facts)


def tell_unread(facts: Facts) -> bool:
    """Report what couldn't be read, with hints; say whether there was anything."""
    for reason in (*facts.unread, *facts.unread_files):
        say(f"error: {printable(reason)}", style="red")
    if facts.unread:
        say("hint: give a downloaded OSV database (PyPI's all.zip) with --database")
    if facts.unread_files:
        say("hint: --skip-files skips the checks that need an index: another-file, yanked, young")
    return bool(facts.unread or facts.unread_files)
