"""Facts about releases and files, stored in the cache for `--offline` audits."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from envspec.base import atomic
from envspec.base.documents import decode, encode
from envspec.base.errors import OutsideError, Place, StorageError
from envspec.base.places import stranger, this_user
from envspec.configuration.settings import Settings, trusted_folder
from envspec.review.audit.model import DatabaseAnswer, FileFacts, PublishedRelease

# The store of answers about releases: a lock without releases on an index needs no audit.


def kept_files(cache_dir: Path) -> list[Path]:
    """List the files with answers, one a source; none where the folder can't be read."""
    try:
        return sorted((cache_dir / "audit").glob("*.json"))
    except OSError:
        return []


_SCHEMA = 2


class Stored(Struct, frozen=True):
    """Answers by release, and facts of files by (index, file name), each with its time of reading (RFC 3339, UTC)."""

    answers: Mapping[PublishedRelease, DatabaseAnswer] = field(default_factory=dict)
    files: Mapping[tuple[str, str], tuple[str, FileFacts]] = field(default_factory=dict)

    def with_more(self, other: Stored) -> Stored:
        return Stored({**self.answers, **other.answers}, {**self.files, **other.files})


class _Document(Struct, frozen=True):
    """A stored file: its source, answers by release, and facts by index and file with the time of reading."""

    source: str
    releases: tuple[tuple[PublishedRelease, DatabaseAnswer], ...]
    files: tuple[tuple[str, str, str, FileFacts], ...]


def all_answers(cache_dir: Path) -> Iterator[Mapping[PublishedRelease, DatabaseAnswer]]:
    """Yield the stored answers of every source, except unreadable ones."""
    for path in kept_files(cache_dir):
        with suppress(OutsideError):
            yield load(path).answers


def store_path(cache_dir: Path, source: str) -> Path:
    """Return the path of one source's stored answers. `source` is an address without credentials."""
    return cache_dir / "audit" / f"{hashlib.sha256(f'{_SCHEMA} {source}'.encode()).hexdigest()[:16]}.json"


def shared_store(settings: Settings, source: str) -> Path | None:
    """Give the answers of one source that all users share; None where there are none, or another plain user could have
    written them. Raises InputError for a shared cache that another may write to."""
    shared = trusted_folder(settings.shared_cache, "[cache] shared")
    path = store_path(shared, source) if shared else None
    try:
        trusted = path is not None and not any(stranger(part.lstat(), this_user()) for part in (path.parent, path))
    except OSError:
        return None
    return path if trusted else None


def share(cache_dir: Path, shared: Path) -> None:
    """Add the answers of a cache to those that all users share. Raises StorageError."""
    for path in kept_files(cache_dir):
        place = shared / path.parent.name / path.name
        with suppress(OutsideError):
            # what can't be read is nobody's answer
            save(place, "shared", load(place).with_more(load(path)))


def load(path: Path) -> Stored:
    """Read the stored answers; empty where there are none. Raises OutsideError for an unusable file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Stored()
    except (OSError, UnicodeDecodeError) as error:
        raise OutsideError(f"the stored answers can't be read: {error}", place=Place(str(path))) from None
    return read(text, str(path))


def read(text: str, where: str) -> Stored:
    """Read the text of a file of answers, which `where` names. Raises OutsideError for any other file."""
    try:
        document = decode(text, _Document)
    except ValueError:
        raise OutsideError(
            "the stored answers are damaged", place=Place(where), hint="delete the file, then run without --offline"
        ) from None
    return Stored(
        dict(document.releases), {(index, file): (fetched, facts) for index, file, fetched, facts in document.files}
    )


def text_of(source: str, stored: Stored) -> str:
    """Give the text of a file of answers, for `load`."""
    files = tuple((*key, *known) for key, known in sorted(stored.files.items(), key=lambda pair: pair[0]))
    return encode(_Document(source, tuple(sorted(stored.answers.items(), key=_by_release)), files)).decode()


def save(path: Path, source: str, stored: Stored) -> None:
    """Store the answers, whole or not at all. Raises StorageError."""
    try:
        atomic.write_file(path, text_of(source, stored))
    except OSError as error:
        message = f"the answers can't be stored for --offline: {error.strerror}"
        raise StorageError(message, place=Place(str(path)), hint="set ENVSPEC_CACHE_DIR to a writable folder") from None


def _by_release(pair: tuple[PublishedRelease, DatabaseAnswer]) -> tuple[str, str]:
    return (pair[0].name, pair[0].version)
