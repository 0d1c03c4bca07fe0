"""A spec, as frozen values. Nothing here reads files; `envspec.spec.parse` makes these from TOML."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar
from urllib.parse import urljoin

from msgspec import Struct, field

from envspec.base.errors import Place
from envspec.base.records import RecordWithNotes
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name
from envspec.packages.stated import StatedMetadata
from envspec.spec.cluster import KubernetesTable, SlurmTable

_EMPTY: Mapping[str, str] = MappingProxyType({})
_NO_WAIVERS: Mapping[str, Waiver] = MappingProxyType({})
_NO_ACCEPTED: Mapping[tuple[str, str], Waiver] = MappingProxyType({})


class Located(Struct, frozen=True):
    """A requirement or match spec as the user wrote it (normalised), and where it stands; of an override also why."""

    text: str
    place: Place
    reason: str = ""


def of_one(code: str, package: str) -> str:
    """Give the key under which a finding is accepted of one package alone."""
    return f"{code}:{package}"


_NO_LINES: Mapping[str, tuple[Located, ...]] = MappingProxyType({})


class PipTerms(Struct, frozen=True):
    """The terms of `[pip]` and `[targets.X.pip]` besides dependencies.

    constraints         bounds that ask for nothing
    overrides           requirements that take the place of all others on their packages
    find_links          flat indexes: name → URL of the page
    accept              findings of the rules that are taken knowingly: code, or `of_one` of it → reason
    metadata            what sources require, in place of their own METADATA
    build_dependencies  what the builds of packages (normalised names) need: locked and installed with the environment
    no_build_isolation  packages that are built in the environment itself
    inspect             whether wheels are read for what their METADATA leaves out; None where that isn't said
    """

    constraints: tuple[Located, ...] = ()
    overrides: tuple[Located, ...] = ()
    find_links: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    accept: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    metadata: tuple[StatedMetadata, ...] = ()
    build_dependencies: Mapping[str, tuple[Located, ...]] = field(default_factory=lambda: _NO_LINES)
    no_build_isolation: frozenset[str] = frozenset()
    inspect: bool | None = None

    @property
    def built_against_lock(self) -> frozenset[str]:
        """The packages whose builds see packages of the lock, and nothing else."""
        return self.no_build_isolation.union(self.build_dependencies)

    def with_own(self, own: PipTerms) -> PipTerms:
        """Add a target's own terms. A page, a reason, and what is said of one package's overrides, metadata or build
        take the place of the spec's."""
        overridden = {requirement_name(one.text) for one in own.overrides}
        stated = {one.name for one in own.metadata}
        metadata = (*(one for one in self.metadata if one.name not in stated), *own.metadata)
        return PipTerms(
            self.constraints + own.constraints,
            (*(one for one in self.overrides if requirement_name(one.text) not in overridden), *own.overrides),
            MappingProxyType({**self.find_links, **own.find_links}),
            MappingProxyType({**self.accept, **own.accept}),
            tuple(sorted(metadata, key=lambda one: one.name)),
            MappingProxyType({**self.build_dependencies, **own.build_dependencies}),
            self.no_build_isolation | own.no_build_isolation,
            self.inspect if own.inspect is None else own.inspect,
        )


class PipTable(Struct, frozen=True):
    """`[pip]`. `indexes` maps a name to its URL; `sources` maps a package (normalised name) to an index's name."""

    dependencies: tuple[Located, ...] = ()
    allow_source: frozenset[str] = frozenset()
    without_corrections: frozenset[str] = frozenset()
    """Names of corrections of published metadata that this spec switches off (`envspec.facts.corrections`)."""
    indexes: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    sources: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    terms: PipTerms = PipTerms()


class CondaTable(Struct, frozen=True):
    """`[conda]`: channels in order of priority, and match specs."""

    channels: tuple[str, ...] = ()
    dependencies: tuple[Located, ...] = ()


class ProjectParts(Struct, frozen=True):
    """Extras and dependency groups of a project: normalised names."""

    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    def with_more(self, other: ProjectParts) -> ProjectParts:
        """Add those of another; each once."""
        extras, groups = (*self.extras, *other.extras), (*self.groups, *other.groups)
        return ProjectParts(tuple(dict.fromkeys(extras)), tuple(dict.fromkeys(groups)))


class AskedProject(Struct, frozen=True):
    """`[env] project`: a folder, relative to the spec's, and what to take of it for every target."""

    path: str
    parts: ProjectParts = ProjectParts()


DEFAULT_GLIBC = "2.28"
"""The glibc of a target that names none: that of manylinux_2_28, RHEL 8."""


