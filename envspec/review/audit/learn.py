"""The facts for a spec's settings: the database to ask, the answers to store, and the age at which answers are too
old."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import IndexFailure, OutsideError, StorageError
from envspec.base.redact import redact
from envspec.configuration.settings import Settings, load_settings, split_credentials
from envspec.facts import wheels
from envspec.net.connections import index_fetcher
from envspec.net.fetch import Fetcher
from envspec.net.simple_page import parse_page
from envspec.resolve.uv.program import find_uv, uvs_default_index
from envspec.review.audit import store
from envspec.review.audit.gather import gather, recall_facts, releases_of, stamp
from envspec.review.audit.model import AuditedPackage, DatabaseAnswer, Facts, FileFacts, PublishedRelease
from envspec.review.audit.osv import OsvDatabase, OsvService, batch_address, service_of
from envspec.review.audit.pypi import parse_release, release_url
from envspec.review.audit.rules import is_malicious

# The sources of an audit: PyPI's JSON beside the user's own index, and the pages of the lock's indexes.


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
    facts: dict[tuple[str, str], FileFacts] = {}
    for package in packages:
        if not package.index.startswith(_PYTORCH):
            continue

        variant = package.index.removeprefix(_PYTORCH)
        if variant not in wheels.variants():
            continue
        for artifact in package.indexed_files:
            known = wheels.load(variant).file(artifact.file)
            if known is not None:
                facts[package.index, artifact.file] = FileFacts(known.sha256, known.upload_time, yanks=False)
    return facts


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
    """Return the facts about a file in its PEP 691 entry."""
    hashes, yanked, uploaded = row["hashes"], row.get("yanked"), row.get("upload-time")
    return FileFacts(
        sha256=hashes.get("sha256", ""),
        uploaded=str(uploaded) if uploaded else None,
        yanked=None if not yanked else yanked if isinstance(yanked, str) else "",
    )


class How(Struct, frozen=True):
    """database  a file in the OSV format, None for the answers of OSV's service or PyPI
    offline   use no network
    max_age   how old the file, or an answer taken offline, may be
    files     ask the indexes for facts about files
    """

    database: Path | None
    offline: bool
    max_age: timedelta
    files: bool = True


def look_up_facts(
    indexes: Mapping[str, str],
    packages: Sequence[AuditedPackage],
    how: How,
    env: Mapping[str, str],
    now: datetime,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    on_trouble: Callable[[StorageError], None] = lambda error: None,
) -> tuple[str, Facts]:
    """Return the database's name, without credentials, and the facts about the packages. `indexes` are the spec's own,
    with their addresses.

    Answers are stored for offline audits; `on_trouble` gets the reason if they can't be. Raises InputError for a file
    that isn't a database or a broken configuration, OutsideError where no address is known or the stored answers are
    damaged.
    """
    osv = OsvDatabase.read(how.database) if how.database else None
    settings = load_settings(env)
    index, service = pypi_address(settings, env), service_of(env)
    # a service's answers to `lock` and `install` are about malware alone, and kept apart
    source = redact(split_credentials(batch_address(service) if service else index)[0])
    path = store.store_path(settings.cache(), source)
    if how.offline:
        shipped = shipped_files(packages) if how.files else None
        facts = recall_facts(packages, store.load(path), now, how.max_age, shipped)
        if osv:
            facts = replace(facts, answers={p.release: osv.ask(p.release) for p in packages if p.release}, unread=())
    else:
        named = settings.index_urls(indexes)
        fetcher = index_fetcher(settings, named, env)
        pages = IndexPages(index, named, settings.pytorch_mirror, fetcher) if how.files else None
        releases = releases_of(packages)
        answering = OsvService(releases, service, fetcher, stamp(now)) if service else PypiDatabase(index, fetcher, now)
        database = osv or answering
        facts, fresh = gather(packages, database, pages, now, shipped_files(packages), on_progress)
        keep(path, source, replace(fresh, answers={}) if osv else fresh, on_trouble)
    if osv:
        # so that `lock` and `install` know of it without the file
        malicious = {
            release: answer for release, answer in facts.answers.items() if any(map(is_malicious, answer.advisories))
        }
        if malicious:
            keep(path, source, store.Stored(malicious), on_trouble)
    if osv and osv.modified < stamp(now - how.max_age):
        old = f"the database {osv.name} is too old: its newest entry is from {osv.modified[:10]}"
        facts = replace(facts, unread=(*facts.unread, old))
    return osv.name if osv else source, facts


def keep(path: Path, source: str, fresh: store.Stored, on_trouble: Callable[[StorageError], None]) -> None:
    """Store answers with those of earlier times; `on_trouble` gets the reason if they can't be."""
    try:
        before = store.load(path)
    except OutsideError:
        # what can't be read is replaced
        before = store.Stored()
    try:
        store.save(path, source, before.with_more(fresh))
    except StorageError as error:
        on_trouble(error)
