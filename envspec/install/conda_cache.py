"""The cache of unpacked conda packages: envspec fills and checks it, rattler links from it.

rattler 0.28 downloads, unpacks and links in one step, before envspec could check a package. So envspec downloads and
unpacks a package apart, checks its members, and only then moves it to the place where rattler looks:
`<name>-<version>-<build>/` and, beside it, `….lock` with a revision and the archive's sha256.

Why it is so: docs/design/18-conda.md.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.artifacts.conda_archives import is_whole, mark_of, open_archive
from envspec.base.errors import EnvspecError, IndexFailure, StorageError
from envspec.base.flock import hold
from envspec.base.places import stranger, this_user
from envspec.base.progress import Progress
from envspec.base.redact import redact
from envspec.base.storage import says_storage
from envspec.base.threads import run_async
from envspec.install.collect import Paths
from envspec.install.conda_paths import (
    PackagePath,
    Unpacked,
    entries_of,
    member_error,
    member_fault,
    refuse_unsafe,
    site_packages_of,
)
from envspec.lock.conda_files import file_key
from envspec.lock.model import Pin, TargetInputs
from envspec.net import limits
from envspec.net.body import Pace
from envspec.net.fetch import origin_of
from envspec.net.file_store import sha256_of
from envspec.net.transport import Patience
from envspec.packages.archive_entries import path_fault

if TYPE_CHECKING:
    from rattler import RepoDataRecord
    from rattler.networking import Client

AGAIN = "check the address and the network, then run the same command again: finished downloads are kept"
_DISTRUST = "don't install from this channel until its owner has found the cause: files of a channel never change"
_ROOM = "free some space, or move the cache with ENVSPEC_CACHE_DIR"
_AT_ONCE = 6
_TRIES = 3
_LOOK = 0.25
"""Seconds between two looks at what has come."""
_WORLD_WRITABLE = stat.S_IWOTH


class CondaCache(Struct, frozen=True):
    """The cache: `folder` has the unpacked packages, `scratch` is an empty folder of this run beside it. `patience` is
    for channels with a time-out of their own, by origin; `shared` has the packages that all users read, of which those
    in `refused` are damaged."""

    folder: Path
    scratch: Path
    client: Client
    progress: Progress
    patience: Mapping[str, Patience] = field(default_factory=dict)
    shared: Path | None = None
    refused: set[str] = field(default_factory=set)

    def entry(self, record: RepoDataRecord) -> Path:
        """Give a package's folder. Raises IndexFailure for names that can't be a folder's name."""
        name = entry_name(record)
        if fault := path_fault(name) or ("the name has a slash" if "/" in name else ""):
            raise member_error(record.name.normalized, name, fault)
        return self.folder / name

    def adopt(self, records: Sequence[RepoDataRecord]) -> set[str]:
        """Link to the shared packages that are whole, and give their names. rattler opens a package's mark to write,
        and so takes none from a folder that its user only reads: the mark is the user's, the package the
        administrator's."""
        names: set[str] = set()
        for record in records if self.shared else ():
            package = Path(self.shared or "", self.entry(record).name)
            with suppress(OSError):
                if record.name.normalized in self.refused or stranger(package.lstat(), this_user()):
                    continue
                if is_whole(package, record.sha256):
                    link = self.scratch / package.name
                    link.unlink(missing_ok=True)
                    link.symlink_to(package)
                    self._put(record, link)
                    names.add(record.name.normalized)
        return names

    async def fill(self, records: Sequence[RepoDataRecord]) -> None:
        """Download and unpack packages. Raises IndexFailure for a file that is missing, has another hash or a forbidden
        member; OSError.
        """
        counted = _Counted(self.progress, len(records))
        turn = asyncio.Semaphore(_AT_ONCE)

        async def fill_package(number: int, record: RepoDataRecord) -> None:
            async with turn:
                await self._fill(record, self.scratch / str(number), counted)

        tasks = [asyncio.ensure_future(fill_package(number, record)) for number, record in enumerate(records)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _fill(self, record: RepoDataRecord, place: Path, counted: _Counted) -> None:
        from rattler.package_streaming import download_and_extract

        place.mkdir()
        if record.url.startswith("file:"):
            archive = path_of(record)
        else:
            archive = place / record.file_name
            await self._download(record, archive, counted)
        name = record.name.normalized
        special = await members_of(archive, name)
        unpacked = place / "unpacked"
        try:
            await download_and_extract(self.client, archive.absolute().as_uri(), unpacked, record.sha256)
        except OSError as error:
            raise unpack_failure(error, name) from None
        refuse_special(name, special, unpacked)
        _close_to_the_world(unpacked)
        self._put(record, unpacked)
        shutil.rmtree(place, ignore_errors=True)
        counted.finish(name)

    async def _download(self, record: RepoDataRecord, archive: Path, counted: _Counted) -> None:
        """Download a package's file, and retry some times after a broken connection."""
        from rattler.package_streaming import download_to_writer

        for left in reversed(range(_TRIES)):
            try:
                with archive.open("wb") as file:
                    writer = _Watched(file, counted)
                    own = self.patience.get(origin_of(record.url))
                    await _watch(download_to_writer(self.client, record.url, writer), writer, record, own)
                    file.flush()
            except (OSError, RuntimeError) as error:
                if writer.failed is not None:
                    raise writer.failed from None
                if isinstance(error, OSError) and error.errno is not None:
                    raise
                if left and isinstance(error, OSError):
                    await asyncio.sleep(0.2)
                    continue
                message = redact(f"{record.url} can't be downloaded: {' '.join(str(error).split())}")
                raise IndexFailure(message, hint=AGAIN) from None
            expected = (record.sha256 or b"").hex()
            if (digest := sha256_of(archive)) != expected:
                raise IndexFailure(
                    redact(f"{record.url} has the sha256 {digest}, but the lock has {expected}"),
                    hint=_DISTRUST,
                )
            return

    def _put(self, record: RepoDataRecord, unpacked: Path) -> None:
        """Move an unpacked package into its place, unless another run has done so."""
        entry = self.entry(record)
        mark = mark_of(entry)
        with (self.folder / ".cache.lock").open("ab") as held:
            # the lock that rattler's installers of all processes hold
            hold(held.fileno())
            same = not entry.is_symlink() or (unpacked.is_symlink() and unpacked.readlink() == entry.readlink())
            if same and is_whole(entry, record.sha256):
                return
            before = mark.read_bytes() if mark.is_file() else b""
            revision = int.from_bytes(before[:8], "big") + 1
            # never an older package's files under this one's hash
            self.drop(record)
            unpacked.rename(entry)
            mark.write_bytes(revision.to_bytes(8, "big") + (record.sha256 or b""))

    def drop(self, record: RepoDataRecord) -> None:
        """Remove a package from the cache, or the link to a shared one."""
        entry = self.entry(record)
        mark_of(entry).unlink(missing_ok=True)
        if entry.is_symlink():
            entry.unlink()
        shutil.rmtree(entry, ignore_errors=True)

    def describe(self, record: RepoDataRecord) -> Unpacked:
        """Describe a package of the cache."""
        return Unpacked(record.name.normalized, self.entry(record))


def entry_name(record: RepoDataRecord) -> str:
    """Give a package's name in rattler's cache and in conda-meta."""
    return f"{record.name.normalized}-{record.version}-{record.build}"


def path_of(record: RepoDataRecord) -> Path:
    """Give the path of a `file:` record's file."""
    return Path(unquote(urlsplit(record.url).path))


async def members_of(archive: Path, package: str) -> list[str]:
    """Look at every member of an archive; gives those that are neither file nor link, by name. Raises IndexFailure."""
    special = []
    try:
        opened = await open_archive(archive.absolute().as_uri())
        for section in ("info", "pkg"):
            async for member in opened.stream(section):
                target = member.link_target if member.is_symlink else None
                if fault := member_fault(member.name, target):
                    raise member_error(package, member.name, fault)
                if member.is_hardlink and (fault := path_fault(member.link_target or "")):
                    raise member_error(package, member.name, f"it's a hard link to {member.link_target!r}: {fault}")
                if not member.is_file and not member.is_link:
                    special.append(member.name)
    except OSError as error:
        raise _unreadable(error, package) from None
    return special


def _unreadable(error: OSError, package: str) -> EnvspecError:
    """Translate an error of rattler's reader, which itself refuses names that lead out."""
    words = "invalid package-relative archive path: "
    text = str(error)
    if words in text:
        member = text.partition(words)[2]
        return member_error(package, member, path_fault(member) or "it leads out of its folder")
    if says_storage(text):
        return StorageError(f"the conda package {package} can't be read: {text}", hint=_ROOM)
    return IndexFailure(f"the conda package {package} can't be read: {text}", hint=_DISTRUST)


def refuse_special(package: str, members: Iterable[str], unpacked: Path) -> None:
    """Raise IndexFailure for a member of the archive that rattler made an empty file of: it's neither a file nor a
    folder nor a link."""
    for member in members:
        if not (unpacked / member).is_dir():
            raise member_error(package, member, "it's neither a file nor a folder nor a link")


def unpack_failure(error: Exception, package: str) -> EnvspecError:
    """Translate an error of rattler's unpacking."""
    text = redact(" ".join(str(error).split()))
    if says_storage(text):
        return StorageError(f"{package}: {text}", hint=_ROOM)
    return IndexFailure(f"the conda package {package} can't be unpacked: {text}", hint=_DISTRUST)


def _close_to_the_world(folder: Path) -> None:
    """Remove other users' write permission: a file's mode in the archive would hold in every environment."""
    for base, folders, files in os.walk(folder):
        for path in (base, *(os.path.join(base, name) for name in (*folders, *files))):
            with suppress(FileNotFoundError):
                mode = os.lstat(path).st_mode
                if mode & _WORLD_WRITABLE and not stat.S_ISLNK(mode):
                    os.chmod(path, stat.S_IMODE(mode) & ~_WORLD_WRITABLE)


async def _watch(job: Awaitable[None], writer: _Watched, record: RepoDataRecord, own: Patience | None) -> None:
    """Wait for a download. Raises IndexFailure for a peer that is slower than the limits allow, that sends nothing for
    the time that the user gave its channel, or more than the lock has."""
    url = redact(record.url)
    bounds = limits.LIMITS
    if own is not None:
        bounds = replace(bounds, first_seconds=max(bounds.first_seconds, own.seconds))
    most = bounds.file_bytes if record.size is None else record.size
    pace, heard, seen = Pace(url, bounds), time.monotonic(), 0
    task = asyncio.ensure_future(job)
    try:
        while not (await asyncio.wait({task}, timeout=_LOOK))[0]:
            received, seen = writer.length - seen, writer.length
            heard = time.monotonic() if received else heard
            if own is not None and time.monotonic() - heard > own.seconds:
                raise own.gave_up(url)
            pace.add(received)
            if seen > most:
                raise IndexFailure(f"{url} is larger than the {most} bytes that it may have", hint=_DISTRUST)
        task.result()
    finally:
        task.cancel()


class _Watched:
    """A file being written: its length so far, and the error for which no more could be."""

    def __init__(self, file: BinaryIO, counted: _Counted) -> None:
        self._file, self._counted = file, counted
        self.length = 0
        self.failed: OSError | None = None

    def write(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            # rattler tells it in its own words, as a fault of the download
            self.failed = error
            raise
        self.length += len(data)
        self._counted.came(len(data))


class _Counted:
    """The count of downloaded packages and bytes."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._bytes, self._done = progress, 0, 0
        if total:
            progress.phase("downloading conda packages", total)

    def came(self, length: int) -> None:
        self._bytes += length
        self._progress.advance(self._done, f"{self._bytes / 1e6:.0f} MB downloaded")

    def finish(self, name: str) -> None:
        self._done += 1
        self._progress.advance(self._done, name)


def refuse_unfit_packages(pins: Sequence[Pin], archives: Paths, inputs: TargetInputs, scratch: Path) -> None:
    """Raise IndexFailure for a conda package that would write outside the environment. `scratch` is an empty folder, to
    unpack in. Raises OSError."""
    from rattler.package_streaming import extract

    places = {f"lib/python{inputs.python}/site-packages"}
    unpacked: list[Unpacked] = []
    for number, pin in enumerate(sorted(pins, key=lambda pin: pin.name != "python")):
        archive = archives[file_key(pin)]
        special = run_async(members_of(archive, pin.name))
        package = Unpacked(pin.name, scratch / str(number))
        try:
            extract(archive, package.folder)
        except (OSError, RuntimeError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise unpack_failure(error, pin.name) from None
        refuse_special(pin.name, special, package.folder)
        if pin.name == "python" and (place := site_packages_of(package)):
            places.add(place)
        unpacked.append(package)
    entries: dict[Unpacked, list[PackagePath]] = {package: entries_of(package, places) for package in unpacked}
    refuse_unsafe(entries, scratch / "prefix", inputs.platform)
