"""`envspec diff`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from envspec.app.outputs import write_text
from envspec.base.errors import AnswerNo, InputError, OutsideError
from envspec.cli import options
from envspec.cli.console import json_text, out, out_file, say, style_text
from envspec.cli.diff_choices import choices
from envspec.cli.look_up import look_up

if TYPE_CHECKING:
    from envspec.review.audit.learn import How
    from envspec.review.diff.facts import Risk
    from envspec.review.diff.foreign.selection import Wish

EPILOG = """\b
Examples:
  envspec diff specs/mm-v2.9.toml                        against the last commit
  envspec diff specs/mm-v2.9.toml --from origin/main --format markdown
  envspec diff old/envspec.lock locks/mm-v2.9/envspec.lock
  envspec diff uv.lock locks/mm-v2.9/envspec.lock        before a migration
  envspec diff old.uv.lock uv.lock --extra cu12          with one extra, and the default groups
  envspec diff old.uv.lock uv.lock --extra old:gpu --extra new:cu12
  envspec diff specs/mm-v2.9.toml --audit                with vulnerabilities
  envspec diff specs/mm-v2.9.toml --from origin/main --verify --fail-on high

\b
Exit codes: 0 shown, 1 there are changes (with --exit-code only) or their risk is as high as --fail-on, 2 a lock, a
file or the revision is wrong, 3 git is missing or failed, or (with --verify or --audit) something couldn't be asked.
"""

FORMATS = ("text", "markdown", "json", "html", "github", "gitlab")


@click.command(epilog=EPILOG)
@click.argument("path", metavar="SPEC | OLD", shell_complete=options.complete("spec_paths"))
@click.argument("other", metavar="[NEW]", required=False)
@click.option(
    "--from", "revision", metavar="REV", help="The git revision to compare a spec's lock with [default: HEAD]."
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="How to print it."
)
@click.option(
    "--also",
    type=(click.Choice(FORMATS[1:]), click.Path(path_type=Path, dir_okay=False)),
    multiple=True,
    metavar="FORMAT FILE",
    help="Write it to a file too, in this format; may be given several times.",
)
@click.option("--exit-code", "tell_by_code", is_flag=True, help="Exit with 1 when there are changes.")
@click.option(
    "--fail-on", type=click.Choice(("high", "medium")), help="Exit with 1 when the risk is this high, or higher."
)
@click.option("--verify", is_flag=True, help="Ask the indexes for the changed pins: do they publish them so?")
@click.option("--audit", is_flag=True, help="Look up the changed versions: vulnerabilities, yanked releases.")
@choices
@look_up
@options.locks_dir
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    path: str,
    other: str | None,
    revision: str | None,
    form: str,
    tell_by_code: bool,
    fail_on: Risk | None,
    verify: bool,
    audit: bool,
    also: tuple[tuple[str, Path], ...],
    wish: Wish,
    how: How,
    locks_dir: Path | None,
    as_json: bool,
) -> int:
    """Compare two locks: the changes, their meaning and their risk

    With SPEC, its lock is compared with the one of a git revision. With OLD and NEW, two files are compared: locks of
    envspec, or requirements.txt, pylock.toml, uv.lock, poetry.lock, conda-lock.yml, pixi.lock, an explicit list of
    conda's, environment.yml.

    Two universal files (uv.lock, poetry.lock, pylock.toml) are compared with all their extras and groups, in several
    forks where some conflict. Against another file, a universal file counts with what its tool installs by default. To
    choose, use --extra, --group and the like; "old:NAME" and "new:NAME" apply to one of the files.
    """
    from envspec.app.diff import DiffRequest, compare

    _refuse_without(context, audit=audit, verify=verify)
    compared = compare(DiffRequest(path, other, revision, wish, locks_dir, verify, audit, how))
    found = compared.review
    for one_form, file in also:
        document = json_text({"schema": "envspec/diff/1", **compared.document}) if one_form == "json" else None
        write_text(file, document or compared.rendered(one_form), "--also")
    if as_json or form == "json":
        options.print_json("diff", compared.document)
    elif form == "text":
        out(compared.rendered(form, style_text), newline=False)
    else:
        out_file(compared.rendered(form))
    compared.tell_unasked()
    refuted = found.asked is not None and found.asked.refuted > 0
    if fail_on and found.reaches(fail_on) and (refuted or compared.complete):
        say(f"the risk is {found.risk}, and --fail-on is {fail_on}", style="red")
        return AnswerNo.exit_code
    if not compared.complete:
        return OutsideError.exit_code
    return AnswerNo.exit_code if tell_by_code and found else 0


def _refuse_without(context: click.Context, *, audit: bool, verify: bool) -> None:
    """Refuse options that need --audit or --verify where these aren't given."""
    from click.core import ParameterSource

    needs = {"database": audit, "skip_files": audit, "max_age": audit, "min_age": audit, "offline": audit or verify}
    for name in (name for name, has in needs.items() if not has):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"{flag} needs --audit", hint=f"add --audit, or leave out {flag}")
