"""Inspection of a wheel, an environment or a file: open it, scan its members, collect their device code."""

from __future__ import annotations

import errno
import stat
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from threading import Event
from typing import IO

from msgspec.structs import replace

from envspec.base.errors import InputError, Place, StorageError
from envspec.base.progress import Progress
from envspec.base.threads import Pool
from envspec.binaries import fatbin
from envspec.binaries.build_notes import build_notes
from envspec.binaries.fatbin import Member
from envspec.binaries.library import Inspection, Library, compiler_major, merge, scan
from envspec.binaries.wheel import OpenWheel, UnreadableWheel
from envspec.binaries.window import Window
from envspec.packages.variants import InvalidVariants, of_wheel

THREADS = 4
"""Threads: decompression releases the interpreter's lock, and a thread holds some megabytes at most."""

DEVICE_ONLY = frozenset((".cubin", ".fatbin"))
"""Suffixes of pure device code. flashinfer-cubin has 3,460 such files, so those of a folder count as one library."""

_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, OverflowError)
"""The exceptions that zipfile raises for damaged members."""


def inspect(path: Path, progress: Progress | None = None) -> Inspection:
    """Find the device code in a wheel, below a folder (an environment's prefix, site-packages) or in one file.

    Writes nothing, and needs some megabytes of memory whatever the size.
    Raises InputError (no such file, not a wheel, damaged) and StorageError (`path` can't be read).
    """
    progress = progress or Progress()
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return _prefix(path, progress)
        if not stat.S_ISREG(mode):
            raise _wrong(path, "neither a file nor a folder")
        alone = fatbin.on_disk(path, path.name)
        if alone is not None:
            return _gather(path, "file", [alone], progress)
        with path.open("rb") as file:
            return _wheel(path, file, progress)
    except (FileNotFoundError, NotADirectoryError):
        raise _wrong(path, "no such file or folder", "give a wheel, an environment's folder or a library") from None
    except OSError as error:
        raise StorageError(f"can't be read: {error.strerror or error}", place=Place(str(path))) from None


def _prefix(path: Path, progress: Progress) -> Inspection:
    unread: list[str] = []

    def note(shown: str, error: OSError) -> None:
        unread.append(f"{shown}: {error.strerror or error}")

    members = list(fatbin.below(path, note))
    return _gather(path, "prefix", members, progress, unread, note)


def _wheel(path: Path, file: IO[bytes], progress: Progress) -> Inspection:
    begins_as_zip = file.read(4) == b"PK\x03\x04"
    try:
        with zipfile.ZipFile(file) as archive:
            _check(path, archive)
            inspection = _gather(path, "wheel", list(fatbin.in_wheel(archive)), progress)
            cuda = compiler_major(path.name, build_notes(OpenWheel(archive)).cuda)
            libraries = tuple(replace(library, cuda=library.cuda or cuda) for library in inspection.libraries)
            variant, unread = _variant(archive)
            return replace(inspection, libraries=libraries, variant=variant, unread=(*inspection.unread, *unread))
    except UnreadableWheel as error:
        raise _wrong(path, f"the wheel is damaged or cut off: {error}", "download it again") from None
    except (OSError, *_BROKEN) as error:
        # A damaged offset makes zipfile seek to before the file's start, which the system calls an invalid argument.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        if not begins_as_zip:
            message = "neither a wheel nor a library"
            hint = "give a .whl file, an environment's folder, or a .so, .dll, .a, .cubin or .fatbin file"
            raise _wrong(path, message, hint) from None
        raise _wrong(path, f"the wheel is damaged or cut off: {error}", "download it again") from None


def _variant(archive: zipfile.ZipFile) -> tuple[Mapping[str, tuple[str, ...]], tuple[str, ...]]:
    """Read a wheel's statement of its variant (PEP 825), and the reason if that can't be read."""
    try:
        read = of_wheel(archive)
    except InvalidVariants as error:
        return {}, (str(error),)
    if read is None:
        return {}, ()
    return {label: tuple(map(str, properties)) for label, properties in read.variants.items()}, ()


def _check(path: Path, archive: zipfile.ZipFile) -> None:
    names = [PurePosixPath(name) for name in archive.namelist()]
    if not any(len(name.parts) == 2 and name.match("*.dist-info/WHEEL") for name in names):
        message = "a ZIP archive, but not a wheel: no .dist-info/WHEEL inside"
        raise _wrong(path, message, "install the package and inspect the environment's folder")
    for info in archive.infolist():
        if info.flag_bits & 1:
            raise _wrong(path, "a member is encrypted, and wheels can't be")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _wrong(path, f"compressed with ZIP method {info.compress_type}; wheels are stored or deflated")


def _gather(
    path: Path,
    kind: str,
    members: list[Member],
    progress: Progress,
    unread: list[str] | None = None,
    note: Callable[[str, OSError], None] | None = None,
) -> Inspection:
    """Scan members in threads, the largest first. With `note`, reports and skips a member that can't be read."""
    stopped = Event()

    def count(size: int) -> None:
        if stopped.is_set():
            raise InterruptedError
        progress.came(size)

    def scan_member(member: Member) -> Library | None:
        try:
            with member.open() as stream:
                return scan(Window(stream, can_seek=member.on_disk, passed=count), member.path, member.size)
        except OSError as error:
            if note is None or stopped.is_set():
                raise
            note(member.path, error)
            return None

    progress.phase("reading", sum(member.size for member in members))
    with Pool(THREADS) as pool:
        try:
            scanned = list(pool.map(scan_member, sorted(members, key=lambda member: -member.size)))
        except BaseException:
            stopped.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    libraries = _by_folder(library for library in scanned if library is not None and library.modules)
    amd = tuple(sorted(library.path for library in scanned if library is not None and library.hip is not None))
    return Inspection(str(path), kind, len(members), libraries, tuple(sorted(unread or ())), hip=amd)


def _by_folder(libraries: Iterable[Library]) -> tuple[Library, ...]:
    single: list[Library] = []
    folders: defaultdict[str, list[Library]] = defaultdict(list)
    for library in libraries:
        path = PurePosixPath(library.path)
        if path.suffix in DEVICE_ONLY:
            folders[str(path.parent / f"*{path.suffix}")].append(library)
        else:
            single.append(library)
    for pattern, parts in folders.items():
        single.append(parts[0] if len(parts) == 1 else merge(pattern, parts))
    return tuple(sorted(single, key=lambda library: library.path))


def _wrong(path: Path, message: str, hint: str | None = None) -> InputError:
    return InputError(message, place=Place(str(path)), hint=hint)
