"""The dynamic loader's view of an ELF file: its needed libraries, its exported and its undefined symbols.

Everything is found by the program headers and the dynamic section, as the loader finds it: section headers are asked
only for a count that nothing else tells. Numbers are from the ELF gABI and its GNU extensions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import replace

MAGIC = b"\x7fELF"
X86_64, AARCH64 = 62, 183
"""Machines (`e_machine`)."""

LARGEST = 256 << 20
"""Bytes of the largest table that is read: torch's symbol names take 40 MiB."""

_BLOCK = 256 << 10
"""Bytes that are read at once where small records follow each other."""

_MOST = 1 << 20
"""Records of a list that only its last one ends."""

_NAMES = 1 << 30
"""Bytes of all names together: tables can give many symbols one long name."""

_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_NEEDED, _HASH, _STRTAB, _SYMTAB, _STRSZ, _SONAME, _RPATH, _RUNPATH = 1, 4, 5, 6, 10, 14, 15, 29
_GNU_HASH, _VERDEF, _VERDEFNUM, _VERNEED, _VERNEEDNUM = 0x6FFFFEF5, 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
_DYNSYM = 11
_GLOBAL, _WEAK, _UNIQUE = 1, 2, 10
_HIDDEN = (1, 2)
_VERSION_WEAK = 2
_SYMBOL = struct.Struct("<IBBHQQ")


class Seekable(Protocol):
    def read(self, size: int, /) -> bytes: ...

    def seek(self, offset: int, whence: int = 0, /) -> int: ...


class MalformedElf(Exception):
    """An ELF file whose tables contradict each other or end early. Its text says what is wrong."""


class NeededVersions(NamedTuple):
    """The symbol versions that a file needs of a library, without those whose absence only warns."""

    library: str
    versions: tuple[str, ...]


class DynamicFacts(Struct, frozen=True):
    """One file's demands on the loader, and its offers.

    soname     its DT_SONAME, None where it has none
    needed     its DT_NEEDED, in order
    search     the folders of its DT_RUNPATH, else of its DT_RPATH, as they stand there (`$ORIGIN/…`)
    versions   the symbol versions that it needs
    offered    the symbol versions that it defines; empty where its symbols have none
    undefined  the global symbols that others must define; weak ones, which may be absent, are left out
    exported   the symbols that it defines for others
    program    it is started, not loaded
    """

    soname: str | None = None
    needed: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    versions: tuple[NeededVersions, ...] = ()
    offered: tuple[str, ...] = ()
    undefined: tuple[str, ...] = ()
    exported: tuple[str, ...] = ()
    program: bool = False


def read_dynamic(stream: Seekable, machine: int, concerns: Callable[[bytes], object]) -> DynamicFacts | None:
    """Read the dynamic facts of an ELF file, and of its symbols those whose name `concerns` admits.

    None for what the loader of that machine doesn't load: another machine's or 32-bit code, objects, cubins, static
    programs. A stream that seeks backwards by starting anew (a compressed member)
    unpacks everything up to the last table two or three times.
    Raises MalformedElf, and what the stream raises.
    """
    file = _File(stream)
    head = file.read(0, 64)
    if head[:6] != MAGIC + b"\x02\x01":
        return None
    kind, built_for = struct.unpack_from("<HH", head, 16)
    if kind not in (2, 3) or built_for != machine:
        return None
    segments = tuple(_segments(file, head))
    dynamic = next((segment for segment in segments if segment.kind == _DYNAMIC), None)
    if dynamic is None:
        return None
    facts = _Reader(file, head, tuple(part for part in segments if part.kind == _LOAD), dynamic).facts(concerns)
    return replace(facts, program=any(part.kind == _INTERPRETER for part in segments))


class _Segment(NamedTuple):
    kind: int
    offset: int
    address: int
    size: int


class _File:
    def __init__(self, stream: Seekable) -> None:
        self._stream = stream
        self._begin, self._block = 0, b""

    def read(self, offset: int, size: int) -> bytes:
        """Read a table or a record. Records that follow each other are read once."""
        if size > LARGEST or offset >= 1 << 62:
            raise MalformedElf(f"a table of {size:,} bytes at {offset:,}")
        if not self._begin <= offset <= offset + size <= self._begin + len(self._block):
            self._stream.seek(offset)
            self._begin, self._block = offset, self._stream.read(max(size, _BLOCK))
        at = offset - self._begin
        block = self._block[at : at + size]
        if len(block) < size:
            raise MalformedElf("it ends early")
        return block


