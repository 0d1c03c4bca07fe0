"""The changes that a prefix needs, from its content and the lock. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from envspec.install.installed import InstalledPackages
from envspec.install.model import Change, Fault, identity, shown_version
from envspec.lock.model import Pin

_NO_KEYS: Mapping[str, str] = MappingProxyType({})
UNKNOWN_FILE: Fault = "its file is unknown"


def changes(
    pins: Sequence[Pin],
    installed: InstalledPackages,
    known: Mapping[str, str],
    keys: Mapping[str, str] = _NO_KEYS,
) -> tuple[Change, ...]:
    """Plan the changes from `installed` to `pins`, in the order of (kind, name).

    `known` has the file that each pip package came from (`State.pip`): files of two indexes can share a version.
    `keys` are those of wheels that are built here (`envspec.install.build`): one built for another torch is another.
    """
    wanted = {(pin.kind, pin.name): pin for pin in pins}
    found = [*_conda(wanted, installed), *_pip(wanted, installed, known, keys)]
    return tuple(sorted(found, key=lambda change: (change.kind, change.name)))


def _conda(wanted: Mapping[tuple[str, str], Pin], installed: InstalledPackages) -> Iterator[Change]:
    for (kind, name), pin in wanted.items():
        if kind != "conda":
            continue
        new = shown_version(pin)
        there = installed.conda.get(name)
        if there is None:
            yield Change("install", kind, name, None, new)
            continue
        old = f"{there.version} {there.build}"
        if (there.version, there.build) != (pin.version, pin.build) or f"sha256:{there.sha256}" != identity(pin):
            yield Change("change", kind, name, old, new)
        elif there.fault:
            yield Change("repair", kind, name, old, new, there.fault)
    for name, there in installed.conda.items():
        if ("conda", name) not in wanted:
            yield Change("remove", "conda", name, f"{there.version} {there.build}", None)


def _pip(
    wanted: Mapping[tuple[str, str], Pin],
    installed: InstalledPackages,
    known: Mapping[str, str],
    keys: Mapping[str, str],
) -> Iterator[Change]:
    for (kind, name), pin in wanted.items():
        if kind != "pip":
            continue
        there = installed.pip.get(name)
        right = identity(pin, keys.get(name))
        if there is None:
            yield Change("install", kind, name, None, pin.version)
        elif not _is_version(there.version, pin) or known.get(name, right) != right:
            yield Change("change", kind, name, there.version, pin.version)
        elif there.fault:
            yield Change("repair", kind, name, there.version, pin.version, there.fault)
        elif name not in known:
            yield Change("repair", kind, name, there.version, pin.version, UNKNOWN_FILE)
    for name, dist in installed.pip.items():
        if ("pip", name) not in wanted:
            yield Change("remove", "pip", name, dist.version, None)


def _is_version(version: str, pin: Pin) -> bool:
    # a git checkout may call itself something else at every build: there the commit decides
    return pin.git is not None or _same_version(version, pin.version)


@lru_cache(maxsize=4096)
def _same_version(one: str, other: str) -> bool:
    if one == other:
        return True
    from packaging.version import Version

    try:
        return Version(one.replace("_", "-")) == Version(other)
    except ValueError:
        return False
