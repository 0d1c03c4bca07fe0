"""Writing a lock, and saying what that took away or brought in line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envspec.app.observer import say
from envspec.lock.signing.model import SUFFIX

if TYPE_CHECKING:
    from envspec.lock.model import Lock
    from envspec.lock.store import LockFolder
    from envspec.spec.model import Spec


def bring_in_line(spec: Spec, folder: LockFolder, lock: Lock) -> None:
    """Write a fresh lock again where it stands in an older schema, or where what is rendered from it differs."""
    from envspec.lock.freshness import rendered_reasons
    from envspec.lock.render import rendered_files

    if not folder.holds(lock):
        write(spec, folder, lock)
        say(f"wrote {folder.path} again, as this envspec writes locks: its pins are the same")
    elif rendered_reasons(rendered_files(lock), folder.rendered(lock)):
        folder.write(lock)
        say(f"rendered the files beside {folder.path} again: they differed from the lock")


def write(spec: Spec, folder: LockFolder, lock: Lock) -> bool:
    """Write a lock; say so where the signature of the old one goes. Return whether anything changed."""
    signed = folder.is_signed()
    changed = folder.write(lock)
    if signed and not folder.is_signed():
        say(f"removed {folder.path}{SUFFIX}: it signed the lock that was there before")
        say(f"hint: envspec sign {spec.path}")
    return changed
