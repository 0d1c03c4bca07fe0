"""Exported files on disk: written and removed together, below one folder."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from posixpath import normpath

from envspec import atomic
from envspec.cli.main import say
from envspec.cli.outputs import location
from envspec.errors import NotPlain
from envspec.lock.exclusive import exclusive
from envspec.open_folder import Location, OpenFolder
from envspec.recipes.plan import CARRIED_FOLDER, SUMS
from envspec.storage import storage_error

_LISTED = re.compile(r"([0-9a-f]{64})  ((?:[A-Za-z0-9][A-Za-z0-9._-]*/){0,3}[A-Za-z0-9][A-Za-z0-9._-]*)")
"""A line of SHA256SUMS: the names that envspec gives to carried files, and none that leads anywhere else."""


def write_files(output: Path, texts: Mapping[str, str], gone: Iterable[str], specs: Iterable[str]) -> None:
    """Write texts by path, relative to a folder that `-o` named, and remove the files at the paths `gone`.

    All new files are staged before the first takes its place; deletions follow, and last the lists by which the next
    export knows what to delete. A file that has its text already keeps its time, by which other tools know it.

    Raises NotPlain, StorageError.
    """
    place = location(output, specs)
    waiting = f"waiting: another envspec writes into {output}"
    with _storage(output), exclusive(place, lambda: say(waiting)):
        base, prefix = _base(place, [*texts, *gone])
        with base.open() as folder:
            files = {normpath(prefix + path): text.encode() for path, text in texts.items()}
            new = {path: content for path, content in files.items() if folder.read_at(path) != content}
            lists = {path: new.pop(path) for path in tuple(new) if path.endswith(f"{CARRIED_FOLDER}/{SUMS}")}
            atomic.replace_files(folder, {**new, **{normpath(prefix + path): None for path in gone}, **lists})


def _base(place: Location, paths: Iterable[str]) -> tuple[Location, str]:
    """The folder below which all paths are, and what comes before each there: a path may lead out of the one that was
    named, and never out of the project that it's in."""
    if all(normpath(path).split("/")[0] != ".." for path in paths):
        return place, ""
    return Location(place.root), f"{place.below}/"


def no_longer_carried(output: Path, texts: Mapping[str, str], specs: Iterable[str]) -> list[str]:
    """The files of earlier exports that recipes don't share any more, by the list that an export leaves there.

    The list could be anyone's, so it can name nothing but what envspec wrote: the file must have the hash it says.
    Raises NotPlain, StorageError.
    """
    with _storage(output), suppress(FileNotFoundError), location(output, specs).open() as folder:
        return list(_no_longer_carried(folder, texts))
    return []


def _no_longer_carried(folder: OpenFolder, texts: Mapping[str, str]) -> Iterator[str]:
    for name in texts:
        if not name.endswith(f"/{CARRIED_FOLDER}/{SUMS}"):
            continue
        for line in (folder.read_at(name) or b"").decode(errors="replace").splitlines():
            listed = _LISTED.fullmatch(line)
            path = name.removesuffix(SUMS) + listed[2] if listed else name
            if listed and path not in texts and _digest(folder, path) == listed[1]:
                yield path


@contextmanager
def _storage(output: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        some = isinstance(error, atomic.Unfinished)
        again = "run again: some files are written, and the others not yet" if some else "run again"
        raise storage_error(error, output, option="-o", again=again) from None


def _digest(folder: OpenFolder, path: str) -> str | None:
    try:
        content = folder.read_at(path)
    except (NotPlain, OSError):
        # no file of ours
        return None
    return None if content is None else hashlib.sha256(content).hexdigest()
