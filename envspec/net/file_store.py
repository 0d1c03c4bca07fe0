"""Files of indexes, fetched once, kept under their sha256, and looked through before they are kept.

<folder>/<sha256>/<file name>     whole, of that sha256, and fit to be unpacked
<shared>/…                        the same of an administrator's, which is only read
<folder>/<sha256>.part            what a run that was interrupted had fetched; who fetches holds it (flock)
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.cache import touch
from envspec.base.errors import IndexFailure
from envspec.base.flock import has_flock, hold, hold_by_file
from envspec.base.places import stranger, this_user
from envspec.base.plain_files import open_plain
from envspec.configuration.settings import Settings, split_credentials, trusted_folder
from envspec.net import limits
from envspec.net.fetch import BrokenOff, Fetcher
from envspec.net.transport import Deadline
from envspec.packages.archive_entries import SOURCES, Bounds, path_fault, source_fault, wheel_fault

ARTIFACTS = "artifacts"
"""The folder of the files in envspec's cache."""
_PIECE = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")
NEVER_CHANGE = "don't use it before you know why: files of an index never change"

OnBytes = Callable[[int], None]
"""Told how many bytes more have come; fewer than none where a server begins anew."""


class Claim(NamedTuple):
    """The claim of a file's hash and size: its author, and the remedy where the file has others."""

    by: str
    hint: str


BY_LOCK = Claim("the lock", NEVER_CHANGE)
BY_INDEX = Claim("the index", "don't install from this index until whoever runs it has found the cause")
BY_REQUIREMENT = Claim("the requirement", "find out which of the two is right before you install the file")


class WantedFile(NamedTuple):
    """A file by its name, its hash, and its size in bytes, None if that is unknown."""

    file: str
    sha256: str
    size: int | None
    claim: Claim = BY_LOCK


class KnownFile(NamedTuple):
    """The facts about a file that was fetched by its URL alone."""

    sha256: str
    size: int
    etag: str | None


