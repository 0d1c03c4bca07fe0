"""From a spec's settings to the facts: which database to ask, which answers to store, and which are too old."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from envspec.base.errors import OutsideError, StorageError
from envspec.base.redact import redact
from envspec.base.settings import load_settings, split_credentials
from envspec.net.connections import index_fetcher
from envspec.review.audit import store
from envspec.review.audit.gather import gather, recall_facts, stamp
from envspec.review.audit.model import AuditedPackage, Facts
from envspec.review.audit.osv import OsvDatabase
from envspec.review.audit.rules import is_malicious
from envspec.review.audit.sources import IndexPages, PypiDatabase, pypi_address, shipped_files


@dataclass(frozen=True)
class How:
    """database  a file in the OSV format, None for PyPI's own answers
    offline   use no network
    max_age   how old the file, or an answer taken offline, may be
    files     whether to ask what indexes say of files
    min_age   a release younger than this is reported
    """

    database: Path | None
    offline: bool
    max_age: timedelta
    files: bool = True
    min_age: timedelta = timedelta(days=7)


def look_up_facts(
    indexes: Mapping[str, str],
    packages: Sequence[AuditedPackage],
    how: How,
    env: Mapping[str, str],
    now: datetime,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    on_trouble: Callable[[StorageError], None] = lambda error: None,
) -> tuple[str, Facts]:
    """Return the database's name, without credentials, and what was learned of the packages. `indexes` are the spec's
    own, with their addresses.

    Answers are stored for offline audits; `on_trouble` gets the reason if they can't be. Raises InputError for a file
    that isn't a database or a broken configuration, OutsideError where no address is known or the stored answers are
    damaged.
    """
    osv = OsvDatabase.read(how.database) if how.database else None
    settings = load_settings(env)
    index = pypi_address(settings, env)
    source = redact(split_credentials(index)[0])
    kept = store.store_path(settings.cache(), source)
    if how.offline:
        shipped = shipped_files(packages) if how.files else None
        facts = recall_facts(packages, store.load(kept), now, how.max_age, shipped)
        if osv:
            facts = replace(facts, answers={p.release: osv.ask(p.release) for p in packages if p.release}, unread=())
    else:
        named = settings.index_urls(indexes)
        fetcher = index_fetcher(settings, named, env)
        pages = IndexPages(index, named, settings.pytorch_mirror, fetcher) if how.files else None
        database = osv or PypiDatabase(index, fetcher, now)
        facts, fresh = gather(packages, database, pages, now, shipped_files(packages), on_progress)
        keep(kept, source, replace(fresh, answers={}) if osv else fresh, on_trouble)
    if osv:
        # so that `lock` and `install` know of it without the file
        told = {one: answer for one, answer in facts.answers.items() if any(map(is_malicious, answer.advisories))}
        if told:
            keep(kept, source, store.Stored(told), on_trouble)
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
