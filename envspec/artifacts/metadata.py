"""Metadata of an artifact: name, version, dependencies, licence, size. It is read once for a hash.

A wheel's METADATA comes from the index's sidecar (PEP 658), whether or not the page announces it, or from the wheel
itself by a byte range or two. It's kept in the cache for the very file it was read of: its address, its hash as the
page claims it, and that of the METADATA where the page has one. What an index claims binds that index alone; only where
envspec hashed the wheel's own bytes, their METADATA counts at every address of the file.
"""

from __future__ import annotations

import hashlib
import io
import re
import threading
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import IO, NamedTuple, cast

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base.cache import keep_value, read_value
from envspec.base.errors import IndexFailure
from envspec.base.plain_files import open_plain
from envspec.base.redact import redact
from envspec.base.storage import OF_THE_MACHINE
from envspec.binaries.wheel import OpenWheel, UnreadableWheel, installed_paths
from envspec.configuration.settings import split_credentials
from envspec.net.fetch import Fetcher, Reply
from envspec.net.remote_file import DamagedFile, RemoteFile, open_tail
from envspec.net.transport import Deadline, deadline
from envspec.packages.archive_entries import layout_fault
from envspec.packages.metadata import Metadata, parse_metadata
from envspec.packages.requirement import canonical_name
from envspec.resolve.uv.answer import FoundFile
from envspec.spec.way import avoiding

_SCHEMA = 2
_FIELDS = f"{zlib.crc32(' '.join(Metadata.__struct_fields__).encode()):08x}"
"""The record's fields: entries of a record without one of them don't count."""
_WHOLE = 2 << 30
"""Bytes of the largest wheel that is read whole, where a server offers neither ranges nor sidecars."""


class MetadataCache:
    """Metadata on disk, one small JSON a key. Writing is atomic; a damaged entry counts as absent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / f"metadata-v{_SCHEMA}"

    def get(self, key: str) -> Metadata | None:
        return read_value(self._path(key), Metadata)

    def put(self, key: str, metadata: Metadata) -> None:
        """Keep metadata. A cache that isn't writable (full, read-only) is no error: the caller has the answer."""
        keep_value(self._path(key), metadata)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key[2:]}{_FIELDS}.json"


def cache_key(*parts: str) -> str:
    """Make the cache key of these parts, which describe the entry completely."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _served_key(file: FoundFile, kind: str = "served") -> str:
    """Make the key of metadata read at an address: its index, or the host that it redirects to, vouches for it."""
    url = split_credentials(file.url)[0]
    return cache_key(kind, url, file.file, str(file.sha256), file.metadata_sha256 or "")


def _hashed_key(file: FoundFile) -> str:
    """Make the key of metadata from the wheel's own bytes, which is valid wherever they come from."""
    return cache_key("hashed", file.file, str(file.sha256))


class OwnMetadata(NamedTuple):
    """The METADATA in a wheel. `beside` is its index's copy, where that has other bytes."""

    metadata: Metadata
    beside: Metadata | None = None


_MOST_PATHS = 250_000
"""Paths of wheels that are kept in memory, some 200 bytes each with their hashes."""


class OpenedWheels(Struct):
    """The paths of wheels that were opened for their METADATA in this run, by URL: those of the latest wheels, at most
    `most` paths in all."""

    most: int = _MOST_PATHS
    _paths: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, url: str) -> Mapping[str, str] | None:
        return self._paths.get(url)

    def add(self, url: str, paths: Mapping[str, str]) -> None:
        with self._lock:
            self._paths[url] = paths
            while sum(map(len, self._paths.values())) > self.most:
                del self._paths[next(iter(self._paths))]


