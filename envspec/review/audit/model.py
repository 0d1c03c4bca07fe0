"""What an audit looks at, what it learns, and what it finds, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from envspec.lock.model import Artifact

LEVELS = ("note", "warning", "error")
"""The levels of a finding in SARIF's words, the least serious first."""


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
    """What an index says of a file: its upload time (RFC 3339 or None), and why it was yanked ("" without a reason,
    None if it wasn't yanked or the source doesn't say: `yanks`)."""

    sha256: str
    uploaded: str | None = None
    yanked: str | None = None
    yanks: bool = True


@dataclass(frozen=True)
class DatabaseAnswer:
    """What a database knows of a release, and when it was read (RFC 3339, UTC).

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
class AuditFinding:
    """Something wrong with a package, or with what the spec accepts (`package` is None then). `ignored` is the spec's
    reason to accept the finding, None if the spec doesn't."""

    code: str
    level: str
    package: AuditedPackage | None
    message: str
    remedy: str = ""
    advisory: Advisory | None = None
    ignored: str | None = None

    @property
    def subject(self) -> str:
        """The package's name, or "[audit]"."""
        return self.package.name if self.package else "[audit]"

    @property
    def version(self) -> str:
        return self.package.version if self.package else ""

    @property
    def targets(self) -> tuple[str, ...]:
        """Where it is; empty for what isn't a package's."""
        return self.package.targets if self.package else ()

    @property
    def builds(self) -> tuple[str, ...]:
        """What is built with it, where no target installs it."""
        return self.package.builds if self.package else ()


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
