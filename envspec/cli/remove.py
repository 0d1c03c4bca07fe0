"""`envspec remove`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from envspec.cli import options
from envspec.cli.locked import lock_options, show_edit

if TYPE_CHECKING:
    from envspec.app.lock.read import LockRequest

EPILOG = """\b
Examples:
  envspec remove specs/mm-v2.9.toml einops
  envspec remove specs/mm-v2.9.toml flash-attn --target cu128-hopper
"""


@click.command(epilog=EPILOG)
@options.spec_and("packages", "PKG...")
@options.edited_target
@click.option("--conda", is_flag=True, help="Remove conda packages only.")
@options.no_lock
@lock_options
def command(request: LockRequest, **arguments: Any) -> int:
    """Remove packages from a spec, and lock it again

    envspec removes them from every list of dependencies, or from one target's. Comments, order and style of the rest
    stay. If the rest can't be locked, the spec stays unchanged.
    """
    from envspec.app.edit import remove

    done = remove(request=request, **arguments)
    show_edit("remove", done)
    return 0
