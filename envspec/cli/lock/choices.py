"""What the command line chose for locks, and the options of the commands that lock a spec besides `envspec lock`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Any

from envspec.cli import options
from envspec.record import dataclass
from envspec.workflow.keep import Upgrade


@dataclass(frozen=True)
class LockChoices:
    """What the command line chose for the locks that it makes.

    `upgrade` names the pins that may change, `targets` the only ones to resolve (none: all). `images` looks up image
    digests again, `refresh` reads the live PyTorch index, `dry_run` writes nothing, `quiet` keeps stdout free for JSON,
    `verbose` lists every change. `pins` is another tool's lock, whose versions are preferred. `named_by` is
    what stands before a package's name on the command line.
    """

    upgrade: Upgrade = field(default_factory=Upgrade)
    targets: tuple[str, ...] = ()
    locks_dir: Path | None = None
    images: bool = False
    allow_needed: bool = False
    offline: bool = False
    refresh: bool = False
    dry_run: bool = False
    quiet: bool = False
    verbose: bool = False
    pins: Path | None = None
    named_by: str = "--upgrade-package "


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
