"""Edit a spec and lock it again: both, or neither."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envspec.cli import inputs
from envspec.cli.console import out, say
from envspec.cli.lock.choices import LockChoices
from envspec.cli.lock.command import exclusive, lock_held
from envspec.spec.edit import Edit, EditOfText, read_text, write_text

if TYPE_CHECKING:
    from envspec.lock.store import LockFolder
    from envspec.spec.model import Spec


def edit_and_lock(path: str, edited: EditOfText, choices: LockChoices, *, no_lock: bool) -> dict[str, object]:
    """Edit the spec that `path` means, lock it, and say what changed in both; gives what `--json` prints.
    `no_lock` leaves the lock as it is.

    Raises EnvspecError, also for an edit that makes the spec a wrong one. Whatever ends the locking, the spec is then
    as it was before.
    """
    spec = inputs.read_spec(path)
    path = spec.path
    # two edits at a time would each keep only their own
    with exclusive(spec, choices.locks_dir) as folder:
        before = read_text(path)
        after, edits = edited(before)
        new = inputs.read_edited(path, after)
        _tell(edits, path, choices)
        locked = _write(path, before, after, new, folder, choices, no_lock=no_lock)
    return {"spec": path, "edits": [edit.as_json() for edit in edits], "lock": locked}


def _write(
    path: str, before: str, after: str, new: Spec, folder: LockFolder, choices: LockChoices, *, no_lock: bool
) -> dict[str, object] | None:
    if after != before and not choices.dry_run:
        write_text(path, after)
    if no_lock:
        return None
    try:
        return lock_held(new, folder, choices)
    except BaseException:
        if read_text(path) != before:
            write_text(path, before)
            say(f"note: {path} is as it was before", style="cyan")
        raise


def _tell(edits: list[Edit], path: str, choices: LockChoices) -> None:
    if choices.quiet:
        return
    for edit in edits:
        out(f"{path}: {edit}")
    if not edits:
        out(f"{path}: asks for that already")
