"""`envspec report`."""

from __future__ import annotations

from pathlib import Path

import click

from envspec.app.outputs import write_text
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.console import out_file, say

EPILOG = """\b
Examples:
  envspec report specs/mm-v2.9.toml -o report.html
  envspec report specs/mm-v2.9.toml -o report.html --from origin/main
  envspec audit specs/mm-v2.9.toml --json > audit.json
  envspec report specs/mm-v2.9.toml -o report.html --audit audit.json

Exit codes: 0 written, 2 the spec, the lock, the audit or the revision is wrong, 3 the file can't be written, or git is
missing or failed.
"""


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
    type=options.Folder(exists=True),
    help="The folder of the proofs' records [default: docs/evidence beside specs/, if it exists].",
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
    from envspec.app.report import report

    text = report(path, targets, revision, audit_file, database, evidence, locks_dir)
    if str(output) == "-":
        out_file(text)
        return 0
    write_text(output, text, specs=[path])
    say(f"wrote {printable(str(output))} ({len(text.encode()) // 1000} kB)")
    return 0
