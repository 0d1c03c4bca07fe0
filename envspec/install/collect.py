"""Every file of a target, each one checked by its hash and looked through: what environments and bundles are made of.

A file lies in a folder that pip is told to look into (`find-links`), in envspec's cache of files, or on its index, and
is taken from the first that has it. Nothing is copied.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock
from urllib.parse import urlsplit

from msgspec import Struct, field

from envspec.artifacts.urls import artifact_urls
from envspec.base.errors import IndexFailure, InputError
from envspec.base.storage import CACHE, ELSEWHERE, storage_error
from envspec.base.threads import Pool
from envspec.configuration.settings import Settings, split_credentials
from envspec.lock.conda_files import FileUrls, artifact_of, file_key, url_of
from envspec.lock.model import Artifact, Pin
from envspec.net.fetch import Fetcher, local_path
from envspec.net.file_store import FileStore, OnBytes, WantedFile, refuse_other, refuse_unfit, sha256_of
from envspec.net.simple_page import read_page
from envspec.packages.variants import read_name
from envspec.spec.model import Spec

_WORKERS = 16
_LOOKED_AT = "looked-at"
"""Below the cache of files: an empty file for each one of a user's own folder that was hashed and looked through, named
by all that changes when the file does."""

Paths = Mapping[tuple[str, str], Path]
"""(index name, file name) → where the file is."""


class Collector(Struct, frozen=True):
    """The reader of files for a target.

    store       envspec's cache of files
    urls        where the files of pins are; asked for those alone that aren't at hand
    find_links  as the user's settings have them; those that are pages are `urls`' to ask
    again       take the hash of every file again, also of those that were seen before: for what leaves this machine. An
                installer takes it itself
    on_bytes    told how many bytes have come
    on_wait     called before waiting for another envspec that fetches the same file
    """

    store: FileStore
    urls: Callable[[Sequence[Pin]], FileUrls]
    find_links: Sequence[str] = ()
    again: bool = False
    on_bytes: OnBytes = lambda count: None
    on_wait: Callable[[], None] = lambda: None
    _counting: Lock = field(default_factory=Lock)

    def collect(self, pins: Iterable[Pin]) -> Paths:
        """Collect the files of pins (none from git).

        Continues the downloads of an interrupted run. Raises IndexFailure for a file that isn't there, has another hash
        or can't be unpacked safely, StorageError.
        """
        by_key = {file_key(pin): pin for pin in pins}
        try:
            with Pool(_WORKERS) as pool:
                at_hand = zip(by_key, pool.map(self._at_hand, by_key.values()), strict=True)
                paths = {key: path for key, path in at_hand if path is not None}
            missing = [pin for key, pin in by_key.items() if key not in paths]
            if missing:
                paths |= self._fetch_all(missing, self.urls(missing))
        except OSError as error:
            if error.errno is None:
                raise
            raise storage_error(error, self.store.folder, option=CACHE, again=ELSEWHERE) from None
        return paths

    def _fetch_all(self, pins: Sequence[Pin], urls: FileUrls) -> dict[tuple[str, str], Path]:
        paths = {}
        stop = Event()

        def count(length: int) -> None:
            if stop.is_set():
                raise InterruptedError
            with self._counting:
                self.on_bytes(length)

        def fetch(pin: Pin) -> Path:
            url = url_of(pin, urls)
            if (path := self.store.fetcher.local_path(url)) is not None:
                return self._of_folder(pin, path, count)
            return self.store.fetch(url, _wanted_file(artifact_of(pin)), count, self.on_wait)

        try:
            with Pool(_WORKERS) as pool:
                # the largest first: the last to end isn't the last to begin
                ordered = sorted(pins, key=lambda pin: -(artifact_of(pin).size or 0))
                fetching = {pool.submit(fetch, pin): pin for pin in ordered}
                for future in as_completed(fetching):
                    pin = fetching[future]
                    paths[file_key(pin)] = future.result()
        finally:
            # after a failure the others end at their next piece
            stop.set()
        return paths

    def _at_hand(self, pin: Pin) -> Path | None:
        artifact = artifact_of(pin)
        for link in self.find_links:
            if is_folder(link):
                path = folder_of(link) / artifact.file
                if path.is_file() and self._is(path, artifact):
                    return path
        find = self.store.find_and_verify if self.again else self.store.find
        return find(_wanted_file(artifact))

    def _of_folder(self, pin: Pin, path: Path, on_bytes: OnBytes) -> Path:
        """Take the file from an index or a channel that is a folder."""
        if not path.is_file():
            raise IndexFailure(
                f"{path} doesn't exist", hint="check that this is the folder that the lock was made from"
            )
        if not self._is(path, artifact_of(pin)):
            refuse_other(sha256_of(path), path.stat().st_size, _wanted_file(artifact_of(pin)), str(path))
        on_bytes(path.stat().st_size)
        return path

    def _is(self, path: Path, artifact: Artifact) -> bool:
        """Return whether a file of the user's own folder is the required one. Raises IndexFailure for one that is,
        and can't be unpacked safely."""
        state = path.stat()
        seen = (str(path.resolve()), state.st_size, state.st_mtime_ns, state.st_ctime_ns, artifact.sha256)
        mark = self.store.folder / _LOOKED_AT / hashlib.sha256(repr(seen).encode()).hexdigest()
        looked = mark.exists()
        if looked and not self.again:
            return True
        if sha256_of(path) != artifact.sha256:
            return False
        if not looked:
            refuse_unfit(path, artifact.file)
            with suppress(OSError):
                # who can't write it down looks again
                mark.parent.mkdir(parents=True, exist_ok=True)
                mark.touch()
        return True


