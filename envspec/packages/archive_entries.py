"""The names of an archive's entries, and their sizes, seen before anything unpacks it.

It imports nothing of envspec's: bundles carry this very file, and `install.sh` has it look through the wheels
(`python archive_entries.py ENTRIES BYTES RATIO FILE…`) where there is no envspec.
"""

from __future__ import annotations

import bz2
import gzip
import os
import re
import struct
import sys
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable
from typing import IO, Any, BinaryIO, NamedTuple

LONGEST_NAME = 255
LONGEST_PATH = 4096
DEEPEST = 100
"""Folders above a file. Packages have a dozen, and every change below one walks them all."""
"""In bytes: what a name and a path may have on Linux (NAME_MAX and PATH_MAX of limits.h)."""
_DRIVE = re.compile(r"[A-Za-z]:")

SOURCES = (".tar.gz", ".tgz", ".zip", ".tar.bz2", ".tar.xz", ".tar")
"""Ends of the names of source distributions, those that are read without seeking first."""


def path_fault(path: str) -> str:
    """The reason why no package may name this path, in a few words; empty when it's a plain path below the environment.

    Refused is what leaves a folder on any system, and what no file system holds: the same lock serves them all.
    """
    if not path:
        return "an empty name"
    # what is ASCII and printable has neither; a wheel has tens of thousands of names
    plain = path.isascii() and path.isprintable()
    if not plain and any(unicodedata.category(letter) in ("Cc", "Cs") for letter in path):
        # half of a surrogate pair stands for a byte that is no UTF-8
        surrogate = any("\ud800" <= letter <= "\udfff" for letter in path)
        return "it isn't UTF-8" if surrogate else "it has a control character"
    if path.startswith(("/", "\\")):
        return "it's absolute"
    if _DRIVE.match(path):
        return "it names a drive"
    if "\\" in path:
        return "it has a backslash, which separates folders on Windows"
    parts = path.split("/")
    if ".." in parts:
        return "it leads out of its folder (..)"
    if "" in parts or "." in parts:
        return "it has an empty part"
    if len(parts) > DEEPEST:
        return f"it lies more than {DEEPEST} folders deep"
    if len(path) * 4 <= LONGEST_NAME:
        return ""
    if any(len(part.encode()) > LONGEST_NAME for part in parts) or len(path.encode()) >= LONGEST_PATH:
        return "it's longer than a file's name can be"
    return ""


class Bounds(NamedTuple):
    """entries  the most that an archive may have
    unpacked    the bytes that any may unpack to
    ratio       and how many times its own size, where that is more
    """

    entries: int
    unpacked: int
    ratio: int

    def bytes_of(self, size: int) -> int:
        """The most that an archive of `size` bytes may unpack to."""
        return max(self.unpacked, size * self.ratio)


_LOCAL = struct.Struct("<4s5H3I2H")
"""The head of an entry, before its name (APPNOTE.TXT 4.3.7)."""
_DESCRIPTORS = (0, 12, 16, 20, 24)
"""Bytes after an entry's data: none, or a data descriptor with or without signature, with sizes of four or eight bytes
(4.3.9)."""
_HAS_DESCRIPTOR = 1 << 3
_ENCRYPTED = 1 << 0
_PIECE = 1 << 20
_HEADS = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_MOST_OF_A_HEAD = 1 << 20
"""Bytes of what a tar says of a member beside its head: a name has 4,096 at most on Linux, an attribute 65,536."""


def wheel_fault(path: str | os.PathLike[str], bounds: Bounds) -> str:
    """The reason against unpacking a wheel, as the words after "the wheel …"; empty without one.

    Its list of entries is held to the bounds, and then to be true: programs that unpack a wheel as it comes don't look
    at the list, so what the entries say of themselves and what they unpack to has to be the same. Raises OSError.
    """
    size = os.stat(path).st_size
    try:
        with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
            entries = archive.infolist()
            fault = _too_much(len(entries), sum(entry.file_size for entry in entries), size, bounds)
            fault = fault or _names_fault(entries) or _entries_fault(file, entries, archive.start_dir)
            return fault or layout_fault(entries) or _commands_fault(archive)
    except (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, EOFError, struct.error) as error:
        return f"can't be read: {error}"


