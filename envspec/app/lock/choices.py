"""What a user chose for the locks that envspec makes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from envspec.resolve.workflow.keep import Upgrade


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
