"""A spec, as frozen values. Nothing here reads files; `envspec.spec.parse` makes these from TOML."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, ClassVar
from urllib.parse import urljoin

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base.errors import Place
from envspec.base.reader.nodes import Array, Boolean, Either, Integer, Names, Number, Table, Text, table_of
from envspec.base.records import RecordWithNotes
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name
from envspec.packages.stated import StatedMetadata
from envspec.spec import forms
from envspec.spec.cluster import KubernetesTable, SlurmTable

_EMPTY: Mapping[str, str] = MappingProxyType({})
_NO_WAIVERS: Mapping[str, Waiver] = MappingProxyType({})
_NO_ACCEPTED: Mapping[tuple[str, str], Waiver] = MappingProxyType({})


class Located(Struct, frozen=True):
    """A requirement or match spec as the user wrote it (normalised), and where it stands; of an override also why."""

    text: str
    place: Place
    reason: str = ""


def acceptance_key(code: str, package: str) -> str:
    """Give the key under which a finding is accepted of one package alone."""
    return f"{code}:{package}"


_NO_LINES: Mapping[str, tuple[Located, ...]] = MappingProxyType({})


class PipTerms(Struct, frozen=True):
    """Added for this target only; of one name, what the target says takes the place of the spec's.

    metadata            What sources require, where their own metadata can't be had without torch or a compiler. It
                        counts in place of their own, for sources alone; the first entry that covers a version holds.
    build_dependencies  All that a package's build needs. It's locked and installed with the environment, and the build
                        sees these packages in the lock's versions, what they require, and nothing else.
    no_build_isolation  Packages that are built in the environment itself, where they see everything that it has.
    constraints         Bounds that ask for nothing: they hold for a package that something else requires.
    overrides           Requirements that take the place of all others on their package, whatever asks for it.
    find_links          Flat indexes: single pages with links to files, or folders of files. Packages come from one by
                        `sources`.
    accept              Findings of the rules that are taken knowingly, by code, each with its reason.
    inspect             Whether `lock` reads in wheels what their METADATA leaves out, and bounds the packages beside
                        them: that they were compiled for NumPy 1, or import pkg_resources.

    `accept` has a code, or `acceptance_key` of it; `inspect` is None where that isn't said.
    """

    metadata: Annotated[tuple[StatedMetadata, ...], forms.METADATA] = ()
    build_dependencies: Annotated[Mapping[str, tuple[Located, ...]], forms.BUILD_DEPENDENCIES] = field(
        default_factory=lambda: _NO_LINES
    )
    no_build_isolation: Annotated[frozenset[str], Array(items=forms.PACKAGE_NAME, example=("flash-attn",))] = (
        frozenset()
    )
    constraints: Annotated[tuple[Located, ...], Array(items=forms.REQUIREMENT, example=("numpy<2.3",))] = ()
    overrides: Annotated[tuple[Located, ...], forms.OVERRIDES] = ()
    find_links: Annotated[Mapping[str, str], forms.FIND_LINKS] = field(default_factory=lambda: _EMPTY)
    accept: Annotated[Mapping[str, str], forms.ACCEPT] = field(default_factory=lambda: _EMPTY)
    inspect: Annotated[bool | None, Boolean(example=False, default=True)] = None

    @property
    def built_against_lock(self) -> frozenset[str]:
        """The packages whose builds see packages of the lock, and nothing else."""
        return self.no_build_isolation.union(self.build_dependencies)

    def with_own(self, own: PipTerms) -> PipTerms:
        """Add a target's own terms. A page, a reason, and what is said of one package's overrides, metadata or build
        take the place of the spec's."""
        overridden = {requirement_name(override.text) for override in own.overrides}
        stated = {entry.name for entry in own.metadata}
        metadata = (*(entry for entry in self.metadata if entry.name not in stated), *own.metadata)
        return PipTerms(
            tuple(sorted(metadata, key=lambda entry: entry.name)),
            MappingProxyType({**self.build_dependencies, **own.build_dependencies}),
            self.no_build_isolation | own.no_build_isolation,
            self.constraints + own.constraints,
            (
                *(override for override in self.overrides if requirement_name(override.text) not in overridden),
                *own.overrides,
            ),
            MappingProxyType({**self.find_links, **own.find_links}),
            MappingProxyType({**self.accept, **own.accept}),
            self.inspect if own.inspect is None else own.inspect,
        )