class FileStore(Struct, frozen=True):
    """The files in `folder`, and how to fetch those that aren't there."""

    folder: Path
    fetcher: Fetcher
    shared: Path | None = None

    @staticmethod
    def of(settings: Settings, fetcher: Fetcher) -> FileStore:
        """Give the user's own files, and below them those that all users share. Raises InputError for a cache that
        others may write to."""
        shared = trusted_folder(settings.shared_cache, "[cache] shared")
        return FileStore(settings.cache() / ARTIFACTS, fetcher, shared / ARTIFACTS if shared else None)

    def find(self, expected: WantedFile) -> Path | None:
        """Find a file that was fetched before; None without one. Its hash isn't computed again (`find_and_verify` does
        that). Raises OSError."""
        place = self._place(expected)
        if _is_there(place, expected):
            touch(place.parent)
            return place
        if self.shared is None:
            return None
        place = self.shared / expected.sha256 / expected.file
        user = this_user()
        try:
            # a file that was made before its folder was shared is as good as its owner
            strangers = [stranger(path.lstat(), user) for path in (self.shared, place.parent, place)]
        except OSError:
            return None
        return place if not any(strangers) and _is_there(place, expected) else None

    def find_and_verify(self, expected: WantedFile) -> Path | None:
        """Find a file as `find` does, and compute its hash again; a file that has changed is removed. Raises
        OSError."""
        place = self.find(expected)
        if place is not None and sha256_of(place) != expected.sha256:
            if self.shared is not None and place.is_relative_to(self.shared):
                # it isn't this user's to remove, and hides what is
                return replace(self, shared=None).find_and_verify(expected)
            place.unlink(missing_ok=True)
            return None
        return place

    def fetch(
        self,
        url: str,
        expected: WantedFile,
        on_bytes: OnBytes = lambda count: None,
        on_wait: Callable[[], None] = lambda: None,
    ) -> Path:
        """Fetch a file, or the rest of it after an interrupted run.

        `on_wait` is called before waiting for another process that fetches the same one. Raises IndexFailure for a file
        that isn't there, has another hash or size, or holds what no such file may hold; OSError.
        """
        place = self._place(expected)
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f"{expected.sha256}.part"
        with _hold_part(part, on_wait) as out:
            if _is_there(place, expected):
                # whoever was waited for fetched it
                on_bytes(place.stat().st_size)
                return place
            resumed = out.tell() > 0
            self._read(url, out, expected, on_bytes)
            if (digest := _digest(out)) != expected.sha256 and resumed:
                on_bytes(-out.tell())
                _empty(out)
                self._read(url, out, expected, on_bytes)
                digest = _digest(out)
            try:
                refuse_other(digest, out.tell(), expected, split_credentials(url)[0])
                refuse_unfit(part, expected.file)
            except IndexFailure:
                _let_go(out)
                part.unlink()
                raise
            _let_go(out)
            self._keep(part, place)
        return place

    def fetch_unknown(self, url: str, file: str, known: KnownFile | None = None) -> KnownFile:
        """Fetch a file by its URL alone, and store it under the hash of its content.

        `known` are the facts of an earlier fetch: a server whose ETag is still the same doesn't send the file again.
        Raises IndexFailure for a file that doesn't exist or holds what no such file may hold; OSError.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f"{hashlib.sha256(split_credentials(url)[0].encode()).hexdigest()}.part"
        tries = Deadline(self.fetcher.limits.whole_seconds)
        with _hold_part(part, lambda: None) as out:
            for left in reversed(range(self.fetcher.retries + 1)):
                # without a hash, nobody could tell that two halves are of one file
                _empty(out)
                try:
                    etag = known.etag if known else None
                    with tries.holds(), self.fetcher.stream(url, self._most(file), known=etag) as stream:
                        if stream.unchanged and known:
                            return known
                        while piece := stream.read(_PIECE):
                            _write(out, piece)
                            tries.ends += len(piece) / self.fetcher.limits.bytes_per_second
                    break
                except BrokenOff:
                    if not left:
                        raise
                    time.sleep(0.3)
            fetched = KnownFile(_digest(out), out.tell(), stream.etag)
            place = self._place(WantedFile(file, fetched.sha256, fetched.size))
            try:
                refuse_unfit(part, file)
            except IndexFailure:
                _let_go(out)
                part.unlink()
                raise
            _let_go(out)
            self._keep(part, place)
        return fetched

    def _most(self, file: str) -> int:
        """Give the bytes that a file of unknown size may have."""
        bounds = self.fetcher.limits
        return bounds.source_bytes if file.endswith(SOURCES) else bounds.file_bytes

    def _keep(self, part: Path, place: Path) -> None:
        if place.parent.is_file():
            place.parent.unlink()
        place.parent.mkdir(exist_ok=True)
        os.replace(part, place)

    def _place(self, expected: WantedFile) -> Path:
        if not _SHA256.fullmatch(expected.sha256) or "/" in expected.file or (fault := path_fault(expected.file)):
            why = (
                fault
                if _SHA256.fullmatch(expected.sha256) and "/" not in expected.file
                else "no name or hash of a file"
            )
            raise IndexFailure(f"{expected.file!r} can't be fetched: {why}", hint="check what serves it")
        return self.folder / expected.sha256 / expected.file

    def _read(self, url: str, out: BinaryIO, expected: WantedFile, on_bytes: OnBytes) -> None:
        """Append the rest of the file at `url` to the part that `out` has."""
        most = self._most(expected.file) if expected.size is None else expected.size
        if out.tell() > most:
            _empty(out)
        on_bytes(out.tell())
        tries = Deadline(self.fetcher.limits.whole_seconds)
        for left in reversed(range(self.fetcher.retries + 1)):
            begin = out.tell()
            try:
                with tries.holds(), self.fetcher.stream(url, most, start=begin) as stream:
                    if stream.start != begin:
                        on_bytes(-begin)
                        _empty(out)
                    while piece := stream.read(_PIECE):
                        _write(out, piece)
                        on_bytes(len(piece))
                        tries.ends += len(piece) / self.fetcher.limits.bytes_per_second
                break
            except BrokenOff:
                if not left:
                    raise
                time.sleep(0.3)


def _is_there(place: Path, expected: WantedFile) -> bool:
    try:
        size = place.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return False
    return expected.size in (None, size)


@contextmanager
def _hold_part(part: Path, on_wait: Callable[[], None]) -> Iterator[BinaryIO]:
    """Open the part of a file for appending, and hold it until the block ends. An empty part is removed."""
    if has_flock():
        yield from _hold_open_part(part, on_wait)
        return
    with hold_by_file(part.with_suffix(".lock"), on_wait):
        yield from _hold_open_part(part, on_wait)


def _hold_open_part(part: Path, on_wait: Callable[[], None]) -> Iterator[BinaryIO]:
    while True:
        # unbuffered: what is told to be there is there
        with part.open("ab", buffering=0) as out:
            # on a file system without locks, two would write the same bytes, and the hash tells
            hold(out.fileno(), on_wait)
            with suppress(FileNotFoundError):
                # whoever was waited for may have given it its place
                if os.path.samestat(os.fstat(out.fileno()), os.stat(part)):
                    try:
                        yield out
                    finally:
                        _let_go(out)
                        with suppress(FileNotFoundError):
                            if not part.stat().st_size:
                                part.unlink()
                    return


def _let_go(out: BinaryIO) -> None:
    """Close a file that is about to be moved or removed, where the system wants that (Windows). Elsewhere it stays
    held until it has gone.
    """
    if os.name == "nt":
        out.close()


def _write(out: BinaryIO, piece: bytes) -> None:
    """Write all of a piece: a disk that fills up takes a part of it first, and fails at the next. Raises OSError."""
    rest = memoryview(piece)
    while rest:
        rest = rest[out.write(rest) :]


def _digest(out: BinaryIO) -> str:
    """Compute the sha256 of a written file from disk. Raises OSError, also for bytes that the system accepted and
    couldn't write."""
    # a network's file system says so when a descriptor is closed (close(2))
    os.close(os.dup(out.fileno()))
    return sha256_of(Path(out.name))


