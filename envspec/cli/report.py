"""`envspec report`."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envspec.app import inputs
from envspec.app.evidence import standings_of
from envspec.app.outputs import write_text
from envspec.base.errors import InputError, LockError, OutsideError, Place
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.console import out_file, say, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envspec.lock.model import Lock, LockedTarget
    from envspec.review.diff.rows import Review
    from envspec.review.report.model import AuditSummary
    from envspec.spec.model import Spec

EPILOG = """\b
Examples:
  envspec report specs/mm-v2.9.toml -o report.html
  envspec report specs/mm-v2.9.toml -o report.html --from origin/main
  envspec audit specs/mm-v2.9.toml --json > audit.json
  envspec report specs/mm-v2.9.toml -o report.html --audit audit.json

\b
Exit codes: 0 written, 2 the spec, the lock, the audit or the revision is wrong, 3 the file can't be written, or git is
missing or failed.
"""
_OLD = timedelta(days=7)


@click.command(epilog=EPILOG)
@options.spec
@click.option(
    "--output",
    "-o",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="The HTML file to write; - is stdout.",
)
@options.target
@click.option("--from", "revision", metavar="REV", help="The git revision to compare the lock with [default: HEAD].")
@click.option(
    "--audit",
    "audit_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The output of `envspec audit SPEC --json` for this lock.",
)
@click.option(
    "--database",
    type=click.Path(path_type=Path, exists=True),
    help="Advisories in the OSV format: a zip, folder or file.",
)
@click.option(
    "--evidence",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder of records of what was proved [default: docs/evidence beside specs/, where there is one].",
)
@options.locks_dir
def command(
    path: str,
    output: Path,
    targets: tuple[str, ...],
    revision: str | None,
    audit_file: Path | None,
    database: Path | None,
    evidence: Path | None,
    locks_dir: Path | None,
) -> int:
    """Write a lock as one HTML page: targets × packages, sizes, dependencies, licences, GPUs, vulnerabilities, changes

    The page is one file that loads no others, so you can mail it, archive it or attach it to a pull request. The same
    lock gives the same bytes. envspec uses no network: vulnerabilities come from --audit or --database, else they are
    "not checked".
    """
    from envspec.lock.write import digest
    from envspec.review.report.collect import page_of
    from envspec.review.report.page import html
    from envspec.spec.newer import standing

    if audit_file and database:
        raise InputError("--audit and --database exclude each other", hint="give one of the two")
    spec, lock = inputs.look_at_lock(path, locks_dir)
    inputs.warn_if_stale(spec, lock)
    chosen = inputs.locked_targets(lock, targets)
    file = inputs.folder_of(spec, locks_dir).path
    own_digest = digest(lock)
    review, uncompared = _review(lock, chosen, file, revision)
    page = page_of(
        standing(spec, lock.inputs.exclude_newer),
        chosen,
        lock=file.as_posix(),
        digest=own_digest,
        audit=_audit(spec, chosen, own_digest, audit_file, database),
        review=review,
        uncompared=uncompared,
        standings=standings_of(path, lock, chosen, evidence),
        pythons=lock.pythons,
    )
    _write(output, html(page), path)
    return 0


def _review(lock: Lock, chosen: Sequence[LockedTarget], file: Path, revision: str | None) -> tuple[Review | None, str]:
    """Give what changed since the revision, or why nothing could be compared: no error without --from."""
    from dataclasses import replace

    from envspec.lock.read import loads
    from envspec.review.diff.judged import with_flaws
    from envspec.review.diff.model import nothing
    from envspec.review.diff.review import review
    from envspec.review.diff.revision import text_at
    from envspec.review.diff.side import Side

    at = revision or "HEAD"
    try:
        text = text_at(file, at)
        old = nothing(lock.name) if text is None else loads(text, f"{at}:{file}")
    except (InputError, OutsideError, LockError):
        if revision is not None:
            raise
        return None, "the last commit has no readable lock (--from names another revision)"
    if text is None and revision is None:
        return None, "the last commit doesn't have this lock yet"
    names = {target.name for target in chosen}
    if len(names) < len(lock.targets):
        old = replace(old, targets=tuple(target for target in old if target.name in names))
        lock = replace(lock, targets=tuple(chosen))
    title = at if text is not None else f"{at} (no lock yet)"
    new = Side(file.as_posix(), lock)
    return with_flaws(review(Side(title, old), new), new, None), ""


def _audit(
    spec: Spec, chosen: Sequence[LockedTarget], digest: str, audit_file: Path | None, database: Path | None
) -> AuditSummary | None:
    from envspec.review.report.checked import from_database, from_json

    if audit_file:
        place = Place(str(audit_file))
        try:
            text = audit_file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise InputError("this isn't UTF-8", place=place) from None
        except OSError as error:
            raise InputError(f"the audit can't be read: {error.strerror}", place=place) from None
        return from_json(text, place, digest, chosen)
    if database:
        from envspec.review.audit.osv import OsvDatabase

        osv = OsvDatabase.read(database)
        # the day decides only what is said here, never what the page holds
        if osv.modified[:10] < (datetime.now(timezone.utc) - _OLD).strftime("%Y-%m-%d"):
            warn(f"the newest entry of {printable(osv.name)} is from {osv.modified[:10]}")
        return from_database(osv, spec.audit, chosen)
    return None


def _write(output: Path, text: str, spec: str) -> None:
    if str(output) == "-":
        out_file(text)
        return
    write_text(output, text, specs=[spec])
    say(f"wrote {printable(str(output))} ({len(text.encode()) // 1000} kB)")
