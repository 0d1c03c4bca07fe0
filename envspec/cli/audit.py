"""`envspec audit`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envspec.app.outputs import within_repository
from envspec.base.errors import AnswerNo, InputError, OutsideError
from envspec.base.texts import clean_text, printable
from envspec.cli import options
from envspec.cli.console import columns, out, out_json, silence_stdout
from envspec.cli.look_up import look_up
from envspec.cli.table import colour_word
from envspec.review.audit.model import as_json, subject

if TYPE_CHECKING:
    from envspec.review.audit.learn import How
    from envspec.review.audit.model import AuditedPackage
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
@look_up
def command(
    path: str,
    targets: tuple[str, ...],
    locks_dir: Path | None,
    form: str,
    as_json: bool,
    fail_on: str,
    how: How,
) -> int:
    """Look for known vulnerabilities and other risks in exactly the locked packages

    Known vulnerabilities, licences that the spec's [audit] doesn't accept, files that an index has changed or that were
    yanked, releases too new to trust, and packages whose installation runs their code. Asks PyPI, or the user's own
    index in its place, and keeps the answers for --offline.
    """
    from envspec.app.audit import audit, tell_unread
    from envspec.lock.write import digest, dumps

    if as_json and form in ("sarif", "gitlab"):
        raise InputError(f"--json and --format {form} exclude each other", hint="give one of the two")
    audited = audit(path, targets, locks_dir, how)
    report = audited.report
    try:
        if form == "sarif":
            from envspec import __version__
            from envspec.review.audit.sarif import sarif

            out_json(sarif(report, within_repository(Path(report.lock)), dumps(audited.lock), __version__))
        elif form == "gitlab":
            from envspec.review.audit.code_quality import code_quality

            out(code_quality(report, within_repository(Path(report.lock)), dumps(audited.lock)))
        elif form == "json" or as_json:
            options.print_json("audit", _document(report, digest(audited.lock), fail_on))
        else:
            _show(report)
    except BrokenPipeError:
        # who reads only the first line must not take this for a pass
        silence_stdout()
    if tell_unread(audited.facts):
        return OutsideError.exit_code
    return AnswerNo.exit_code if report.at_least(fail_on) else 0


def _show(report: AuditReport) -> None:
    """Print the report for people: one paragraph per finding, the worst first."""
    read = f", as of {report.database.oldest[:10]}" if report.database.oldest else ""
    head = f"{report.spec}: {len(report.names)} packages of {', '.join(report.targets)} ({report.database.name}{read})"
    lines = [_wrap(head, "")]
    for one in report.findings:
        level = "ignored" if one.accepted is not None else one.severity
        where = "" if one.targets in ((), report.targets) else f" [{', '.join(one.targets)}]"
        sources = one.evidence.package.builds if one.package else ()
        builds = f" (builds {', '.join(sources)})" if sources else ""
        lines += ["", f"{colour_word(level)}: {printable(f'{subject(one)}{builds}{where}')}  [{one.code}]"]
        lines.append(_wrap(one.message, "  "))
        if one.accepted is not None:
            lines.append(_wrap(f"ignored: {one.accepted}", "  "))
        elif one.remedy:
            lines.append(_wrap(f"remedy: {one.remedy.replace('SPEC', report.spec)}", "  "))
    lines += [""] if report.not_asked or not report.findings else []
    for one_reason in report.not_asked:
        names, codes = one_reason.packages, ", ".join(one_reason.codes)
        # a target's conda packages are hundreds
        more = len(names) - _NAMES
        shown = ", ".join(names) if more <= 1 else f"{', '.join(names[:_NAMES])} and {more} more"
        lines.append(_wrap(f"not checked for {codes}: {one_reason.reason}: {shown}", ""))
    if not report.findings and not report.unread:
        lines.append("nothing found")
    out("\n".join(lines))


def _wrap(text: str, indent: str) -> str:
    from textwrap import fill

    return fill(
        clean_text(text),
        columns() or _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _document(report: AuditReport, lock_digest: str, fail_on: str) -> dict[str, Any]:
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
        "findings": [as_json(one) for one in report.findings],
        "not_asked": [asdict(one) for one in report.not_asked],
        "unread": list(report.unread),
    }


def _release(package: AuditedPackage, published: str | None, page: str | None) -> dict[str, Any]:
    named = {"kind": package.kind, "package": package.name, "version": package.version, "index": package.index}
    return {**named, "published": published, "page": page}
