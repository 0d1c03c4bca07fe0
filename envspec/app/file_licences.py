"""The licences that a target's files state themselves: a lock's are the word of whoever wrote it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from envspec.app.collecting import collect
from envspec.artifacts.metadata import MetadataCache, MetadataReader, cache_key
from envspec.artifacts.sdist.static_source import StaticReader
from envspec.base.finding import Finding
from envspec.base.progress import Progress
from envspec.base.texts import without_unseen
from envspec.configuration.settings import load_settings
from envspec.install.collect import Paths
from envspec.lock.model import Artifact, LockedTarget, Pin
from envspec.net.connections import index_fetcher
from envspec.packages.metadata import Metadata
from envspec.packages.requirement import canonical_name
from envspec.resolve.conda.setup import as_pin, conda_resolver, records_of
from envspec.resolve.uv.answer import FoundFile
from envspec.review.policy.judge import judge_licences
from envspec.review.policy.model import Policy
from envspec.spec.model import Spec

Stated = tuple[Pin, str | None]
"""A pin, and the licence that its file states; None for none."""


def judge_files(policy: Policy, spec: Spec, target: LockedTarget, *, offline: bool) -> tuple[Finding, ...]:
    """Judge the licences in a target's files: of wheels and sdists in their own METADATA, of conda packages in their
    channel's record. Files that weren't read before are fetched, as an installation does next. What is built from git
    has no file.

    Raises IndexFailure for a file that can't be had, OutsideError.
    """
    pins = [pin for pin in target.fetched if pin.artifact and canonical_name(pin.name) not in policy.licences]
    pip, conda = ([pin for pin in pins if pin.kind == kind] for kind in ("pip", "conda"))
    stated = (*_of_pip(spec, pip, offline), *_of_conda(spec, conda, offline))
    return judge_licences(policy, target.name, stated)


def _of_pip(spec: Spec, pins: Sequence[Pin], offline: bool) -> Iterable[Stated]:
    settings = load_settings(os.environ)
    fetcher = index_fetcher(settings, {}, os.environ, offline=offline)
    reader, sources = MetadataReader(MetadataCache(settings.cache()), fetcher), StaticReader(settings.cache(), fetcher)
    known = {pin: reader.recall(_file(pin)) for pin in pins if pin.is_wheel}
    paths: Paths = {}
    lacking = [pin for pin in pins if known.get(pin) is None]
    if lacking:
        paths = collect(spec, lacking, offline=offline)
    for pin in pins:
        metadata = known.get(pin)
        if metadata is None and pin.is_wheel:
            metadata = reader.read_file(paths[pin.index, _file(pin).file], _file(pin))
        elif metadata is None:
            metadata = sources.read(_file(pin), pin.name, pin.version).metadata
        yield pin, _licence(metadata.licence)


def _of_conda(spec: Spec, pins: Sequence[Pin], offline: bool) -> Iterable[Stated]:
    cache = MetadataCache(load_settings(os.environ).cache())
    keys = {pin: cache_key("conda licence", pin.index, _file(pin).file, str(_file(pin).sha256)) for pin in pins}
    known = {pin: cache.get(key) for pin, key in keys.items()}
    lacking = [pin for pin, metadata in known.items() if metadata is None]
    if lacking:
        resolver = conda_resolver(spec, os.environ, offline=offline, progress=Progress())
        platforms = {pin.index.rpartition("/")[2] for pin in lacking}
        records = records_of(resolver, lacking, platforms, "which licences conda packages have")
        for pin in lacking:
            record = records.get((pin.index, _file(pin).file))
            pin_of_record = as_pin(record) if record is not None else None
            if (
                pin_of_record is not None
                and pin_of_record.artifact
                and pin_of_record.artifact.sha256 == _file(pin).sha256
            ):
                known[pin] = metadata = Metadata(pin.name, pin.version, (), (), None, pin_of_record.licence)
                cache.put(keys[pin], metadata)
    return ((pin, _licence(metadata.licence)) for pin, metadata in known.items() if metadata is not None)


def _file(pin: Pin) -> FoundFile:
    artifact = pin.artifact or Artifact("", "", None)
    return FoundFile("", artifact.file, artifact.sha256, artifact.size)


def _licence(stated: str | None) -> str | None:
    return (without_unseen(stated) or None) if stated else None
