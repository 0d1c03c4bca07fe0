"""A conda resolver put together for this machine: the user's channels, mirrors and logins, and rattler's caches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.errors import InputError, ToolError
from envspec.redact import redact
from envspec.resolve.conda import CondaResolver
from envspec.resolve.conda_channels import CondaConfig, channel_addresses, load_conda_config
from envspec.resolve.pip import Progress
from envspec.settings import load_settings
from envspec.spec.model import Spec

if TYPE_CHECKING:
    from rattler import Gateway
    from rattler.networking import Client


def conda_resolver(spec: Spec, env: Mapping[str, str], *, offline: bool, progress: Progress) -> CondaResolver:
    """The resolver of a spec's conda half.

    Raises ToolError without py-rattler, InputError for a broken configuration, SpecError for channels that no lock can
    name.
    """
    settings = load_settings(env)
    config = load_conda_config(env)
    return CondaResolver(
        gateway=_gateway(env, settings.cache_dir, config, offline=offline),
        channels=channel_addresses(spec.conda.channels, settings, config),
        offline=offline,
        progress=progress,
    )


def conda_client(config: CondaConfig) -> Client:
    """How conda's network is reached: rattler's own configuration (mirrors, certificates, S3), its logins (the keyring,
    RATTLER_AUTH_FILE, netrc), and what a `.condarc` says of TLS and proxies.

    Raises ToolError without py-rattler, InputError for a broken configuration.
    """
    try:
        from rattler.config import Config
        from rattler.exceptions import ConfigError
        from rattler.networking import Client
    except ImportError:
        raise ToolError(
            "conda packages need py-rattler, which isn't installed", hint="pip install 'envspec[conda]'"
        ) from None
    try:
        rattler = Config.from_toml(config_text(config)).merge(Config.load_from_default_locations("rattler"))
        return Client.from_config(rattler)
    except (ConfigError, ValueError) as error:
        raise InputError(f"rattler's configuration can't be used: {redact(str(error))}") from None


def _gateway(env: Mapping[str, str], cache_dir: Path, config: CondaConfig, *, offline: bool) -> Gateway:
    client = conda_client(config)
    from rattler import Gateway, SourceConfig

    # the cache that pixi and rattler-build keep too, where the user moved it somewhere
    cache = Path(env["RATTLER_CACHE_DIR"]) if env.get("RATTLER_CACHE_DIR") else cache_dir / "conda"
    action = SourceConfig(cache_action="force-cache-only") if offline else SourceConfig()
    return Gateway(cache_dir=cache / "repodata", default_config=action, client=client)


def config_text(config: CondaConfig) -> str:
    """What a `.condarc` says, in rattler's format."""
    import json

    lines = [] if config.verify_tls else ["tls-no-verify = true"]
    if config.proxies:
        lines.append("[proxy-config]")
        lines += [f"{scheme} = {json.dumps(proxy)}" for scheme, proxy in config.proxies if scheme in ("http", "https")]
    return "\n".join(lines)
