"""The one place that makes a Fetcher: with the user's logins, keyring and time-outs, as the settings have them."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from envspec.base.errors import InputError
from envspec.base.redact import redact
from envspec.configuration.settings import (
    Credentials,
    Settings,
    host_of,
    index_credentials,
    split_credentials,
    variable_name,
)
from envspec.net.fetch import Fetcher, Keyring, local_path, origin_of, read_timeout
from envspec.net.transport import Patience, is_loopback


def index_fetcher(
    settings: Settings, indexes: Mapping[str, str], env: Mapping[str, str], *, offline: bool = False
) -> Fetcher:
    """Make the fetcher for the user's indexes; `indexes` are the spec's own, by name, with the addresses that they
    have here."""
    fetcher = Fetcher(
        credentials={} if offline else credentials_of(settings, indexes, env),
        own=own_origins(settings),
        env=env,
        read_seconds=read_timeout(env),
        offline=offline,
        keyring=Keyring(env) if settings.keyring else None,
        patience=patience_of(settings, indexes),
    )
    fetcher.has_folders = any(local_path(url) for url in indexes.values())
    return fetcher


def patience_of(settings: Settings, indexes: Mapping[str, str]) -> dict[str, Patience]:
    """Collect the time-outs of the indexes that `[timeouts]` names, by origin. An origin with many indexes gets the
    longest one."""
    addresses = {
        "pypi": settings.default_index or "",
        **{name: url for name, url in settings.mirrors.items() if name.partition("/")[0] == "pytorch"},
        **indexes,
    }
    by_origin: dict[str, Patience] = {}
    for name, seconds in settings.timeouts.items():
        for index, url in addresses.items():
            if name not in (index, index.partition("/")[0]):
                continue
            origin = origin_of(split_credentials(url)[0])
            if url and (origin not in by_origin or by_origin[origin].seconds < seconds):
                by_origin[origin] = Patience(name, seconds)
    return by_origin


def credentials_of(settings: Settings, indexes: Mapping[str, str], env: Mapping[str, str]) -> dict[str, Credentials]:
    """Collect credentials by origin: those inside the URLs of the user's own settings, and uv's variables for named
    indexes.

    `indexes` are a spec's, with the addresses that they have here. Raises InputError for an index whose variables are
    set, but whose name the user bound to no such host, and for an index at plain http: nothing is sent then.
    """
    by_origin: dict[str, Credentials] = {}
    own = {*settings.mirrors.values(), settings.default_index}
    for name, url in [*indexes.items(), *settings.mirrors.items(), ("pypi", settings.default_index or "")]:
        bare, credentials = split_credentials(url)
        if credentials is None and (credentials := index_credentials(name, env)) and url not in own:
            _refuse_stranger(name, bare, settings)
        parts = urlsplit(bare)
        if credentials and parts.netloc:
            by_origin[f"{parts.scheme}://{parts.netloc}"] = credentials
    return by_origin


def own_origins(settings: Settings) -> frozenset[str]:
    """Give the origins that the user's own settings name: netrc's `default` is for these alone."""
    urls = (settings.default_index or "", *settings.mirrors.values(), *settings.find_links)
    named = {f"{url.partition('://')[0]}://{host}" for url in urls if (host := host_of(url))}
    return frozenset({*named, *(f"https://{host}" for hosts in settings.trusted.values() for host in hosts)})


def _refuse_stranger(name: str, url: str, settings: Settings) -> None:
    host = host_of(url)
    if host not in settings.trusted.get(variable_name(name), ()):
        raise InputError(
            f"UV_INDEX_{variable_name(name)}_USERNAME and _PASSWORD are the login of the index {name}, which the spec "
            f"says is at {redact(url)}: your own settings don't say that {name} is at this host, so nothing was sent",
            hint=f"if it is, run `envspec lock --trust-index {name}={host}`",
        )
    if urlsplit(url).scheme == "http" and not is_loopback(url):
        message = f"the index {name} is at {redact(url)}, and its login would go over plain http: nothing was sent"
        raise InputError(message, hint="give it an https address")
