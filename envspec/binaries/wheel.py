"""A wheel as a random-access file: its members within bounds, and the paths that they are installed to."""

from __future__ import annotations

import csv
import errno
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, cast

from msgspec import Struct

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


class Budget(Struct):
    """The rest that may be read of a wheel: bytes as they lie in it, and unpacked. `take` raises BudgetSpent."""

    packed: int
    unpacked: int

    def take(self, packed: int, unpacked: int = 0) -> None:
        self.packed -= packed
        self.unpacked -= unpacked
        if self.packed < 0 or self.unpacked < 0:
            raise BudgetSpent


class OpenWheel:
    """A wheel that is open: of `MEMBERS` at the most. Making and reading it raise UnreadableWheel, and what its file
    raises."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        if len(archive.filelist) > MEMBERS:
            raise UnreadableWheel(f"it has more than {MEMBERS} members")
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


# The installed paths of a wheel's files, and each one's content by the wheel's own RECORD.

PREFIX = "../../.."
"""The prefix, from `lib/pythonX.Y/site-packages`."""
_SCHEMES = {"purelib": "", "platlib": "", "data": f"{PREFIX}/", "scripts": f"{PREFIX}/bin/"}
_SECTIONS = ("console_scripts", "gui_scripts")
_PACKED, _UNPACKED = 8 << 20, 64 << 20
"""Bytes of a RECORD that are read at most, packed and unpacked."""


def installed_path(member: str) -> str | None:
    """Give the place of a wheel's member from site-packages; None where no other wheel has its place (headers)."""
    top, _, below = member.partition("/")
    if not top.endswith(".data"):
        return member
    scheme, _, rest = below.partition("/")
    return f"{_SCHEMES[scheme]}{rest}" if scheme in _SCHEMES else None


def record_rows(text: str) -> list[tuple[str, str, str]]:
    """Read a RECORD: members with their hashes and sizes, as far as it has these. Rows of another length are left out,
    and all of a text that is no table."""
    with suppress(csv.Error):
        return [(row[0], row[1], row[2]) for row in csv.reader(text.splitlines()) if len(row) == 3]
    return []


def commands_of(text: str) -> Iterator[tuple[str, str]]:
    """Read an entry_points.txt: an installer's commands, each with its function ("module:function [extra]")."""
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line.strip("[] \t")
        elif section in _SECTIONS and "=" in line and not line.startswith(("#", ";")):
            command, _, runs = line.partition("=")
            yield command.strip(), runs.strip()


def command_content(runs: str) -> str:
    """Describe a command's content by the function that it runs."""
    return f"runs {''.join(runs.partition('[')[0].split())}"


def installed_paths(wheel: OpenWheel) -> Mapping[str, str]:
    """List the paths that a wheel installs, seen from site-packages, each with a mark by which its content is compared:
    RECORD's hash, without one the member's CRC and size, or the function that a command runs. The wheel's own
    .dist-info is left out, as no other wheel has that path. Empty for a wheel whose RECORD is too large.

    Raises UnreadableWheel.
    """
    budget = Budget(_PACKED, _UNPACKED)
    try:
        texts = {
            info.filename.partition("/")[2]: wheel.read(info, budget).decode("utf-8", "surrogateescape")
            for info in wheel.find(r"[^/]+\.dist-info/(?:RECORD|entry_points\.txt)")
        }
    except BudgetSpent:
        return {}
    hashes = {name: digest for name, digest, _ in record_rows(texts.get("RECORD", ""))}
    contents: dict[str, str] = {}
    for info in wheel.members:
        top = info.filename.partition("/")[0]
        place = installed_path(info.filename) if top.endswith(".data") else info.filename
        if place and not top.endswith(".dist-info"):
            contents[place] = hashes.get(info.filename) or f"crc32={info.CRC:08x} {info.file_size}"
    for command, function in commands_of(texts.get("entry_points.txt", "")):
        contents[f"{PREFIX}/bin/{command}"] = command_content(function)
    return contents


def untrue_rows(path: Path) -> frozenset[str]:
    """Give the places, from site-packages, of the files of a wheel on disk whose size its own RECORD says wrongly."""
    try:
        with path.open("rb") as file, open_wheel(file) as wheel:
            sizes = {info.filename: str(info.file_size) for info in wheel.members}
            (record,) = wheel.find(r"[^/]+\.dist-info/RECORD")
            text = wheel.read(record, Budget(_PACKED, _UNPACKED)).decode("utf-8", "surrogateescape")
    except (UnreadableWheel, BudgetSpent, ValueError):
        return frozenset()
    wrong = (name for name, _, size in record_rows(text) if size and sizes.get(name, size) != size)
    return frozenset(place for name in wrong if (place := installed_path(name)))


def paths_of_wheel(path: Path) -> Mapping[str, str]:
    """Give `installed_paths` of a wheel on disk; none for one that can't be read, which its installer says."""
    try:
        with path.open("rb") as file, open_wheel(file) as wheel:
            return installed_paths(wheel)
    except UnreadableWheel:
        return {}
