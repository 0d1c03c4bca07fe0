"""`envspec add`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from envspec.cli import options
from envspec.cli.locked import lock_options, show_edit

if TYPE_CHECKING:
    from envspec.app.lock.read import LockRequest

EPILOG = """\b
Examples:
  envspec add specs/mm-v2.9.toml einops "datasets>=3"
  envspec add specs/mm-v2.9.toml "flash-attn>=2.8" --target cu128-hopper
  envspec add specs/hpc-v2.7.toml --conda "openmpi>=5" --dry-run
"""


@click.command(epilog=EPILOG)
@options.spec_and("packages", "PKG...")
@options.edited_target
@click.option("--conda", is_flag=True, help="Add match specs of conda packages, not requirements of pip's.")
@options.no_lock
@lock_options
def command(request: LockRequest, **arguments: Any) -> int:
    """Add packages to a spec, and lock it again

    A new requirement replaces the spec's old one for the same package. Comments, order and style of the spec stay. If
    the new requirements can't be locked, the spec stays unchanged.
    """
    from envspec.app.edit import add

    done = add(request=request, **arguments)
    show_edit("add", done)
    return 0
