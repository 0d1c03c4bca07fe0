"""Logins in channels' URLs, handed to rattler apart from the URLs.

rattler names its caches after a channel's URL and writes it into them, so a URL has to be bare. Its authentication
storage takes the login instead: a file in the form of `RATTLER_AUTH_FILE`, which it reads once, when a client is made.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from envspec.base.documents import read_json
from envspec.base.redact import has_credentials, without_credentials
from envspec.base.settings import split_credentials
from envspec.resolve.conda.channels import ChannelAddress

_TOKEN = re.compile(r"^/t/([^/]+)(?=/)")
_VARIABLE = "RATTLER_AUTH_FILE"


@dataclass(frozen=True)
class Channels:
    """Channels for rattler.

    addresses  their URLs, with a secret only where rattler has no other way to get it
    logins     host → its entry in rattler's authentication storage
    """

    addresses: tuple[ChannelAddress, ...]
    logins: Mapping[str, Mapping[str, Any]]

    @property
    def secret(self) -> bool:
        """Whether an address still has a secret, so that only its user may read a cache named after it."""
        return any(has_credentials(channel.address) for channel in self.addresses)


def apart(addresses: Sequence[ChannelAddress]) -> Channels:
    """Split channels' addresses into bare URLs and logins.

    The storage has one login a host. Where channels on a host, on whatever port, have different ones, and where a token
    stands elsewhere than at the path's beginning, addresses stay as they are.
    """
    wanted: dict[str, set[tuple[str, str]]] = {}
    for channel in addresses:
        parts = _parts(channel)
        if parts is not None:
            wanted.setdefault(parts[0], set()).add((parts[1], json.dumps(parts[2])))
    logins: dict[str, Mapping[str, Any]] = {}
    bare = []
    for channel in addresses:
        parts = _parts(channel)
        if parts is not None and parts[2] is not None and len(wanted[parts[0]]) == 1:
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
