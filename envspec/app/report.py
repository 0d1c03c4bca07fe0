"""What the HTML page of a lock shows: the lock itself, its review, its audit and what proves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from envspec.app import inputs
from envspec.app.evidence import standings_of
from envspec.app.observer import warn
from envspec.base.errors import InputError, LockError, OutsideError, Place
from envspec.base.texts import printable
from envspec.lock.model import Lock, LockedTarget
from envspec.lock.write import digest
from envspec.review.audit.osv import OsvDatabase
from envspec.review.diff.judged import with_flaws
from envspec.review.diff.model import nothing
from envspec.review.diff.review import review
from envspec.review.diff.rows import Review
from envspec.review.diff.side import Side
from envspec.review.report.checked import from_database, from_json
from envspec.review.report.collect import page_of
from envspec.review.report.model import AuditSummary
from envspec.review.report.page import html
from envspec.spec.model import Spec
from envspec.spec.newer import standing

_OLD = timedelta(days=7)


@dataclass(frozen=True)
class ReportRequest:
    """The lock to show, the revision to compare it with, and where its vulnerabilities (the JSON of an audit, or an OSV
    database) and what proves it stand."""

    path: str
    targets: tuple[str, ...]
    revision: str | None
    audit: Path | None
    database: Path | None
    evidence: Path | None
    locks_dir: Path | None


def report(request: ReportRequest) -> str:
    """Give the page. Raises as `look_at_lock`, and InputError for the audit, the database or the revision."""
    if request.audit and request.database:
        raise InputError("--audit and --database exclude each other", hint="give one of the two")
    spec, lock = inputs.look_at_lock(request.path, request.locks_dir)
    inputs.warn_if_stale(spec, lock)
    chosen = inputs.locked_targets(lock, request.targets)
    file = inputs.folder_of(spec, request.locks_dir).path
    own_digest = digest(lock)
    changes, uncompared = _review(spec, lock, chosen, request)
    page = page_of(
        standing(spec, lock.inputs.exclude_newer),
        chosen,
        lock=file.as_posix(),
        digest=own_digest,
        audit=_audit(spec, chosen, own_digest, request),
        review=changes,
        uncompared=uncompared,
        standings=standings_of(request.path, lock, chosen, request.evidence),
        pythons=lock.pythons,
    )
    return html(page)


def _review(
    spec: Spec, lock: Lock, chosen: Sequence[LockedTarget], request: ReportRequest
) -> tuple[Review | None, str]:
    """Give what changed since the revision, or why nothing could be compared: no error without --from."""
    at = request.revision or "HEAD"
    try:
        old = inputs.lock_at(at, spec, request.locks_dir)
    except (InputError, OutsideError, LockError):
        if request.revision is not None:
            raise
        return None, "the last commit has no readable lock (--from names another revision)"
    if old is None and request.revision is None:
        return None, "the last commit doesn't have this lock yet"
    title = at if old is not None else f"{at} (no lock yet)"
    old = old or nothing(lock.name)
    names = {target.name for target in chosen}
    if len(names) < len(lock.targets):
        old = replace(old, targets=tuple(target for target in old if target.name in names))
        lock = replace(lock, targets=tuple(chosen))
    new = Side(inputs.folder_of(spec, request.locks_dir).path.as_posix(), lock)
    return with_flaws(review(Side(title, old), new), new, None), ""


def _audit(spec: Spec, chosen: Sequence[LockedTarget], digest: str, request: ReportRequest) -> AuditSummary | None:
    if request.audit:
        place = Place(str(request.audit))
        try:
            text = request.audit.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise InputError("this isn't UTF-8", place=place) from None
        except OSError as error:
            raise InputError(f"the audit can't be read: {error.strerror}", place=place) from None
        return from_json(text, place, digest, chosen)
    if request.database:
        osv = OsvDatabase.read(request.database)
        # the day decides only what is said here, never what the page holds
        if osv.modified[:10] < (datetime.now(timezone.utc) - _OLD).strftime("%Y-%m-%d"):
            warn(f"the newest entry of {printable(osv.name)} is from {osv.modified[:10]}")
        return from_database(osv, spec.audit, chosen)
    return None
