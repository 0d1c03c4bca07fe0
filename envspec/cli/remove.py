"""`envspec remove`."""

from __future__ import annotations

from functools import partial

import click

from envspec.app.lock.choices import LockChoices
from envspec.cli import options
from envspec.cli.edited import edit_and_lock
from envspec.cli.lock.choices import lock_choices

EPILOG = """\b
Examples:
  envspec remove specs/mm-v2.9.toml einops
  envspec remove specs/mm-v2.9.toml flash-attn --target cu128-hopper
"""


@click.command(epilog=EPILOG)
@options.spec
@click.argument("packages", nargs=-1, required=True, metavar="PKG...")
@options.one_target
@click.option("--conda", is_flag=True, help="Remove conda packages only.")
@options.no_lock
@lock_choices
def command(
    path: str,
    packages: tuple[str, ...],
    target: str | None,
    conda: bool,
    no_lock: bool,
    choices: LockChoices,
) -> int:
    """Remove packages from a spec, and lock it again

    Removes them from every list of dependencies, or from a target's alone. Comments, order and style of the rest stay.
    Where the rest can't be locked, the spec stays as it is.
    """
    from envspec.spec.edit import remove

    edit = partial(remove, names=packages, kind="conda" if conda else None, target=target)
    done = edit_and_lock(path, edit, choices, no_lock=no_lock)
    if choices.quiet:
        options.print_json("remove", done)
    return 0
