"""Edit a spec and lock it again: both, or neither."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from envspec.app import inputs
from envspec.app.find_specs import spec_file
from envspec.app.lock.choices import LockChoices
from envspec.base.errors import EnvspecError, SpecError
from envspec.cli.console import out, say
from envspec.cli.lock.command import exclusive, lock_held
from envspec.spec.edit import EditOfText, read_text, write_text

if TYPE_CHECKING:
    from envspec.lock.store import LockFolder
    from envspec.spec.model import Spec


def edit_and_lock(path: str, edited: EditOfText, choices: LockChoices, *, no_lock: bool) -> dict[str, object]:
    """Edit the spec that `path` means, lock it, and say what changed in both; gives what `--json` prints.
    `no_lock` leaves the lock as it is.

    Raises EnvspecError, also for an edit that makes the spec a wrong one. Whatever ends the locking, the spec is then
    as it was before.
    """
    spec = _read(path, edited)
    path = spec.path
    # two edits at a time would each keep only their own
    with exclusive(spec, choices.locks_dir) as folder:
        before = read_text(path)
        after, edits = edited(before)
        new = inputs.read_edited(path, after)
        told = [f"{path}: {edit}" for edit in edits] or [f"{path}: asks for that already"]
        locked = _write(path, before, after, new, folder, choices, None if no_lock else told)
        if no_lock and not choices.quiet:
            for line in told:
                out(line)
    return {"spec": path, "edits": [edit.as_json() for edit in edits], "lock": locked}


def _read(path: str, edited: EditOfText) -> Spec:
    """Read the spec; one that only the edit makes whole, such as by its first dependency, as it is after it."""
    try:
        return inputs.read_spec(path)
    except SpecError:
        file = spec_file(path)
        with suppress(EnvspecError, ValueError):
            return inputs.read_edited(file, edited(read_text(file))[0])
        raise


def _write(
    path: str, before: str, after: str, new: Spec, folder: LockFolder, choices: LockChoices, told: list[str] | None
) -> dict[str, object] | None:
    """Write the spec and lock it, unless `told` is None: what is told of the edit, once the lock is made."""
    if after != before and not choices.dry_run:
        write_text(path, after)
    if told is None:
        return None
    try:
        return lock_held(new, folder, choices, told)
    except BaseException:
        if read_text(path) != before:
            write_text(path, before)
            say(f"note: {path} is as it was before", style="cyan")
        raise
