"""A request for a lock, and its result: the lock, its diagnostics and the files that envspec wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from envspec.base.finding import Finding
from envspec.lock.model import Lock
from envspec.resolve.workflow.keep import Upgrade
from envspec.spec.model import Spec

if TYPE_CHECKING:
    from envspec.lock.store import LockFolder


class LockRequest(Struct, frozen=True):
    """A request for locks.

    `upgrade` names the pins that may change, `targets` the only ones to resolve (none: all). `images` looks up image
    digests again, `allow_needed` adds to the spec the sources that its packages need, `refresh` reads the live PyTorch
    index, `dry_run` writes nothing. `pins` is another tool's lock, whose versions are preferred. `named_by` is what
    stands before a package's name on the command line.
    """

    upgrade: Upgrade = field(default_factory=Upgrade)
    targets: tuple[str, ...] = ()
    locks_dir: Path | None = None
    images: bool = False
    allow_needed: bool = False
    offline: bool = False
    refresh: bool = False
    dry_run: bool = False
    pins: Path | None = None
    named_by: str = "--upgrade-package "


Status = Literal["fresh", "unchanged", "would-change", "written"]


class Written(Struct, frozen=True):
    """A change that envspec made on the way, of the spec or beside the lock, as a line, and what to do about it."""

    text: str
    remedy: str | None = None


Diagnostic = Finding | Written


class Locked(Struct, frozen=True):
    """The lock of a spec, and what became of the old one.

    status   "fresh": it is as it was, and no index was asked; "unchanged": asked, and as it was; "written";
             "would-change": not written, by `dry_run`
    diagnostics  findings and changes, in the order in which they came
    changes  a line for each package, build of Python and image digest that changed; none for a first lock
    held     the packages to upgrade that stay as they are, though there is a newer release
    missing_digests  why a registry has no digest for images, by image
    outdated  what is to be done with the recipes that the lock has outdated, and git's conflicts; empty without any
    """

    spec: Spec
    folder: LockFolder
    lock: Lock
    old: Lock | None
    status: Status
    diagnostics: tuple[Diagnostic, ...] = ()
    changes: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    missing_digests: Mapping[str, str] = field(default_factory=dict)
    outdated: str = ""
