"""Open folders: files below one are read, written and removed by name, without following links.

The content of such a folder may come from an untrusted repository, so nothing in it leads outside: each component of a
path is opened from the one above it (`dir_fd`) and refused when it's a link, and only plain files are read or replaced.
If a name becomes a link between a look and the change, nothing changes elsewhere.

Windows has no such descriptors. There each change is made by path, and every component is checked just before it: a
link that appears in between is followed (see SECURITY.md).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from envspec.base.errors import NotPlain, Place
from envspec.base.texts import printable

_BY_DESCRIPTOR = os.name == "posix"
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_REPARSE_POINT = 0x400
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Location(Struct, frozen=True):
    """A folder that may not exist yet. The user named `root`, which may lead through links; `below` are the names under
    it, with `/`, none of which may be a link.
    """

    root: Path
    below: str = ""

    @property
    def path(self) -> Path:
        """The folder's path as messages show it."""
        return self.root / self.below

    def join(self, more: str) -> Location:
        return Location(self.root, f"{self.below}/{more}" if self.below else more)

    def open(self, *, make: bool = False) -> OpenFolder:
        """Hold the folder open; with `make`, make missing folders.

        Raises NotPlain for a link below the root, FileNotFoundError, OSError.
        """
        if make:
            self.root.mkdir(parents=True, exist_ok=True)
        with open_folder(self.root) as root:
            return root.descend(self.below, make=make)

    def remove_empty(self) -> None:
        """Remove the folder if it's empty, else do nothing. Raises OSError for other reasons."""
        if not self.below:
            self.root.rmdir()
            return
        above, _, name = self.below.rpartition("/")
        with Location(self.root, above).open() as folder:
            folder.rmdir(name)


def locate(path: Path, projects: Iterable[Path] = ()) -> Location:
    """Locate a folder that the user named, or that is envspec's own.

    Anything below the current folder and these projects may come from a repository, so envspec follows no link there.
    Elsewhere the user chose the path, with its links.
    """
    whole = Path(os.path.abspath(path))
    roots = {Path(os.path.abspath(root)) for root in (*projects, _here()) if root is not None} - {Path(whole.anchor)}
    holding = sorted((root for root in roots if whole.is_relative_to(root)), key=lambda root: len(root.parts))
    if not holding:
        return Location(path)
    return Location(_relative(holding[0]), "/".join(whole.relative_to(holding[0]).parts))


def _here() -> Path | None:
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def _relative(root: Path) -> Path:
    """Show a path in a message: relative to the current folder if it's below it."""
    here = _here()
    return root.relative_to(here) if here is not None and root.is_relative_to(here) else root


def open_folder(path: Path, *, by_descriptor: bool = _BY_DESCRIPTOR) -> OpenFolder:
    """Hold a folder open whose whole path the user named. Raises FileNotFoundError, OSError."""
    if by_descriptor:
        return OpenFolder(path, os.open(path, _FOLDER | getattr(os, "O_CLOEXEC", 0)))
    if not path.is_dir():
        code = errno.ENOTDIR if path.exists() else errno.ENOENT
        raise OSError(code, os.strerror(code), str(path))
    return _PathFolder(path, path.resolve())


