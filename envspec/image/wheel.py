"""The files of a wheel as an installer puts them into an environment (PEP 427), taken from the wheel itself.

uv isn't used: its files depend on its own version, on the interpreter that it finds and, where several NVIDIA wheels
have one file, on the order of its threads. Here a wheel and the environment's place decide alone, and nothing is
unpacked to a disk. A test holds the result to uv's, file by file.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import posixpath
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, Protocol, cast

from msgspec import Struct

from envspec.base.errors import IndexFailure, ToolError
from envspec.binaries.wheel import commands_of, record_rows
from envspec.export.plan import OnBase
from envspec.image.layer import FILE, PROGRAM, LayerEntry, text_entry
from envspec.install.installed import FILE as DIRECT_URL, direct_url
from envspec.lock.model import Pin
from envspec.packages.archive_entries import path_fault

# A member of a wheel as a stream, inflated by zlib-ng: what inflates takes as long as all digests of a layer.


_HEAD = struct.Struct("<4s22xHH")
"""A local file header: its mark, 22 bytes that the directory has too, the lengths of the name and of what is added.
Source: PKWARE's APPNOTE, 4.3.7."""
_MARK = b"PK\3\4"
_PIECE = 1 << 18


class _Stream(Protocol):
    eof: bool
    unconsumed_tail: bytes

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class WheelMember(Struct, frozen=True):
    """Opens a member of a wheel. Each opening reads the file by itself, so that no two share a place in it.

    name    of the member
    kind    how it is packed, as zipfile numbers it
    offset  of its header in the file
    packed  its bytes there
    crc     the checksum of its content
    """

    path: Path
    name: str
    kind: int
    offset: int
    packed: int
    crc: int

    @staticmethod
    def of(path: Path, info: zipfile.ZipInfo) -> WheelMember:
        """Take of a directory's row what reading needs: a layer has tens of thousands of them."""
        return WheelMember(path, info.filename, info.compress_type, info.header_offset, info.compress_size, info.CRC)

    def __call__(self) -> IO[bytes]:
        if self.kind not in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
            return zipfile.ZipFile(self.path).open(self.name)
        file = self.path.open("rb", buffering=0)
        try:
            file.seek(self.offset)
            mark, name, more = _HEAD.unpack(file.read(_HEAD.size))
            assert mark == _MARK, self.path
            file.seek(name + more, os.SEEK_CUR)
        except BaseException:
            file.close()
            raise
        return cast("IO[bytes]", _Content(file, self))


class _Content:
    """A member's content, with its checksum."""

    def __init__(self, file: IO[bytes], member: WheelMember) -> None:
        from zlib_ng import zlib_ng

        self._file, self._member, self._left = file, member, member.packed
        self._stream = zlib_ng.decompressobj(-zlib.MAX_WBITS) if member.kind == zipfile.ZIP_DEFLATED else None
        self._sum, self._checksum = 0, zlib_ng.crc32

    def __enter__(self) -> _Content:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def read(self, size: int = -1) -> bytes:
        """Give up to so many bytes, none at the end; all of them without a size. Raises ToolError for what isn't
        deflated, and where the checksum is another one."""
        if size < 0:
            return b"".join(iter(partial(self.read, _PIECE), b""))
        try:
            piece = self._inflate(self._stream, size) if self._stream else self._read_piece(size)
        except Exception as error:
            # zlib-ng's own, a class of no type that is known
            if type(error).__name__ != "error":
                raise
            raise self._read_error(str(error)) from None
        self._sum = self._checksum(piece, self._sum)
        if not piece and self._sum != self._member.crc:
            raise self._read_error("it has another checksum")
        return piece

    def _inflate(self, stream: _Stream, size: int) -> bytes:
        piece = b""
        while not piece and not stream.eof:
            packed = stream.unconsumed_tail or self._read_piece(_PIECE)
            piece = stream.decompress(packed, size)
            if not packed and not piece:
                break
        return piece

    def _read_piece(self, size: int) -> bytes:
        piece = self._file.read(min(size, self._left))
        self._left -= len(piece)
        return piece

    def _read_error(self, what: str) -> ToolError:
        return ToolError(
            f"{self._member.name} of {self._member.path.name} can't be read: {what}",
            hint="check whether another program writes to envspec's cache, then run again",
        )


