"""A site's demands of every lock that is made or used on its machines, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from types import MappingProxyType

from msgspec import Struct, field

from envspec.packages.address import is_within
from envspec.packages.requirement import canonical_name

_NO_DAYS: Mapping[str, date] = MappingProxyType({})
_NOTHING: Mapping[str, str] = MappingProxyType({})


class Policy(Struct, frozen=True):
    """One policy file. None stands for a key that isn't there, and so for no demand.

    path             the file
    contact          whom to ask
    indexes          names and addresses that packages may come from
    places           index name → the address that alone may stand for it
    second           index name → the address that `verify` asks besides
    build            packages (normalised names) that may be built from source
    own_projects     whether specs' own projects may be built
    origins          addresses below which git and URL requirements may lie
    minimum_age      of a release
    advisories       whether a release has to be looked up in OSV's reports before it's locked or installed
    young            package (normalised) whose releases may be younger → the reason
    exceptions       packages and addresses of indexes that specs may except from their own `exclude-newer`
    allow_licences   as `[audit]`'s; empty for any
    deny_licences    as `[audit]`'s
    licences         package (normalised) → its licence, where the metadata doesn't say, or says it wrongly
    signers          whose signature a lock needs
    revoked          key → the day from which its signatures don't count
    proof            the rung that a target needs (`envspec.prove.rungs`)
    """

    path: str
    contact: str
    indexes: tuple[str, ...] | None = None
    places: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    second: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    build: frozenset[str] | None = None
    own_projects: bool = True
    origins: tuple[str, ...] | None = None
    minimum_age: timedelta | None = None
    young: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    exceptions: tuple[str, ...] | None = None
    allow_licences: tuple[str, ...] = ()
    deny_licences: tuple[str, ...] = ()
    licences: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    advisories: bool = False
    signers: tuple[str, ...] = ()
    revoked: Mapping[str, date] = field(default_factory=lambda: _NO_DAYS)
    proof: str | None = None

    def keys_on(self, day: date) -> tuple[str, ...]:
        """Give the signers' keys that count on a day."""
        revoked = {_key(key) for key, since in self.revoked.items() if since <= day}
        return tuple(key for key in self.signers if _key(key) not in revoked)

    def allows_index(self, name: str) -> bool:
        """Whether packages may come from an index of this name: "pypi", "pytorch/cu126", a channel's. "pytorch" in the
        list stands for all of PyTorch's."""
        if self.indexes is None:
            return True
        return name in self.indexes or (name.startswith("pytorch/") and "pytorch" in self.indexes)

    def allows_address(self, url: str) -> bool:
        """Whether packages may come from an index or a channel at this address."""
        return self.indexes is None or any(is_within(url, one) for one in (*self.indexes, *self.places.values()))

    def allows_origin(self, url: str) -> bool:
        """Whether a requirement may name this address itself."""
        return self.origins is None or any(is_within(url, one) for one in self.origins)

    def allows_exception(self, what: str | None) -> bool:
        """Whether a spec may except a package, or the index at an address, from its `exclude-newer`."""
        if self.exceptions is None or what is None:
            return self.exceptions is None
        return any(is_within(what, one) if "://" in what else canonical_name(one) == what for one in self.exceptions)

    def allows_build(self, package: str) -> bool:
        """Whether a package may be built from source."""
        return self.build is None or canonical_name(package) in self.build


def _key(line: str) -> tuple[str, ...]:
    """A public key without its comment."""
    return tuple(line.split(None, 2)[:2])