class MetadataReader(Struct, frozen=True):
    """A reader of wheels' metadata through the cache. It leaves the installed paths of each wheel that it opens in
    `opened`: RECORD lies beside METADATA, and another look would ask for the same bytes."""

    cache: MetadataCache
    fetcher: Fetcher
    opened: OpenedWheels | None = None

    def recall(self, file: FoundFile) -> Metadata | None:
        """Look up a wheel's metadata in the cache, read from its own bytes or at the same address."""
        return self.cache.get(_hashed_key(file)) or self.cache.get(_served_key(file))

    def read(self, file: FoundFile, *, sidecar: bool = True) -> Metadata:
        """Read one wheel's metadata from its index. `sidecar`: the METADATA is likely to lie beside it. Raises
        IndexFailure."""
        with self._deadline() as whole, whole.holds():
            text, size, hashed = self._from_index(file, sidecar)
        claimed = file.size is not None and not hashed
        known = replace(_parse(text, file), size=file.size if claimed else size)
        self.cache.put(_hashed_key(file) if hashed else _served_key(file), known)
        return known

    def read_beside(self, file: FoundFile) -> Metadata | None:
        """Read the METADATA that an index has beside a wheel; None where it has none. The size stays unknown. Raises
        IndexFailure."""
        text = self._sidecar(file)
        return None if text is None else _parse(text, file)

    def read_own(self, file: FoundFile) -> OwnMetadata | None:
        """Read the METADATA in a wheel itself, and its index's copy where that differs; None where the server gives no
        parts of files. Raises IndexFailure."""
        key = _served_key(file, "own")
        if known := self.cache.get(key):
            return OwnMetadata(known)
        with self._deadline() as whole, whole.holds():
            tail = self._tail(file)
            if tail.status != 206 and not tail.body:
                return None
            text, size, _ = self._from_wheel(file, tail)
        own = replace(_parse(text, file), size=size)
        if file.metadata_sha256 in (None, hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()):
            self.cache.put(key, own)
            return OwnMetadata(own)
        return OwnMetadata(own, self.read_beside(file))

    def read_file(self, path: Path, file: FoundFile) -> Metadata:
        """Read the metadata of a wheel at `path`, whose bytes were hashed here. Raises IndexFailure, OSError."""
        with open_plain(path, links_out=True) as wheel:
            text = self._text_in(wheel, file)
        known = replace(_parse(text, file), size=path.stat().st_size)
        self.cache.put(_hashed_key(file), known)
        return known

    def _from_index(self, file: FoundFile, sidecar: bool) -> tuple[str, int | None, bool]:
        """Read the METADATA's text and the wheel's size; and whether the whole wheel has the page's hash.

        If the page has sizes and announces the sidecar, that is enough. If it doesn't, the wheel's last bytes have
        both, in one request instead of two; a server that ignores ranges leaves the sidecar and HEAD, and at last
        the whole wheel.
        """
        if file.size is not None and sidecar:
            text = self._sidecar(file)
            return (text, file.size, False) if text is not None else self._from_wheel(file, self._tail(file))
        tail = self._tail(file)
        if tail.status == 206 or tail.body:
            return self._from_wheel(file, tail)
        text = self._sidecar(file)
        if text is not None:
            return text, file.size if file.size is not None else tail.total, False
        return self._from_wheel(file, self.fetcher.get(file.url, limit=_WHOLE))

    def _deadline(self) -> AbstractContextManager[Deadline]:
        """Give METADATA one limit, however many parts of a wheel it takes."""
        return deadline(self.fetcher.limits.whole_seconds)

    def _sidecar(self, file: FoundFile) -> str | None:
        reply = self.fetcher.get(file.url + ".metadata", limit=self.fetcher.limits.metadata_bytes)
        if reply.status != 200 or not reply.body.startswith(b"Metadata-Version:"):
            return None
        got = hashlib.sha256(reply.body).hexdigest()
        if file.metadata_sha256 and got != file.metadata_sha256:
            raise _content_error(
                f"{redact(file.url)}.metadata has sha256 {got}, but the index's page says {file.metadata_sha256}"
            )
        return reply.body.decode("utf-8", "replace")

    def _tail(self, file: FoundFile) -> Reply:
        return open_tail(self.fetcher, file.url, _WHOLE)

    def _from_wheel(self, file: FoundFile, tail: Reply) -> tuple[str, int | None, bool]:
        if tail.status == 200 and not tail.body:
            tail = self.fetcher.get(file.url, limit=_WHOLE)
        total = tail.total if tail.status == 206 and tail.total is not None else len(tail.body)
        whole = total == len(tail.body)
        if whole:
            refuse_other_hash(file, hashlib.sha256(tail.body).hexdigest())
        text = self._text_in(RemoteFile(self.fetcher, file.url, total, tail.body), file)
        return text, total, whole and file.sha256 is not None

    def _text_in(self, wheel: IO[bytes] | io.RawIOBase, file: FoundFile) -> str:
        """Read the METADATA out of a wheel."""
        try:
            with zipfile.ZipFile(cast(IO[bytes], wheel)) as archive:
                refuse_layout(file, archive.infolist())
                names = [n for n in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", n)]
                if len(names) != 1:
                    fault = f" holds {len(names)} METADATA files instead of one"
                    raise _damage_error(file, fault, "the wheel is damaged")
                most = self.fetcher.limits.metadata_bytes
                with archive.open(names[0]) as member:
                    content = member.read(most + 1)
                if len(content) > most:
                    fault = f": its METADATA is larger than {most >> 20} MiB"
                    raise _damage_error(file, fault, "the wheel is hostile or broken")
                if self.opened is not None:
                    # what can't be read is said by whoever asks for it
                    with suppress(UnreadableWheel, IndexFailure):
                        self.opened.add(file.url, installed_paths(OpenWheel(archive)))
                return content.decode("utf-8", "replace")
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as error:
            if isinstance(error, OSError) and error.errno in OF_THE_MACHINE:
                raise
            raise _damage_error(file, f" isn't a wheel: {error}", "the file is damaged or cut off") from None


def _parse(text: str, file: FoundFile) -> Metadata:
    try:
        metadata = parse_metadata(text)
    except ValueError as error:
        raise _damage_error(file, f": the METADATA is invalid: {error}", "the file is damaged") from None
    if metadata.name != canonical_name(file.file.split("-")[0]):
        raise _damage_error(file, f": the METADATA belongs to {metadata.name}", "it mixes up its files")
    return metadata


def _damage_error(file: FoundFile, fault: str, cause: str) -> DamagedFile:
    return DamagedFile(f"{redact(file.url)}{fault}", hint=f"report this to whoever runs the index: {cause}")


def _content_error(message: str) -> IndexFailure:
    return IndexFailure(message, hint="don't install from this index until whoever runs it has found the cause")


def release_of(file: FoundFile) -> tuple[str, str]:
    """Read the project and the version from the name of a wheel or a source distribution."""
    stem = re.sub(r"\.(whl|zip|tgz|tar(\.\w+)?)$", "", file.file)
    name, version = stem.split("-")[:2] if file.file.endswith(".whl") else stem.rpartition("-")[::2]
    return canonical_name(name), version


def refuse_layout(file: FoundFile, entries: Iterable[zipfile.ZipInfo]) -> None:
    """Raise IndexFailure for a wheel that no installer could install, or that would replace other packages' files."""
    if fault := layout_fault(entries):
        raise avoiding(IndexFailure(f"{redact(file.url)} {fault}", hint="tell those who publish it"), *release_of(file))


def refuse_other_hash(file: FoundFile, got: str) -> None:
    """Raise IndexFailure if the content's sha256 isn't the index's own."""
    if file.sha256 and got != file.sha256:
        raise _content_error(f"{redact(file.url)}: the content has sha256 {got}, but the index says {file.sha256}")
