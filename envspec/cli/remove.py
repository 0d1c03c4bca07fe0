"""`envspec remove`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from envspec.cli import options
from envspec.cli.locked import lock_options, show_edit

if TYPE_CHECKING:
    from envspec.app.lock.make import LockRequest

EPILOG = """\b
Examples:
  envspec remove specs/mm-v2.9.toml einops
  envspec remove specs/mm-v2.9.toml flash-attn --target cu128-hopper
"""


@click.command(epilog=EPILOG)
@options.spec_and("packages", "PKG...")
@options.one_target
@click.option("--conda", is_flag=True, help="Remove conda packages only.")
@options.no_lock
@lock_options
def command(
    path: str,
    packages: tuple[str, ...],
    target: str | None,
    conda: bool,
    no_lock: bool,
    request: LockRequest,
    verbose: bool,
    as_json: bool,
) -> int:
    """Remove packages from a spec, and lock it again

    Removes them from every list of dependencies, or from a target's alone. Comments, order and style of the rest stay.
    Where the rest can't be locked, the spec stays as it is.
    """
    from envspec.app.edit import remove

    done = remove(path, packages, request, conda=conda, target=target, no_lock=no_lock)
    show_edit("remove", done, request.locks_dir, verbose=verbose, as_json=as_json)
    return 0