class OpenFolder:
    """A folder that is held open until the `with` block ends. Its methods take the name of one entry.

    They raise NotPlain where a link, a pipe, a device or a socket stands in the way, and OSError, which names the whole
    path.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    def __enter__(self) -> OpenFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self.descriptor)

    # folders below

    def enter(self, name: str, *, make: bool = False) -> OpenFolder:
        """Open the folder `name`, and hold it open too. Raises FileNotFoundError for a missing folder without
        `make`.
        """
        with self.name_whole_path(name):
            try:
                return self._enter(name)
            except FileNotFoundError:
                if not make:
                    raise
            with suppress(FileExistsError):
                self._mkdir(name)
            return self._enter(name)

    def descend(self, path: str, *, make: bool = False) -> OpenFolder:
        """Open the folder at a path of names with `/`; an empty path opens this folder once more."""
        here = self._again()
        for name in path.split("/") if path else ():
            with here:
                here = here.enter(name, make=make)
        return here

    def mkdir(self, name: str) -> None:
        with self.name_whole_path(name):
            self._mkdir(name)

    def rmdir(self, name: str) -> None:
        with self.name_whole_path(name):
            self._rmdir(name)

    def names(self) -> list[str]:
        with self.name_whole_path():
            return sorted(self._names())

    # files in it

    def look(self, name: str) -> os.stat_result | None:
        """Give an entry's own status, without following a link; None for no entry."""
        with self.name_whole_path(name):
            try:
                return self._stat(name)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def is_folder(self, name: str) -> bool:
        status = self.look(name)
        return status is not None and not _is_link(status) and stat.S_ISDIR(status.st_mode)

    def refuse_odd(self, name: str) -> os.stat_result | None:
        """Give the status of a plain file; None for no entry. Raises IsADirectoryError for a folder, NotPlain for
        others.
        """
        status = self.look(name)
        if status is None or (stat.S_ISREG(status.st_mode) and not _is_link(status)):
            return status
        if stat.S_ISDIR(status.st_mode) and not _is_link(status):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self.path / name))
        raise self._not_plain(name, status)

    def read(self, name: str, most: int | None = None) -> bytes | None:
        """Read the bytes of a plain file, no more than `most` of them; None where there is none. Never waits, as for
        the writer of a pipe.
        """
        try:
            with self.open_plain(name) as file:
                return file.read(-1 if most is None else most)
        except FileNotFoundError:
            return None

    def open_plain(self, name: str) -> BinaryIO:
        """Open a plain file for reading. Never waits. Raises FileNotFoundError."""
        self.refuse_odd(name)
        file = os.fdopen(self.open_file(name, os.O_RDONLY | _NO_WAIT), "rb")
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            # exchanged since the first look
            file.close()
            raise self._not_plain(name, status)
        return file

    def read_at(self, path: str) -> bytes | None:
        """Read the file at a path of names with `/`. Raises NotADirectoryError where a file stands in a folder's
        place.
        """
        above, _, name = path.rpartition("/")
        try:
            with self.descend(above) as folder:
                return folder.read(name)
        except FileNotFoundError:
            return None

    def open_file(self, name: str, flags: int) -> int:
        """Open a file by os.open's flags, without following links, and give its descriptor."""
        with self.name_whole_path(name):
            try:
                return self._open(name, flags | _NO_FOLLOW)
            except OSError:
                status = self.look(name)
                if status is not None and _is_link(status):
                    raise self._not_plain(name, status) from None
                raise

    def create(self, name: str, *, executable: bool = False) -> BinaryIO:
        """Open a new file for writing. Raises FileExistsError."""
        with self.name_whole_path(name):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_FOLLOW
            return os.fdopen(self._open(name, flags, 0o777 if executable else 0o666), "w+b")

    def append(self, name: str) -> BinaryIO:
        """Open a plain file for appending, and make it where there is none."""
        self.refuse_odd(name)
        return os.fdopen(self.open_file(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_WAIT), "ab")

    def move(self, name: str, folder: OpenFolder, new: str) -> None:
        """Move a file to another folder and name, in place of the file that has the name."""
        with folder.name_whole_path(new):
            self._move(name, folder, new)

    def unlink(self, name: str) -> None:
        """Remove a file, if it exists. Of a link, the link goes."""
        with self.name_whole_path(name), suppress(FileNotFoundError):
            self._unlink(name)

    def sync(self) -> None:
        """Make added and removed names in this folder durable, on systems that can."""
        with suppress(OSError):
            os.fsync(self.descriptor)

    # how it's done

    def _enter(self, name: str) -> OpenFolder:
        path = self.path / name
        try:
            return OpenFolder(path, self._open(_component(name), _FOLDER | _NO_FOLLOW))
        except OSError as error:
            status = self.look(name)
            if status is not None and not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
                raise self._not_plain(name, status) from None
            raise error

    def _again(self) -> OpenFolder:
        return OpenFolder(self.path, os.dup(self.descriptor))

    def _open(self, name: str, flags: int, mode: int = 0o666) -> int:
        return os.open(_component(name), flags, mode, dir_fd=self.descriptor)

    def _stat(self, name: str) -> os.stat_result:
        return os.stat(_component(name), dir_fd=self.descriptor, follow_symlinks=False)

    def _mkdir(self, name: str) -> None:
        os.mkdir(_component(name), dir_fd=self.descriptor)

    def _rmdir(self, name: str) -> None:
        os.rmdir(_component(name), dir_fd=self.descriptor)

    def _unlink(self, name: str) -> None:
        os.unlink(_component(name), dir_fd=self.descriptor)

    def _move(self, name: str, folder: OpenFolder, new: str) -> None:
        os.replace(_component(name), _component(new), src_dir_fd=self.descriptor, dst_dir_fd=folder.descriptor)

    def _names(self) -> list[str]:
        return os.listdir(self.descriptor)

    def _not_plain(self, name: str, status: os.stat_result) -> NotPlain:
        return NotPlain(
            f"this is {kind_of(status)}; envspec reads and writes plain files and folders only",
            place=Place(printable(str(self.path / name))),
            hint="find out where it comes from, then remove it"
            + (", or name the folder that it leads to" if _is_link(status) else ""),
        )

    @contextmanager
    def name_whole_path(self, name: str = "") -> Iterator[None]:
        """Make the system's errors name the whole path instead of the entry's name."""
        try:
            yield
        except OSError as error:
            if error.errno is None:
                raise
            raise OSError(error.errno, error.strerror, str(self.path / name)) from None