class PipTable(Struct, frozen=True):
    """`[pip]`: What comes from Python package indexes.

    allow_source         Packages that may be built from source, which runs their code; everything else must be a wheel.
    without_corrections  Corrections of published metadata to switch off, by name; `envspec lock` names those it
                         applies.
    indexes              Further indexes, each with a name.
    sources              Packages that come from one of the named indexes alone, and from nowhere else.

    Names of packages are normalised.
    """

    dependencies: Annotated[tuple[Located, ...], forms.REQUIREMENTS] = ()
    allow_source: Annotated[frozenset[str], Array(items=forms.PACKAGE_NAME, example=("deepspeed",))] = frozenset()
    without_corrections: Annotated[
        frozenset[str], Array(items=forms.CORRECTION, example=(forms.CORRECTION.example,))
    ] = frozenset()
    indexes: Annotated[Mapping[str, str], forms.INDEXES] = field(default_factory=lambda: _EMPTY)
    sources: Annotated[Mapping[str, str], forms.SOURCES] = field(default_factory=lambda: _EMPTY)
    terms: PipTerms = PipTerms()


class CondaTable(Struct, frozen=True):
    """`[conda]`: What comes from conda's channels.

    channels  The channels, the most important one first.
    """

    channels: Annotated[tuple[str, ...], Array(items=forms.CHANNEL, example=("conda-forge",), unique=True)] = ()
    dependencies: Annotated[tuple[Located, ...], forms.MATCH_SPECS] = ()


class ProjectParts(Struct, frozen=True):
    """Extras and dependency groups of the spec's project that this target takes, besides those of all targets.

    extras  Extras of the project.
    groups  Dependency groups (PEP 735).
    """

    extras: Annotated[tuple[str, ...], Array(items=forms.PROJECT_PART, example=("train",), unique=True)] = ()
    groups: Annotated[tuple[str, ...], Array(items=forms.PROJECT_PART, example=("dev",), unique=True)] = ()

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


def _pip_of_target() -> Table:
    terms = table_of(PipTerms)
    return replace(terms, keys={"dependencies": forms.REQUIREMENTS, **terms.keys})


class Target(RecordWithNotes, frozen=True, eq=False):
    """A target.

    driver       The NVIDIA driver on the machines; checked against what the CUDA version needs.
    cpu          The oldest processors of the target: which builds for newer instructions it may have, where a package
                 has such variants. Without it, those that every machine of the platform runs.
    cuda_compat  Whether the recipes bring NVIDIA's cuda-compat, with which older drivers run a newer CUDA: forward
                 compatibility, for data-centre GPUs and RTX cards of workstations.
    glibc        The oldest glibc that the target must run on.

    `pip` and `conda` are the target's own dependencies, `terms` its own terms, without the spec's;
    `Spec.pip_dependencies` and `Spec.pip_terms` join them. `project` has the extras and groups that it adds.
    """

    notes: ClassVar = frozenset({"place", "places"})

    name: str
    platform: Annotated[str, forms.PLATFORM]
    cuda: Annotated[str | None, forms.CUDA] = None
    gpus: Annotated[tuple[str, ...], forms.GPUS] = ()
    driver: Annotated[str | None, forms.DRIVER] = None
    cpu: Annotated[str | None, forms.CPU] = None
    cuda_compat: Annotated[bool, Boolean(example=True)] = False
    glibc: Annotated[str, forms.GLIBC] = DEFAULT_GLIBC
    pip: Annotated[tuple[Located, ...], _pip_of_target()] = ()
    conda: Annotated[tuple[Located, ...], forms.TARGET_CONDA] = ()
    project: Annotated[ProjectParts, replace(table_of(ProjectParts), not_empty=True)] = ProjectParts()
    terms: PipTerms = PipTerms()
    place: Place = Place("")
    places: Mapping[str, Place] = field(default_factory=dict)
    """Where each key of the target stands (`platform`, `cuda`, `gpus`, …), for later findings."""


