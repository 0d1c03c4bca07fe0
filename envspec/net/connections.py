"""The one place that makes a Fetcher: with the user's logins, keyring and time-outs, as the settings have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from envspec.base.settings import Settings, split_credentials
from envspec.net.fetch import Fetcher, origin_of, read_timeout
from envspec.net.logins import credentials_of, own_origins
from envspec.net.patience import Patience

if TYPE_CHECKING:
    from envspec.net.keyring import Keyring


def index_fetcher(
    settings: Settings, indexes: Mapping[str, str], env: Mapping[str, str], *, offline: bool = False
) -> Fetcher:
    """What reads from the user's indexes; `indexes` are the spec's own, by name, with the addresses that they have
    here."""
    return Fetcher(
        credentials={} if offline else credentials_of(settings, indexes, env),
        own=own_origins(settings),
        env=env,
        read_seconds=read_timeout(env),
        offline=offline,
        keyring=_keyring(env) if settings.keyring else None,
        patience=patience_of(settings, indexes),
    )


def _keyring(env: Mapping[str, str]) -> Keyring:
    from envspec.net.keyring import Keyring

    return Keyring(env)


def patience_of(settings: Settings, indexes: Mapping[str, str]) -> dict[str, Patience]:
    """How long to wait for the indexes that `[timeouts]` names, by origin. Of several indexes at one origin, the
    longest."""
    addresses = {
        "pypi": settings.default_index or "",
        **{name: url for name, url in settings.mirrors.items() if name.partition("/")[0] == "pytorch"},
        **indexes,
    }
    found: dict[str, Patience] = {}
    for name, seconds in settings.timeouts.items():
        for index, url in addresses.items():
            if name not in (index, index.partition("/")[0]):
                continue
            origin = origin_of(split_credentials(url)[0])
            if url and (origin not in found or found[origin].seconds < seconds):
                found[origin] = Patience(name, seconds)
    return found
