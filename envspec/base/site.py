"""`[site]` of the user's own configuration: what belongs to a site and to no spec. Its mirrors are in `[mirrors]`.

A lock and a recipe never hold any of it: it reaches builds as arguments and variables, and jobs through their command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from envspec.base.errors import InputError, Place
from envspec.base.redact import redact, register_url
from envspec.base.texts import nearest

ARCHIVES = ("debian", "debian-security", "debian-snapshot", "ubuntu", "ubuntu-ports")
"""The keys of `[mirrors]` for archives that apt reads: the paths that these have on every public mirror.
`debian-snapshot` is the archive of snapshots, which has `debian/20261101T000000Z/`."""
PROXY_VARIABLES = ("http_proxy", "https_proxy", "no_proxy")
"""The variables by which programs learn of a proxy, in the form that all of them read."""

_FEATURE = r"[A-Za-z0-9_][A-Za-z0-9_.:=-]{0,99}"
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,99}"


@dataclass(frozen=True)
class SlurmSite:
    """`[site.slurm]`: a cluster, for jobs whose spec doesn't say.

    features  a GPU as specs name it ("H100", "hopper", "sm_90") → the feature that its nodes have in this cluster
    drivers   a driver's version → the feature of the nodes that have it, or a newer one
    places    where each of those names stands
    """

    account: str | None = None
    partition: str | None = None
    features: Mapping[str, str] = field(default_factory=dict)
    drivers: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)


@dataclass(frozen=True)
class Site:
    """proxy     the web proxy for all that isn't near, credentials and all; None for none
    no_proxy  hosts and domains that are reached without it
    """

    proxy: str | None = None
    no_proxy: tuple[str, ...] = ()
    slurm: SlurmSite = field(default_factory=SlurmSite)

    def variables(self, env: Mapping[str, str]) -> dict[str, str]:
        """Give the variables of the proxy that an environment lacks: none where it names a proxy, or none, itself."""
        named = ("http_proxy", "https_proxy", "all_proxy")
        if self.proxy is None or any(name in env or name.upper() in env for name in named):
            return {}
        direct = {} if "no_proxy" in env or "NO_PROXY" in env else {"no_proxy": ",".join(self.no_proxy)}
        return {"http_proxy": self.proxy, "https_proxy": self.proxy, **(direct if self.no_proxy else {})}


def apt_mirrors(mirrors: Mapping[str, str]) -> str:
    """Give the mirrors of apt's archives as builds take them: words NAME=URL."""
    return " ".join(f"{name}={mirrors[name].rstrip('/')}" for name in ARCHIVES if mirrors.get(name))


def read_site(table: Any, place: Callable[[str], Place]) -> Site:
    """Read `[site]`. Raises InputError, which names the line by `place` of a key, for what isn't as it should be."""
    read = _Reader(place)
    read.keys("site", table, ("proxy", "no-proxy", "slurm"))
    slurm = table.get("slurm", {})
    read.keys("site.slurm", slurm, ("account", "partition", "features", "drivers"))
    partitions = f"{_NAME}(?:,{_NAME})*"
    features = read.names(slurm, "features", _FEATURE, 'features = { H100 = "h100", ampere = "a100" }')
    drivers = read.names(slurm, "drivers", _FEATURE, 'drivers = { "550" = "driver550" }')
    for version in drivers:
        if not re.fullmatch(r"[1-9][0-9]{2,3}(?:\.[0-9]+)*", version):
            shown = f"[site.slurm] drivers has {version!r}, which is no driver's version"
            raise InputError(shown, hint='for example: drivers = { "550" = "driver550" }', place=place(version))
    return Site(
        read.proxy(table),
        read.direct(table),
        SlurmSite(
            read.text(slurm, "account", _NAME, 'account = "proj-vision"'),
            read.text(slurm, "partition", partitions, 'partition = "gpu"'),
            features,
            drivers,
            {name: place(name) for name in (*features, *drivers)},
        ),
    )


@dataclass(frozen=True)
class _Reader:
    place: Callable[[str], Place]

    def keys(self, name: str, table: Any, known: Iterable[str]) -> None:
        last = name.rpartition(".")[2]
        if not isinstance(table, dict):
            raise InputError(
                f"[{name}] is a table", hint=f"write [{name}] on a line of its own", place=self.place(last)
            )
        for key in table:
            if key not in known:
                near = nearest(key, tuple(known))
                hint = f"did you mean {near!r}?" if near else f"it has {', '.join(known)}"
                raise InputError(f"[{name}] has no {key!r}", hint=hint, place=self.place(key))

    def text(self, table: Mapping[str, Any], key: str, pattern: str, example: str) -> str | None:
        value = table.get(key)
        if value is not None and not (isinstance(value, str) and re.fullmatch(pattern, value)):
            shown = f"[site.slurm] {key} is {value!r}, which is no name that Slurm takes"
            raise InputError(shown, hint=f"for example: {example}", place=self.place(key))
        return value

    def names(self, table: Mapping[str, Any], key: str, pattern: str, example: str) -> dict[str, str]:
        found = table.get(key, {})
        if not isinstance(found, dict):
            raise InputError(f"[site.slurm] {key} is a table", hint=f"for example: {example}", place=self.place(key))
        for name, value in found.items():
            if not (isinstance(value, str) and re.fullmatch(pattern, value)):
                shown = f"[site.slurm] {key}: {name} is {value!r}, which is no feature's name"
                raise InputError(shown, hint=f"for example: {example}", place=self.place(name))
        return dict(found)

    def proxy(self, table: Mapping[str, Any]) -> str | None:
        value = table.get("proxy")
        if value is None:
            return None
        if isinstance(value, str):
            register_url(value)
        shown = redact(value).rpartition("@")[2] if isinstance(value, str) else value
        try:
            parts = urlsplit(value) if isinstance(value, str) else None
            fine = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)
            fine = fine and (parts is None or (parts.port or 1) > 0) and re.fullmatch(r"[!-~]+", str(value)) is not None
        except ValueError:
            fine = False
        if not fine:
            raise InputError(
                f"[site] proxy is {shown!r}, which is no HTTP proxy",
                hint='for example: proxy = "http://proxy.example:3128"',
                place=self.place("proxy"),
            )
        return str(value)

    def direct(self, table: Mapping[str, Any]) -> tuple[str, ...]:
        value = table.get("no-proxy", [])
        if not isinstance(value, list) or not all(
            isinstance(host, str) and re.fullmatch(r"[A-Za-z0-9.*:\[\]/_-]+", host) for host in value
        ):
            raise InputError(
                f"[site] no-proxy is {value!r}, which is no list of hosts and domains",
                hint='for example: no-proxy = ["example.org", "10.1.2.3"]',
                place=self.place("no-proxy"),
            )
        return tuple(value)