class Target(RecordWithNotes, frozen=True, eq=False):
    """One environment to lock: a platform, perhaps a CUDA version and GPUs, and its own additions.

    `pip` and `conda` are the target's own dependencies, `terms` its own terms, without the spec's;
    `Spec.pip_dependencies` and `Spec.pip_terms` join them. `project` has the extras and groups that it adds.
    """

    notes: ClassVar = frozenset({"place", "places"})

    name: str
    platform: str
    cuda: str | None = None
    gpus: tuple[str, ...] = ()
    driver: str | None = None
    glibc: str = DEFAULT_GLIBC
    cuda_compat: bool = False
    pip: tuple[Located, ...] = ()
    conda: tuple[Located, ...] = ()
    terms: PipTerms = PipTerms()
    project: ProjectParts = ProjectParts()
    cpu: str | None = None
    place: Place = Place("")
    places: Mapping[str, Place] = field(default_factory=dict)
    """Where each key of the target stands (`platform`, `cuda`, `gpus`, …), for later findings."""


class Image(Struct, frozen=True):
    """`[image]`: what recipes put around the environment.

    name                  where the images are pushed to, without a tag; None for names of this machine alone
    build_apt, build_env  Debian packages and variables of the stage that compiles
    fabric                what joins the nodes: "infiniband" or "none"
    ssh_port              where sshd listens in a container
    nvcc                  CUDA images have its compiler
    python                "locked": images bring the build that the lock names; "base": they use the base's own
    snapshot              the day as of which Debian's packages are
    shm                   what /dev/shm may hold, in Docker's form
    """

    base: str = "debian:trixie-slim"
    services: tuple[str, ...] = ()
    user: str = "dev"
    env: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    apt: tuple[str, ...] = ()
    build_apt: tuple[str, ...] = ()
    build_env: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    fabric: str = "infiniband"
    ssh_port: int = 2222
    nvcc: bool = False
    name: str | None = None
    python: str = "locked"
    snapshot: str | None = None
    shm: str = "8g"


ON_MACHINES = ("prefix", "module")
"""The kinds of bases on which a machine has environments."""


class Base(Struct, frozen=True):
    """`[base]`: what is there already, to lock on top of.

    kind     "image", "sif", "prefix" or "module"
    place    an image's name, a SIF's or a folder's path, the modules' names, as the spec has it
    replace  packages of the base (normalised names) that the lock may replace, each with the reason
    """

    kind: str
    place: str
    replace: Mapping[str, str] = field(default_factory=lambda: _EMPTY)


class Reference(Struct, frozen=True):
    """A site's expectation of one figure, and the deviation allowed to a run, as in ReFrame's references.

    `low` and `high` are shares of `value`: -0.05 allows 5 % less, 0.1 allows 10 % more; None leaves that side open.
    `gpus` are those that it is for; a run on others isn't judged by it. Empty: all.
    """

    value: float
    low: float | None = None
    high: float | None = None
    unit: str = ""
    gpus: tuple[str, ...] = ()


_NO_REFERENCES: Mapping[str, Reference] = MappingProxyType({})


class Smoke(Struct, frozen=True):
    """`[smoke]`: the training check's workload and length; `references` maps a figure's name to what is expected."""

    workload: str = "basic"
    steps: int = 50
    references: Mapping[str, Reference] = field(default_factory=lambda: _NO_REFERENCES)


class Waiver(Struct, frozen=True):
    """A finding of an audit that the spec takes knowingly.

    until    the last day on which it counts (2026-12-31), None without an end
    targets  where it counts; empty for everywhere
    """

    reason: str
    until: str | None = None
    targets: tuple[str, ...] = ()


class Audit(Struct, frozen=True):
    """`[audit]`: what `envspec audit` accepts; nothing of it is locked.

    `licences` maps a package (normalised name) to its licence, where the metadata doesn't say it or is wrong. `ignore`
    maps an advisory's identifier to why it doesn't concern this environment, `accept` a package (normalised name) and
    the code of another finding to why it is taken.
    """

    allow_licences: tuple[str, ...] = ()
    deny_licences: tuple[str, ...] = ()
    licences: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    ignore: Mapping[str, Waiver] = field(default_factory=lambda: _NO_WAIVERS)
    accept: Mapping[tuple[str, str], Waiver] = field(default_factory=lambda: _NO_ACCEPTED)

    def licence_of(self, package: str, stated: str | None) -> str | None:
        """Return a package's licence: by the spec, else by its metadata."""
        return self.licences.get(canonical_name(package), stated)


class NewerFor(Struct, frozen=True):
    """A package, or an index, that `exclude-newer` doesn't hold for.

    name   of the package (normalised), or of the index (`of_index`)
    bound  its own: RFC 3339, a duration, or None for none
    until  the last day on which it counts for a lock that begins or is upgraded (2026-12-31), None without an end
    """

    name: str
    of_index: bool
    bound: str | None
    reason: str
    until: str | None = None


class Project(Struct, frozen=True):
    """The project of a spec's pyproject.toml.

    path            its folder, below the folder that the spec belongs to
    file            the pyproject.toml, as messages name it
    name            normalised (PEP 503)
    dependencies    of the project, with the extras and groups that the spec asks for
    build_requires  requirements of its build, locked like the others; None where there is nothing to build
    of_targets      the same as `dependencies`, by target, for those that ask for more
    python          the bound on Python that it and the spec have together
    """

    path: str
    file: str
    name: str
    dependencies: tuple[Located, ...] = ()
    build_requires: tuple[Located, ...] | None = None
    of_targets: Mapping[str, tuple[Located, ...]] = field(default_factory=lambda: _NO_LINES)
    python: str = ""

    def requirements(self, target: str) -> tuple[Located, ...]:
        """Return all that a target asks for because of the project, its build included."""
        return self.of_targets.get(target, self.dependencies) + (self.build_requires or ())


