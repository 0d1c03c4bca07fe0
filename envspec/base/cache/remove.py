"""Taking entries out of the cache: each is renamed away first, so that no other run finds half of one, on any
filesystem and without a lock; then it is deleted from the folder that is held open, through no link."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from contextlib import suppress

from envspec.base.cache.model import Entry
from envspec.base.errors import NotPlain
from envspec.base.open_folder import OpenFolder


def remove(cache: OpenFolder, entries: Iterable[Entry]) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Take entries away. Gives those that are gone, and why others aren't, a line each."""
    gone, kept = [], []
    going = f".going-{secrets.token_hex(8)}"
    for entry in entries:
        try:
            for part in entry.parts:
                _take(cache, part, going)
            gone.append(entry)
        except NotPlain as error:
            kept.append(str(error))
        except OSError as error:
            kept.append(f"{cache.path / entry.parts[-1]} can't be removed: {error.strerror or error}")
    with suppress(OSError):
        cache.rmdir(going)
    return tuple(gone), tuple(kept)


def _take(cache: OpenFolder, path: str, going: str) -> None:
    above, _, name = path.rpartition("/")
    try:
        with cache.descend(above) as folder:
            if folder.look(name) is None:
                return
            if not folder.is_folder(name):
                # a link goes itself
                folder.unlink(name)
                return
            if path == name and name.startswith(".going-"):
                _empty(folder, name)
                return
            with cache.enter(going, make=True) as away:
                gone = secrets.token_hex(8)
                folder.move(name, away, gone)
                _empty(away, gone)
    except FileNotFoundError:
        # another run was quicker
        return


def _empty(folder: OpenFolder, name: str) -> None:
    """Remove a folder and all that is in it. What is still open somewhere stays on some network filesystems, under
    another name, until the next time."""
    with folder.enter(name) as below:
        for one in below.names():
            if below.is_folder(one):
                _empty(below, one)
            else:
                below.unlink(one)
    folder.rmdir(name)
