"""The base that a command line or a spec names: an OCI layout here, or an image of a registry by its digest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.errors import InputError

if TYPE_CHECKING:
    from envspec.image.base import BaseSource
    from envspec.recipes.plan import Plan


@contextmanager
def opened_base(plan: Plan, given: str | None, *, offline: bool) -> Iterator[BaseSource]:
    """Open the base of a target's image until the block ends. Raises InputError, IndexFailure."""
    if given is not None and (Path(given).is_dir() or os.sep in given and given.startswith((".", os.sep))):
        from envspec.cli.outputs import location
        from envspec.image.layout import layout_source

        try:
            folder = location(Path(given)).open()
        except FileNotFoundError:
            raise InputError(
                f"{given} doesn't exist", hint="give --base an OCI image layout's folder, or an image's name"
            ) from None
        with folder:
            yield layout_source(Path(given), folder)
        return
    raise InputError("bases of registries aren't read yet")
