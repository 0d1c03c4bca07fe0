"""Exported files on disk: written and removed together, below one folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from posixpath import normpath

from envspec import atomic
from envspec.cli.console import say
from envspec.cli.outputs import location
from envspec.lock.exclusive import exclusive
from envspec.open_folder import Location
from envspec.recipes.plan import CARRIED_FOLDER, SUMS
from envspec.storage import storage_error


def write_files(output: Path, texts: Mapping[str, str], gone: Iterable[str], specs: Iterable[str]) -> None:
    """Write texts by path, relative to a folder that `-o` named, and remove the files at the paths `gone`.

    Stages all new files before the first takes its place. Deletions follow, and last the lists by which the next export
    knows what to delete. A file whose text hasn't changed keeps its modification time.

    Raises NotPlain, StorageError.
    """
    place = location(output, specs)
    waiting = f"waiting: another envspec is writing into {output}"
    with _storage(output), exclusive(place, lambda: say(waiting)):
        base, prefix = _base(place, [*texts, *gone])
        with base.open() as folder:
            files = {normpath(prefix + path): text.encode() for path, text in texts.items()}
            new = {path: content for path, content in files.items() if folder.read_at(path) != content}
            lists = {path: new.pop(path) for path in tuple(new) if path.endswith(f"{CARRIED_FOLDER}/{SUMS}")}
            atomic.replace_files(folder, {**new, **{normpath(prefix + path): None for path in gone}, **lists})


def _base(place: Location, paths: Iterable[str]) -> tuple[Location, str]:
    """Give the folder that holds all paths, and the prefix of each path in it: a path may lead out of the named folder,
    but never out of its project.
    """
    if all(normpath(path).split("/")[0] != ".." for path in paths):
        return place, ""
    return Location(place.root), f"{place.below}/"


@contextmanager
def _storage(output: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        some = isinstance(error, atomic.Unfinished)
        again = "run again: some files are written, others aren't yet" if some else "run again"
        raise storage_error(error, output, option="-o", again=again) from None
