"""The contents of the page, as frozen values. Packages and targets are given by their index in `Page`."""

from __future__ import annotations

from msgspec import Struct

from envspec.facts.compute_capability import sm_of
from envspec.review.diff.rows import Review


class TargetRow(Struct, frozen=True):
    """A target. `download` is the sum of the known file sizes, in bytes; `unsized` are the packages without a known
    size. `proved` is its proved rung.
    """

    name: str
    platform: str
    python: str
    glibc: str | None
    cuda: str | None
    gpus: tuple[str, ...]
    driver_floor: str | None
    packages: int
    download: int
    unsized: tuple[int, ...]
    proved: str


class PythonRow(Struct, frozen=True):
    """The build of Python that the targets of a platform get, unless conda brings theirs. `build` is the release of
    the builds that it is from."""

    platform: str
    version: str
    build: str
    file: str
    sha256: str
    targets: tuple[int, ...]


class Variant(Struct, frozen=True):
    """One version of a package, as the targets named install it. `size` is the file's, in bytes.

    `source` is "wheel", "sdist", "git", "url" or "conda"; `licence` is its place in `Page.licences`. `origin` is the
    address in the lock, for git and URLs alone: indexes have names there, and no hosts.
    """

    version: str
    build: str | None
    index: str
    source: str
    licence: int
    file: str | None
    size: int | None
    origin: str | None
    targets: tuple[int, ...]


class PackageRow(Struct, frozen=True):
    """A package. `direct` are the targets whose spec asks for it by name."""

    kind: str
    name: str
    direct: tuple[int, ...]
    variants: tuple[Variant, ...]


class Link(Struct, frozen=True):
    """`source` (None: the spec) asks for `target` with `requirement`, as written, in these targets."""

    source: int | None
    target: int
    requirement: str
    targets: tuple[int, ...]


class Licence(Struct, frozen=True):
    """`name` is None where it isn't known. `verdict` is that of the spec's `[audit]`: "accepted", "denied"
    (deny-licences names it), "unlisted" (allow-licences doesn't), or "none" where the spec has no rule for it."""

    name: str | None
    verdict: str
    packages: tuple[int, ...]


class CapabilityProducts(Struct, frozen=True):
    """A compute capability ("9.0"), its generation, and some products that have it."""

    capability: str
    generation: str
    products: tuple[str, ...]

    @property
    def sm(self) -> str:
        return sm_of(self.capability)


class Cell(Struct, frozen=True):
    """A target's verdict on an architecture: it runs there, or doesn't.

    code      torch has machine code for it
    ptx       only PTX, which the driver compiles when a kernel is first used
    library   torch has code, but a library that it needs doesn't: `note` names it
    no        there is no code for it
    unknown   the facts don't know the build
    """

    state: str
    requested: bool
    note: str = ""


class CoverageRow(Struct, frozen=True):
    """A target. `build` names the torch build; `why` is the reason why its code isn't known, or says that the build is
    for the CPU."""

    target: int
    build: str | None
    why: str
    cells: tuple[Cell, ...]


class Coverage(Struct, frozen=True):
    """`nowhere` are the architectures with products that no target runs on."""

    architectures: tuple[CapabilityProducts, ...]
    rows: tuple[CoverageRow, ...]
    nowhere: tuple[CapabilityProducts, ...]


class Trouble(Struct, frozen=True):
    """A finding of an audit. `id`, `aliases`, `severity`, `fixed_in` and `link` are a vulnerability's."""

    code: str
    level: str
    package: int
    version: str
    targets: tuple[int, ...]
    message: str
    remedy: str
    ignored: str | None = None
    id: str | None = None
    aliases: tuple[str, ...] = ()
    severity: str | None = None
    fixed_in: tuple[str, ...] = ()
    link: str | None = None


class CountedAdvisory(Struct, frozen=True):
    """One advisory, under whichever of its names, however many versions and targets have it."""

    names: frozenset[str]
    packages: tuple[int, ...]


class AuditSummary(Struct, frozen=True):
    """The reach of an audit. A package in `unknown` and a target in `left_out` aren't known to be sound. While `unread`
    isn't empty, no package is.

    as_of     the oldest answer used, or a database's newest entry (RFC 3339), None where it isn't known
    unknown   packages that no database covers, by the reason
    """

    database: str
    as_of: str | None
    troubles: tuple[Trouble, ...]
    unknown: tuple[tuple[str, tuple[int, ...]], ...]
    unread: tuple[str, ...]
    left_out: tuple[int, ...]

    @property
    def vulnerabilities(self) -> tuple[Trouble, ...]:
        """The findings that count: those that the spec doesn't accept."""
        return tuple(
            trouble
            for trouble in self.troubles
            if trouble.code in ("vulnerability", "malicious") and trouble.ignored is None
        )

    @property
    def advisories(self) -> tuple[CountedAdvisory, ...]:
        """The advisories of these, each once: findings that share a name are of one."""
        advisories: list[CountedAdvisory] = []
        for trouble in self.vulnerabilities:
            names = frozenset((trouble.id or trouble.message, *trouble.aliases))
            same = [other for other in advisories if other.names & names]
            packages = dict.fromkeys((*(place for other in same for place in other.packages), trouble.package))
            merged = CountedAdvisory(names.union(*(other.names for other in same)), tuple(packages))
            advisories = [*(other for other in advisories if other not in same), merged]
        return tuple(advisories)

    @property
    def complete(self) -> bool:
        return not self.unread and not self.left_out


class Page(Struct, frozen=True):
    """The page's values. `audit` is None without an audit. `review` is None without a comparison, and `uncompared` has
    the reason. `pythons` are the builds that the lock names; with `base_python`, images have the Python of their base
    instead; `on_base` names the base below the lock, empty for a whole environment."""

    name: str
    description: str
    spec: str
    lock: str
    digest: str
    exclude_newer: str | None
    targets: tuple[TargetRow, ...]
    pythons: tuple[PythonRow, ...]
    base_python: bool
    on_base: str
    packages: tuple[PackageRow, ...]
    links: tuple[Link, ...]
    licences: tuple[Licence, ...]
    coverage: Coverage
    audit: AuditSummary | None
    review: Review | None
    uncompared: str