INSTALLER = "envspec"
_SHEBANG = re.compile(rb"#!python[^\r\n]*")
"""The first line that stands for the environment's Python (PEP 427); all of it goes, as with pip and uv."""
_INSTALLERS = ("RECORD", "RECORD.jws", "RECORD.p7s", "INSTALLER", "REQUESTED", DIRECT_URL)
"""The files of a .dist-info folder that are an installer's to write."""
_TO_REWRITE = 1 << 20
"""Bytes of a script that may begin with `#!python`."""
_FINDS_PYTHON = """\
#!/bin/sh
'''exec' "$(dirname -- "$(realpath -- "$0")")/python" "$0" "$@"
' '''"""
"""For a shell it runs the Python beside the script; for Python it is a string."""
_SIDES = ("purelib", "platlib")
_POINT = re.compile(r"(?P<module>[\w.]+)\s*:\s*(?P<attribute>[\w.]+)\s*(?:\[.*\])?")


class Scheme(Struct, frozen=True):
    """The layout of an environment: its prefix in the image ("/opt/env"), and its Python's version ("3.12").
    `anywhere`: scripts find the interpreter beside them, wherever the prefix is. `on_base`: the packages come beside
    those of a base."""

    prefix: str
    python: str
    anywhere: bool = False
    on_base: OnBase | None = None

    @property
    def root(self) -> str:
        return self.prefix.strip("/")

    @property
    def site(self) -> str:
        return self.on_base.site if self.on_base else f"{self.root}/lib/python{self.python}/site-packages"

    @property
    def script_head(self) -> str:
        """The first lines of a script, up to its second."""
        python = self.on_base.python if self.on_base else f"{self.prefix}/bin/python"
        return _FINDS_PYTHON if self.anywhere else f"#!{python}"

    def headers(self, name: str) -> str:
        return f"{self.root}/include/site/python{self.python}/{name}"


def wheel_entries(path: Path, pin: Pin, scheme: Scheme) -> Iterator[LayerEntry]:
    """Give the entries of a wheel that was looked through before. Raises IndexFailure for one that isn't a wheel."""
    archive = zipfile.ZipFile(path)
    infos = [info for info in archive.infolist() if not info.is_dir()]
    stem = _stem(infos, path)
    record = _Record(archive, stem, scheme)
    left_out = {f"{stem}.dist-info/{own}" for own in _INSTALLERS}
    for info in infos:
        name = info.filename
        if name in left_out:
            continue
        place, is_script = _place(name, stem, pin.name, scheme)
        if path_fault(place):
            raise IndexFailure(f"{path.name} has the entry {name!r}: {path_fault(place)}", hint=_HINT)
        mode = PROGRAM if is_script or info.external_attr >> 16 & 0o111 else FILE
        if is_script and (script := _rewrite_shebang(archive, info, scheme)) is not None:
            yield record.add(text_entry(place, script, mode), script)
        else:
            record.keep(place, name)
            yield LayerEntry(place, info.file_size, WheelMember.of(path, info), mode=mode)
    for command, text in _commands(archive, stem, scheme, path):
        yield record.add(text_entry(f"{scheme.root}/bin/{command}", text, PROGRAM), text.encode())
    for own, content in _own(pin).items():
        yield record.add(text_entry(f"{scheme.site}/{stem}.dist-info/{own}", content), content)
    yield record.entry()


_HINT = "don't install it: such a file is hostile or broken; tell those who publish it"


def _stem(infos: list[zipfile.ZipInfo], path: Path) -> str:
    """Find the start of the names of a wheel's own folders: `name-version`."""
    stems = {
        info.filename.removesuffix(".dist-info/WHEEL")
        for info in infos
        if info.filename.endswith(".dist-info/WHEEL") and info.filename.count("/") == 1
    }
    if len(stems) != 1:
        raise IndexFailure(f"{path.name} has {len(stems)} folders .dist-info with a WHEEL instead of one", hint=_HINT)
    return stems.pop()


