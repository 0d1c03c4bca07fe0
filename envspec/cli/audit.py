"""`envspec audit`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envspec.base.errors import AnswerNo, InputError, OutsideError
from envspec.cli import options
from envspec.cli.console import columns, out, out_json, silence, wants_json
from envspec.cli.look_up import look_up
from envspec.cli.table import colour_word

if TYPE_CHECKING:
    from envspec.review.audit.learn import How

EPILOG = """\b
Examples:
  envspec audit specs/mm-v2.9.toml
  envspec audit specs/mm-v2.9.toml --fail-on warning --format sarif > audit.sarif
  envspec audit specs/mm-v2.9.toml --database all.zip --offline --skip-files

Exit codes: 0 nothing as bad as --fail-on, 1 something is, 2 the spec, the lock or the database is wrong, 3
a database or an index couldn't be read, or wasn't asked: such an audit never passes.
"""


@click.command(epilog=EPILOG)
@options.spec
@options.target
@options.locks_dir
@click.option(
    "--format",
    "-f",
    "form",
    type=click.Choice(["text", "json", "sarif"]),
    default="text",
    show_default=True,
    help="The format on stdout.",
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
def command(path: str, targets: tuple[str, ...], locks_dir: Path | None, form: str, fail_on: str, how: How) -> int:
    """Look for known vulnerabilities, licences and yanked releases in exactly the locked packages

    envspec lists known vulnerabilities, yanked releases, and licences that the spec's [audit] doesn't accept. It asks
    PyPI, or the user's own index instead, and caches the answers for --offline.
    """
    from envspec.app.audit import audit, tell_unread

    if wants_json() and form == "sarif":
        raise InputError("--json and --format sarif exclude each other", hint="give one of the two")
    audited = audit(path, targets, locks_dir, how)
    try:
        if form == "json" or wants_json():
            options.print_json("audit", audited.document(fail_on))
        elif form == "text":
            out("\n".join(audited.text(columns(), colour_word)))
        else:
            out_json(audited.sarif())
    except BrokenPipeError:
        # who reads only the first line must not take this for a pass
        silence(sys.stdout)
    if tell_unread(audited.facts):
        return OutsideError.exit_code
    return AnswerNo.exit_code if audited.report.at_least(fail_on) else 0
