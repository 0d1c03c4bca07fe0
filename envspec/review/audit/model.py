"""The subjects, the facts and the results of an audit, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from envspec.base.finding import LEVELS, Finding
from envspec.lock.model import Artifact


@dataclass(frozen=True)
class PublishedRelease:
    """A release as a database knows it: PyPI's normalised name and a PEP 440 version without local part."""

    name: str
    version: str


@dataclass(frozen=True)
class AuditedPackage:
    """A package of the lock, once for all its targets.

    files      what the targets install of it: several where they differ
    source     "wheel", "sdist", "git", "url" (a direct URL that is no wheel) or "conda"
    release    what to ask a database for, None where no database can know it: `unknown` says why
    builds     the sources that are built with it, where no target installs it: its code runs all the same
    """

    kind: str
    name: str
    version: str
    index: str
    targets: tuple[str, ...]
    files: tuple[Artifact, ...] = ()
    licence: str | None = None
    source: str = "wheel"
    release: PublishedRelease | None = None
    unknown: str = ""
    builds: tuple[str, ...] = ()

    @property
    def indexed_files(self) -> tuple[Artifact, ...]:
        """The files that an index of Python packages has a page for. Conda's channels aren't asked."""
        return self.files if self.kind == "pip" and self.index not in ("git", "url", "") else ()


@dataclass(frozen=True)
class Advisory:
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


@dataclass(frozen=True)
class FileFacts:
    """An index's facts about a file: its upload time (RFC 3339 or None), and why it was yanked ("" without a reason,
    None if it wasn't yanked or the source doesn't say: `yanks`)."""

    sha256: str
    uploaded: str | None = None
    yanked: str | None = None
    yanks: bool = True


@dataclass(frozen=True)
class DatabaseAnswer:
    """A database's knowledge of a release, and the time of reading (RFC 3339, UTC).

    `files` by name; empty where the database says nothing about files. `known` is False where the database doesn't have
    the release: then the lack of an advisory means nothing. `page` is where its authors say what changed, or else
    where its source is (https only).
    """

    fetched: str
    advisories: tuple[Advisory, ...] = ()
    files: Mapping[str, FileFacts] = field(default_factory=dict)
    known: bool = True
    page: str | None = None


@dataclass(frozen=True)
class Risk:
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


@dataclass(frozen=True)
class NotAsked:
    """Packages that weren't checked for some findings: the codes of these findings, and why."""

    codes: tuple[str, ...]
    reason: str
    packages: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """All that was learned about a lock's packages.

    answers        by release
    files          by (index, file name); None where facts of files weren't wanted
    unread         what should have been read and wasn't, with the reason: an audit with any isn't complete
    unread_files   the same for files alone
    """

    answers: Mapping[PublishedRelease, DatabaseAnswer] = field(default_factory=dict)
    files: Mapping[tuple[str, str], FileFacts] | None = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    unread_files: tuple[str, ...] = ()
