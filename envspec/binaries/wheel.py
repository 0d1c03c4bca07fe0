"""A wheel as a random-access file: its list of members, and members by name, all within bounds."""

from __future__ import annotations

import errno
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

BROKEN = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError),
    *(NotImplementedError, RuntimeError, ValueError, OverflowError),
)
"""The exceptions that zipfile raises for damaged archives and members."""

MEMBERS = 200_000
"""The members that a wheel may have."""


class UnreadableWheel(Exception):
    """A wheel that isn't one, or is damaged. Its text says what is wrong."""


class BudgetSpent(Exception):
    """More would have had to be read than the bounds allow."""


@dataclass
class Budget:
    """The rest that may be read of a wheel: bytes as they lie in it, and unpacked. `take` raises BudgetSpent."""

    packed: int
    unpacked: int

    def take(self, packed: int, unpacked: int = 0) -> None:
        self.packed -= packed
        self.unpacked -= unpacked
        if self.packed < 0 or self.unpacked < 0:
            raise BudgetSpent


class OpenWheel:
    """A wheel that `open_wheel` opened. Reading raises UnreadableWheel, and what its file raises."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.members: tuple[zipfile.ZipInfo, ...] = tuple(
            info for info in archive.infolist() if info.filename and info.filename[-1] != "/" and not info.flag_bits & 1
        )

    def read(self, info: zipfile.ZipInfo, budget: Budget) -> bytes:
        """Read a member. Raises BudgetSpent, before anything is read."""
        budget.take(info.compress_size, info.file_size)
        with self.open(info) as stream:
            # a member that unpacks to more than it says is cut off there by zipfile
            return stream.read(info.file_size)

    @contextmanager
    def open(self, info: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
        """Open a member as a stream."""
        with _sound(info.filename), self._archive.open(info) as stream:
            yield stream

    def bytes_read(self, info: zipfile.ZipInfo) -> int:
        """Count the bytes of the file that the stream opened last has taken for a member, packed as they lie there."""
        return self._archive.fp.tell() - info.header_offset if self._archive.fp else 0

    def find(self, pattern: str) -> Iterator[zipfile.ZipInfo]:
        """List the members whose whole name matches."""
        matches: Callable[[str], object] = re.compile(pattern).fullmatch
        return (info for info in self.members if matches(info.filename))


@contextmanager
def open_wheel(file: IO[bytes] | io.RawIOBase) -> Iterator[OpenWheel]:
    """Open a wheel in a file that can be read anywhere. Raises UnreadableWheel, and what `file` raises."""
    with _sound("its list of members"):
        archive = zipfile.ZipFile(cast("IO[bytes]", file))
    with archive:
        if len(archive.filelist) > MEMBERS:
            raise UnreadableWheel(f"it has more than {MEMBERS} members")
        yield OpenWheel(archive)


class InstalledWheel(OpenWheel):
    """An installed wheel, asked like the wheel: files by their names from site-packages, which is `root`."""

    def __init__(self, root: Path, names: Iterable[str]) -> None:
        self._root = root
        self._at: Callable[[], int] = lambda: 0
        self.members = tuple(_installed_member(root, name) for name in names if (root / name).is_file())

    @contextmanager
    def open(self, info: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
        with (self._root / info.filename).open("rb") as stream:
            self._at = stream.tell
            yield stream

    def bytes_read(self, info: zipfile.ZipInfo) -> int:
        return self._at()


def _installed_member(root: Path, name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.file_size = info.compress_size = (root / name).stat().st_size
    return info


@contextmanager
def _sound(what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, *BROKEN) as error:
        # a damaged offset makes zipfile seek to before the file's start, which the system calls an invalid argument
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise UnreadableWheel(f"{what} is damaged: {error}") from None