def _segments(file: _File, head: bytes) -> Iterator[_Segment]:
    (offset,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    if size < 56:
        raise MalformedElf("its program headers are too short")
    table = file.read(offset, size * count)
    for number in range(count):
        kind, _, at, address, _, length = struct.unpack_from("<IIQQQQ", table, size * number)
        yield _Segment(kind, at, address, length)


class _Entries(dict[int, int]):
    """The entries of a dynamic section, by tag."""

    def __missing__(self, tag: int) -> int:
        raise MalformedElf(f"its dynamic section has no entry {tag}")


class _Reader:
    def __init__(self, file: _File, head: bytes, loaded: tuple[_Segment, ...], dynamic: _Segment) -> None:
        self._file, self._head, self._loaded = file, head, loaded
        entries = file.read(dynamic.offset, dynamic.size - dynamic.size % 16)
        self._all: list[tuple[int, int]] = []
        for tag, value in struct.iter_unpack("<QQ", entries):
            if not tag:
                break
            self._all.append((tag, value))
        self._by_tag = _Entries(self._all)

    def facts(self, concerns: Callable[[bytes], object]) -> DynamicFacts:
        count = self._symbol_count() if _SYMTAB in self._by_tag else 0
        # in the order in which they lie there: a compressed member is then read on and on
        spans = sorted(
            (self._offset(tag), size, tag)
            for tag, size in ((_SYMTAB, count * _SYMBOL.size), (_STRTAB, self._by_tag.get(_STRSZ, 0)))
            if size
        )
        tables = {tag: self._file.read(offset, size) for offset, size, tag in spans}
        names = _Names(tables.get(_STRTAB, b""))
        undefined, exported = _symbols(tables.get(_SYMTAB, b""), names, concerns)
        # as they lie in the file, too: the linkers write what is offered first
        offered = tuple(islice(self._offered_versions(names), _MOST))
        versions = tuple(islice(self._needed_versions(names), _MOST))
        search = self._by_tag.get(_RUNPATH, self._by_tag.get(_RPATH))
        return DynamicFacts(
            names.text(self._by_tag[_SONAME]) if _SONAME in self._by_tag else None,
            tuple(names.text(value) for tag, value in self._all if tag == _NEEDED),
            tuple(folder for folder in names.text(search).split(":") if folder) if search is not None else (),
            versions,
            offered,
            undefined,
            exported,
        )

    def _offset(self, tag: int) -> int:
        address = self._by_tag[tag]
        for segment in self._loaded:
            if segment.address <= address < segment.address + segment.size:
                return segment.offset + address - segment.address
        raise MalformedElf("its dynamic section points outside of what is loaded")

    def _symbol_count(self) -> int:
        """Count the dynamic symbols, which no entry tells."""
        if _GNU_HASH in self._by_tag and (count := self._count_by_gnu_hash()):
            return count
        if _HASH in self._by_tag:
            return int(struct.unpack("<II", self._file.read(self._offset(_HASH), 8))[1])
        return self._count_by_sections()

    def _count_by_gnu_hash(self) -> int:
        """Count by the end of the last chain; 0 for a table without symbols, as of what exports nothing."""
        at = self._offset(_GNU_HASH)
        buckets, first, bloom, _ = struct.unpack("<4I", self._file.read(at, 16))
        at += 16 + 8 * bloom
        last = max(struct.unpack(f"<{buckets}I", self._file.read(at, 4 * buckets)), default=0)
        if last < first:
            return 0
        at += 4 * buckets + 4 * (last - first)
        for count in range(_MOST):
            if struct.unpack("<I", self._file.read(at + 4 * count, 4))[0] & 1:
                return int(last) + count + 1
        raise MalformedElf("its table of symbols doesn't end")

    def _count_by_sections(self) -> int:
        (offset,) = struct.unpack_from("<Q", self._head, 40)
        size, count = struct.unpack_from("<HH", self._head, 58)
        if size < 64 or not offset:
            raise MalformedElf("it doesn't say how many symbols it has")
        table = self._file.read(offset, size * count)
        for number in range(count):
            kind, address, length = struct.unpack_from("<4xI8xQ8xQ", table, size * number)
            if kind == _DYNSYM and address == self._by_tag[_SYMTAB]:
                return int(length) // _SYMBOL.size
        raise MalformedElf("it doesn't say how many symbols it has")

    def _needed_versions(self, names: _Names) -> Iterator[NeededVersions]:
        if _VERNEED not in self._by_tag:
            return
        at = self._offset(_VERNEED)
        for _ in range(min(self._by_tag.get(_VERNEEDNUM, 0), _MOST)):
            _, count, library, first, following = struct.unpack("<HHIII", self._file.read(at, 16))
            versions, inner = [], at + first
            for _ in range(count):
                _, flags, _, name, step = struct.unpack("<IHHII", self._file.read(inner, 16))
                if not flags & _VERSION_WEAK:
                    versions.append(names.text(name))
                if not step:
                    break
                inner += step
            yield NeededVersions(names.text(library), tuple(versions))
            if not following:
                break
            at += following

    def _offered_versions(self, names: _Names) -> Iterator[str]:
        if _VERDEF not in self._by_tag:
            return
        at = self._offset(_VERDEF)
        for _ in range(min(self._by_tag.get(_VERDEFNUM, 0), _MOST)):
            auxiliary, following = struct.unpack("<12xII", self._file.read(at, 20))
            yield names.text(struct.unpack("<I", self._file.read(at + auxiliary, 4))[0])
            if not following:
                break
            at += following


class _Names:
    def __init__(self, table: bytes) -> None:
        self._table, self._left = table, _NAMES

    def raw(self, offset: int) -> bytes:
        end = self._table.find(b"\0", offset)
        if offset >= len(self._table) or end < 0:
            raise MalformedElf("a name lies outside of its table")
        self._left -= end - offset
        if self._left < 0:
            raise MalformedElf("its names are too long")
        return self._table[offset:end]

    def text(self, offset: int) -> str:
        return self.raw(offset).decode("utf-8", "replace")


def _symbols(
    table: bytes, names: _Names, concerns: Callable[[bytes], object]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    undefined: set[str] = set()
    exported: set[str] = set()
    for name, info, other, section, _, _ in _SYMBOL.iter_unpack(table):
        bound = info >> 4
        if not name or bound not in (_GLOBAL, _WEAK, _UNIQUE) or (not section and bound == _WEAK):
            continue
        if section and other & 3 in _HIDDEN:
            continue
        raw = names.raw(name)
        if concerns(raw):
            (exported if section else undefined).add(raw.decode("utf-8", "replace"))
    return tuple(sorted(undefined)), tuple(sorted(exported))
