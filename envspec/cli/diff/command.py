"""`envspec diff`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from envspec.cli import inputs, look_up, options
from envspec.cli.console import out, out_file, say, styled
from envspec.cli.diff.choices import choices, refuse_for_spec
from envspec.errors import AnswerNo, InputError, OutsideError

if TYPE_CHECKING:
    from envspec.diff.facts import Risk
    from envspec.diff.foreign.selection import Wish
    from envspec.diff.rows import Review
    from envspec.diff.side import Side
    from envspec.spec.model import Spec

EPILOG = """\b
Examples:
  envspec diff specs/mm-v2.9.toml                        against the last commit
  envspec diff specs/mm-v2.9.toml --from origin/main --format markdown
  envspec diff old/envspec.lock locks/mm-v2.9/envspec.lock
  envspec diff uv.lock locks/mm-v2.9/envspec.lock        before a migration
  envspec diff old.uv.lock uv.lock --extra cu12          with one extra, and the default groups
  envspec diff old.uv.lock uv.lock --extra old:gpu --extra new:cu12
  envspec diff specs/mm-v2.9.toml --audit                with vulnerabilities
  envspec diff specs/mm-v2.9.toml --from origin/main --fail-on high

\b
Exit codes: 0 shown, 1 there are changes (with --exit-code only) or their risk is as high as --fail-on, 2 a lock, a
file or the revision is wrong, 3 git is missing or failed, or (with --audit) something couldn't be looked up.
"""

FORMATS = ("text", "markdown", "json", "html", "github")


@click.command(epilog=EPILOG)
@click.argument("path", metavar="SPEC | OLD", shell_complete=options.complete("spec_paths"))
@click.argument("other", metavar="[NEW]", required=False)
@click.option(
    "--from", "revision", metavar="REV", help="The git revision to compare a spec's lock with [default: HEAD]."
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="How to print it."
)
@click.option("--exit-code", "tell_by_code", is_flag=True, help="Exit with 1 when there are changes.")
@click.option(
    "--fail-on", type=click.Choice(("high", "medium")), help="Exit with 1 when the risk is this high, or higher."
)
@click.option("--audit", is_flag=True, help="Look up the changed versions: vulnerabilities, yanked releases.")
@choices
@look_up.offline
@look_up.database
@look_up.skip_files
@look_up.max_age
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
    audit: bool,
    wish: Wish,
    offline: bool,
    database: Path | None,
    skip_files: bool,
    max_age: int,
    locks_dir: Path | None,
    as_json: bool,
) -> int:
    """Show what changed in a lock, what it means, and how risky it is.

    With SPEC, its lock is compared with the one of a git revision. With OLD and NEW, two files are compared: locks of
    envspec, or requirements.txt, pylock.toml, uv.lock, poetry.lock, conda-lock.yml, pixi.lock, an explicit list of
    conda's, environment.yml.

    Two universal files (uv.lock, poetry.lock, pylock.toml) are compared with all their extras and groups, in several
    forks where some conflict. Against another file, a universal file counts with what its tool installs by default. To
    choose, use --extra, --group and the like; "old:NAME" and "new:NAME" apply to one of the files.
    """
    from envspec.diff.judged import with_flaws
    from envspec.diff.review import review

    _refuse_without(audit, context)
    spec = None
    if other is None:
        refuse_for_spec(wish)
        spec = inputs.read_spec(path)
        old, new = _against_git(spec, revision or "HEAD", locks_dir)
    elif revision is not None:
        raise InputError(
            "--from compares a spec's lock with a git revision, not two files", hint="leave out --from, or NEW"
        )
    else:
        old, new = _two_files(path, other, wish)
    found, complete = with_flaws(review(old, new), new, spec), True
    if audit:
        from datetime import timedelta

        from envspec.audit.learn import How
        from envspec.cli.diff.audit import audited

        how = How(database, offline, timedelta(days=max_age), not skip_files)
        found, complete = audited(found, old, new, spec, how)
    if as_json or form == "json":
        from envspec.diff.as_json import as_json as document

        options.print_json("diff", document(found))
    elif form == "github":
        out_file(_annotated(found, inputs.folder_of(spec, locks_dir).path if spec else Path(other or path)))
    else:
        out(_rendered(found, form), newline=False) if form == "text" else out_file(_rendered(found, form))
    if not complete:
        return OutsideError.exit_code
    if fail_on and found.reaches(fail_on):
        say(f"the risk is {found.risk}, and --fail-on is {fail_on}", style="red")
        return AnswerNo.exit_code
    return AnswerNo.exit_code if tell_by_code and found else 0


def _refuse_without(audit: bool, context: click.Context) -> None:
    """Refuse options that need --audit when it isn't given."""
    from click.core import ParameterSource

    for name in () if audit else ("offline", "database", "skip_files", "max_age"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"{flag} needs --audit", hint=f"add --audit, or leave out {flag}")


def _against_git(spec: Spec, revision: str, locks_dir: Path | None) -> tuple[Side, Side]:
    from envspec.diff.model import nothing
    from envspec.diff.revision import text_at
    from envspec.diff.side import Side
    from envspec.lock.read import loads

    folder = inputs.folder_of(spec, locks_dir)
    lock = folder.read()
    text = text_at(folder.path, revision)
    if lock is None and text is None:
        raise InputError(f"{spec.path} has no lock, neither here nor at {revision}", hint=f"envspec lock {spec.path}")
    old = nothing(spec.name) if text is None else loads(text, f"{revision}:{folder.path}")
    title = revision if text is not None else f"{revision} (no lock yet)"
    if lock is None:
        return Side(title, old), Side(f"{folder.path} (no lock any more)", nothing(spec.name))
    return Side(title, old), Side(str(folder.path), lock)


def _two_files(old: str, new: str, wish: Wish) -> tuple[Side, Side]:
    from envspec.diff.foreign.read import sides

    return sides(Path(old), Path(new), wish)


def _annotated(found: Review, lock: Path) -> str:
    from envspec.audit.sarif import lines_of
    from envspec.cli.outputs import within_repository
    from envspec.diff.annotations import as_annotations
    from envspec.lock.read import load_text

    return as_annotations(found, within_repository(lock), lines_of(load_text(lock)) if lock.is_file() else {})


def _rendered(found: Review, form: str) -> str:
    if form == "markdown":
        from envspec.diff.markdown import markdown

        return markdown(found)
    if form == "html":
        from envspec.diff.html import html

        return html(found)
    from envspec.diff.text import text

    return text(found, styled)