class Spec(RecordWithNotes, frozen=True, eq=False):
    """One spec file, whole. `targets` is never empty and holds the matrix already expanded."""

    notes: ClassVar = frozenset({"places"})

    path: str
    name: str
    python: str
    targets: tuple[Target, ...]
    description: str = ""
    exclude_newer: str | None = None
    """RFC 3339 in UTC (`2026-11-01T00:00:00Z`), a duration (`7 days`: `envspec.spec.newer`), or None."""
    newer_for: tuple[NewerFor, ...] = ()
    asked_project: AskedProject | None = None
    project: Project | None = None
    """None also where the spec's text alone was read."""
    pip: PipTable = PipTable()
    conda: CondaTable = CondaTable()
    image: Image = Image()
    base: Base | None = None
    smoke: Smoke = Smoke()
    slurm: SlurmTable = field(default_factory=SlurmTable)
    kubernetes: KubernetesTable = field(default_factory=KubernetesTable)
    audit: Audit = Audit()
    python_range: str | None = None
    """What the spec asks of Python beside `python`, its minor version, as a specifier: "==3.12.4", ">=3.11,<3.13"."""
    python_builds: Mapping[str, str] = field(default_factory=dict)
    """The exact Python of the build that the lock names for a platform, once that is chosen."""
    places: Mapping[str, Place] = field(default_factory=dict)

    def full_python(self, target: Target) -> str:
        """Return the Python that a target's markers are judged for: its build's, where that is known."""
        if self.conda_dependencies(target):
            return self.python
        exact = (self.python_range or "").removeprefix("==")
        return self.python_builds.get(target.platform) or (
            exact if exact.startswith(f"{self.python}.") else self.python
        )

    def pip_dependencies(self, target: Target) -> tuple[Located, ...]:
        """Return the pip requirements of a target: the spec's, its project's, the target's own, and what builds need:
        that has to be locked too, and a package that is built against torch sees the environment's."""
        project = self.project.requirements(target.name) if self.project else ()
        wanted = self.pip.dependencies + project + target.pip
        builds = (one for needed in self.pip_terms(target).build_dependencies.values() for one in needed)
        return (*wanted, *builds) if wanted else ()

    def own_dependencies(self, target: Target) -> tuple[Located, ...]:
        """Return the pip requirements of a target without what builds alone need."""
        project = self.project.of_targets.get(target.name, self.project.dependencies) if self.project else ()
        return (*self.pip.dependencies, *project, *target.pip)

    def build_tools(self, target: Target) -> tuple[Located, ...]:
        """Return what the build of the project requires, and nothing else of what a target asks for."""
        builds = (self.project and self.project.build_requires) or ()
        others = {one.text for one in self.pip_dependencies(target) if one not in builds} if builds else ()
        return tuple(one for one in builds if one.text not in others)

    def pip_terms(self, target: Target) -> PipTerms:
        """Return the terms of a target: the spec's, with the target's own."""
        return self.pip.terms.with_own(target.terms)

    def terms_of(self, target: str) -> PipTerms:
        """Return the terms of a target by its name; those of the whole spec for one that it doesn't have."""
        found = self.target(target)
        return self.pip_terms(found) if found else self.pip.terms

    def address(self, place: str) -> str:
        """Give the URL of an index by what the spec says of its place: a folder's path is relative to the spec's."""
        if not place.startswith("."):
            return place
        return urljoin(Path(os.path.abspath(self.path)).as_uri(), place)

    @property
    def indexes(self) -> Mapping[str, str]:
        """The URLs of the simple indexes, by name."""
        return MappingProxyType({name: self.address(place) for name, place in self.pip.indexes.items()})

    @property
    def flat_pages(self) -> Mapping[str, tuple[str, ...]]:
        """The URLs of the flat indexes, by name: targets may have different pages of one name."""
        found: dict[str, dict[str, None]] = {}
        for name, place in self.flat_places:
            found.setdefault(name, {})[self.address(place)] = None
        return MappingProxyType({name: tuple(urls) for name, urls in found.items()})

    @property
    def flat_places(self) -> Iterator[tuple[str, str]]:
        """Names of flat indexes, and where the spec says that each is."""
        for terms in (self.pip.terms, *(target.terms for target in self.targets)):
            yield from terms.find_links.items()

    @property
    def index_addresses(self) -> Mapping[str, str]:
        """An address of each index of the spec's own, simple or flat, by name: whose logins hold there."""
        return {**{name: urls[0] for name, urls in self.flat_pages.items()}, **self.indexes}

    def conda_dependencies(self, target: Target) -> tuple[Located, ...]:
        """Return the match specs of a target: the spec's, then the target's own."""
        return self.conda.dependencies + target.conda

    def target(self, name: str) -> Target | None:
        return next((t for t in self.targets if t.name == name), None)
