"""The setup of a conda resolver on this machine: the user's channels, mirrors and logins, and rattler's caches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envspec.artifacts.conda_archives import CONDA_CACHE, CondaArchives
from envspec.artifacts.conda_channels import (
    CondaConfig,
    apart,
    channel_addresses,
    channel_url,
    load_conda_config,
    logins_file,
)
from envspec.base.errors import InputError, StorageError
from envspec.base.progress import Progress
from envspec.base.redact import without_credentials
from envspec.base.threads import run_async
from envspec.configuration.settings import Settings, load_settings
from envspec.lock.model import Pin
from envspec.net.connections import patience_of
from envspec.net.limits import LIMITS
from envspec.packages.own_extras import require_extra
from envspec.resolve.conda.request import build_of, pins_of_records
from envspec.resolve.conda.solve import CondaResolver
from envspec.spec.model import Spec

if TYPE_CHECKING:
    from rattler import Gateway, RepoDataRecord
    from rattler.networking import Client


def conda_resolver(spec: Spec, env: Mapping[str, str], *, offline: bool, progress: Progress) -> CondaResolver:
    """Make the resolver of a spec's conda half.

    Raises ToolError without py-rattler, InputError for a broken configuration, SpecError for channels that a lock can't
    name.
    """
    settings = load_settings(env)
    config = load_conda_config(env)
    channels = apart(channel_addresses(spec.conda.channels, settings, config))
    own = patience_of(settings, {address.name: address.address for address in channels.addresses})
    # rattler has no time-out between two bytes, so no setting can make this shorter
    seconds = max([LIMITS.whole_seconds, *(limit.seconds for limit in own.values())])
    client = conda_client(config, channels.logins, seconds)
    addresses = {address.name: channel_url(address.address) for address in channels.addresses}
    return CondaResolver(
        gateway=_gateway(env, settings, client, secret=channels.secret, offline=offline),
        channels=channels.addresses,
        offline=offline,
        progress=progress,
        archives=CondaArchives(client, addresses, settings.cache() / CONDA_CACHE, offline),
        seconds=seconds,
    )


def conda_client(config: CondaConfig, logins: Mapping[str, Mapping[str, Any]], seconds: float | None = None) -> Client:
    """Make rattler's network client: rattler's own configuration (mirrors, certificates, S3), `logins` by host, then
    rattler's own logins (RATTLER_AUTH_FILE, the keyring, netrc), and TLS and proxies of a `.condarc`. `seconds` is the
    most that one answer may take, from the request to the last byte; None for rattler's own.

    Raises ToolError without py-rattler, InputError for a broken configuration.
    """
    require_extra("conda", "conda packages need")
    from rattler.config import Config
    from rattler.exceptions import ConfigError
    from rattler.networking import Client

    try:
        rattler = Config.from_toml(config_text(config)).merge(Config.load_from_default_locations("rattler"))
        override = rattler.authentication_override_file
        with logins_file(logins, override) as file:
            if file is not None and override is not None:
                rattler = rattler.merge(Config.from_toml(f"authentication-override-file = {json.dumps(str(file))}"))
            return Client.from_config(rattler, timeout=None if seconds is None else round(seconds))
    except (ConfigError, ValueError) as error:
        raise InputError(f"rattler's configuration can't be used: {error}") from None
    except OSError as error:
        raise StorageError(
            f"envspec can't create a temporary file: {error.strerror or error}", hint="free some space, or set TMPDIR"
        ) from None


def _gateway(env: Mapping[str, str], settings: Settings, client: Client, *, secret: bool, offline: bool) -> Gateway:
    from rattler import Gateway, SourceConfig

    # the cache that pixi and rattler-build keep too, where the user moved it somewhere
    cache = Path(env["RATTLER_CACHE_DIR"]) if env.get("RATTLER_CACHE_DIR") else settings.cache() / "conda"
    action = SourceConfig(cache_action="force-cache-only") if offline else SourceConfig()
    return Gateway(cache_dir=_repodata(cache, secret=secret), default_config=action, client=client)


def _repodata(cache: Path, *, secret: bool) -> Path:
    """Give rattler's cache of channels' lists. rattler writes addresses there, so those with a secret have a folder
    that only its user may read."""
    if not secret:
        return cache / "repodata"
    folder = cache / "repodata-private"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise StorageError(
            f"{folder} can't be written: {error.strerror}", hint="point ENVSPEC_CACHE_DIR to a writable folder"
        ) from None
    return folder


def config_text(config: CondaConfig) -> str:
    """Write a `.condarc`'s settings in rattler's format."""
    lines = [] if config.verify_tls else ["tls-no-verify = true"]
    if config.proxies:
        lines.append("[proxy-config]")
        lines += [f"{scheme} = {json.dumps(proxy)}" for scheme, proxy in config.proxies if scheme in ("http", "https")]
    return "\n".join(lines)


# The records of conda packages, as their channels have them now.


def records_of(
    resolver: CondaResolver, pins: Iterable[Pin], platforms: Iterable[str], what: str
) -> dict[tuple[str, str], RepoDataRecord]:
    """Find the records of pins, by index and file name. A pin that its channel doesn't have has no entry. `what` is for
    messages. Raises OutsideError."""
    from rattler import MatchSpec

    specs = [MatchSpec(text) for text in sorted({f"{pin.name} =={pin.version} {pin.build}" for pin in pins})]
    records = run_async(resolver.query(specs, sorted({*platforms} - {"noarch"}), what))
    named = ((resolver.names.get(without_credentials(record.channel or "").rstrip("/")), record) for record in records)
    return {(f"{name}/{record.subdir}", record.file_name): record for name, record in named if name is not None}


def upload_time(record: RepoDataRecord) -> str | None:
    """Give a record's time of upload (RFC 3339, UTC); None where its channel has none."""
    if record.timestamp is None:
        return None
    return record.timestamp.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_pin(record: RepoDataRecord) -> Pin:
    """Read a record as a pin of a nameless index. Raises IndexFailure for one without a hash."""
    channel = without_credentials(record.channel or "").rstrip("/")
    return pins_of_records({build_of(record): record}, {channel: ""}, ())[0]


def times_of_upload(
    resolver: CondaResolver, pins: Iterable[Pin], platforms: Iterable[str]
) -> dict[tuple[str, str], str]:
    """Give each file's time of upload (RFC 3339), by index and file name. A file that its channel doesn't have, or has
    without a time, has no entry. Raises OutsideError."""
    records = records_of(resolver, pins, platforms, "when conda packages were published")
    times = {key: upload_time(record) for key, record in records.items()}
    return {key: moment for key, moment in times.items() if moment is not None}
