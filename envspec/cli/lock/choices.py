"""The options of the commands that lock a spec besides `envspec lock`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from envspec.app.lock.choices import LockChoices
from envspec.cli import options

_OPTIONS = (
    options.dry_run, options.offline, options.locks_dir, options.quiet, options.verbose, options.as_json,
)  # fmt: skip


def lock_choices(function: Callable[..., int]) -> Callable[..., int]:
    """Add --dry-run, --offline, --locks-dir, --quiet, --verbose and --json to a command, which gets their values as
    `choices`."""

    @functools.wraps(function)
    def with_choices(
        *arguments: Any,
        dry_run: bool,
        offline: bool,
        locks_dir: Path | None,
        verbose: bool,
        as_json: bool,
        **others: Any,
    ) -> int:
        choices = LockChoices(locks_dir=locks_dir, offline=offline, dry_run=dry_run, quiet=as_json, verbose=verbose)
        return function(*arguments, choices=choices, **others)

    for option in reversed(_OPTIONS):
        option(with_choices)
    return with_choices