def _empty(out: BinaryIO) -> None:
    # what is appended to goes on saying where it was
    out.seek(0)
    out.truncate()


def refuse_other(digest: str, size: int, expected: WantedFile, where: str) -> None:
    """Raise IndexFailure where a file isn't the expected one."""
    if digest != expected.sha256:
        message = f"{where}: the content has sha256 {digest}, but {expected.claim.by} says {expected.sha256}"
        raise IndexFailure(message, hint=expected.claim.hint)
    if expected.size not in (None, size):
        raise IndexFailure(
            f"{where} has {size} bytes, but {expected.claim.by} says {expected.size}", hint=expected.claim.hint
        )


def refuse_unfit(path: Path, file: str) -> None:
    """Raise IndexFailure for a wheel or a source that isn't safe to unpack; `file` is its name. Raises OSError."""
    bounds = Bounds(limits.LIMITS.archive_entries, limits.LIMITS.unpacked_bytes, limits.LIMITS.unpacked_ratio)
    if file.endswith(".whl"):
        fault = wheel_fault(path, bounds)
    elif file.endswith(SOURCES):
        fault = source_fault(path, bounds, file)
    else:
        return
    if fault:
        hint = "don't install it: such a file is hostile or broken; tell those who publish it"
        raise IndexFailure(f"{file} {fault}", hint=hint)


def sha256_of(path: Path) -> str:
    """Compute the sha256 of a file, in hex. Raises NotPlain, OSError."""
    digest = hashlib.sha256()
    with open_plain(path, links_out=True) as file:
        while block := file.read(_PIECE):
            digest.update(block)
    return digest.hexdigest()