class Image(Struct, frozen=True):
    """`[image]`: What the recipes put around the environment.

    base       The base image.
    name       Where the images are pushed to, in the recipes; each target is a tag of it.
    services   Services that the image can start.
    user       The user that the image runs as.
    env        Environment variables of the image.
    apt        Debian packages to install.
    build_apt  Debian packages of the stage that compiles: headers and tools. The image doesn't get them.
    build_env  Environment variables of the stage that compiles, beside those that envspec sets there.
    fabric     What joins the nodes: with infiniband, RoCE included, CUDA images have the libraries without which NCCL
               uses sockets.
    python     The Python of images: the build that the lock names, or the base image's own, which must be of the spec's
               version.
    snapshot   The day as of which Debian's packages are: as its archive of snapshots has them.
    shm        What /dev/shm may hold, in Docker's form: DataLoader workers and NCCL share memory there.
    ssh_port   Where sshd listens in a container. A port below 1024 is published at the host's 2222; Docker 20.10 and
               newer let a user who isn't root have it.
    nvcc       Whether CUDA images have NVIDIA's compiler and headers, for what compiles kernels when it runs.
    """

    base: Annotated[str, forms.IMAGE] = "debian:trixie-slim"
    name: Annotated[str | None, forms.IMAGE_NAME] = None
    services: Annotated[tuple[str, ...], Array(items=forms.SERVICE, example=("jupyter", "ssh"), unique=True)] = ()
    user: Annotated[str, forms.USER] = "dev"
    env: Annotated[Mapping[str, str], forms.ENV] = field(default_factory=lambda: _EMPTY)
    apt: Annotated[tuple[str, ...], Array(items=forms.DEBIAN, example=("libgl1",), unique=True)] = ()
    build_apt: Annotated[tuple[str, ...], Array(items=forms.DEBIAN, example=("libaio-dev",), unique=True)] = ()
    build_env: Annotated[Mapping[str, str], forms.BUILD_ENV] = field(default_factory=lambda: _EMPTY)
    fabric: Annotated[str, Text(example="none", choices=("infiniband", "none"))] = "infiniband"
    python: Annotated[str, Text(example="base", choices=("locked", "base"))] = "locked"
    snapshot: Annotated[str | None, forms.DAY] = None
    shm: Annotated[str, forms.SHARED_MEMORY] = "8g"
    ssh_port: Annotated[int, Integer(example=22, minimum=1, maximum=65535)] = 2222
    nvcc: Annotated[bool, Boolean(example=True)] = False


ON_MACHINES = ("prefix", "module")
"""The kinds of bases on which a machine has environments."""


class BaseKeys(Struct, frozen=True):
    """`[base]`: What is there already: a vendor's image, a centre's SIF, prefix or module. Its packages stay, and the
    lock holds what comes on top.

    image    An image in a registry, such as one of NVIDIA's; the lock has its digest.
    sif      A SIF on this machine, relative to the spec's file.
    prefix   The prefix of a centre's module or of another environment on this machine, which has a Python: its folder.
    module   A module of this machine's, or several, as `module load` has them (Lmod, Environment Modules).
    replace  Packages of the base that the lock may replace, each with the reason.
    """

    image: Annotated[str | None, replace(forms.IMAGE, example="nvcr.io/nvidia/pytorch:25.09-py3")] = None
    sif: Annotated[str | None, forms.SIF] = None
    prefix: Annotated[str | None, forms.FOLDER] = None
    module: Annotated[str | None, forms.MODULES] = None
    replace: Annotated[
        Mapping[str, str],
        Names(names=replace(forms.PACKAGE_NAME, example="numpy"), values=forms.reason("transformers needs numpy 2")),
    ] = field(default_factory=lambda: _EMPTY)


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
    """`references`: What is expected of one figure.

    value  The expected value.
    low    How far below the value a run may be, as a share.
    high   How far above the value a run may be, as a share.
    unit   The unit.
    gpus   The GPUs that this is expected of: a run on others isn't judged by it.

    As in ReFrame's references, None leaves a side open; no GPUs stand for all.
    """

    value: Annotated[float, Number(example=740.0, minimum=-1e300, maximum=1e300)]
    low: Annotated[float | None, Number(example=-0.05, minimum=-1, maximum=0)] = None
    high: Annotated[float | None, Number(example=0.1, minimum=0)] = None
    unit: Annotated[str, Text(example="TFLOP/s")] = ""
    gpus: Annotated[tuple[str, ...], Array(items=forms.GPU, example=("A100",), min_items=1, unique=True)] = ()


_NO_REFERENCES: Mapping[str, Reference] = MappingProxyType({})
REFERENCES = Names(
    doc="Figures that the site expects; a run is compared with them.", names=forms.FIGURE, values=table_of(Reference)
)


