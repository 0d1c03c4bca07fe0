"""The content of a source distribution, read as it streams in: nothing is written to disk, and nothing of it runs."""

from __future__ import annotations

import io
import lzma
import posixpath
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import IO

from envspec.base.errors import IndexFailure
from envspec.base.redact import redact
from envspec.net.fetch import Stream
from envspec.net.remote_file import DamagedFile
from envspec.packages.archive_entries import TarMember
from envspec.resolve.pip.inert import is_told
from envspec.resolve.uv.answer import FoundFile

_ARCHIVE = 1 << 30
"""Bytes of the largest archive that is read."""
_UNPACKED = 8 << 30
"""Bytes of its unpacked content, which is read and not kept."""
_MEMBERS = 500_000
_TEXT = 4 << 20
"""Bytes of the largest text that is kept."""
_PIECE = 1 << 20


@dataclass(frozen=True)
class Content:
    """A source's files, by the paths below its one top folder.

    texts  those that say what it requires, and whether its build runs its code
    names  of all files
    asks   a text says `setup_requires`, or wasn't read
    odd    it has links, or paths that are another one's spelling: `names` don't say what lies where once it's unpacked
    """

    texts: dict[str, str]
    names: list[str]
    asks: bool = True
    odd: bool = False


_TOLD = (".py", ".cfg", ".toml")
"""Files in which a source says what setuptools asks for."""


def read_content(file: FoundFile, stream: Stream) -> Content:
    """Read what counts of an archive."""
    bounded = _Bounded(stream, file)
    members = _zip_members if file.file.endswith(".zip") else _tar_members
    texts: dict[str, str] = {}
    names: list[str] = []
    unpacked, asks, odd = 0, False, False
    try:
        for path, size, read in members(bounded):
            stem = path.removeprefix("./")
            odd = odd or read is None or posixpath.normpath(stem) != stem
            if read is None:
                continue
            unpacked += size
            if len(names) >= _MEMBERS or unpacked > _UNPACKED:
                raise IndexFailure(
                    f"{redact(file.url)} unpacks to more files or bytes than envspec accepts",
                    hint="don't build it; exclude the release with a bound in the spec",
                )
            below = stem.partition("/")[2]
            names.append(below)
            wanted = (
                below in ("PKG-INFO", "pyproject.toml") or below.endswith(".egg-info/requires.txt") or is_told(below)
            )
            told = below.endswith(_TOLD) and not asks
            content = read() if (wanted or told) and size <= _TEXT else b""
            if wanted and size <= _TEXT:
                texts[below] = content.decode("utf-8", "replace")
            if told:
                asks = size > _TEXT or b"setup_requires" in content
    except _UNREADABLE as error:
        raise DamagedFile(
            f"{redact(file.url)} can't be unpacked: {error}",
            hint="report this to whoever runs the index: the file is damaged",
        ) from None
    return Content(texts, names, asks, odd)


_UNREADABLE = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, NotImplementedError,
    RuntimeError, ValueError,
)  # fmt: skip

Member = tuple[str, int, Callable[[], bytes] | None]
"""Path in the archive, unpacked size in bytes, and its content; None for what is neither a file nor a folder."""


def _tar_members(stream: _Bounded) -> Iterator[Member]:
    with tarfile.open(fileobj=stream, mode="r|*", tarinfo=TarMember) as archive:
        for member in archive:
            if member.isfile():
                yield member.name, member.size, partial(_tar_content, archive, member)
            elif not member.isdir():
                yield member.name, 0, None
            # tarfile keeps every member that it has seen
            archive.members = []  # type: ignore[attr-defined]


def _tar_content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    return _content(archive.extractfile(member))


def _content(file: IO[bytes] | None) -> bytes:
    return file.read(_TEXT) if file else b""


def _zip_members(stream: _Bounded) -> Iterator[Member]:
    """List a zip's members. Its table is at its end, so the archive is held in memory, with a smaller limit."""
    content = stream.read(256 << 20)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in archive.infolist():
            if not entry.is_dir():
                link = stat.S_ISLNK(entry.external_attr >> 16)
                yield entry.filename, entry.file_size, None if link else partial(_zip_content, archive, entry)


def _zip_content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with archive.open(entry) as file:
        return _content(file)


class _Bounded(io.RawIOBase):
    """The stream, which ends with an error where it is larger than any source."""

    def __init__(self, stream: Stream, file: FoundFile) -> None:
        self._stream, self._file = stream, file

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """As many bytes as asked for, fewer at the end alone: what reads archives takes less for the end."""
        pieces, left = [], size if size >= 0 else _ARCHIVE
        while left:
            piece = self._stream.read(min(left, _PIECE))
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
        if self._stream.length > _ARCHIVE:
            raise IndexFailure(
                f"{redact(self._file.url)} is larger than {_ARCHIVE >> 20} MiB, the limit for a source distribution",
                hint="exclude the release with a bound in the spec",
            )
        return b"".join(pieces)