def is_folder(link: str) -> bool:
    """Return whether a link of `find-links` names a folder of this machine rather than a page."""
    return urlsplit(link).scheme in ("", "file")


def folder_of(link: str) -> Path:
    """Return the folder that a link of `find-links` names."""
    return Path(os.path.abspath(Path(link.removeprefix("file://")).expanduser()))


def _wanted_file(artifact: Artifact) -> WantedFile:
    return WantedFile(artifact.file, artifact.sha256, artifact.size)


def refuse_git(pins: Iterable[Pin], use: str) -> None:
    """Raise InputError where a pin is a git checkout, which has no file to download."""
    names = [pin.name for pin in pins if pin.git is not None]
    if names:
        hint = "publish a wheel on your own index, and name the index in the spec"
        raise InputError(f"{use} needs files, and {', '.join(names)} comes from a git repository", hint=hint)


def plain_name(pin: Pin) -> str:
    """Give the name that a pin's file has for an installer."""
    artifact = artifact_of(pin)
    return artifact.file if artifact.variant is None else read_name(artifact.file).plain


def with_plain_names(pins: Sequence[Pin], files: Paths, folder: Path) -> Paths:
    """Give the same files, but variants' files under plain names, each in its own folder below `folder`. Nothing is
    copied where the system can link. Raises OSError."""
    plain_files = dict(files)
    for pin in pins:
        if pin.artifact is None or pin.artifact.variant is None:
            continue
        key = (pin.index, pin.artifact.file)
        place = folder / pin.name / plain_name(pin)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        try:
            os.link(files[key].resolve(), place)
        except OSError:
            shutil.copyfile(files[key], place)
        plain_files[key] = place
    return plain_files


# The addresses of pip packages' files: on the pages that pip is told to look at (`find-links`), or on their
# indexes.


def pip_addresses(
    pins: Sequence[Pin], spec: Spec, settings: Settings, env: Mapping[str, str], fetcher: Fetcher
) -> FileUrls:
    """Find the URLs of pip packages' files. Raises IndexFailure, offline at once, and what `artifact_urls` raises."""
    if fetcher.offline:
        addresses = settings.index_urls(spec.index_addresses)
        absent = [artifact_of(pin).file for pin in pins if local_path(addresses.get(pin.index, "")) is None]
        if absent:
            hint = "run without --offline once"
            raise IndexFailure(f"not in the cache: {', '.join(absent[:3])}{'…' if len(absent) > 3 else ''}", hint=hint)
    flat: dict[tuple[str, str], str] = {}
    for link in settings.find_links:
        if not is_folder(link):
            flat = {**_on_page(link, pins, fetcher), **flat}
    return {**flat, **artifact_urls([pin for pin in pins if file_key(pin) not in flat], spec, env)}


def _on_page(link: str, pins: Sequence[Pin], fetcher: Fetcher) -> dict[tuple[str, str], str]:
    """Find pins' files on a flat page, by name; a file's hash there is missing or right."""
    reply = fetcher.get(link)
    if reply.status != 200:
        return {}
    listed: dict[str, tuple[str | None, str]] = {}
    for row in read_page(reply.body, reply.url, fetcher):
        url = split_credentials(str(row["url"]))[0]
        listed[str(row["filename"])] = (row["hashes"].get("sha256"), url)
    urls = {}
    for pin in pins:
        artifact = artifact_of(pin)
        sha256, url = listed.get(artifact.file, ("", ""))
        if sha256 in (None, artifact.sha256):
            urls[pin.index, artifact.file] = url
    return urls
