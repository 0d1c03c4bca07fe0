"""A SIF's root filesystem, read by unsquashfs: nothing is unpacked to a disk, mounted or run.

Source: the header and descriptors of the format (github.com/apptainer/sif, pkg/sif/sif.go, version 01); unsquashfs(1).
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from envspec.base import programs
from envspec.base.errors import InputError, Place, ToolError
from envspec.base.plain_files import open_plain
from envspec.image.base import BaseFiles, ReadPaths
from envspec.image.layer_stream import most_entries

_HEADER = struct.Struct("<32s10s3s3s16sqqqqqqqq")
_DESCRIPTOR = struct.Struct("<i?IIIqqqqqqq128s384s")
_PARTITION, _SQUASHFS, _PRIMARY = 0x4004, 1, 2
_MOST_DESCRIPTORS = 1000
_MOST_RECORDS = 10_000
"""Files that are read. unsquashfs looks for each of them among all in its folder."""
_MOST_WORDS = 64 << 10
"""Bytes of paths that one run of unsquashfs gets: the system has a limit on a command's words."""
_PLATFORMS = {b"02": "linux-64", b"04": "linux-aarch64"}
_LINE = re.compile(r"([-l])[rwxstST-]{9} \S+\s+(\d+) \S+ \S+ squashfs-root/(.+)")
_QUIET = programs.Streams(stderr=subprocess.DEVNULL)


class Sif(Struct, frozen=True):
    """A SIF: where its root filesystem begins, and its platform, a conda subdir."""

    path: Path
    offset: int
    platform: str | None


def open_sif(path: Path) -> Sif:
    """Read a SIF's header. Raises InputError for a file that is none, that has more than one root, as Apptainer refuses
    it, whose root is no squashfs, or to which a link leads out of its repository, NotPlain, OSError."""
    with open_plain(path) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            _, magic, _, arch, _, _, _, _, total, offset, *_ = _HEADER.unpack(file.read(_HEADER.size))
            if not magic.startswith(b"SIF_MAGIC") or not 0 <= total <= _MOST_DESCRIPTORS or not 0 <= offset <= size:
                raise ValueError
            file.seek(offset)
            roots = []
            for _ in range(total):
                kind, used, _, _, _, begin, *_, extra = _DESCRIPTOR.unpack(file.read(_DESCRIPTOR.size))
                filesystem, part = struct.unpack_from("<ii", extra)
                if used and kind == _PARTITION and part == _PRIMARY:
                    roots.append((filesystem, begin))
            ((filesystem, begin),) = roots
            if filesystem == _SQUASHFS and 0 <= begin <= size:
                return Sif(path, begin, _PLATFORMS.get(arch[:2]))
        except (struct.error, ValueError, OverflowError):
            pass
    raise InputError("this is no SIF with a squashfs in it", hint="name a SIF of Apptainer's", place=Place(str(path)))


def read_sif(sif: Sif, read_paths: ReadPaths, env: Mapping[str, str]) -> BaseFiles:
    """Read these paths of a SIF's root. Raises InputError for a SIF that holds more than the limits allow,
    ToolError."""
    program = programs.find_program("unsquashfs", env)
    if program is None:
        hint = "install squashfs-tools, or name the image that the SIF was made from"
        raise ToolError("a SIF is read by unsquashfs, and PATH has none", hint=hint)
    command = [program, "-o", str(sif.offset)]
    paths: set[str] = set()
    links: dict[str, str] = {}
    sizes: dict[str, int] = {}
    for kind, size, path in _list(sif, command, env):
        path, _, target = path.partition(" -> ") if kind == "l" else (path, "", "")
        if read_paths.seen.fullmatch(path):
            paths.add(path)
            if kind == "l":
                links[path] = target
        if kind == "-" and read_paths.contents.fullmatch(path):
            sizes[path] = size
    if len(sizes) > _MOST_RECORDS:
        raise _too_much(sif, f"more than {_MOST_RECORDS} records")
    total = sum(size if read_paths.read is None else min(size, read_paths.head) for size in sizes.values())
    if total > read_paths.most:
        raise _too_much(sif, f"{total} bytes of records, and {read_paths.most} are the most that are read")
    return BaseFiles(_cat(sif, command, env, sizes, read_paths), {}, frozenset(paths), links)


def _list(sif: Sif, command: list[str], env: Mapping[str, str]) -> Iterator[tuple[str, int, str]]:
    most = most_entries()
    with programs.start([*command, "-lln", str(sif.path.absolute())], env, streams=_QUIET) as running:
        assert running.stdout is not None
        for count, line in enumerate(running.stdout):
            if count > most:
                running.kill()
                raise _too_much(sif, f"more than {most} entries")
            match = _LINE.fullmatch(line.decode("utf-8", "replace").rstrip("\n"))
            if match:
                yield match[1], int(match[2]), match[3]
    _refuse_failure(sif, running)


def _cat(
    sif: Sif, command: list[str], env: Mapping[str, str], sizes: Mapping[str, int], read_paths: ReadPaths
) -> dict[str, bytes]:
    """Read files, which come one behind the other; `sizes` are in bytes."""
    contents: dict[str, bytes] = {}
    for batch in _split_into_commands(sizes):
        words = [*command, "-no-wildcards", "-cat", str(sif.path.absolute()), *batch]
        with programs.start(words, env, streams=_QUIET) as running:
            stream = running.stdout
            assert stream is not None
            for path in batch:
                contents[path] = read_paths.keep(stream, sizes[path])
                if read_paths.read is None:
                    stream.read(sizes[path] - len(contents[path]))
            if stream.read(1):
                running.kill()
                raise _too_much(sif, "another size of its files than it lists")
        _refuse_failure(sif, running)
    return contents


def _split_into_commands(paths: Iterable[str]) -> Iterator[list[str]]:
    """Split paths into as many as one command takes."""
    batch, length = list[str](), 0
    for path in paths:
        if batch and length + len(path) > _MOST_WORDS:
            yield batch
            batch, length = [], 0
        batch.append(path)
        length += len(path) + 1
    if batch:
        yield batch


def _refuse_failure(sif: Sif, running: subprocess.Popen[bytes]) -> None:
    if running.returncode:
        raise ToolError(f"unsquashfs can't read {sif.path} (status {running.returncode})", hint="is the SIF whole?")


def _too_much(sif: Sif, what: str) -> InputError:
    return InputError(f"the SIF has {what}", hint="find out who made it", place=Place(str(sif.path)))
