"""The files of a wheel or of a folder that could hold device code."""

from __future__ import annotations

import os
import stat
import zipfile
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from envspec.binaries.fatbin import MAGIC as FATBIN_MAGIC

MAGICS = (b"\x7fELF", b"MZ", b"!<arch>\n", FATBIN_MAGIC)
"""The first bytes of such files: ELF (libraries and cubins), Windows DLLs, static archives, fat binaries."""

TEXT = frozenset((".py", ".pyc", ".pyi", ".h", ".hpp", ".cuh", ".txt", ".json", ".md", ".html", ".js", ".css", ".rst"))
"""Suffixes of files to skip: an environment has tens of thousands, and each open is a round trip on a cluster."""


@dataclass(frozen=True)
class Member:
    """A file to scan: path with slashes, size in bytes, how to open it, and whether it lies on disk unpacked."""

    path: str
    size: int
    open: Callable[[], IO[bytes]]
    on_disk: bool


def in_wheel(archive: zipfile.ZipFile) -> Iterator[Member]:
    """List the members of an open wheel. Their names are only shown, never written to."""
    for info in archive.infolist():
        if PurePosixPath(info.filename).suffix in TEXT:
            continue

        def open_member(info: zipfile.ZipInfo = info) -> IO[bytes]:
            return archive.open(info)

        with open_member() as stream:
            if _may_hold_code(stream):
                yield Member(info.filename, info.file_size, open_member, on_disk=False)


def on_disk(path: Path, shown: str) -> Member | None:
    """Make a member of a file on disk. None if it can't hold device code. Raises OSError."""

    def open_file() -> IO[bytes]:
        return path.open("rb")

    with open_file() as stream:
        if not _may_hold_code(stream):
            return None
        return Member(shown, os.fstat(stream.fileno()).st_size, open_file, on_disk=True)


def below(root: Path, unread: Callable[[str, OSError], None]) -> Iterator[Member]:
    """List the members below a folder. Calls `unread` for each that can't be read.

    Follows links (Nix and uv's symlink mode build environments of links). Every file and folder counts once, under its
    own name rather than a link's where it has one below `root`.
    """
    seen: set[tuple[int, int]] = set()
    entries, links = deque([root]), deque[Path]()
    while entries or links:
        path = entries.popleft() if entries else links.popleft()
        shown = path.relative_to(root).as_posix()
        try:
            status = path.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            if stat.S_ISDIR(status.st_mode):
                for entry in sorted(path.iterdir()):
                    (links if entry.is_symlink() else entries).append(entry)
            elif stat.S_ISREG(status.st_mode) and path.suffix not in TEXT:
                member = on_disk(path, shown)
                if member is not None:
                    yield member
        except FileNotFoundError:
            continue  # a dangling link, or removed meanwhile
        except OSError as error:
            unread(shown, error)


def _may_hold_code(stream: IO[bytes]) -> bool:
    return stream.read(max(map(len, MAGICS))).startswith(MAGICS)
