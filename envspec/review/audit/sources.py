"""The sources of an audit: PyPI's JSON beside the user's own index, and the pages of the lock's indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from envspec.base.errors import IndexFailure, OutsideError
from envspec.base.settings import Settings, split_credentials
from envspec.facts import wheels
from envspec.net.fetch import Fetcher
from envspec.net.simple_page import parse_page
from envspec.resolve.uv.default_index import uvs_default_index
from envspec.resolve.uv.program import find_uv
from envspec.review.audit.gather import stamp
from envspec.review.audit.model import AuditedPackage, DatabaseAnswer, FileFacts, PublishedRelease
from envspec.review.audit.pypi import parse_release, release_url

_PYTORCH = "pytorch/"
_PAGE = {"Accept": "application/vnd.pypi.simple.v1+json, text/html;q=0.5", "Accept-Encoding": "gzip"}


def pypi_address(settings: Settings, env: Mapping[str, str]) -> str:
    """Return the simple index that stands for PyPI here, with credentials. Raises OutsideError."""
    address = settings.default_index or uvs_default_index(find_uv(env), settings.cache())
    if address is None:
        raise OutsideError("the address of PyPI isn't known here", hint="set it: UV_DEFAULT_INDEX=https://…")
    return address


def shipped_files(packages: Iterable[AuditedPackage]) -> dict[tuple[str, str], FileFacts]:
    """Return envspec's own facts about the packages' files on the PyTorch indexes, whose addresses a user need not
    know."""
    found: dict[tuple[str, str], FileFacts] = {}
    for package in packages:
        if not package.index.startswith(_PYTORCH):
            continue

        variant = package.index.removeprefix(_PYTORCH)
        if variant not in wheels.variants():
            continue
        for artifact in package.indexed_files:
            known = wheels.load(variant).file(artifact.file)
            if known is not None:
                found[package.index, artifact.file] = FileFacts(known.sha256, known.upload_time, yanks=False)
    return found


class PypiDatabase:
    """PyPI's JSON of releases, from the server of the simple index at `index`."""

    def __init__(self, index: str, fetcher: Fetcher, now: datetime) -> None:
        self._index, self._fetcher, self._fetched = index, fetcher, stamp(now)

    def ask(self, release: PublishedRelease) -> DatabaseAnswer:
        url = release_url(self._index, release)
        reply = self._fetcher.get(url, headers={"Accept": "application/json"})
        if reply.status in (404, 405):
            return DatabaseAnswer(self._fetched, known=False)
        if reply.status != 200:
            raise IndexFailure(f"{split_credentials(url)[0]} answered HTTP {reply.status}")
        return parse_release(reply.body, release, url, self._fetched)


class IndexPages:
    """Pages of projects (PEP 503 HTML, PEP 691 JSON) on the indexes of a lock, by the indexes' names."""

    def __init__(
        self, pypi: str, named: Mapping[str, str], pytorch: Callable[[str], str | None], fetcher: Fetcher
    ) -> None:
        self._pypi, self._named, self._pytorch, self._fetcher = pypi, named, pytorch, fetcher

    def ask(self, index: str, project: str) -> Mapping[str, FileFacts] | None:
        address = self._address(index)
        if address is None:
            return None
        url = f"{address.rstrip('/')}/{project}/"
        reply = self._fetcher.get(url, headers=_PAGE)
        if reply.status != 200:
            raise IndexFailure(f'the index "{index}" has no {project}: HTTP {reply.status}')
        return {str(row["filename"]): file_facts(row) for row in parse_page(reply.body, reply.url)}

    def _address(self, index: str) -> str | None:
        if index == "pypi":
            return self._pypi
        if index.startswith(_PYTORCH):
            return self._pytorch(index.removeprefix(_PYTORCH))
        return self._named.get(index)


def file_facts(row: Mapping[str, Any]) -> FileFacts:
    """Return what a PEP 691 entry says of its file."""
    hashes, yanked, uploaded = row["hashes"], row.get("yanked"), row.get("upload-time")
    return FileFacts(
        sha256=hashes.get("sha256", ""),
        uploaded=str(uploaded) if uploaded else None,
        yanked=None if not yanked else yanked if isinstance(yanked, str) else "",
    )
