"""The publishers of a file by its index's attestations (PEP 740): read and not proved."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from envspec.base.cache import keep_value, read_value
from envspec.base.documents import read_json
from envspec.base.errors import IndexFailure
from envspec.base.redact import redact
from envspec.base.texts import without_unseen
from envspec.configuration.settings import split_credentials
from envspec.net.fetch import Fetcher

_SCHEMA = 2
_LARGEST = 1 << 20
"""Bytes of a file's attestations: one takes about 6 KB."""
_LONGEST = 200
"""Characters of what a publisher is called."""
_FIELDS = ("kind", "repository", "workflow", "environment", "email")
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9 ._-]*")
_WORKFLOWS = ("workflow", "workflow_filepath")


Claimed = Mapping[str, str]
"""A publisher as an index names it, by the fields of `envspec.lock.model.Publisher`; `kind` is always there."""


class Provenance(Struct, frozen=True):
    """A file's attestations as its index serves them. `claimed` are the publishers that stand in it, in its order."""

    body: bytes
    claimed: tuple[Claimed, ...]


def fetch_provenance(url: str, fetcher: Fetcher) -> Provenance | None:
    """Fetch a file's attestations; None where there are none any more. Raises IndexFailure."""
    reply = fetcher.get(url, headers={"Accept": "application/vnd.pypi.integrity.v1+json"}, limit=_LARGEST)
    if reply.status == 404:
        return None
    bare = redact(split_credentials(url)[0])
    if reply.status != 200:
        raise IndexFailure(f"{bare} answered HTTP {reply.status}")
    return parse_provenance(reply.body, bare)


def parse_provenance(body: bytes, where: str) -> Provenance:
    """Read a file's attestations as an index serves them. Raises IndexFailure with `where` they are from."""
    try:
        return Provenance(body, tuple(_publishers(read_json(body))))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise IndexFailure(f"{where} isn't a file's provenance", hint="report this to whoever runs the index") from None


def _publishers(document: Mapping[str, Any]) -> Iterator[Claimed]:
    for bundle in document["attestation_bundles"]:
        publisher = bundle["publisher"]
        workflow = next((publisher[key] for key in _WORKFLOWS if publisher.get(key)), None)
        named = {"kind": publisher["kind"], "workflow": workflow}
        named |= {key: publisher.get(key) for key in ("repository", "environment", "email")}
        if not _KIND.fullmatch(publisher["kind"]):
            raise ValueError("a publisher without a kind")
        yield {key: text for key in _FIELDS if (text := _text(named[key]))}


def _text(value: object) -> str | None:
    """Take a text that a lock can hold."""
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > _LONGEST or without_unseen(value) != value:
        raise ValueError("no name")
    return value


class _Known(Struct, frozen=True):
    claimed: Mapping[str, str] | None


class ProvenanceStore(Struct, frozen=True):
    """Publishers in the cache, by the file's hash and the place that named them: what `lock` asks once."""

    folder: Path
    fetcher: Fetcher

    def publisher(self, url: str, sha256: str) -> Claimed | None:
        """Return the publisher of a file by the attestations that its page names; None where there is none. Raises
        IndexFailure."""
        key = hashlib.sha256(f"{split_credentials(url)[0]} {sha256}".encode()).hexdigest()
        path = self.folder / f"publishers-v{_SCHEMA}" / key[:2] / f"{key[2:]}.json"
        if (known := read_value(path, _Known)) is not None:
            return known.claimed and {key: known.claimed[key] for key in _FIELDS if key in known.claimed}
        if self.fetcher.offline:
            return None
        provenance = fetch_provenance(url, self.fetcher)
        claimed = provenance.claimed[0] if provenance and provenance.claimed else None
        keep_value(path, _Known(claimed))
        return claimed