class _PathFolder(OpenFolder):
    """An open folder by resolved paths, for systems without `dir_fd`. Every component is checked before each change."""

    def __init__(self, path: Path, real: Path, below: tuple[str, ...] = ()) -> None:
        self.path = path
        self._real = real
        self._below = below
        self.descriptor = -1

    def close(self) -> None:
        """Do nothing: no descriptor is held."""

    def sync(self) -> None:
        """Do nothing: a folder can't be opened, and so can't be synced."""

    def _at(self, name: str) -> Path:
        return self._here() / _component(name)

    def _here(self) -> Path:
        here = self._real
        for part in self._below:
            here = here / part
            status = os.lstat(here)
            if _is_link(status) or not stat.S_ISDIR(status.st_mode):
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(here))
        return here

    def _enter(self, name: str) -> OpenFolder:
        status = os.lstat(self._at(name))
        if _is_link(status) or not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
            raise self._not_plain(name, status)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return _PathFolder(self.path / name, self._real, (*self._below, name))

    def _again(self) -> OpenFolder:
        return _PathFolder(self.path, self._real, self._below)

    def _open(self, name: str, flags: int, mode: int = 0o666) -> int:
        path = self._at(name)
        with suppress(FileNotFoundError):
            if _is_link(os.lstat(path)):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return os.open(path, flags, mode)

    def _stat(self, name: str) -> os.stat_result:
        return os.lstat(self._at(name))

    def _mkdir(self, name: str) -> None:
        os.mkdir(self._at(name))

    def _rmdir(self, name: str) -> None:
        os.rmdir(self._at(name))

    def _unlink(self, name: str) -> None:
        os.unlink(self._at(name))

    def _move(self, name: str, folder: OpenFolder, new: str) -> None:
        assert isinstance(folder, _PathFolder)
        os.replace(self._at(name), folder._at(new))

    def _names(self) -> list[str]:
        return os.listdir(self._here())


def _component(name: str) -> str:
    """Check the name of one entry in a folder. A name that leads elsewhere is envspec's own fault: earlier checks
    refuse a user's.
    """
    if name in ("", ".", "..") or any(mark in name for mark in ("/", "\0", *(("\\", ":") if os.name == "nt" else ()))):
        raise ValueError(f"{name!r} isn't the name of an entry")
    return name


def _is_link(status: os.stat_result) -> bool:
    """Return whether this is a symbolic link or, on Windows, any reparse point: junctions and mounted folders are
    too."""
    return stat.S_ISLNK(status.st_mode) or bool(getattr(status, "st_file_attributes", 0) & _REPARSE_POINT)


def kind_of(status: os.stat_result) -> str:
    """Name the kind of an entry that is no plain file, with its article."""
    return "a symbolic link" if _is_link(status) else _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