def source_fault(path: str | os.PathLike[str], bounds: Bounds, file: str = "") -> str:
    """The same of a source distribution, a tar or a zip: how much it unpacks to, and whether a member leads out. `file`
    is its name where that isn't the path's."""
    name = file or str(path)
    if name.endswith(".zip"):
        return wheel_fault(path, bounds)
    from lzma import LZMAError

    size = os.stat(path).st_size
    count = unpacked = 0
    try:
        with _plain(path, name) as plain, _tar(_Bounded(plain, size, bounds)) as archive:
            for member in archive:
                count, unpacked = count + 1, unpacked + max(0, member.size)
                if fault := _too_much(count, unpacked, size, bounds):
                    return fault
                if max(member.name.count("/"), member.linkname.count("/")) > DEEPEST:
                    return f"has an entry more than {DEEPEST} folders deep"
                if member.name.startswith("/") or ".." in member.name.split("/"):
                    return f"has the entry {member.name!r}: it leads out of the folder that it's unpacked to"
    except _TooMuch as error:
        return _too_much(0, error.args[0], size, bounds)
    except (tarfile.TarError, EOFError, zlib.error, LZMAError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        return f"can't be read: {error}"
    return ""


def leading_out(members: Iterable[tarfile.TarInfo]) -> str | None:
    """The first member of an sdist's tar that leads out by its name or by links, or None. Nothing may lie below
    a link or in its place, and a link goes up first and then down, so that where it leads is seen by its text. Python's
    own filter asks the file system, which chains of links deceive: they lead farther than a path may be long
    (CVE-2025-4517). Builds of Python and packages of conda have such links, and another reader."""
    links = set[str]()
    for member in members:
        parts, target = _parts(member.name), _parts(member.linkname)
        paths = [(member.name, parts), *([(member.linkname, target)] if member.islnk() else [])]
        for name, path in paths:
            above = {_fold("/".join(path[:count])) for count in range(1, len(path) + 1)}
            if name.startswith("/") or ".." in path or above & links:
                return member.name
        if member.issym():
            links.add(_fold("/".join(parts)))
            up = target.count("..")
            if member.linkname.startswith("/") or up >= len(parts) or target[:up] != [".."] * up:
                return member.name
    return None


def _fold(path: str) -> str:
    """Give the key that paths share which are one on some file systems, of macOS or Windows."""
    return unicodedata.normalize("NFD", path).casefold()


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


class TarMember(tarfile.TarInfo):
    """A member of a tar that others made. `tarfile` reads a long name, and the attributes of a member or of all that
    follow, whole into memory, however long they say they are."""

    def _proc_member(self, archive: Any) -> tarfile.TarInfo:
        if self.type in _HEADS:
            size = self.size
            if self.type == tarfile.XGLTYPE:
                # these stay, each with names of its own
                size = archive.heads = getattr(archive, "heads", 0) + self.size
            if not 0 <= size <= _MOST_OF_A_HEAD:
                raise tarfile.ReadError(f"a member's name or attributes have {size} bytes")
        return super()._proc_member(archive)  # type: ignore[misc,no-any-return]


def _tar(file: Any) -> tarfile.TarFile:
    return tarfile.open(fileobj=file, mode="r|", tarinfo=TarMember)


def _plain(path: str | os.PathLike[str], name: str) -> Any:
    """A tar as it is once it's unpacked."""
    import lzma

    if name.endswith((".gz", ".tgz")):
        return gzip.open(path)
    if name.endswith(".bz2"):
        return bz2.open(path)
    return lzma.open(path) if name.endswith(".xz") else open(path, "rb")


class _TooMuch(Exception):
    """A stream is longer than it may be."""


class _Bounded:
    """A tar's bytes, no more than it may unpack to: a single header may ask for all of it."""

    def __init__(self, file: IO[bytes], size: int, bounds: Bounds) -> None:
        self._file, self._read = file, 0
        # heads and padding come on top of what is unpacked
        self._most = bounds.bytes_of(size) + 2 * tarfile.BLOCKSIZE * min(bounds.entries, 1 + size)

    def read(self, count: int) -> bytes:
        self._read += count
        if self._read > self._most + tarfile.RECORDSIZE:
            raise _TooMuch(self._read)
        return self._file.read(count)


def _too_much(count: int, unpacked: int, size: int, bounds: Bounds) -> str:
    if count > bounds.entries:
        return f"has {count} entries, and {bounds.entries} are the most"
    most = bounds.bytes_of(size)
    if unpacked > most:
        return f"has {unpacked >> 20} MiB once it's unpacked, and {most >> 20} MiB are the most for its size"
    return ""


def _names_fault(entries: list[zipfile.ZipInfo]) -> str:
    for entry in entries:
        # zipfile cuts a name at a NUL, and who unpacks may not
        name = entry.orig_filename
        parts = _parts(name)
        fault = path_fault(name if name.startswith("/") else "/".join(parts))
        if fault and (parts or name.startswith("/")):
            why = fault if "(..)" not in fault and "absolute" not in fault else ""
            return f"has the entry {name!r}: {why or LEADS_OUT}"
    return ""


_OWN = re.compile(
    r"pyvenv\.cfg|bin|lib(?:64)?|conda-meta/.*|etc/envspec/.*|(?:bin|scripts)/"
    r"(?:pythonw?[\d.]*|activate(?:\.(?:sh|csh|fish|nu|ps1|bat|xsh))?|activate_this\.py"
    r"|deactivate(?:\.(?:bat|nu))?)(?:\.exe)?",
    re.IGNORECASE,
)
"""The files of an environment before any wheel: its settings, its Python, its activation, the records of conda and
envspec."""
_INFO = re.compile(r"(?:lib(?:64)?/(?:[^/]+/)?site-packages/)?([^/]+\.dist-info)/", re.IGNORECASE)


def _normalise(path: str) -> str:
    """Give the path at which an installer writes an entry: empty parts and `.` lead nowhere."""
    return "/".join(_parts(path))


def layout_fault(entries: Iterable[zipfile.ZipInfo]) -> str:
    """The reason why a wheel can't be installed, or would replace what isn't its own, by the list of its entries, as
    the words after "the wheel …"; empty without one."""
    files: dict[str, zipfile.ZipInfo] = {}
    folders = set[str]()
    infos = set[str]()
    for entry in entries:
        name = _normalise(entry.filename)
        if entry.filename.endswith("/"):
            folders.add(name)
            continue
        first = files.setdefault(name, entry)
        if first is not entry and (first.CRC, first.file_size) != (entry.CRC, entry.file_size):
            return f"has the entry {name!r} twice, with different content"
        folders.update(name[: match.start()] for match in re.finditer("/", name))
        top, _, rest = name.partition("/")
        kind, _, below = rest.partition("/")
        if top.endswith(".data"):
            place = {"scripts": f"bin/{below}", "data": below}.get(kind, "")
            if _OWN.fullmatch(place):
                return f"has the entry {name!r}, which replaces a file of the environment's own"
            if _INFO.match(below if kind in ("data", "purelib", "platlib") else ""):
                return f"has the entry {name!r}, which is of another package's .dist-info"
        elif top.endswith(".dist-info") and rest:
            infos.add(top)
    if len(infos) > 1:
        return f"has {len(infos)} folders .dist-info instead of one: {', '.join(sorted(infos)[:3])}"
    if both := sorted(folders & files.keys()):
        return f"has the entry {both[0]!r} both as a file and as a folder"
    return ""


_COMMAND = re.compile(r"^\s*([^\s=\[;#][^=\n]*?)\s*=", re.MULTILINE)
_MOST_COMMANDS = 1 << 20


def _commands_fault(archive: zipfile.ZipFile) -> str:
    for entry in archive.infolist():
        if re.fullmatch(r"[^/]+\.dist-info/entry_points\.txt", entry.filename) and entry.file_size <= _MOST_COMMANDS:
            text = archive.read(entry).decode("utf-8", "replace")
            commands = "".join(re.findall(r"^\s*\[\s*(?:console|gui)_scripts\s*\]([^\[]*)", text, re.MULTILINE))
            for command in _COMMAND.findall(commands):
                if _OWN.fullmatch(_normalise(f"bin/{command}")):
                    return f"has the command {command!r}, which replaces a file of the environment's own"
    return ""


LEADS_OUT = "it leads out of the folder that it's installed to"


def _entries_fault(file: BinaryIO, entries: list[zipfile.ZipInfo], end: int) -> str:
    """Return whether the entries lie as the list says, one behind the other, and unpack to what it says."""
    at = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        name = entry.orig_filename
        if not _follows(at, entry.header_offset):
            return "has entries that its list doesn't name"
        file.seek(entry.header_offset)
        head = _LOCAL.unpack(file.read(_LOCAL.size))
        flags, method, packed, unpacked = head[2], head[3], head[7], head[8]
        own = file.read(head[9])
        if head[0] != b"PK\x03\x04" or own != _raw_name(entry) or method != entry.compress_type:
            return f"calls its entry {name!r} something else in its list"
        if not flags & _HAS_DESCRIPTOR and not _same_sizes(entry, packed, unpacked):
            return f"gives its entry {name!r} another size in its list"
        if flags & _ENCRYPTED or method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            return f"has the entry {name!r}, packed in a way that wheels aren't"
        file.seek(head[10], os.SEEK_CUR)
        if not _unpacks_to(file, entry):
            return f"has the entry {name!r}, which isn't of the size that its list says"
        at = file.tell()
    return "" if _follows(at, end) else "has entries that its list doesn't name"


def _follows(at: int, start: int) -> bool:
    return start - at in (_DESCRIPTORS if at else (0,))


def _raw_name(entry: zipfile.ZipInfo) -> bytes:
    return entry.orig_filename.encode("utf-8" if entry.flag_bits & 0x800 else "cp437", "surrogateescape")


def _same_sizes(entry: zipfile.ZipInfo, packed: int, unpacked: int) -> bool:
    # all bits set: the size stands in eight bytes elsewhere, and is checked by what unpacks
    return all(
        size in (listed, 0xFFFFFFFF) for size, listed in ((packed, entry.compress_size), (unpacked, entry.file_size))
    )


def _unpacks_to(file: BinaryIO, entry: zipfile.ZipInfo) -> bool:
    """Return whether an entry unpacks to what its list says. Leaves the file behind its data."""
    left = entry.compress_size
    if entry.compress_type == zipfile.ZIP_STORED:
        file.seek(left, os.SEEK_CUR)
        return left == entry.file_size
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    unpacked = 0
    while left and not stream.eof:
        piece = file.read(min(left, _PIECE))
        if not piece:
            return False
        left -= len(piece)
        while piece and not stream.eof:
            unpacked += len(stream.decompress(piece, 4 * _PIECE))
            if unpacked > entry.file_size:
                return False
            piece = stream.unconsumed_tail
    file.seek(left, os.SEEK_CUR)
    return stream.eof and not left and not stream.unused_data and unpacked == entry.file_size


def main(arguments: list[str]) -> int:
    """Look through wheels; the first that has something against it is told, and gives 2."""
    bounds = Bounds(*map(int, arguments[:3]))
    for path in arguments[3:]:
        look = wheel_fault if path.endswith(".whl") else source_fault
        if fault := look(path, bounds):
            sys.stderr.write(f"{os.path.basename(path)} {fault}\n")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
