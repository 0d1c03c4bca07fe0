"""The conda half: rattler's installer links what the lock pins into the prefix, and records it as conda does.

This module closes gaps of py-rattler 0.28. py-rattler doesn't check the hash of a file from a folder. It links any path
that a package names, so envspec downloads and checks packages before (`conda_cache`, `conda_paths`). And a record made
from a lock's pin lacks the package's own metadata (constrains, noarch, …).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import rattler
from msgspec import Struct
from rattler import (
    BuildString,
    Channel,
    InstallerReporter,
    PackageCache,
    PackageRecord,
    RepoDataRecord,
    Subdir,
    ValidationMode,
)
from rattler.exceptions import InstallerError
from rattler.networking import Client

from envspec.artifacts.conda_archives import CONDA_CACHE
from envspec.artifacts.conda_channels import Channels, CondaConfig, apart, channel_addresses
from envspec.base.cache import touch
from envspec.base.documents import read_json
from envspec.base.errors import EnvspecError, IndexFailure, InputError, StorageError, ToolError
from envspec.base.progress import Progress
from envspec.base.redact import redact, without_credentials
from envspec.base.scratch import scratch_folder
from envspec.base.storage import says_storage
from envspec.base.threads import run_async
from envspec.configuration.settings import Settings, trusted_folder
from envspec.install.conda_cache import AGAIN, CondaCache, path_of
from envspec.install.conda_paths import PackagePath, Unpacked, entries_of, refuse_unsafe, site_packages_of
from envspec.install.installed import CONDA_META
from envspec.install.prefix import write_file
from envspec.lock.conda_files import artifact_of, channel_of, url_in_channel
from envspec.lock.model import LockedTarget, Pin
from envspec.net.connections import patience_of
from envspec.net.file_store import sha256_of
from envspec.net.transport import Patience
from envspec.packages.names import conda_name
from envspec.packages.own_extras import how_to_get
from envspec.resolve.conda.setup import conda_client


class Reporter(InstallerReporter):
    """A counter of linked packages and downloaded bytes."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._names: dict[int, str] = {}
        self._bytes: dict[int, int] = {}
        self._done = 0

    def on_transaction_start(self, total_operations: int) -> None:
        self._progress.phase("conda packages", total_operations)

    def on_populate_cache_start(self, operation: int, package_name: str) -> int:
        self._names[operation] = package_name
        return operation

    def on_download_start(self, cache_entry: int) -> int:
        return cache_entry

    def on_download_progress(self, download_idx: int, progress: int, total: int | None) -> None:
        self._bytes[download_idx] = progress
        name = self._names.get(download_idx, "")
        self._progress.advance(self._done, f"{name}, {sum(self._bytes.values()) / 1e6:.0f} MB downloaded")

    def on_link_start(self, operation: int, package_name: str) -> int:
        self._progress.advance(self._done, package_name)
        return operation

    def on_transaction_operation_complete(self, operation: int) -> None:
        self._done += 1
        self._progress.advance(self._done)


_OF_THE_PACKAGE = (
    "arch", "attestations_sha256", "build_number", "constrains", "features", "license", "license_family", "noarch",
    "platform", "python_site_packages_path", "timestamp", "track_features",
)  # fmt: skip
"""The fields of a record in conda-meta that come from the package's own info/index.json."""


