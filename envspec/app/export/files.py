"""Exported files on disk: written and removed together, below one folder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from pathlib import Path
from posixpath import basename, dirname, normpath

from envspec.app.observer import say
from envspec.app.outputs import location
from envspec.base import atomic
from envspec.base.errors import InputError
from envspec.base.open_folder import Location
from envspec.base.storage import storage_error
from envspec.export.folder import SHARED
from envspec.export.sums import SUMS
from envspec.lock.exclusive import exclusive


@dataclass(frozen=True)
class Superseded:
    """The fate of earlier exports' files, by path below a folder.

    gone   the files that no recipe uses any more
    lists  the lists of carried files while files come and go: those of earlier exports too
    kept   the lists afterwards, where they have more than this export's files: those that other targets may still use
    """

    gone: tuple[str, ...] = ()
    lists: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)

    def below(self, folder: str) -> Superseded:
        """The same from the folder that holds this one."""
        return Superseded(
            tuple(normpath(f"{folder}/{path}") for path in self.gone),
            {normpath(f"{folder}/{path}"): text for path, text in self.lists.items()},
            {normpath(f"{folder}/{path}"): text for path, text in self.kept.items()},
        )

    def __or__(self, other: Superseded) -> Superseded:
        return Superseded((*self.gone, *other.gone), {**self.lists, **other.lists}, {**self.kept, **other.kept})


def write_files(
    output: Path, texts: Mapping[str, str], superseded: Iterable[Callable[[], Superseded]], specs: Iterable[str]
) -> Collection[str]:
    """Write texts by path, relative to a folder that `-o` named, and remove the files that one of `superseded` says are
    gone. They are asked while no other envspec writes here. Gives the paths of the removed files.

    Stages all new files before the first takes its place. The lists by which a later export knows its files come first,
    with the names of all old and new ones, and once more at the end, after the deletions, as they are to stay. A file
    whose text hasn't changed keeps its modification time.

    Raises InputError where a file without envspec's mark stands in the way, NotPlain, StorageError.
    """
    place = location(output, specs)
    waiting = f"waiting: another envspec is writing into {output}"
    with _storage(output), exclusive(place, lambda: say(waiting)):
        old = reduce(or_, (each() for each in superseded), Superseded())
        texts = {**texts, **old.kept}
        base, prefix = _base(place, [*texts, *old.gone])
        with base.open() as folder:
            files = {normpath(prefix + path): text.encode() for path, text in texts.items()}
            first = {normpath(prefix + path): text.encode() for path, text in old.lists.items()}
            there = {path: folder.read_at(path) for path in files}
            lists = {path: text for path, text in first.items() if there[path] != text}
            new = {path: text for path, text in files.items() if path not in first and there[path] != text}
            _refuse_others(output, new, there, prefix)
            gone = {normpath(prefix + path): None for path in old.gone}
            last = {path: files[path] for path, text in first.items() if files[path] != text}
            atomic.replace_files(folder, lists, new, gone, last)
            ended = [path for path in gone if path.endswith(f"/{SUMS}")]
            for path in {*first, *ended}:
                with folder.descend(dirname(path)) as carried:
                    atomic.remove_empty_folders(carried)
            for path in ended:
                with folder.descend(dirname(dirname(path))) as above, suppress(OSError):
                    above.rmdir(basename(dirname(path)))
    return old.gone


def _refuse_others(output: Path, new: Mapping[str, bytes], there: Mapping[str, bytes | None], prefix: str) -> None:
    """Raise InputError for files that these texts would replace, and that no export has written."""
    shared = tuple(f"{normpath(prefix + one)}/" for one in SHARED)
    others = [
        path.removeprefix(prefix)
        for path, text in new.items()
        if (old := there[path]) and _mark(old) != _mark(text) and not path.startswith(shared)
    ]
    if others:
        raise InputError(
            f"{output} has files that envspec didn't write, and an export would replace them: {', '.join(others)}",
            hint="export into another folder with -o, or move those files away",
        )


def _mark(content: bytes) -> bytes:
    """Give what the texts of one recipe have in common, whatever the lock: the beginning of the first comment. JSON has
    none, and its names are envspec's own."""
    first, _, rest = content.partition(b"\n")
    return (rest if first.startswith(b"#!") else first).partition(b"\n")[0].partition(b":")[0]


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
