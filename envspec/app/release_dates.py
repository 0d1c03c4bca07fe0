"""Dates of publication of a lock's files: the known ones, else their indexes', which are stored.

A date is known of a file by its hash: what was published once stays so, and it is asked once. A node
without internet judges by what was kept where there was one, in the cache or in a bundle.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from msgspec import Struct

from envspec.app.observer import warn
from envspec.base.errors import OutsideError
from envspec.base.progress import Progress
from envspec.base.threads import Pool
from envspec.configuration.settings import Settings, load_settings
from envspec.install.bundle import carried_facts
from envspec.lock.model import LockedTarget, Pin
from envspec.net.connections import index_fetcher
from envspec.packages.requirement import canonical_name
from envspec.resolve.conda.setup import conda_resolver, times_of_upload
from envspec.review.audit import store
from envspec.review.audit.gather import stamp
from envspec.review.audit.learn import IndexPages, keep, pypi_address, shipped_files
from envspec.review.audit.model import FileFacts, packages
from envspec.spec.model import Spec

File = tuple[str, str]
"""An index, and a file's name there."""
_SOURCE = "dates of publication"
_WORKERS = 16


class Dates(Struct, frozen=True):
    """times   when files came (RFC 3339)
    oldest  the day on which the oldest of them was asked; empty for none
    """

    times: Mapping[File, str]
    oldest: str


def dated_files(targets: Iterable[LockedTarget], exempt: Collection[str]) -> dict[File, Pin]:
    """Give the files that an index can date, of packages that aren't exempt."""
    pins = (pin for target in targets for pin in target.pins if canonical_name(pin.name) not in exempt)
    return {(pin.index, pin.artifact.file): pin for pin in pins if pin.artifact and pin.url is None}


def known_dates(
    files: Mapping[File, Pin], targets: Iterable[LockedTarget], carried: store.Stored | None = None
) -> Dates:
    """Give the known dates of files, without asking: `carried` by their image, in bundles, and in caches."""
    settings = load_settings(os.environ)
    moments = {key: facts.uploaded for key, facts in shipped_files(packages(targets)).items() if facts.uploaded}
    days = set()
    known = [carried] if carried else []
    for path in _stores(settings):
        with suppress(OutsideError):
            known.append(store.load(path))
    for stored in known:
        for key, (fetched, facts) in stored.files.items():
            pin = files.get(key)
            if pin and pin.artifact and pin.artifact.sha256 == facts.sha256 and facts.uploaded:
                moments[key] = facts.uploaded
                days.add(fetched[:10])
    return Dates({key: moment for key, moment in moments.items() if key in files}, min(filter(None, days), default=""))


def _stores(settings: Settings) -> tuple[Path, ...]:
    """List the files with dates: those of bundles whose wheels the user's settings name, of the shared cache, and of
    the user's own."""
    shared = store.shared_store(settings, _SOURCE)
    return (
        *carried_facts(settings.find_links),
        *([shared] if shared else []),
        store.store_path(settings.cache(), _SOURCE),
    )


def ask_dates(spec: Spec, files: Mapping[File, Pin]) -> dict[File, str]:
    """Ask the indexes about files, and keep the answers. One without a date is left out. Raises OutsideError."""
    settings, env = load_settings(os.environ), os.environ
    times: dict[File, str] = {}
    projects = sorted({(index, pin.name) for (index, _), pin in files.items() if pin.kind == "pip"})
    if projects:
        named = settings.index_urls(spec.indexes)
        pypi = pypi_address(settings, env) if any(index == "pypi" for index, _ in projects) else ""
        pages = IndexPages(pypi, named, settings.pytorch_mirror, index_fetcher(settings, named, env))
        with Pool(_WORKERS) as pool:
            for (index, _), page in zip(projects, pool.map(lambda key: pages.ask(*key), projects), strict=True):
                for file, facts in (page or {}).items():
                    pin = files.get((index, file))
                    if pin and pin.artifact and facts.uploaded and facts.sha256 in ("", pin.artifact.sha256):
                        times[index, file] = facts.uploaded
    conda = [pin for pin in files.values() if pin.kind == "conda"]
    if conda:
        resolver = conda_resolver(spec, env, offline=False, progress=Progress())
        times |= times_of_upload(resolver, conda, {pin.index.rpartition("/")[2] for pin in conda})
    path = store.store_path(settings.cache(), _SOURCE)
    keep(path, _SOURCE, _store_of(files, times, stamp(datetime.now(timezone.utc))), warn)
    return times


def _store_of(files: Mapping[File, Pin], times: Mapping[File, str], now: str) -> store.Stored:
    facts = {key: (pin.artifact.sha256, times[key]) for key, pin in files.items() if key in times and pin.artifact}
    return store.Stored(files={key: (now, FileFacts(sha, moment, yanks=False)) for key, (sha, moment) in facts.items()})


def undated_dates(target: LockedTarget) -> store.Stored:
    """Give the known dates of a target's files without the days of asking: the same lock makes the same bundle."""
    files = dated_files((target,), ())
    return _store_of(files, known_dates(files, (target,)).times, "")