class Smoke(Struct, frozen=True):
    """The training check.

    workload  The training workload.
    steps     How many steps to train.
    """

    workload: Annotated[str, Text(example="multimodal", choices=forms.WORKLOADS)] = "basic"
    steps: Annotated[int, Integer(example=50, minimum=1, maximum=100_000)] = 50
    references: Annotated[Mapping[str, Reference], REFERENCES] = field(default_factory=lambda: _NO_REFERENCES)


class Waiver(Struct, frozen=True):
    """A finding of an audit that the spec takes knowingly.

    targets  The targets for which it counts; all of them, if left out.

    `until` is None without an end.
    """

    reason: Annotated[str, forms.WAIVER_REASON]
    until: Annotated[str | None, forms.UNTIL] = None
    targets: Annotated[tuple[str, ...], forms.OWN_TARGETS] = ()


def _waiver(doc: str, example: str) -> Either:
    table, reason = table_of(Waiver), replace(forms.WAIVER_REASON, doc=doc, example=example)
    terms = f"{doc} With its end, or for some targets."
    return Either(text=reason, table=replace(table, doc=terms, keys={**table.keys, "reason": reason}))


_IGNORE = _waiver("Why the advisory doesn't concern this environment.", "no template here comes from outside")
_ACCEPT = Names(
    doc="The findings of a package, by code.",
    names=forms.CODE,
    values=_waiver("Why the finding is taken.", "yanked for its documentation alone"),
)
_LICENCES = Array(items=forms.LICENCE, example=("MIT", "BSD-3-Clause", "Apache-2.0"), min_items=1, unique=True)


class Audit(Struct, frozen=True):
    """`[audit]`: What `envspec audit` accepts. Nothing of it is locked.

    allow_licences  The licences that packages may have; with this list, they may have no other.
    deny_licences   The licences that no package may have.
    licences        The licences of packages, conda's too, whose metadata names no licence or a wrong one.
    ignore          Advisories that don't concern this environment, each with the reason, and its end.
    accept          Other findings that are taken knowingly: by package and code, each with the reason.

    Names of packages are normalised.
    """

    allow_licences: Annotated[tuple[str, ...], _LICENCES] = ()
    deny_licences: Annotated[tuple[str, ...], replace(_LICENCES, example=("AGPL-*",))] = ()
    licences: Annotated[Mapping[str, str], Names(names=forms.ANY_PACKAGE, values=forms.LICENCE)] = field(
        default_factory=lambda: _EMPTY
    )
    ignore: Annotated[Mapping[str, Waiver], Names(names=forms.ADVISORY, values=_IGNORE)] = field(
        default_factory=lambda: _NO_WAIVERS
    )
    accept: Annotated[Mapping[tuple[str, str], Waiver], Names(names=forms.ANY_PACKAGE, values=_ACCEPT)] = field(
        default_factory=lambda: _NO_ACCEPTED
    )

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
    """The spec's bound on Python beside `python`, its minor version, as a specifier: "==3.12.4", ">=3.11,<3.13"."""
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
        direct = self.pip.dependencies + project + target.pip
        builds = (line for needed in self.pip_terms(target).build_dependencies.values() for line in needed)
        return (*direct, *builds) if direct else ()

    def own_dependencies(self, target: Target) -> tuple[Located, ...]:
        """Return the pip requirements of a target without what builds alone need."""
        project = self.project.of_targets.get(target.name, self.project.dependencies) if self.project else ()
        return (*self.pip.dependencies, *project, *target.pip)

    def build_tools(self, target: Target) -> tuple[Located, ...]:
        """Return what the build of the project requires, and nothing else of what a target asks for."""
        builds = (self.project and self.project.build_requires) or ()
        rest = {line.text for line in self.pip_dependencies(target) if line not in builds} if builds else ()
        return tuple(line for line in builds if line.text not in rest)

    def pip_terms(self, target: Target) -> PipTerms:
        """Return the terms of a target: the spec's, with the target's own."""
        return self.pip.terms.with_own(target.terms)

    def terms_of(self, target: str) -> PipTerms:
        """Return the terms of a target by its name; those of the whole spec for one that it doesn't have."""
        match = self.target(target)
        return self.pip_terms(match) if match else self.pip.terms

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
        urls_by_name: dict[str, dict[str, None]] = {}
        for name, place in self.flat_places:
            urls_by_name.setdefault(name, {})[self.address(place)] = None
        return MappingProxyType({name: tuple(urls) for name, urls in urls_by_name.items()})

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
