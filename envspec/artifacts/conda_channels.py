"""Addresses of conda channels on this machine: envspec's `[mirrors]`, then the user's own conda configuration.

A lock names channels ("conda-forge/linux-64"); only this module turns a name into an address.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.documents import read_json
from envspec.base.errors import InputError, OutsideError, SpecError
from envspec.base.redact import has_credentials, register_all, without_credentials
from envspec.configuration.settings import Settings, condarc_files, load_settings, read_condarc, split_credentials
from envspec.packages.names import channel_name
from envspec.spec.model import Spec

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class CondaConfig(Struct, frozen=True):
    """The part of a `.condarc` with the addresses of channels and the access to them."""

    channel_alias: str | None = None
    custom_channels: tuple[tuple[str, str], ...] = ()
    """Channel name → the URL of the folder that has it."""
    verify_tls: bool = True
    proxies: tuple[tuple[str, str], ...] = ()
    """Scheme → proxy."""


class ChannelAddress(Struct, frozen=True):
    """A channel by its name in a lock, and its address: a URL, or a bare name at conda's default address."""

    name: str
    address: str


def channel_addresses(channels: Iterable[str], settings: Settings, config: CondaConfig) -> tuple[ChannelAddress, ...]:
    """Find the addresses of a spec's channels, in their order.

    First `[mirrors]` of envspec's configuration (by the channel's name), then the channel's own URL, then the user's
    `custom_channels` and `channel_alias`.

    Raises SpecError for two channels that a lock or rattler can't tell apart, and for `defaults`, which isn't one.
    """
    addresses: dict[str, ChannelAddress] = {}
    for channel in channels:
        name = channel_name(channel)
        if name == "defaults":
            message = '"defaults" means different channels on different machines, so a lock can\'t name it'
            raise SpecError(message, hint='name the channel itself: channels = ["conda-forge"]')
        if name in addresses:
            hint = "keep one of them: a lock names a channel by the last part of its address"
            raise SpecError(f'two channels are called "{name}"', hint=hint)
        addresses[name] = ChannelAddress(name, _address(channel, name, settings, config))
    # rattler leaves logins out of what it says of a record, so its channel is known by the rest
    bare: dict[str, ChannelAddress] = {}
    for address in addresses.values():
        first = bare.setdefault(without_credentials(address.address).rstrip("/"), address)
        if first.address != address.address:
            hint = "give both the same address in your configuration, or keep one of them"
            raise SpecError(f'the channels "{first.name}" and "{address.name}" differ in their login alone', hint=hint)
    return tuple(addresses.values())


def _address(channel: str, name: str, settings: Settings, config: CondaConfig) -> str:
    mirror = settings.mirrors.get(name)
    if mirror:
        return mirror if _URL.match(mirror) else Path(mirror).absolute().as_uri()
    if _URL.match(channel):
        return channel
    custom = dict(config.custom_channels)
    # conda takes the longest custom channel that the name begins with: `mine/label/dev` is below `mine`
    own = next((c for c in sorted(custom, key=len, reverse=True) if f"{name}/".startswith(f"{c}/")), None)
    base = custom[own] if own is not None else config.channel_alias
    return f"{base.rstrip('/')}/{name}" if base else name


def load_conda_config(env: Mapping[str, str]) -> CondaConfig:
    """Read the user's conda configuration: the `.condarc` files that conda reads, later ones over earlier ones, and
    then conda's environment variables.

    Raises what `read_condarc` raises.
    """
    merged: dict[str, Any] = {}
    for path in condarc_files(env):
        merged.update(read_condarc(path))
    register_all(merged)
    alias = env.get("CONDA_CHANNEL_ALIAS") or merged.get("channel_alias")
    verify = env.get("CONDA_SSL_VERIFY", str(merged.get("ssl_verify", True)))
    return CondaConfig(
        channel_alias=str(alias) if alias else None,
        custom_channels=_pairs(merged.get("custom_channels")),
        verify_tls=verify.strip().lower() not in ("false", "no", "off", "0"),
        proxies=_pairs(merged.get("proxy_servers")),
    )


