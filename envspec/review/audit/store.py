"""What was learned of releases and files, stored in the cache for `--offline` audits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from envspec.base import atomic
from envspec.base.documents import read_json
from envspec.base.errors import OutsideError, Place, StorageError
from envspec.review.audit.kept import kept_files
from envspec.review.audit.model import Advisory, DatabaseAnswer, FileFacts, PublishedRelease

_SCHEMA = "envspec/audit-database/1"


@dataclass(frozen=True)
class Stored:
    """Answers by release, and facts of files by (index, file name), each with when it was read (RFC 3339, UTC)."""

    answers: Mapping[PublishedRelease, DatabaseAnswer] = field(default_factory=dict)
    files: Mapping[tuple[str, str], tuple[str, FileFacts]] = field(default_factory=dict)

    def with_more(self, other: Stored) -> Stored:
        return Stored({**self.answers, **other.answers}, {**self.files, **other.files})


def all_kept(cache_dir: Path) -> Iterator[Mapping[PublishedRelease, DatabaseAnswer]]:
    """Yield the answers of every source that there are any of, leaving out what can't be read."""
    for path in kept_files(cache_dir):
        with suppress(OutsideError):
            yield load(path).answers


def store_path(cache_dir: Path, source: str) -> Path:
    """Return where the answers of one source are stored. `source` is an address without credentials."""
    return cache_dir / "audit" / f"{hashlib.sha256(source.encode()).hexdigest()[:16]}.json"


def load(path: Path) -> Stored:
    """Read the stored answers; empty where there are none. Raises OutsideError for an unusable file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Stored()
    except (OSError, UnicodeDecodeError) as error:
        raise OutsideError(f"the stored answers can't be read: {error}", place=Place(str(path))) from None
    try:
        document = read_json(text)
        if document["schema"] != _SCHEMA:
            raise ValueError
        return Stored(
            {PublishedRelease(row["name"], row["version"]): _answer(row) for row in document["releases"]},
            {(row["index"], row["file"]): (row["fetched"], _facts(row)) for row in document["files"]},
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise OutsideError(
            "the stored answers are damaged", place=Place(str(path)), hint="delete the file, then run without --offline"
        ) from None


def save(path: Path, source: str, stored: Stored) -> None:
    """Store the answers, whole or not at all. Raises StorageError."""
    document = {
        "schema": _SCHEMA,
        "source": source,
        "releases": [_row(release, answer) for release, answer in sorted(stored.answers.items(), key=_by_release)],
        "files": [
            {"index": index, "file": file, "fetched": fetched, **_facts_row(facts)}
            for (index, file), (fetched, facts) in sorted(stored.files.items())
        ],
    }
    try:
        atomic.write_file(path, json.dumps(document, indent=1, ensure_ascii=False))
    except OSError as error:
        raise StorageError(
            f"the answers can't be stored for --offline: {error.strerror}",
            place=Place(str(path)),
            hint="set ENVSPEC_CACHE_DIR to a writable folder",
        ) from None


def _by_release(item: tuple[PublishedRelease, DatabaseAnswer]) -> tuple[str, str]:
    return (item[0].name, item[0].version)


def _row(release: PublishedRelease, answer: DatabaseAnswer) -> dict[str, Any]:
    return {
        "name": release.name,
        "version": release.version,
        "fetched": answer.fetched,
        "known": answer.known,
        "page": answer.page,
        "advisories": [asdict(advisory) for advisory in answer.advisories],
        "files": {name: _facts_row(facts) for name, facts in sorted(answer.files.items())},
    }


def _facts_row(facts: FileFacts) -> dict[str, Any]:
    # only what an index said is kept, and an index says which files are yanked
    return {"sha256": facts.sha256, "uploaded": facts.uploaded, "yanked": facts.yanked}


def _answer(row: Mapping[str, Any]) -> DatabaseAnswer:
    advisories = tuple(
        Advisory(
            str(one["id"]),
            tuple(one["aliases"]),
            str(one["summary"]),
            tuple(one["fixed_in"]),
            one["link"],
            one["severity"],
        )
        for one in row["advisories"]
    )
    return DatabaseAnswer(
        row["fetched"],
        advisories,
        {name: _facts(one) for name, one in row["files"].items()},
        row["known"],
        row.get("page"),
    )


def _facts(row: Mapping[str, Any]) -> FileFacts:
    return FileFacts(str(row["sha256"]), row["uploaded"], row["yanked"])
