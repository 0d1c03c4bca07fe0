"""A site's demands of every lock that is made or used on its machines, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from types import MappingProxyType
from typing import Annotated

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base.reader.nodes import CONTROL, LINE, Array, Boolean, Names, Text
from envspec.lock.signing.model import PUBLIC_KEY
from envspec.packages.address import is_within
from envspec.packages.requirement import canonical_name
from envspec.prove.rungs import RUNGS
from envspec.spec.newer import span_of

_PACKAGE = Text(
    doc="A package's name.",
    example="deepspeed",
    says="a package's name",
    pattern=r"_?[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?",
    max_length=200,
    read=canonical_name,
)
_URL = r"[a-z][a-z0-9+.-]*://[!-~]+"
_INDEX = Text(
    doc="An index or channel by its name in locks (`pytorch` stands for all of PyTorch's), or by its address.",
    example="conda-forge",
    says="an index's name or address",
    pattern=rf"(?:[A-Za-z0-9][A-Za-z0-9._/-]*|{_URL})",
    max_length=2000,
)
_ADDRESS = Text(
    doc="An address; what lies below it counts too.",
    example="https://packages.example.org/simple",
    says="an address",
    pattern=_URL,
    max_length=2000,
)
_LICENCE = Text(
    doc="A licence: an SPDX identifier, or what a package says in its own words; `*` stands for anything.",
    example="AGPL-*",
    says="a licence",
    pattern=rf"[^\s{CONTROL}](?:[^{CONTROL}]*[^\s{CONTROL}])?",
    max_length=200,
)
VERSION = r"[0-9]{1,4}(?:\.[0-9]{1,4}){0,2}"
_DAY = r"20[0-9]{2}-[01][0-9]-[0-3][0-9]"
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAdqeueR5Wo+Qr0PvT5Bc5/pdGu9bA1VLNnQ2O+lS+m7 ci@example.org"

_INDEXES = Array(
    items=_INDEX, example=("pypi", "pytorch", "conda-forge", "https://packages.example.org/simple"), unique=True
)
_ADDRESSES = Names(
    names=Text(doc="Its name in locks.", example="pypi", says="a name", pattern="[A-Za-z0-9][A-Za-z0-9._/-]*"),
    values=_ADDRESS,
)
SOURCES = Array(items=_PACKAGE, example=("deepspeed", "flash-attn"), unique=True)
_ORIGINS = Array(items=_ADDRESS, example=("https://github.com/example-org",), unique=True)
_AGE = Text(
    example="7 days",
    says="an age in hours, days or weeks",
    pattern=r"[1-9][0-9]{0,3} (?:hour|day|week)s?",
    read=span_of,
)
_LINE = Text(example="HPC support, hpc-help@example.org", says="a line of text", pattern=LINE, max_length=300)
_YOUNG = Names(names=_PACKAGE, values=replace(_LINE, doc="Why.", example="we publish it ourselves"))
_EXCEPTIONS = Array(items=_INDEX, example=("urllib3", "https://packages.example.org/simple"), unique=True)
_LICENCES = Array(items=_LICENCE, example=("MIT", "BSD-3-Clause", "Apache-2.0"), unique=True)
_SIGNER = Text(
    doc="A key, as a line of a public key file.",
    example=_KEY,
    says="an SSH public key, as in a file of one",
    pattern=PUBLIC_KEY,
    max_length=20_000,
)
_REVOKED = Names(
    names=replace(_SIGNER, doc="A key, as in `signers`."),
    values=Text(doc="The day.", example="2026-11-01", says="a day, such as 2026-11-01", pattern=_DAY),
)

_NO_DAYS: Mapping[str, date] = MappingProxyType({})
_NOTHING: Mapping[str, str] = MappingProxyType({})


class Policy(Struct, frozen=True):
    """`policy.toml`: What a site demands of every lock that is made or used on its machines.

    contact         The contact that every refusal names.
    envspec         The oldest envspec that knows the policy: an older one says so, and refuses all that it may forbid.
    [indexes]       Where packages come from.
    indexes         The only indexes and channels that packages may come from.
    places          Where an index or channel has to be asked, whatever a user configured.
    second          Where `envspec verify` asks for an index a second time, as what made a lock proves little.
    [sources]       What is built on the site's machines, and so runs its code there.
    build           The only packages that may be built from source.
    own_projects    Whether specs' own projects may be built beside what `allow` names, whatever their name.
    origins         The only addresses that git and URL requirements may name.
    [releases]      How old a release must be, and what must be known of it.
    minimum_age     How long a file must have been published.
    advisories      Whether `lock`, `install` and `bundle` need an answer of OSV's reports for each release.
    exceptions      The only packages, and indexes by their address, that specs may except from `exclude-newer`.
    young           Packages whose releases may be younger, each with the reason.
    [licences]      The licences that packages may have.
    allow_licences  The only licences that packages may have. A package without a known one isn't allowed then.
    deny_licences   The licences that no package may have.
    licences        The licences of packages whose metadata doesn't say, or says it wrongly.
    [signatures]    The keys that must have signed a lock.
    signers         SSH public keys, one of which must have signed.
    revoked         Keys that don't count from a day on, whenever they signed: a signature proves no time.
    [proof]         How far a target must be proved to work.
    proof           The rung.

    `path` is the file. None stands for a key that isn't there, and so for no demand; names of packages are normalised.
    """

    path: str
    contact: Annotated[str, _LINE]
    envspec: Annotated[str | None, Text(example="0.1.0", says="a version of envspec", pattern=VERSION)] = None
    indexes: Annotated[tuple[str, ...] | None, _INDEXES] = field(name="indexes.allow", default=None)
    places: Annotated[Mapping[str, str], _ADDRESSES] = field(name="indexes.at", default_factory=lambda: _NOTHING)
    second: Annotated[Mapping[str, str], _ADDRESSES] = field(name="indexes.second", default_factory=lambda: _NOTHING)
    build: Annotated[frozenset[str] | None, SOURCES] = field(name="sources.allow", default=None)
    own_projects: Annotated[bool, Boolean(example=True, default=False)] = field(
        name="sources.own-projects", default=True
    )
    origins: Annotated[tuple[str, ...] | None, _ORIGINS] = field(name="sources.from", default=None)
    minimum_age: Annotated[timedelta | None, _AGE] = field(name="releases.minimum-age", default=None)
    advisories: Annotated[bool, Boolean(example=True)] = field(name="releases.ask-advisories", default=False)
    exceptions: Annotated[tuple[str, ...] | None, _EXCEPTIONS] = field(name="releases.exceptions", default=None)
    young: Annotated[Mapping[str, str], _YOUNG] = field(name="releases.except", default_factory=lambda: _NOTHING)
    allow_licences: Annotated[tuple[str, ...], _LICENCES] = field(name="licences.allow", default=())
    deny_licences: Annotated[tuple[str, ...], replace(_LICENCES, example=("AGPL-*",))] = field(
        name="licences.deny", default=()
    )
    licences: Annotated[Mapping[str, str], Names(names=_PACKAGE, values=_LICENCE)] = field(
        name="licences.known", default_factory=lambda: _NOTHING
    )
    signers: Annotated[tuple[str, ...], Array(items=_SIGNER, example=(_KEY,), min_items=1, unique=True)] = field(
        name="signatures.signers", default=()
    )
    revoked: Annotated[Mapping[str, date], _REVOKED] = field(
        name="signatures.revoked", default_factory=lambda: _NO_DAYS
    )
    proof: Annotated[str | None, Text(example="verified", says="a rung", choices=RUNGS)] = field(
        name="proof.required", default=None
    )

    def keys_on(self, day: date) -> tuple[str, ...]:
        """Give the signers' keys that count on a day."""
        revoked = {_key(key) for key, since in self.revoked.items() if since <= day}
        return tuple(key for key in self.signers if _key(key) not in revoked)

    def allows_index(self, name: str) -> bool:
        """Return whether packages may come from an index of this name: "pypi", "pytorch/cu126", a channel's. "pytorch"
        in the list stands for all of PyTorch's."""
        if self.indexes is None:
            return True
        return name in self.indexes or (name.startswith("pytorch/") and "pytorch" in self.indexes)

    def allows_address(self, url: str) -> bool:
        """Return whether packages may come from an index or a channel at this address."""
        return self.indexes is None or any(
            is_within(url, allowed) for allowed in (*self.indexes, *self.places.values())
        )

    def allows_origin(self, url: str) -> bool:
        """Return whether a requirement may name this address itself."""
        return self.origins is None or any(is_within(url, allowed) for allowed in self.origins)

    def allows_exception(self, what: str | None) -> bool:
        """Return whether a spec may except a package, or the index at an address, from its `exclude-newer`."""
        if self.exceptions is None or what is None:
            return self.exceptions is None
        return any(
            is_within(what, allowed) if "://" in what else canonical_name(allowed) == what
            for allowed in self.exceptions
        )

    def allows_build(self, package: str) -> bool:
        """Return whether a package may be built from source."""
        return self.build is None or canonical_name(package) in self.build


def _key(line: str) -> tuple[str, ...]:
    """Return a public key without its comment."""
    return tuple(line.split(None, 2)[:2])
