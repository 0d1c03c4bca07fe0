"""The words for a squashfs that `envspec image` or `envspec install` wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envspec.base.texts import byte_size
from envspec.cli.console import out, say

if TYPE_CHECKING:
    from envspec.app.image.squashfs import MadeSquashfs


def tell(made: MadeSquashfs) -> None:
    """Print what was made, and how to use it."""
    where = f", for {made.at} alone" if made.at else ""
    what = f"{made.target}, {made.packages} packages, {made.inside:,} files and folders in one{where}"
    out(f"{made.file}: {what}, {byte_size(made.size)}")
    out(f"digest {made.digest}")
    say(f"hint: {made.start}")