def _place(name: str, stem: str, package: str, scheme: Scheme) -> tuple[str, bool]:
    """Give the place of a wheel's file in the image, and whether it's a script."""
    data = f"{stem}.data/"
    if not name.startswith(data):
        return f"{scheme.site}/{name}", False
    kind, _, rest = name.removeprefix(data).partition("/")
    if kind == "scripts":
        return f"{scheme.root}/bin/{rest}", True
    if kind == "headers":
        return f"{scheme.headers(package)}/{rest}", False
    return f"{scheme.site if kind in _SIDES else scheme.root}/{rest}", False


def _rewrite_shebang(archive: zipfile.ZipFile, info: zipfile.ZipInfo, scheme: Scheme) -> bytes | None:
    """Give a script with its environment's Python in its first line; None for one that has its own."""
    if info.file_size > _TO_REWRITE:
        return None
    text = archive.read(info)
    match = _SHEBANG.match(text)
    return scheme.script_head.encode() + text[match.end() :] if match else None


def _commands(archive: zipfile.ZipFile, stem: str, scheme: Scheme, path: Path) -> Iterator[tuple[str, str]]:
    """Make the commands that a wheel's entry points ask for."""
    name = f"{stem}.dist-info/entry_points.txt"
    if name not in archive.NameToInfo:
        return
    for command, runs in commands_of(archive.read(name).decode("utf-8", "replace")):
        point = _POINT.fullmatch(runs)
        if point is None or "/" in command or path_fault(command):
            line = f"{command} = {runs}"
            raise IndexFailure(f"{path.name} has an entry point that can't be a command: {line!r}", hint=_HINT)
        yield command, _script(scheme.script_head, point["module"], point["attribute"])


def _script(head: str, module: str, attribute: str) -> str:
    return (
        f"{head}\nimport sys\n\nfrom {module} import {attribute.partition('.')[0]}\n\n"
        f'if __name__ == "__main__":\n    sys.exit({attribute}())\n'
    )


def _own(pin: Pin) -> dict[str, bytes]:
    """Give the files that an installer adds to the .dist-info folder."""
    more = {DIRECT_URL: direct_url(pin)} if pin.url else {}
    return {"INSTALLER": f"{INSTALLER}\n".encode(), **more}


class _Record:
    """RECORD as it is in the environment: paths from site-packages, the wheel's own hashes where a file is as it
    was."""

    def __init__(self, archive: zipfile.ZipFile, stem: str, scheme: Scheme) -> None:
        self._site, self._own = scheme.site, f"{stem}.dist-info/RECORD"
        self._rows: list[tuple[str, str, str]] = [(self._own, "", "")]
        text = archive.read(self._own).decode("utf-8", "surrogateescape") if self._own in archive.NameToInfo else ""
        self._known = {name: (digest, size) for name, digest, size in record_rows(text)}
        # what a RECORD says wrongly of its wheel is left unsaid
        for info in archive.infolist():
            if self._known.get(info.filename, ("", ""))[1] not in ("", str(info.file_size)):
                del self._known[info.filename]

    def keep(self, place: str, name: str) -> None:
        self._rows.append((self._relative_path(place), *self._known.get(name, ("", ""))))

    def add(self, entry: LayerEntry, content: bytes) -> LayerEntry:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self._rows.append((self._relative_path(entry.path), f"sha256={digest}", str(len(content))))
        return entry

    def _relative_path(self, place: str) -> str:
        within = f"{self._site}/"
        # a place is a plain path (`path_fault`)
        return place.removeprefix(within) if place.startswith(within) else posixpath.relpath(place, self._site)

    def entry(self) -> LayerEntry:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(sorted(self._rows))
        return text_entry(f"{self._site}/{self._own}", text.getvalue().encode("utf-8", "surrogateescape"))
