"""`[site]` of the user's own configuration: what belongs to a site and to no spec. Its mirrors are in `[mirrors]`.

A lock and a recipe never hold any of it: it reaches builds as arguments and variables, and jobs through their command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from envspec.base.errors import Place
from envspec.base.reader.checked import Checked
from envspec.base.reader.nodes import Array, Names, Table, Text

ARCHIVES = ("debian", "debian-security", "debian-snapshot", "ubuntu", "ubuntu-ports")
"""The keys of `[mirrors]` for archives that apt reads: the paths that these have on every public mirror.
`debian-snapshot` is the archive of snapshots, which has `debian/20261101T000000Z/`."""
PROXY_VARIABLES = ("http_proxy", "https_proxy", "no_proxy")
"""The variables by which programs learn of a proxy, in the form that all of them read."""

_FEATURE = Text(
    doc="A feature of nodes.", example="h100", says="a feature's name", pattern="[A-Za-z0-9_][A-Za-z0-9_.:=-]{0,99}"
)
_DRIVER = Text(
    doc="A driver's version.", example="550", says="a driver's version", pattern=r"[1-9][0-9]{2,3}(?:\.[0-9]+)*"
)
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


SITE = Table(
    doc="A site.",
    keys={
        "proxy": Text(
            doc="Its web proxy.", example="http://proxy.example:3128",
            says="an HTTP proxy's address", pattern="[!-~]+", secret=True,
        ),
        "no-proxy": Array(
            doc="What is reached without it.",
            items=Text(doc="A host.", example="10.1.2.3", says="a host or a domain", pattern=r"[A-Za-z0-9.*:\[\]/_-]+"),
            example=("example.org", "10.1.2.3"),
        ),
        "slurm": Table(
            doc="Its cluster.",
            keys={
                "account": Text(doc="An account.", example="proj-vision", says="a Slurm account", pattern=_NAME),
                "partition": Text(
                    doc="Partitions.", example="gpu", says="a list of Slurm partitions", pattern=f"{_NAME}(?:,{_NAME})*"
                ),
                "features": Names(doc="Features by GPU.", names=Text(doc="A GPU.", example="H100"), values=_FEATURE),
                "drivers": Names(doc="Features by driver.", names=_DRIVER, values=_FEATURE),
            },
        ),
    },
)  # fmt: skip


def site_of(checked: Checked) -> Site:
    """Read the sound parts of `[site]`."""
    features, drivers = (checked.table("site", "slurm", key) for key in ("features", "drivers"))
    named = [*checked.children("site", "slurm", "features"), *checked.children("site", "slurm", "drivers")]
    return Site(
        checked.value("site", "proxy"),
        tuple(checked.value("site", "no-proxy") or ()),
        SlurmSite(
            checked.value("site", "slurm", "account"),
            checked.value("site", "slurm", "partition"),
            features,
            drivers,
            {str(path[-1]): checked.place(*path, at_key=True) for path, _ in named},
        ),
    )
