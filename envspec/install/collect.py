"""The files of a target, downloaded once, checked by their hashes and kept in the cache: the content of a bundle."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Event
from urllib.parse import unquote, urlsplit

from envspec.errors import IndexFailure, InputError, StorageError
from envspec.lock.conda_files import FileUrls, artifact_of, url_of
from envspec.lock.exclusive import exclusive
from envspec.lock.model import Pin
from envspec.net import limits
from envspec.net.fetch import Fetcher
from envspec.settings import split_credentials

_PIECE = 16 << 20
_WORKERS = 4

_NEVER_CHANGE = "find out why before you use the file: files of an index never change"


def collect(
    pins: Iterable[Pin],
    urls: FileUrls,
    fetcher: Fetcher,
    folder: Path,
    find_links: Iterable[str] = (),
    on_bytes: Callable[[int], None] = lambda count: None,
    on_wait: Callable[[], None] = lambda: None,
) -> dict[tuple[str, str], Path]:
    """Get the files of pins (none from git) by (index name, file name): from a folder of `find_links`, from `folder`,
    which keeps downloads under their sha256, or from the URL that `urls` has.

    Continues the downloads of an interrupted run. Calls `on_bytes` with the number of bytes received. Raises
    IndexFailure for a file that is missing or has another hash, StorageError.
    """
    local = [Path(link.removeprefix("file://")).expanduser() for link in find_links if _is_local(link)]
    found: dict[tuple[str, str], Path] = {}
    wanted: dict[tuple[str, str], Pin] = {}
    for pin in pins:
        artifact = artifact_of(pin)
        at_hand = [path / artifact.file for path in local if (path / artifact.file).is_file()]
        path = next((path for path in at_hand if sha256_of(path) == artifact.sha256), None)
        if path is not None:
            found[pin.index, artifact.file] = path
        else:
            wanted[pin.index, artifact.file] = pin
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # two runs would append to the same files
        with exclusive(folder, on_wait):
            found.update(_fetch_all(wanted.values(), urls, fetcher, folder, on_bytes))
    except OSError as error:
        raise StorageError(
            f"{folder} can't be written: {error.strerror}",
            hint="free some space, or move the cache with ENVSPEC_CACHE_DIR",
        ) from None
    return found


def _fetch_all(
    pins: Iterable[Pin], urls: FileUrls, fetcher: Fetcher, folder: Path, on_bytes: Callable[[int], None]
) -> dict[tuple[str, str], Path]:
    found = {}
    stop = Event()

    def count(length: int) -> None:
        if stop.is_set():
            raise InterruptedError
        on_bytes(length)

    with ThreadPoolExecutor(_WORKERS) as pool:
        fetching = {pool.submit(_fetch, pin, url_of(pin, urls), fetcher, folder, count): pin for pin in pins}
        try:
            for future in as_completed(fetching):
                pin = fetching[future]
                found[pin.index, artifact_of(pin).file] = future.result()
        except BaseException:
            # the others end at their next piece
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return found


def at_hand(pin: Pin, find_links: Iterable[str]) -> bool:
    """Say whether a folder of `find_links` has a file of this name, so that no index is needed."""
    return pin.artifact is not None and any(
        _is_local(link) and Path(link.removeprefix("file://"), pin.artifact.file).expanduser().is_file()
        for link in find_links
    )


def _fetch(pin: Pin, url: str, fetcher: Fetcher, folder: Path, on_bytes: Callable[[int], None]) -> Path:
    artifact = artifact_of(pin)
    kept = folder / artifact.sha256
    if kept.is_file():
        if sha256_of(kept) == artifact.sha256:
            on_bytes(kept.stat().st_size)
            return kept
        kept.unlink()
    if urlsplit(url).scheme == "file":
        path = Path(unquote(urlsplit(url).path))
        if not path.is_file():
            raise IndexFailure(
                f"{path} doesn't exist", hint="check that this is the channel that the lock was made from"
            )
        _refuse_other(sha256_of(path), pin, str(path))
        on_bytes(path.stat().st_size)
        return path
    part = folder / f"{artifact.sha256}.part"
    resumed = part.exists()
    _read(url, part, fetcher, artifact.size, on_bytes)
    digest = sha256_of(part)
    if digest != artifact.sha256 and resumed:
        part.unlink()
        _read(url, part, fetcher, artifact.size, lambda count: None)
        digest = sha256_of(part)
    if digest != artifact.sha256:
        part.unlink()
    _refuse_other(digest, pin, split_credentials(url)[0])
    if pin.is_wheel:
        refuse_bomb(part, artifact.file)
    part.rename(kept)
    return kept


def _read(url: str, path: Path, fetcher: Fetcher, size: int | None, on_bytes: Callable[[int], None]) -> None:
    """Download the rest of the file at `url` and append it to `path`. Raises IndexFailure beyond `size`, the lock's
    size.
    """
    bare = split_credentials(url)[0]
    most = fetcher.limits.file_bytes if size is None else size
    if path.exists() and path.stat().st_size > most:
        path.unlink()
    with path.open("ab") as out:
        length = out.tell()
        on_bytes(length)
        while True:
            # one byte more than there may be shows whether there is more
            reply = fetcher.range(url, length, min(_PIECE, most + 1 - length))
            if reply.status == 416 and length:
                return
            if reply.status == 200:
                out.truncate(0)
                on_bytes(-length)
                with fetcher.stream(url, most) as stream:
                    while piece := stream.read(1 << 20):
                        out.write(piece)
                        on_bytes(len(piece))
                return
            if reply.status != 206:
                raise IndexFailure(
                    f"{bare} answered HTTP {reply.status}",
                    hint="check that the lock was made from this index, and that the index still has the file",
                )
            if length + len(reply.body) > most or (reply.total or 0) > most:
                raise IndexFailure(f"{bare} is larger than {most} bytes, its limit", hint=_NEVER_CHANGE)
            out.write(reply.body)
            length += len(reply.body)
            on_bytes(len(reply.body))
            if not reply.body or length == reply.total:
                return


def _refuse_other(digest: str, pin: Pin, where: str) -> None:
    artifact = artifact_of(pin)
    if digest != artifact.sha256:
        raise IndexFailure(
            f"{where} has the sha256 {digest}, but the lock has {artifact.sha256} ({artifact.file})", hint=_NEVER_CHANGE
        )


def sha256_of(path: Path) -> str:
    """Compute the sha256 of a file, in hex. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _is_local(link: str) -> bool:
    return urlsplit(link).scheme in ("", "file")


