"""`envspec audit`."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envspec.app import inputs
from envspec.app.outputs import within_repository
from envspec.base.errors import AnswerNo, InputError, OutsideError
from envspec.base.texts import printable, shown
from envspec.cli import look_up, options
from envspec.cli.console import columns, out, out_json, silence_stdout, styled, warn
from envspec.cli.progress import counting

if TYPE_CHECKING:
    from envspec.review.audit.model import AuditedPackage, AuditFinding
    from envspec.review.audit.report import AuditReport

EPILOG = """\b
Examples:
  envspec audit specs/mm-v2.9.toml
  envspec audit specs/mm-v2.9.toml --fail-on warning --format sarif > audit.sarif
  envspec audit specs/mm-v2.9.toml --database all.zip --offline --skip-files

\b
Exit codes: 0 nothing as bad as --fail-on, 1 something is, 2 the spec, the lock or the database is wrong, 3
a database or an index couldn't be read, or wasn't asked: such an audit never passes.
"""
_WIDTH = 80
_NAMES = 12


@click.command(epilog=EPILOG)
@options.spec
@options.target
@options.locks_dir
@look_up.offline
@look_up.database
@look_up.skip_files
@click.option(
    "--format",
    "-f",
    "form",
    type=click.Choice(["text", "json", "sarif", "gitlab"]),
    default="text",
    show_default=True,
    help="What to print on stdout.",
)
@options.as_json
@click.option(
    "--fail-on",
    type=click.Choice(["note", "warning", "error"]),
    default="error",
    show_default=True,
    help="The lowest level that ends with exit code 1.",
)
@look_up.min_age
@look_up.max_age
def command(
    path: str,
    targets: tuple[str, ...],
    locks_dir: Path | None,
    offline: bool,
    database: Path | None,
    skip_files: bool,
    form: str,
    as_json: bool,
    fail_on: str,
    min_age: int,
    max_age: int,
) -> int:
    """Look for known vulnerabilities and other risks in exactly the locked packages

    Known vulnerabilities, licences that the spec's [audit] doesn't accept, files that an index has changed or that were
    yanked, releases too new to trust, and packages whose installation runs their code. Asks PyPI, or the user's own
    index in its place, and keeps the answers for --offline.
    """
    from envspec.lock.write import digest, dumps
    from envspec.review.audit.learn import How, look_up_facts
    from envspec.review.audit.packages import packages
    from envspec.review.audit.report import AuditReport, Database
    from envspec.review.audit.rules import findings, in_order, not_asked, oldest, page_of, published
    from envspec.review.audit.waivers import about_waivers

    if as_json and form in ("sarif", "gitlab"):
        raise InputError(f"--json and --format {form} exclude each other", hint="give one of the two")
    spec, lock = inputs.look_at_lock(path, locks_dir)
    inputs.warn_if_stale(spec, lock)
    chosen = inputs.locked_targets(lock, targets)
    lock_path = inputs.folder_of(spec, locks_dir).path
    now, found = datetime.now(timezone.utc), packages(chosen)
    how = How(database, offline, timedelta(days=max_age), not skip_files)
    with counting("looking up releases") as on_progress:
        name, facts = look_up_facts(spec.pip.indexes, found, how, os.environ, now, on_progress, warn)
    told = findings(found, facts, spec.audit, now, timedelta(days=min_age))
    if len(chosen) == len(lock.targets):
        told = in_order((*told, *about_waivers(told, spec.audit, facts, now)))
    report = AuditReport(
        spec.path,
        str(lock_path),
        tuple(target.name for target in chosen),
        found,
        Database(name, oldest(found, facts)),
        told,
        not_asked(found, facts),
        (*facts.unread, *facts.unread_files),
        tuple((one, published((one,), facts), page_of(one, facts)) for one in found),
    )
    try:
        if form == "sarif":
            _print_sarif(report, lock_path, dumps(lock))
        elif form == "gitlab":
            from envspec.review.audit.code_quality import code_quality

            out(code_quality(report, within_repository(lock_path), dumps(lock)))
        elif form == "json" or as_json:
            options.print_json("audit", _as_json(report, digest(lock), fail_on))
        else:
            _show(report)
    except BrokenPipeError:
        # who reads only the first line must not take this for a pass
        silence_stdout()
    if look_up.say_unread(facts):
        return OutsideError.exit_code
    return AnswerNo.exit_code if report.at_least(fail_on) else 0


def _show(report: AuditReport) -> None:
    """Print the report for people: one paragraph per finding, the worst first."""
    read = f", as of {report.database.oldest[:10]}" if report.database.oldest else ""
    head = f"{report.spec}: {len(report.names)} packages of {', '.join(report.targets)} ({report.database.name}{read})"
    lines = [_wrapped(head, "")]
    for one in report.findings:
        level = "ignored" if one.ignored is not None else one.level
        where = "" if one.targets in ((), report.targets) else f" [{', '.join(one.targets)}]"
        builds = f" (builds {', '.join(one.builds)})" if one.builds else ""
        subject = f"{one.subject} {one.version}".rstrip() + builds
        lines += [
            "",
            f"{_coloured(level)}  {printable(f'{subject}{where}')}  {one.code}",
        ]
        lines.append(_wrapped(one.message, "  "))
        if one.ignored is not None:
            lines.append(_wrapped(f"ignored: {one.ignored}", "  "))
        elif one.remedy:
            lines.append(_wrapped(f"→ {one.remedy.replace('SPEC', report.spec)}", "  "))
    lines += [""] if report.not_asked or not report.findings else []
    for one_reason in report.not_asked:
        names, codes = one_reason.packages, ", ".join(one_reason.codes)
        # a target's conda packages are hundreds
        more = len(names) - _NAMES
        shown = ", ".join(names) if more <= 1 else f"{', '.join(names[:_NAMES])} and {more} more"
        lines.append(_wrapped(f"not checked for {codes}: {one_reason.reason}: {shown}", ""))
    if not report.findings and not report.unread:
        lines.append("nothing found")
    out("\n".join(lines))


def _wrapped(text: str, indent: str) -> str:
    from textwrap import fill

    return fill(
        shown(text),
        columns() or _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _coloured(level: str) -> str:
    return styled(level, {"error": "red;bold", "warning": "yellow;bold"}.get(level, "blue;bold"))


def _print_sarif(report: AuditReport, lock: Path, lock_text: str) -> None:

    from envspec import __version__
    from envspec.review.audit.sarif import sarif

    document = sarif(report, within_repository(lock), lock_text, __version__)
    out_json(document)


def _as_json(report: AuditReport, lock_digest: str, fail_on: str) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "spec": report.spec,
        "lock": report.lock,
        "digest": lock_digest,
        "ok": not report.unread and not report.at_least(fail_on),
        "complete": not report.unread,
        "fail_on": fail_on,
        "targets": list(report.targets),
        "packages": len(report.names),
        "database": {"name": report.database.name, "oldest": report.database.oldest},
        "releases": [_release(*one) for one in report.releases if any(one[1:])],
        "findings": [_finding(one) for one in report.findings],
        "not_asked": [asdict(one) for one in report.not_asked],
        "unread": list(report.unread),
    }


def _release(package: AuditedPackage, published: str | None, page: str | None) -> dict[str, Any]:
    named = {"kind": package.kind, "package": package.name, "version": package.version, "index": package.index}
    return {**named, "published": published, "page": page}


def _finding(finding: AuditFinding) -> dict[str, Any]:
    from dataclasses import asdict

    package = finding.package
    return {
        "code": finding.code,
        "level": finding.level,
        "kind": package.kind if package else None,
        "package": package.name if package else None,
        "version": package.version if package else None,
        "builds": list(finding.builds),
        "targets": list(finding.targets),
        "message": finding.message,
        "remedy": finding.remedy,
        "advisory": asdict(finding.advisory) if finding.advisory else None,
        "ignored": finding.ignored,
    }
