"""Releases of a lock that are reported as malicious: from stored answers, and from OSV's service where the user has
named one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from envspec.base.errors import OutsideError, StorageError
from envspec.base.finding import Finding
from envspec.base.redact import redact
from envspec.configuration.settings import Settings, load_settings, split_credentials
from envspec.net.connections import index_fetcher
from envspec.review.audit import store
from envspec.review.audit.gather import releases_of, stamp
from envspec.review.audit.learn import keep
from envspec.review.audit.model import AuditedPackage, DatabaseAnswer, Facts, PublishedRelease
from envspec.review.audit.osv import reports_of
from envspec.review.audit.rules import findings, is_malicious
from envspec.spec.model import Audit

FRESH = timedelta(days=1)
"""The age up to which an answer is today's. One that calls a release malicious counts until a later one doesn't."""


class Look(Struct, frozen=True):
    """The result of a look.

    unasked  the reason why some questions weren't asked; empty where all were
    unknown  the releases without any known answer
    since    the day of the oldest answer used; empty for none
    """

    findings: tuple[Finding, ...]
    unasked: str = ""
    unknown: tuple[PublishedRelease, ...] = ()
    since: str = ""


def look_for_malicious(
    packages: Sequence[AuditedPackage],
    accepted: Audit,
    env: Mapping[str, str],
    now: datetime,
    *,
    service: str | None,
    offline: bool,
    carried: Mapping[PublishedRelease, DatabaseAnswer] = MappingProxyType({}),
    on_trouble: Callable[[StorageError], None] = lambda error: None,
) -> Look:
    """Look up the packages that OSV can know, and leave out what the spec accepts.

    The answers that audits and earlier looks stored count, and so do those of a bundle or an image. OSV's service at an
    address answers for releases without an answer of today, and its answers are stored. Raises InputError for a broken
    configuration.
    """
    releases = releases_of(packages)
    if not releases:
        return Look(())
    settings = load_settings(env)
    cache = settings.cache()
    answers: dict[PublishedRelease, DatabaseAnswer] = {}
    for other in store.all_answers(cache):
        malicious = {key: answer for key, answer in other.items() if any(map(is_malicious, answer.advisories))}
        answers = {**answers, **malicious}
    unasked = "no service is named (ENVSPEC_OSV_URL)" if not service else ""
    own: dict[PublishedRelease, DatabaseAnswer] = {}
    if service:
        source = redact(split_credentials(service)[0])
        path = store.store_path(cache, source)
        own = {**carried, **stored_answers(settings, service)}
        oldest = stamp(now - FRESH)
        unanswered = [release for release in releases if release not in own or own[release].fetched < oldest]
        if unanswered and offline:
            unasked = "--offline"
        elif unanswered:
            try:
                fetcher = index_fetcher(settings, {}, env)
                own |= reports_of(unanswered, service, fetcher, stamp(now))
                keep(path, source, store.Stored(own), on_trouble)
            except OutsideError as error:
                unasked = error.message
        answers = {**answers, **own}
    unknown = tuple(release for release in releases if release not in own) if unasked else ()
    since = min((own[release].fetched for release in releases if release in own), default="") if unasked else ""
    return Look(_malicious_findings(packages, answers, accepted, now), unasked, unknown, since[:10])


def stored_answers(settings: Settings, service: str) -> dict[PublishedRelease, DatabaseAnswer]:
    """Give the answers of a service that the shared cache and the user's own have."""
    source = redact(split_credentials(service)[0])
    shared = store.shared_store(settings, source)
    own = _load_answers(store.store_path(settings.cache(), source))
    return {**(_load_answers(shared) if shared else {}), **own}


def _load_answers(path: Path) -> dict[PublishedRelease, DatabaseAnswer]:
    try:
        return dict(store.load(path).answers)
    except OutsideError:
        # what can't be read is asked anew
        return {}


def _malicious_findings(
    packages: Sequence[AuditedPackage],
    answers: Mapping[PublishedRelease, DatabaseAnswer],
    accepted: Audit,
    now: datetime,
) -> tuple[Finding, ...]:
    malicious = [
        package
        for package in packages
        if (answer := answers.get(package.release) if package.release else None)
        and any(map(is_malicious, answer.advisories))
    ]
    all_findings = findings(malicious, Facts(answers, files=None), accepted, now)
    return tuple(finding for finding in all_findings if finding.code == "malicious" and finding.accepted is None)
