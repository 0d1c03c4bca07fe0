"""The subjects, the facts and the results of an audit, as frozen values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict
from packaging.version import Version

from envspec.base.finding import LEVELS, Finding
from envspec.lock.model import Artifact, LockedTarget, Pin
from envspec.packages.requirement import canonical_name


class PublishedRelease(Struct, frozen=True):
    """A release as a database knows it: PyPI's normalised name and a PEP 440 version without local part."""

    name: str
    version: str


class AuditedPackage(Struct, frozen=True):
    """A package of the lock, once for all its targets.

    files      its files in the targets: several where they differ
    release    the release to ask a database for, None where no database can know it: `unknown` is the reason
    builds     the sources that are built with it, where no target installs it: its code still runs
    """

    kind: str
    name: str
    version: str
    index: str
    targets: tuple[str, ...]
    files: tuple[Artifact, ...] = ()
    licence: str | None = None
    release: PublishedRelease | None = None
    unknown: str = ""
    builds: tuple[str, ...] = ()

    @property
    def indexed_files(self) -> tuple[Artifact, ...]:
        """The files that an index of Python packages has a page for. Conda's channels aren't asked."""
        return self.files if self.kind == "pip" and self.index not in ("git", "url", "") else ()


class Advisory(Struct, frozen=True):
    """A known vulnerability of a release. `fixed_in` are versions, `severity` is the database's own word or None."""

    id: str
    aliases: tuple[str, ...] = ()
    summary: str = ""
    fixed_in: tuple[str, ...] = ()
    link: str | None = None
    severity: str | None = None

    @property
    def names(self) -> frozenset[str]:
        return frozenset((self.id, *self.aliases))


class FileFacts(Struct, frozen=True):
    """An index's facts about a file: its upload time (RFC 3339 or None), and why it was yanked ("" without a reason,
    None if it wasn't yanked or the source doesn't say: `yanks`)."""

    sha256: str
    uploaded: str | None = None
    yanked: str | None = None
    yanks: bool = True


class DatabaseAnswer(Struct, frozen=True):
    """A database's knowledge of a release, and the time of reading (RFC 3339, UTC).

    `files` by name; empty where the database says nothing about files. `known` is False where the database doesn't have
    the release: then the lack of an advisory means nothing. `releases` is the page of releases at the forge that has
    its source.
    """

    fetched: str
    advisories: tuple[Advisory, ...] = ()
    files: Mapping[str, FileFacts] = field(default_factory=dict)
    known: bool = True
    releases: str | None = None


class Risk(Struct, frozen=True):
    """The evidence of a finding: the package as it is locked, None for what the spec accepts, and the advisory of a
    vulnerability."""

    package: AuditedPackage | None = None
    advisory: Advisory | None = None


def subject(finding: Finding) -> str:
    """Name the package of a finding with its version, or "[audit]"."""
    return f"{finding.package} {finding.evidence.package.version}" if finding.package else "[audit]"


def as_json(finding: Finding) -> dict[str, Any]:
    """Give a finding as `envspec audit --json` prints it."""
    package, advisory = finding.evidence.package, finding.evidence.advisory
    return {
        **finding.document,
        "level": LEVELS[finding.severity],
        "kind": package.kind if package else None,
        "version": package.version if package else None,
        "builds": package.builds if package else (),
        "advisory": asdict(advisory) if advisory else None,
        "ignored": finding.accepted,
    }


class NotAsked(Struct, frozen=True):
    """Packages that weren't checked for some findings: the codes of these findings, and the reason."""

    codes: tuple[str, ...]
    reason: str
    packages: tuple[str, ...]


class Facts(Struct, frozen=True):
    """The facts about a lock's packages.

    answers        by release
    files          by (index, file name); None where facts of files weren't wanted
    unread         the sources that couldn't be read, each with the reason: an audit with any isn't complete
    unread_files   the same for files alone
    """

    answers: Mapping[PublishedRelease, DatabaseAnswer] = field(default_factory=dict)
    files: Mapping[tuple[str, str], FileFacts] | None = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    unread_files: tuple[str, ...] = ()


# The packages of a lock as an audit sees them.


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
    return tuple(_package(target_pins, tuple(builds.get(key, ()))) for key, target_pins in sorted(holders.items()))


def _release_key(pin: Pin) -> tuple[str, ...]:
    return (pin.kind, pin.name, pin.version, pin.index)


def _package(target_pins: list[tuple[str, Pin]], builds: tuple[str, ...]) -> AuditedPackage:
    pin = target_pins[0][1]
    files: dict[Artifact, None] = {p.artifact: None for _, p in target_pins if p.artifact is not None}
    release, unknown = _release(pin)
    return AuditedPackage(
        pin.kind,
        pin.name,
        pin.version,
        pin.index,
        tuple(dict.fromkeys(name for name, _ in target_pins)),
        tuple(files),
        pin.licence,
        release,
        unknown,
        builds,
    )


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
