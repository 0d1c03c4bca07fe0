"""`envspec diff`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envspec.app.outputs import write_text
from envspec.base.errors import AnswerNo, InputError, OutsideError
from envspec.cli import options
from envspec.cli.console import json_text, out, out_file, say, style_text, wants_json
from envspec.cli.look_up import look_up

if TYPE_CHECKING:
    from envspec.app.diff import DiffRequest
    from envspec.review.diff.rows import Risk

_OPTIONS = (
    click.option("--extra", "extras", multiple=True, metavar="NAME", help="Compare a universal file with this extra."),
    click.option("--all-extras", is_flag=True, help="With all extras."),
    click.option("--group", "groups", multiple=True, metavar="NAME", help="With this dependency group."),
    click.option("--all-groups", is_flag=True, help="With all dependency groups."),
    click.option("--no-default-groups", is_flag=True, help="Without the groups that its tool installs by default."),
    click.option("--package", "packages", multiple=True, metavar="NAME", help="Only this member of a workspace."),
    click.option(
        "--platform", "platforms", multiple=True, metavar="SUBDIR", help="The platform: linux-64, osx-arm64, ..."
    ),
    click.option("--python", metavar="X.Y", help="The Python version."),
)


def choices(function: Callable[..., int]) -> Callable[..., int]:
    """Add these options to a command, which gets their values as `wish`; refuse an unknown platform or Python."""

    @functools.wraps(function)
    def with_wish(
        *arguments: Any, no_default_groups: bool, platforms: tuple[str, ...], python: str | None, **rest: Any
    ) -> int:
        from envspec.lock.formats.foreign.selection import Wish
        from envspec.packages.tags import PLATFORMS

        for platform in platforms:
            if platform not in PLATFORMS:
                raise InputError(f'--platform: unknown platform "{platform}"', hint=f"one of: {', '.join(PLATFORMS)}")
        if python is not None and not re.fullmatch(r"3\.[0-9]{1,3}", python, re.ASCII):
            raise InputError(f'--python: "{python}" is not a Python version', hint="write it like 3.12")
        chosen = {name: rest.pop(name) for name in ("extras", "groups", "packages", "all_extras", "all_groups")}
        platforms = tuple(dict.fromkeys(platforms))
        wish = Wish(**chosen, default_groups=not no_default_groups, platforms=platforms, python=python)
        return function(*arguments, wish=wish, **rest)

    for option in reversed(_OPTIONS):
        option(with_wish)
    return with_wish


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

Exit codes: 0 shown, 1 there are changes (with --exit-code only) or their risk is as high as --fail-on, 2 a lock, a
file or the revision is wrong, 3 git is missing or failed, or (with --verify or --audit) something couldn't be asked.
"""

FORMATS = ("text", "markdown", "json", "html", "github", "gitlab")


@click.command(epilog=EPILOG)
@options.default_spec("[SPEC | OLD]")
@click.argument("other", metavar="[NEW]", required=False)
@click.option(
    "--from", "revision", metavar="REV", help="The git revision to compare a spec's lock with [default: HEAD]."
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="The output's format."
)
@click.option(
    "--also",
    type=(click.Choice(FORMATS[1:]), click.Path(path_type=Path, dir_okay=False)),
    multiple=True,
    metavar="FORMAT FILE",
    help="Also write a file in this format; may be given several times.",
)
@click.option(
    "--max-characters",
    type=click.IntRange(min=1000, max=1_000_000),
    metavar="NUMBER",
    help="The greatest length of the printed Markdown [default: 65000].",
)
@click.option("--exit-code", "tell_by_code", is_flag=True, help="Exit with 1 when there are changes.")
@click.option(
    "--fail-on", type=click.Choice(("high", "medium")), help="Exit with 1 when the risk is this high, or higher."
)
@click.option("--verify", is_flag=True, help="Check that the indexes publish the changed pins.")
@click.option("--audit", is_flag=True, help="Look up the changed versions: vulnerabilities, yanked releases.")
@choices
@look_up
@options.locks_dir
@options.as_json
def command(
    form: str,
    also: tuple[tuple[str, Path], ...],
    max_characters: int | None,
    tell_by_code: bool,
    fail_on: Risk | None,
    **arguments: Any,
) -> int:
    """Compare two locks: the changes, their meaning and their risk

    With SPEC, envspec compares its lock with that of a git revision. With OLD and NEW, it compares two files: locks of
    envspec, or requirements.txt, pylock.toml, uv.lock, poetry.lock, conda-lock.yml, pixi.lock, an explicit list of
    conda's, environment.yml.

    Two universal files (uv.lock, poetry.lock, pylock.toml) are compared with all their extras and groups, in several
    forks where some conflict. Against another file, a universal file counts with what its tool installs by default. To
    choose, use --extra, --group and the like; "old:NAME" and "new:NAME" apply to one of the files.
    """
    from envspec.app.diff import DiffRequest, compare

    if max_characters is not None and form != "markdown":
        raise InputError("--max-characters cuts Markdown alone", hint="add --format markdown, or leave it out")
    request = DiffRequest(**arguments)
    _refuse_without(request)
    compared = compare(request)
    review = compared.review
    for other_form, file in also:
        document = json_text({"schema": "envspec/diff/1", **compared.document}) if other_form == "json" else None
        write_text(file, document or compared.render(other_form), "--also")
    if wants_json() or form == "json":
        options.print_json("diff", compared.document)
    elif form == "text":
        out(compared.render(form, style_text), newline=False)
    elif max_characters is not None:
        out_file(compared.render(form, limit=max_characters))
    else:
        out_file(compared.render(form))
    compared.warn_of_gaps()
    refuted = review.verified is not None and review.verified.refuted > 0
    if fail_on and review.reaches(fail_on) and (refuted or compared.complete):
        say(f"the risk is {review.risk}, and --fail-on is {fail_on}", style="red")
        return AnswerNo.exit_code
    if not compared.complete:
        return OutsideError.exit_code
    return AnswerNo.exit_code if tell_by_code and review else 0


def _refuse_without(request: DiffRequest) -> None:
    """Refuse options that need --audit or --verify where these aren't given."""
    from click.core import ParameterSource

    context = click.get_current_context()
    needs = dict.fromkeys(("database", "skip_files", "max_age"), request.audit)
    needs["offline"] = request.audit or request.verify
    for name in (name for name, has in needs.items() if not has):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"{flag} needs --audit", hint=f"add --audit, or leave out {flag}")
