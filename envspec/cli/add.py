"""`envspec add`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import click

from envspec.app.lock.choices import LockChoices
from envspec.base.errors import InputError
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.edited import edit_and_lock
from envspec.cli.lock.choices import lock_choices

EPILOG = """\b
Examples:
  envspec add specs/mm-v2.9.toml einops "datasets>=3"
  envspec add specs/mm-v2.9.toml "flash-attn>=2.8" --target cu128-hopper
  envspec add specs/hpc-v2.7.toml --conda "openmpi>=5" --dry-run
"""


@click.command(epilog=EPILOG)
@options.spec
@click.argument("packages", nargs=-1, required=True, metavar="PKG...")
@options.one_target
@click.option("--conda", is_flag=True, help="Add match specs of conda packages, not requirements of pip's.")
@options.allow_needed
@options.no_lock
@lock_choices
def command(
    path: str,
    packages: tuple[str, ...],
    target: str | None,
    conda: bool,
    allow_needed: bool,
    no_lock: bool,
    choices: LockChoices,
) -> int:
    """Add packages to a spec, and lock it again

    A package that the spec has already takes the new requirement in its place. Comments, order and style of the spec
    stay. Where the new requirements can't be locked, the spec stays as it is.
    """
    from envspec.spec.edit import add

    wanted = [_checked(one, conda=conda) for one in packages]
    edit = partial(add, wanted=wanted, kind="conda" if conda else "pip", target=target)
    done = edit_and_lock(path, edit, replace(choices, allow_needed=allow_needed), no_lock=no_lock)
    if choices.quiet:
        options.print_json("add", done)
    return 0


def _checked(text: str, *, conda: bool) -> str:
    """Refuse what isn't a requirement before the spec is touched; a match spec is judged in its place in the spec."""
    text = text.strip()
    if conda and text:
        return text
    from packaging.requirements import InvalidRequirement

    from envspec.packages.requirement import parse_requirement

    try:
        parse_requirement(text)
    except InvalidRequirement as error:
        reason = str(error).partition("\n")[0]
        hint = "write it as in a requirements.txt: einops, 'datasets>=3', 'name @ https://…'; quote it in the shell"
        raise InputError(f"{printable(text)} is not a requirement: {reason}", hint=hint) from None
    return text
