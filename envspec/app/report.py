"""The HTML page of a lock: the lock itself, its review, its audit and its proofs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

from msgspec.structs import replace

from envspec.app import inputs
from envspec.app.evidence import standings_of
from envspec.app.observer import warn
from envspec.base.errors import InputError, LockError, OutsideError, Place
from envspec.base.plain_files import read_operand
from envspec.base.reader.document import decode
from envspec.base.texts import printable
from envspec.lock.formats.foreign.side import Side
from envspec.lock.model import Lock, LockedTarget
from envspec.lock.write import digest
from envspec.review.audit.osv import OsvDatabase
from envspec.review.diff.judged import with_flaws
from envspec.review.diff.model import nothing
from envspec.review.diff.review import review
from envspec.review.diff.rows import Review
from envspec.review.report.checked import from_database, from_json
from envspec.review.report.collect import page_of
from envspec.review.report.model import AuditSummary
from envspec.review.report.page import html
from envspec.spec.model import Spec
from envspec.spec.newer import with_moments_of_lock

_OLD = timedelta(days=7)


def report(
    path: str,
    targets: Sequence[str],
    revision: str | None,
    audit: Path | None,
    database: Path | None,
    evidence: Path | None,
    locks_dir: Path | None,
) -> str:
    """Give the page of a lock, compared with the one of a revision (HEAD). Vulnerabilities come from the JSON of an
    audit or from an OSV database.

    Raises as `look_at_lock`, and InputError for the audit, the database or the revision.
    """
    if audit and database:
        raise InputError("--audit and --database exclude each other", hint="give one of the two")
    spec, lock = inputs.look_at_lock(path, locks_dir)
    chosen = inputs.locked_targets(lock, targets)
    file = inputs.folder_of(spec, locks_dir).path
    own_digest = digest(lock)
    page = page_of(
        with_moments_of_lock(spec, lock.inputs.exclude_newer),
        chosen,
        lock=file.as_posix(),
        digest=own_digest,
        audit=_audit(spec, chosen, own_digest, audit, database),
        review=_review(spec, lock, chosen, revision, locks_dir),
        standings=standings_of(path, lock, chosen, evidence),
        pythons=lock.pythons,
    )
    return html(page)


def _review(
    spec: Spec, lock: Lock, chosen: Sequence[LockedTarget], revision: str | None, locks_dir: Path | None
) -> Review | str:
    """Give the changes since the revision, or the reason why there is no comparison: no error without --from."""
    at = revision or "HEAD"
    try:
        old = inputs.lock_at(at, spec, locks_dir)
    except (InputError, OutsideError, LockError):
        if revision is not None:
            raise
        return "the last commit has no readable lock (--from names another revision)"
    if old is None and revision is None:
        return "the last commit doesn't have this lock yet"
    title = at if old is not None else f"{at} (no lock yet)"
    old = old or nothing(lock.name)
    names = {target.name for target in chosen}
    if len(names) < len(lock.targets):
        old = replace(old, targets=tuple(target for target in old if target.name in names))
        lock = replace(lock, targets=tuple(chosen))
    new = Side(inputs.folder_of(spec, locks_dir).path.as_posix(), lock)
    return with_flaws(review(Side(title, old), new), new, None)


_MOST = 64 << 20


def _audit(
    spec: Spec, chosen: Sequence[LockedTarget], digest: str, audit: Path | None, database: Path | None
) -> AuditSummary | None:
    if audit:
        place = Place(str(audit))
        try:
            text = decode(read_operand(audit, _MOST), str(audit))
        except OSError as error:
            raise InputError(f"the audit can't be read: {error.strerror}", place=place) from None
        return from_json(text, place, digest, chosen)
    if database:
        osv = OsvDatabase.read(database)
        # the day decides only what is said here, never what the page holds
        if osv.modified[:10] < (datetime.now(timezone.utc) - _OLD).strftime("%Y-%m-%d"):
            warn(f"the newest entry of {printable(osv.name)} is from {osv.modified[:10]}")
        return from_database(osv, spec.audit, chosen)
    return None