class CondaInstaller(Struct, frozen=True):
    """rattler for one prefix. `cache` is the folder with unpacked packages, which all prefixes share. `placed` is
    where the prefix's files end up, where they are moved: what packages' files say of their prefix. `shares`: what
    all users share is taken."""

    prefix: Path
    cache: Path
    settings: Settings
    config: CondaConfig
    offline: bool
    progress: Progress
    placed: Path | None = None
    shares: bool = True

    def install(
        self, target: LockedTarget, channels: Collection[str], coming: Collection[str], reinstall: Collection[str]
    ) -> None:
        """Make the prefix's conda packages those of `target`: remove, replace and add.

        `channels` are the spec's; `coming` names the packages that are linked in this run, `reinstall` those of them
        that rattler would take for linked already.
        Raises IndexFailure for a file that is missing or has another hash, InputError, ToolError, StorageError.
        """
        pins = [pin for pin in target.pins if pin.kind == "conda"]
        self.progress.phase(f"conda: {len(pins)} packages")
        known = apart(channel_addresses(channels, self.settings, self.config))
        client = conda_client(self.config, known.logins)
        patience = patience_of(self.settings, {channel.name: channel.address for channel in known.addresses})
        run_async(self._install(target, self._records(pins, known), client, patience, coming, reinstall))
        complete_records(self.prefix, target.inputs.conda_requirements)

    def _records(self, pins: Sequence[Pin], channels: Channels) -> list[RepoDataRecord]:
        """Give rattler's records of the pins, each with its URL on this machine."""
        bases = {address.name: str(Channel(address.address).base_url) for address in channels.addresses}
        records = []
        for pin in pins:
            name = channel_of(pin)[0]
            if name not in bases:
                message = f'the lock has files from the channel "{name}", which the spec doesn\'t name'
                raise InputError(message, hint="add it to [conda] channels, or lock again")
            records.append(_record(pin, bases[name]))
        return records

    async def _install(
        self,
        target: LockedTarget,
        records: Sequence[RepoDataRecord],
        client: Client,
        patience: Mapping[str, Patience],
        coming: Collection[str],
        reinstall: Collection[str],
    ) -> None:
        self.cache.mkdir(parents=True, exist_ok=True)
        # `full`: what lies in the cache is hashed again before it's linked
        layers = PackageCache.new_layered([self.cache], validation_mode=ValidationMode.full())
        # for another Python, everything that is for any Python is linked again
        linked = records if "python" in coming else [r for r in records if r.name.normalized in coming]
        with scratch_folder(self.cache.parent / "scratch") as scratch:
            shared = trusted_folder(self.settings.shared_cache, "[cache] shared") if self.shares else None
            shared_packages = trusted_folder(shared / CONDA_CACHE, "[cache] shared") if shared else None
            cache = CondaCache(self.cache, scratch, client, self.progress, patience, shared_packages)
            fetched = await self._fill(layers, cache, linked)
            while (packages := self._sound(cache, linked, fetched, target)) is None:
                fetched |= await self._fill(layers, cache, linked)
            refuse_unsafe(packages, self.prefix, target.inputs.platform)
        try:
            await rattler.install(
                list(records),
                self.prefix,
                reinstall_packages=set(reinstall),
                platform=Subdir(target.inputs.platform),
                client=client,
                show_progress=False,
                reporter=Reporter(self.progress),  # type: ignore[abstract]  # rattler calls what is there
                package_cache=layers,
                alternative_target_prefix=self.placed,
            )
        except (InstallerError, OSError) as error:
            # py-rattler has no type for what went wrong, so its words must do
            if "hash mismatch" in str(error):
                for record in linked:
                    cache.drop(record)
            raise _failure(str(error), target.name) from None

    async def _fill(self, layers: PackageCache, cache: CondaCache, records: Sequence[RepoDataRecord]) -> set[str]:
        """Add missing packages to the cache, and give their names. Refuses a folder's file with another hash and,
        offline, any missing package.
        """
        index = await layers.index()
        missing = [record for record in records if not index.contains_record(record)]
        # rattler's index has no links, though it installs from them
        adopted = cache.adopt(missing)
        missing = [record for record in missing if record.name.normalized not in adopted]
        for record in records:
            touch(cache.entry(record))
        absent = {id(record) for record in missing}
        for record in records:
            if record.url.startswith("file:"):
                # rattler falls back on it, unseen, where what the cache has turns out damaged
                if id(record) in absent or path_of(record).exists():
                    _verify(record)
            elif self.offline and id(record) in absent:
                message = f"{redact(record.url)} isn't in the cache, and --offline forbids downloading it"
                raise IndexFailure(message, hint="run once without --offline")
        await cache.fill(missing)
        index = await layers.index()
        names = (record.name.normalized for record in records if not index.contains_record(record))
        refused = [name for name in names if name not in adopted]
        if refused:
            hint = f"install the py-rattler that envspec requires: {how_to_get('conda')}"
            raise ToolError(f"rattler refuses the files in {self.cache} for {', '.join(refused[:3])}", hint=hint)
        return {record.name.normalized for record in missing}

    def _sound(
        self, cache: CondaCache, records: Sequence[RepoDataRecord], fetched: Collection[str], target: LockedTarget
    ) -> dict[Unpacked, list[PackagePath]] | None:
        """List the content of each package. None where packages in the cache were damaged: they are removed, for
        another download. Raises for an intact package with bad content.
        """
        places = {f"lib/python{target.inputs.python}/site-packages"}
        packages = [(record, cache.describe(record)) for record in records]
        entries: dict[Unpacked, list[PackagePath]] = {}
        whole = True
        # Python first: it says where packages for any Python go
        for record, package in sorted(packages, key=lambda pair: pair[1].name != "python"):
            try:
                if package.name == "python" and (place := site_packages_of(package)):
                    places.add(place)
                entries[package] = entries_of(package, places)
            except IndexFailure:
                cache.drop(record)
                # a shared one comes from its channel then
                cache.refused.add(package.name)
                if package.name in fetched:
                    raise
                whole = False
        return entries if whole else None


