"""The facts of wheels, kept by the wheel's sha256: a wheel is read once on a machine, and those of the shipped locks'
torches not even once."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import IO

from envspec.base.cache import keep_entry, read_entry
from envspec.base.documents import decode, encode
from envspec.binaries.elf import AARCH64, MAGIC, X86_64, MalformedElf, read_dynamic
from envspec.binaries.fatbin import TEXT
from envspec.binaries.import_time import find_guarded_modules, imports_at_start
from envspec.binaries.wheel import installed_path, open_wheel
from envspec.prove.link.model import FORGOTTEN, ElfFile, WheelFacts, concerns, is_extension

MACHINES = {"linux-64": X86_64, "linux-aarch64": AARCH64}
"""ELF's machine of each platform that link judges."""


def read_wheel(path: Path, machine: int) -> WheelFacts:
    """Read the facts of a wheel: of its ELF files, and the imports of its Python modules. Raises UnreadableWheel,
    OSError."""
    files, unread, tops = [], [], set()
    with path.open("rb") as file, open_wheel(file) as wheel:
        for info in wheel.members:
            place = installed_path(info.filename)
            tops.add((place or "").partition("/")[0].partition(".")[0])
            if place is None or PurePosixPath(info.filename).suffix in TEXT:
                continue
            with wheel.open(info) as stream:
                if stream.read(len(MAGIC)) != MAGIC:
                    continue
                try:
                    facts = read_dynamic(stream, machine, concerns)
                except MalformedElf as error:
                    unread.append((place, str(error)))
                    continue
            if facts is not None:
                files.append(ElfFile(place, facts))
        imports_by_module = imports_at_start(wheel, FORGOTTEN)
        modules = {
            file.path.partition(".")[0].replace("/", "."): file.path for file in files if is_extension(file.facts)
        }
        optional = tuple(sorted(modules[module] for module in find_guarded_modules(wheel, modules)))
    imports = tuple(
        (module, importers.modules[0]) for module, importers in sorted(imports_by_module.items()) if importers.modules
    )
    brings = tuple(sorted(tops & FORGOTTEN.keys()))
    in_order = tuple(sorted(files, key=lambda file: file.path))
    return WheelFacts(in_order, tuple(sorted(unread)), imports, brings, optional)


def read_libraries(folder: Path, machine: int, *, deep: bool) -> Iterator[ElfFile]:
    """Read the facts of the libraries in a folder, and below it if `deep`. What can't be read as one is none. Raises
    OSError for the folder."""
    for path in sorted(folder.rglob("*.so*") if deep else folder.glob("*.so*")):
        with suppress(OSError, MalformedElf), path.open("rb") as file:
            if path.is_file() and (facts := read_dynamic(file, machine, concerns)) is not None:
                yield ElfFile(str(path.relative_to(folder)) if deep else str(path), facts)


def read_library(stream: IO[bytes], size: int, *, machine: int, folder: Path) -> bytes:
    """Return the facts of a library in a stream, `size` bytes long there, encoded; empty for an unreadable one.
    It lies in `folder` meanwhile. Raises OSError."""
    with TemporaryFile(dir=folder) as file:
        while size > 0 and (piece := stream.read(min(size, _PIECE))):
            size -= file.write(piece)
        with suppress(MalformedElf):
            return encode(facts) if (facts := read_dynamic(file, machine, concerns)) else b""
    return b""


_PIECE = 1 << 20
_SCHEMA = 4
"""Another number for other facts: also where `envspec.prove.link.model` has another family."""

_LARGEST = 512 << 20
"""Bytes of an entry, unpacked. torch's takes 10 MB."""


SHIPPED = Path(__file__).with_name("data") / "linked.zip"
"""The facts that come with envspec: an entry a wheel, named `<sha256>-<machine>.json`."""


class LinkStore:
    """The facts of wheels on disk. Writing is atomic; a damaged entry counts as absent."""

    def __init__(self, cache: Path) -> None:
        self._folder = cache / f"linked-v{_SCHEMA}"

    def get(self, sha256: str, machine: int) -> WheelFacts | None:
        """Return the known facts about a wheel."""
        try:
            packed = read_entry(self._path(sha256, machine))
            return decode(zlib.decompressobj().decompress(packed, _LARGEST), WheelFacts)
        except (OSError, ValueError, zlib.error):
            return shipped_facts(sha256, machine)

    def put(self, sha256: str, machine: int, facts: WheelFacts) -> None:
        """Keep facts. A cache that isn't writable is no error: the caller has them."""
        keep_entry(self._path(sha256, machine), zlib.compress(encode(facts), 3))

    def _path(self, sha256: str, machine: int) -> Path:
        return self._folder / sha256[:2] / f"{sha256[2:]}-{machine}.json.z"


def shipped_facts(sha256: str, machine: int) -> WheelFacts | None:
    """Return envspec's shipped facts about a wheel. A Python without lzma has none of it."""
    try:
        with zipfile.ZipFile(SHIPPED) as archive:
            return decode(archive.read(_entry(sha256, machine)), WheelFacts)
    except (OSError, KeyError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile):
        return None


def pack(facts: Mapping[tuple[str, int], WheelFacts], path: Path) -> None:
    """Write the facts that envspec ships, by sha256 and machine: equal facts, equal bytes. Raises OSError."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for (sha256, machine), wheel in sorted(facts.items()):
            archive.writestr(zipfile.ZipInfo(_entry(sha256, machine)), encode(wheel), zipfile.ZIP_LZMA)


def _entry(sha256: str, machine: int) -> str:
    return f"{sha256}-{machine}.json"
