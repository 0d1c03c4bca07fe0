"""Edit a spec and lock it again: both, or neither."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.cli import inputs
from envspec.cli.console import out, say
from envspec.spec.edit import Edit, EditOfText, read_text, write_text

if TYPE_CHECKING:
    from envspec.lock.store import LockFolder
    from envspec.spec.model import Spec


@dataclass(frozen=True)
class EditChoices:
    """What the command line chose for an edit: `no_lock` leaves the lock as it is, `dry_run` writes nothing."""

    locks_dir: Path | None = None
    allow_needed: bool = False
    offline: bool = False
    dry_run: bool = False
    no_lock: bool = False
    quiet: bool = False


def edit_and_lock(path: str, edited: EditOfText, choices: EditChoices) -> dict[str, object]:
    """Edit the spec that `path` means, lock it, and say what changed in both; gives what `--json` prints.

    Raises EnvspecError, also for an edit that makes the spec a wrong one. Whatever ends the locking, the spec is then
    as it was before.
    """
    from envspec.cli.lock.command import exclusive

    spec = inputs.read_spec(path)
    path = spec.path
    # two edits at a time would each keep only their own
    with exclusive(spec, choices.locks_dir) as folder:
        before = read_text(path)
        after, edits = edited(before)
        new = inputs.read_edited(path, after)
        _tell(edits, path, choices)
        locked = _write(path, before, after, new, folder, choices)
    return {"spec": path, "edits": [edit.as_json() for edit in edits], "lock": locked}


def _write(
    path: str, before: str, after: str, new: Spec, folder: LockFolder, choices: EditChoices
) -> dict[str, object] | None:
    from envspec.cli.lock.command import LockChoices, lock_held
    from envspec.workflow.keep import Upgrade

    asked = LockChoices(
        Upgrade(),
        locks_dir=choices.locks_dir,
        allow_needed=choices.allow_needed,
        offline=choices.offline,
        dry_run=choices.dry_run,
        quiet=choices.quiet,
    )
    if after != before and not choices.dry_run:
        write_text(path, after)
    if choices.no_lock:
        return None
    try:
        return lock_held(new, folder, asked)
    except BaseException:
        if read_text(path) != before:
            write_text(path, before)
            say(f"note: {path} is as it was before", style="cyan")
        raise


def _tell(edits: list[Edit], path: str, choices: EditChoices) -> None:
    if choices.quiet:
        return
    for edit in edits:
        out(f"{path}: {edit}")
    if not edits:
        out(f"{path}: asks for that already")