def complete_records(prefix: Path, requested: Collection[str] = ()) -> None:
    """Complete the records in conda-meta with their packages' metadata and the match specs that asked for them, and
    remove credentials from their URLs.

    A record whose package is no longer in the cache gets no metadata. Raises OSError.
    """
    match_specs: dict[str, list[str]] = {}
    for text in requested:
        match_specs.setdefault(conda_name(text), []).append(text)
    for path in sorted((prefix / CONDA_META).glob("*.json")):
        record: dict[str, Any] = read_json(path.read_bytes())
        try:
            index = read_json((Path(record["extracted_package_dir"]) / "info" / "index.json").read_bytes())
        except (KeyError, OSError, ValueError):
            index = {}
        known = {name: index[name] for name in _OF_THE_PACKAGE if index.get(name) not in (None, "", [])}
        urls = {name: without_credentials(str(record[name])) for name in ("url", "channel") if record.get(name)}
        completed = {**record, **known, **urls, "requested_specs": match_specs.get(str(record.get("name")), [])}
        if completed != record:
            write_file(prefix, path.relative_to(prefix), json.dumps(completed, indent=2))


def _record(pin: Pin, base: str) -> RepoDataRecord:
    artifact = artifact_of(pin)
    _, subdir = channel_of(pin)
    build = pin.build or ""
    number = build.rpartition("_")[2]
    package = PackageRecord(
        pin.name,
        pin.version,
        BuildString(build),
        int(number) if re.fullmatch("[0-9]{1,18}", number) else 0,
        subdir,
        noarch=_noarch(pin) if subdir == "noarch" else None,
        depends=list(pin.dependencies),
        sha256=bytes.fromhex(artifact.sha256),
        md5=bytes.fromhex(artifact.md5) if artifact.md5 else None,
        size=artifact.size,
        license=pin.licence,
    )
    return RepoDataRecord(package, artifact.file, url_in_channel(base, pin), base)


def _noarch(pin: Pin) -> Any:
    """Give a package's kind of noarch, so that rattler links the package again for another Python. The linking itself
    goes by the package's own index.json.
    """
    return "python" if any(conda_name(spec) == "python" for spec in pin.dependencies) else "generic"


def _verify(record: RepoDataRecord) -> None:
    path = path_of(record)
    try:
        digest = sha256_of(path)
    except OSError as error:
        raise IndexFailure(f"{path} can't be read: {error.strerror}", hint=AGAIN) from None
    if digest != (record.sha256 or b"").hex():
        message = f"{path} has the sha256 {digest}, but the lock has {(record.sha256 or b'').hex()}"
        raise IndexFailure(message, hint="find out why before you install the file: files of a channel never change")


def _failure(text: str, label: str) -> EnvspecError:
    """Translate rattler's error."""
    parts = [part.strip() for part in redact(text).replace("Caused by:", "\n").splitlines()]
    cause = ": ".join(dict.fromkeys(part for part in parts if part))
    message = f"{label}: {cause}"
    if says_storage(cause):
        return StorageError(message, hint="free some space, or give --prefix and ENVSPEC_CACHE_DIR other places")
    if "hash mismatch" in cause:
        return IndexFailure(message, hint="don't install from this channel until its owner has found the cause")
    if "failed to fetch" in cause:
        return IndexFailure(message, hint=AGAIN)
    return ToolError(
        message,
        hint="run the same command again; if it fails again, bound what it names in the spec to another build, and "
        "tell whoever runs the channel",
    )
