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
  envspec add specs/mm-v2.9.toml --target cu128-ada --gpu L40S --driver 570.86 --no-lock --dry-run
"""


@click.command(epilog=EPILOG)
@options.spec_and("packages", "[PKG...]")
@options.edited_target
@click.option("--conda", is_flag=True, help="Add match specs of conda packages, not requirements of pip's.")
@options.gpu("A GPU of a new target, which --target names. Repeatable.")
@click.option("--cuda", metavar="X.Y", help="The new target's CUDA, or cpu [default: one for the GPUs].")
@click.option("--driver", metavar="VERSION", help="The NVIDIA driver on the new target's machines.")
@click.option("--glibc", metavar="VERSION", help="Their glibc [default: 2.28].")
@click.option("--platform", metavar="PLATFORM", help="The new target's platform [default: linux-64].")
@options.no_lock
@lock_options
def command(
    path: str, packages: tuple[str, ...], request: LockRequest, *, conda: bool, target: str | None, no_lock: bool,
    **machines: Any,
) -> int:  # fmt: skip
    """Add packages or a target to a spec, and lock it again

    A new requirement replaces the spec's old one for the same package. Comments, order and style of the spec stay. If
    the new requirements can't be locked, the spec stays unchanged.
    """
    from envspec.app.edit import Additions, add

    additions = Additions(packages, conda, target, **machines)
    if additions.machines and not target:
        raise click.UsageError("name the new target with --target")
    if not (additions.machines or packages):
        raise click.UsageError("Missing argument 'PKG...'.")
    done = add(path, additions, request, no_lock=no_lock)
    show_edit("add", done)
    return 0
