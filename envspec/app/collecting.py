"""Files of locked packages, from this machine's caches or from the user's own indexes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from envspec.app.export.file_urls import file_urls
from envspec.app.observer import observer, say
from envspec.base.scratch import scratch_folder
from envspec.configuration.settings import load_settings
from envspec.install.build import refuse_other_wheels
from envspec.install.collect import Collector, Paths, pip_addresses
from envspec.install.conda_cache import refuse_unfit_packages
from envspec.lock.conda_files import FileUrls
from envspec.lock.model import LockedTarget, Pin
from envspec.net.connections import index_fetcher
from envspec.net.file_store import ARTIFACTS, FileStore
from envspec.packages.own_extras import require_extra
from envspec.spec.model import Spec


def collect_wheels(spec: Spec, target: LockedTarget, pins: Sequence[Pin], *, offline: bool = False) -> Paths:
    """Get the files of a target's pins as `collect` does, take the hash of each again, and refuse wheels of one's own
    that are for another CUDA. Raises AnswerNo besides."""
    paths = collect(spec, pins, again=True, offline=offline)
    refuse_other_wheels(target, pins, paths)
    return paths


def collect(
    spec: Spec, pins: Sequence[Pin], *, again: bool = False, offline: bool = False, into: Path | None = None
) -> Paths:
    """Get the files of pins, none from git, each checked by its hash and looked through.

    `again` takes the hash of files that were seen before, too; `into` is another cache to take and keep them in. Raises
    IndexFailure, StorageError.
    """
    settings = load_settings(os.environ)
    fetcher = index_fetcher(settings, settings.index_urls(spec.index_addresses), os.environ, offline=offline)
    store = FileStore(into / ARTIFACTS, fetcher) if into else FileStore.of(settings, fetcher)

    def urls(missing: Sequence[Pin]) -> FileUrls:
        conda = file_urls([pin for pin in missing if pin.kind == "conda"], spec, os.environ)
        pip = [pin for pin in missing if pin.kind == "pip"]
        return {**conda, **pip_addresses(pip, spec, settings, os.environ, store.fetcher)}

    total = sum(pin.artifact.size or 0 for pin in pins if pin.artifact)
    with observer().progress("fetching", total or None) as progress:
        return Collector(
            store,
            urls,
            settings.find_links,
            again=again,
            on_bytes=progress.came,
            on_wait=lambda: say("waiting: another envspec is downloading one of these files"),
        ).collect(pins)


def collect_conda_too(spec: Spec, target: LockedTarget, pins: Sequence[Pin]) -> Paths:
    """Get every file, checked by its hash again, and look through it: conda packages, too."""
    conda = [pin for pin in pins if pin.kind == "conda"]
    if conda:
        require_extra("conda", "the bundle has conda packages, which need")
    paths = collect_wheels(spec, target, pins)
    if conda:
        with scratch_folder(load_settings(os.environ).scratch()) as scratch:
            refuse_unfit_packages(conda, paths, target.inputs, scratch)
    return paths