def refuse_git(pins: Iterable[Pin], use: str) -> None:
    """Raise InputError where a pin is a git checkout, which has no file to download."""
    names = [pin.name for pin in pins if pin.git is not None]
    if names:
        raise InputError(
            f"{use} needs files, and {', '.join(names)} comes from a git repository",
            hint="publish a wheel on your own index, and name the index in the spec",
        )


Paths = Mapping[tuple[str, str], Path]
"""(index name, file name) → the file's path."""


def refuse_bomb(path: Path, name: str) -> None:
    """Raise IndexFailure for a wheel with more entries or unpacked bytes than the limits allow. `name` is for the
    message. A file that isn't a wheel is left to the installer. Raises OSError.
    """
    bounds = limits.LIMITS
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError):
        return
    unpacked = sum(entry.file_size for entry in entries)
    most = max(bounds.unpacked_bytes, path.stat().st_size * bounds.unpacked_ratio)
    if len(entries) > bounds.archive_entries:
        told = f"{len(entries)} entries; the limit is {bounds.archive_entries}"
    elif unpacked > most:
        told = f"{unpacked >> 20} MiB unpacked; the limit for its size is {most >> 20} MiB"
    else:
        return
    raise IndexFailure(
        f"{name} has {told}", hint="don't install this wheel: it is hostile or broken; report it to its publisher"
    )
