"""Whether any of a lock's releases is known to be malicious: from answers that are kept, and from PyPI's own for those
that have none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from envspec.audit import store
from envspec.audit.gather import gather, stamp
from envspec.audit.learn import keep
from envspec.audit.model import AuditedPackage, AuditFinding, DatabaseAnswer, Facts, PublishedRelease
from envspec.audit.rules import findings, is_malicious
from envspec.audit.sources import PypiDatabase, pypi_address
from envspec.errors import OutsideError, StorageError
from envspec.net.connections import index_fetcher
from envspec.redact import redact
from envspec.settings import load_settings, split_credentials
from envspec.spec.model import Audit

FRESH = timedelta(days=1)
"""How long an answer is taken for today's. One that calls a release malicious counts until a later one doesn't."""
_PROBES = 3
"""As many releases are asked about first: an address that knows none of them has no database."""

_NOBODY = "the network isn't asked"


@dataclass(frozen=True)
class Look:
    """What came of looking. `unasked` says why something wasn't asked, and is empty where all of it was."""

    found: tuple[AuditFinding, ...]
    unasked: str = ""


def look_for_malicious(
    packages: Sequence[AuditedPackage],
    accepted: Audit,
    indexes: Mapping[str, str],
    env: Mapping[str, str],
    now: datetime,
    *,
    ask: bool,
    on_trouble: Callable[[StorageError], None] = lambda error: None,
) -> Look:
    """Look up the packages that PyPI's database can know, and leave out what the spec takes knowingly.

    Takes the answers that audits and earlier looks have kept. With `ask`, PyPI or the index in its place is asked about
    releases without one of today, and its answers are kept. Raises InputError for a broken configuration.
    """
    asked = [one for one in packages if one.release is not None]
    if not asked:
        return Look(())
    settings = load_settings(env)
    if not ask and not store.is_kept(settings.cache_dir):
        return Look((), _NOBODY)
    try:
        index = pypi_address(settings, env)
        source = redact(split_credentials(index)[0])
        path = store.store_path(settings.cache(), source)
        kept = dict(store.load(path).answers)
    except OutsideError as error:
        return Look((), error.message)
    oldest = stamp(now - FRESH)
    wanted = [one for one in asked if one.release and not _is_fresh(kept.get(one.release), oldest)]
    if not wanted or not ask:
        return Look(_told(asked, kept, accepted, now), _NOBODY if wanted else "")
    fetcher = index_fetcher(settings, settings.index_urls(indexes), env)
    database = PypiDatabase(index, fetcher, now)
    unasked = ""
    for some in (wanted[:_PROBES], wanted[_PROBES:]):
        facts, fresh = gather(some, database, None, now, {})
        kept.update({release: answer for release, answer in facts.answers.items() if answer.known})
        if fresh.answers:
            keep(path, source, fresh, on_trouble)
        if facts.unread:
            unasked = facts.unread[0]
            break
    return Look(_told(asked, kept, accepted, now), unasked)


def _is_fresh(answer: DatabaseAnswer | None, oldest: str) -> bool:
    return answer is not None and answer.fetched >= oldest


def _told(
    packages: Sequence[AuditedPackage],
    answers: Mapping[PublishedRelease, DatabaseAnswer],
    accepted: Audit,
    now: datetime,
) -> tuple[AuditFinding, ...]:
    told = [
        one
        for one in packages
        if (answer := answers.get(one.release) if one.release else None) and any(map(is_malicious, answer.advisories))
    ]
    found = findings(told, Facts(answers, files=None), accepted, now, timedelta(0))
    return tuple(one for one in found if one.code == "malicious" and one.ignored is None)