def _pairs(table: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(table, dict):
        return ()
    return tuple((str(key), str(value)) for key, value in table.items() if value)


def channel_urls(names: Iterable[str], spec: Spec, env: Mapping[str, str]) -> dict[str, str]:
    """Find the URL of each channel, without credentials, by its name in the lock.

    The user's settings decide (`envspec.artifacts.conda_channels`). Raises InputError for a broken configuration or a
    channel that the spec no longer has, OutsideError for one without a known address.
    """
    addresses = channel_addresses(spec.conda.channels, load_settings(env), load_conda_config(env))
    known = {address.name: address.address for address in addresses}
    urls: dict[str, str] = {}
    for name in sorted(names):
        if name not in known:
            hint = "add it to [conda] channels, or lock again"
            raise InputError(f'the lock has files from the channel "{name}", which the spec doesn\'t name', hint=hint)
        urls[name] = split_credentials(channel_url(known[name]))[0]
    return urls


def channel_url(address: str) -> str:
    """Turn an address into a URL. A bare name is below rattler's default address."""
    if "://" in address:
        return address
    try:
        from rattler import Channel
    except ImportError:
        message = f'envspec doesn\'t know the address of the channel "{address}" on this machine'
        raise OutsideError(message, hint="set the address of channels: CONDA_CHANNEL_ALIAS=https://…") from None
    return str(Channel(address).base_url)


# Logins in channels' URLs, handed to rattler apart from the URLs.
#
# rattler names its caches after a channel's URL and writes it into them, so a URL has to be bare. Its authentication
# storage takes the login instead: a file in the form of `RATTLER_AUTH_FILE`, which it reads once, when a client is
# made.

_TOKEN = re.compile(r"^/t/([^/]+)(?=/)")
_VARIABLE = "RATTLER_AUTH_FILE"


class Channels(Struct, frozen=True):
    """Channels for rattler.

    addresses  their URLs, with a secret only where rattler has no other way to get it
    logins     host → its entry in rattler's authentication storage
    """

    addresses: tuple[ChannelAddress, ...]
    logins: Mapping[str, Mapping[str, Any]]

    @property
    def secret(self) -> bool:
        """Return whether an address still has a secret: then only its user may read a cache named after it."""
        return any(has_credentials(channel.address) for channel in self.addresses)


def apart(addresses: Sequence[ChannelAddress]) -> Channels:
    """Split channels' addresses into bare URLs and logins.

    The storage has one login a host. Where channels on a host, on whatever port, have different ones, and where a token
    stands elsewhere than at the path's beginning, addresses stay as they are.
    """
    logins_of_host: dict[str, set[tuple[str, str]]] = {}
    for channel in addresses:
        parts = _parts(channel)
        if parts is not None:
            logins_of_host.setdefault(parts[0], set()).add((parts[1], json.dumps(parts[2])))
    logins: dict[str, Mapping[str, Any]] = {}
    bare = []
    for channel in addresses:
        parts = _parts(channel)
        if parts is not None and parts[2] is not None and len(logins_of_host[parts[0]]) == 1:
            logins[parts[0]] = parts[2]
            channel = replace(channel, address=without_credentials(channel.address))
        bare.append(channel)
    return Channels(tuple(bare), logins)


def _parts(channel: ChannelAddress) -> tuple[str, str, Mapping[str, Any] | None] | None:
    """Split an address into host, port and login. None for one that isn't a web address or can't be parsed."""
    try:
        parts = urlsplit(channel.address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return None
        bare, own = split_credentials(channel.address)
    except ValueError:
        return None
    token = _TOKEN.match(parts.path)
    port = urlsplit(bare).netloc
    if token and not own:
        rest = bare.replace(token[0], "", 1)
        login: dict[str, Any] | None = {"CondaToken": token[1]}
    else:
        rest, login = bare, None
        if own:
            login = {"BasicHTTP": {"username": own.username, "password": own.password}}
    # what is left over is a secret of which rattler has no kind
    return (parts.hostname, port, None if has_credentials(rest) else login)


@contextmanager
def logins_file(logins: Mapping[str, Mapping[str, Any]], also: Path | None = None) -> Iterator[Path | None]:
    """Write a file with these logins and the user's own (`also`, or `RATTLER_AUTH_FILE`) while the caller makes a
    client; the variable names it meanwhile. None without logins. Raises OSError."""
    if not logins:
        yield None
        return
    before = os.environ.get(_VARIABLE)
    own = also or (Path(before) if before else None)
    known: Any = {}
    if own is not None:
        with suppress(OSError, ValueError, RecursionError):
            known = read_json(own.read_text(encoding="utf-8"))
    # only its user may read what mkstemp makes
    handle, name = tempfile.mkstemp(prefix="envspec-logins-", suffix=".json")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            json.dump({**(known if isinstance(known, dict) else {}), **logins}, file)
        os.environ[_VARIABLE] = name
        yield Path(name)
    finally:
        os.environ.pop(_VARIABLE, None)
        if before is not None:
            os.environ[_VARIABLE] = before
        with suppress(OSError):
            os.unlink(name)
