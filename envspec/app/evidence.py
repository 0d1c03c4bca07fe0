"""Records of what a command proved, as `envspec report` reads them back."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envspec.app.observer import say
from envspec.app.outputs import write_text
from envspec.base.errors import StorageError
from envspec.base.texts import printable
from envspec.lock.model import Lock, LockedTarget
from envspec.lock.slice import slice_digest, slice_of
from envspec.prove.proof.records import KIND, SCHEMA, Standing, read_records, standings
from envspec.spec.document import project_root

FOLDER = Path("docs", "evidence")
"""Where records lie, from the folder that has `specs/`."""


def keep(
    folder: Path,
    rung: str,
    lock: Lock,
    targets: Sequence[LockedTarget],
    details: Mapping[str, Any] | None = None,
) -> None:
    """Write a record for each target that is proved as far as a rung; `details` are by target. Raises StorageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} can't be made: {error.strerror or error}") from error
    for target in targets:
        record = {
            "schema": SCHEMA,
            "kind": KIND,
            "rung": rung,
            "spec": lock.name,
            "target": target.name,
            "lock_digest": slice_digest(slice_of(lock, target)),
            "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "details": (details or {}).get(target.name),
        }
        path = folder / f"{lock.name}-{target.name}-{rung}.json"
        write_text(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n", "--evidence")
        say(f"wrote {printable(str(path))}")


def standings_of(
    spec: str, lock: Lock, targets: Sequence[LockedTarget], folder: Path | None = None
) -> tuple[Standing, ...]:
    """Say how far targets are proved by the records in a folder, else by those beside the spec's own. What proves
    nothing is told. Raises InputError, StorageError."""
    if folder is None:
        folder = project_root(spec) / FOLDER
    found = standings(lock, targets, read_records(folder) if folder.is_dir() else ())
    for one in found:
        for file, reason in one.outdated:
            say(f"{printable(file)} proves nothing of {one.target}: {printable(reason)}")
    return found
