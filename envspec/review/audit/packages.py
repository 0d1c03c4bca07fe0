"""The packages of a lock as an audit sees them."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.version import Version

from envspec.lock.model import Artifact, LockedTarget, Pin
from envspec.packages.requirement import canonical_name
from envspec.review.audit.model import AuditedPackage, PublishedRelease


def packages(targets: Iterable[LockedTarget]) -> tuple[AuditedPackage, ...]:
    """Return every package of the targets and of their sources' build environments, each version once, by kind, name
    and version."""
    targets = tuple(targets)
    holders: dict[tuple[str, ...], list[tuple[str, Pin]]] = {}
    installed: dict[tuple[str, ...], tuple[str, ...]] = {}
    for target in targets:
        for pin in target.pins:
            key = (*_release_key(pin), pin.build or "", pin.licence or "")
            installed[_release_key(pin)] = key
            holders.setdefault(key, []).append((target.name, pin))
    builds: dict[tuple[str, ...], dict[str, None]] = {}
    for target in targets:
        for source in target.pins:
            for pin in target.build_wheels(source):
                key = installed.get(_release_key(pin), _release_key(pin))
                held = holders.setdefault(key, [])
                if (target.name, pin.artifact) not in {(name, other.artifact) for name, other in held}:
                    held.append((target.name, pin))
                if key not in installed.values():
                    builds.setdefault(key, {})[source.name] = None
    return tuple(_package(found, tuple(builds.get(key, ()))) for key, found in sorted(holders.items()))


def _release_key(pin: Pin) -> tuple[str, ...]:
    return (pin.kind, pin.name, pin.version, pin.index)


def _package(found: list[tuple[str, Pin]], builds: tuple[str, ...]) -> AuditedPackage:
    pin = found[0][1]
    files: dict[Artifact, None] = {p.artifact: None for _, p in found if p.artifact is not None}
    release, unknown = _release(pin)
    return AuditedPackage(
        pin.kind,
        pin.name,
        pin.version,
        pin.index,
        tuple(dict.fromkeys(name for name, _ in found)),
        tuple(files),
        pin.licence,
        "sdist" if any(_source(p) == "sdist" for _, p in found) else _source(pin),
        release,
        unknown,
        builds,
    )


def _source(pin: Pin) -> str:
    if pin.kind == "conda":
        return "conda"
    if pin.git:
        return "git"
    if pin.is_wheel:
        return "wheel"
    return "url" if pin.url else "sdist"


def _release(pin: Pin) -> tuple[PublishedRelease | None, str]:
    """Return the release to ask PyPI's database for, or the reason why not.

    PyPI isn't asked about packages of the spec's own indexes: PyPI would learn their names, and may have other packages
    of the same name.
    """
    if pin.kind == "conda":
        names = {canonical_name(name) for name in pin.provides}
        public = _public(pin.version)
        if len(names) != 1 or public is None:
            return None, "conda packages that aren't on PyPI"
        return PublishedRelease(names.pop(), public), ""
    if pin.index not in ("pypi",) and not pin.index.startswith("pytorch/"):
        where = {"git": "packages from git", "url": "packages from a URL", "": "packages whose index isn't known"}
        return None, where.get(pin.index, f'packages of the index "{pin.index}"')
    return PublishedRelease(pin.name, _public(pin.version) or pin.version), ""


def _public(version: str) -> str | None:
    """Return a version without its local part, which PyPI's releases never have; None for one that isn't PEP 440."""
    try:
        return Version(version).public
    except ValueError:
        return None
