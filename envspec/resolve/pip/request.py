"""Requests of pip resolutions. A request has everything that decides one, and nothing else.

Targets with equal requests are solved once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace
from packaging.version import Version

from envspec.base.records import RecordWithNotes
from envspec.base.redact import redact
from envspec.facts.corrections import NO_CORRECTIONS, Corrections
from envspec.facts.python_builds import newest_build
from envspec.lock.model import Pin, SpecInputs, TargetInputs
from envspec.lock.variant_build import machine_of
from envspec.net.index_proxy.server import Provided
from envspec.packages.conflict import Conflict, Unsatisfiable
from envspec.packages.edges import Markers
from envspec.packages.names import PUBLIC, requirement_name
from envspec.packages.python_range import range_between, releases_of
from envspec.packages.requirement import parse_requirement
from envspec.packages.stated import StatedMetadata
from envspec.packages.variant_choice import TargetMachine
from envspec.rules.case import of_target
from envspec.rules.on_base import other_images
from envspec.spec.way import Way

UV_PLATFORMS = {
    "linux-64": "x86_64-manylinux_2_{glibc}",
    "linux-aarch64": "aarch64-manylinux_2_{glibc}",
    "osx-64": "x86_64-apple-darwin",
    "osx-arm64": "aarch64-apple-darwin",
    "win-64": "x86_64-pc-windows-msvc",
}
"""uv's names of the platforms (`uv pip compile --python-platform`), by conda subdir."""

UV_GLIBC_MINORS = (17, 28, *range(31, 41))
"""The glibc minors that uv has a platform name for."""


class Request(RecordWithNotes, frozen=True, eq=False):
    """One pip resolution.

    requirements    normalised PEP 508 lines (`envspec.lock.inputs`)
    direct          the packages that the spec itself asks for, in its order, without those for builds alone
    constraints     PEP 508 lines that bound a package without asking for it
    overrides       PEP 508 lines that take the place of all others on their package
    find_links      the flat indexes of the target: name and page (`envspec.lock.inputs.page_name`)
    cuda            the CUDA version the target asks for ("12.8"), None for a CPU target
    allow_source    names that may be built from source
    unfit           names whose sources uv sees though they have wheels: none fits the target, and uv found no solution
    sources         package → name of the spec's index it must come from
    public          packages that the spec takes from PyPI, whatever index has them
    exclude_newer   RFC 3339, or None
    exempt          packages that are exempt from it → their own bound, None for none
    provided        packages of conda or of a base in the same environment: PyPI name and version, which pip keeps
    extras          the requirements of the extras of a base's packages
    metadata        the spec's statements on sources, in place of their METADATA
    corrections     of published METADATA
    variants        names whose releases uv sees as the variant that `machine` installs
    machine         the target's facts about its machines; None in a request that targets share, as long as no variant
                    is met
    accepted        findings that the spec accepts, as `TargetInputs.accept` has their codes
    own             envspec's own constraints, on releases that it gave up
    final           packages with final releases that envspec's own bounds leave out: no pre-release stands in for them
    python_version  the exact Python: of the build that the target gets, or else the oldest that the spec admits
    any_python      the versions of which the machine may bring any; none where the build is known
    on_base         the provided packages are a base's, not conda's
    own_machine     the same, for when one is met: requests that differ in it alone are equal
    """

    notes: ClassVar = frozenset({"own_machine"})

    platform: str
    python: str
    glibc: str | None
    requirements: tuple[str, ...]
    cuda: str | None = None
    constraints: tuple[str, ...] = ()
    allow_source: tuple[str, ...] = ()
    unfit: tuple[str, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    public: tuple[str, ...] = ()
    exclude_newer: str | None = None
    exempt: tuple[tuple[str, str | None], ...] = ()
    provided: tuple[tuple[str, str], ...] = ()
    extras: tuple[tuple[str, tuple[str, ...]], ...] = ()
    metadata: tuple[StatedMetadata, ...] = ()
    corrections: Corrections = NO_CORRECTIONS
    overrides: tuple[str, ...] = ()
    find_links: tuple[tuple[str, str], ...] = ()
    variants: tuple[str, ...] = ()
    machine: TargetMachine | None = None
    accepted: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    final: tuple[str, ...] = ()
    python_version: str | None = None
    any_python: tuple[str, ...] = ()
    own_machine: TargetMachine | None = None
    on_base: bool = False
    direct: tuple[str, ...] = ()

    def accepts(self, code: str, name: str) -> bool:
        """Return whether the spec accepts a finding on a package."""
        return code in self.accepted or f"{code}:{name}" in self.accepted

    @property
    def stand_ins(self) -> Provided:
        """The provided packages as the index proxy shows them."""
        lines = dict(self.extras)
        return tuple((name, version, lines.get(name, ())) for name, version in self.provided)

    @property
    def full_python(self) -> str:
        """The Python that markers and Requires-Python are judged for: the build's; of another minor version, as it is
        tried for a remedy, the newest build's; the oldest where the machine brings one."""
        if self.python_version and self.python_version.startswith(f"{self.python}."):
            return self.python_version
        is_build = self.python_version is not None and self.python_version.count(".") > 1
        build = newest_build(self.python, self.platform) if is_build else None
        return build.version if build else self.python

    @property
    def addressed(self) -> tuple[str, ...]:
        """The lines that may name an address: those of the spec's dependencies and overrides."""
        return (*self.requirements, *self.overrides)

    @property
    def effective(self) -> tuple[str, ...]:
        """The spec's requirements with the overrides of their packages in their place."""
        overridden = set(map(requirement_name, self.overrides))
        named = set(map(requirement_name, self.requirements))
        return (
            *(text for text in self.requirements if requirement_name(text) not in overridden),
            *(text for text in self.overrides if requirement_name(text) in named),
        )

    @property
    def named(self) -> tuple[str, ...]:
        """The packages that the spec itself asks for by name and not by an address, in its order: bounds count for
        these alone."""
        known = {requirement_name(text): " @ " in text for text in self.effective}
        return tuple(name for name in self.direct or known if known.get(name) is False)

    def not_after(self, package: str) -> str | None:
        """Give the bound in time of a package, by its normalised name."""
        return dict(self.exempt).get(package, self.exclude_newer)

    @property
    def _glibc_minors(self) -> tuple[int, int]:
        """The minor of the target's glibc, and the newest one not above it that uv has a platform name for."""
        own = int((self.glibc or "2.28").split(".")[1])
        return own, max((m for m in UV_GLIBC_MINORS if m <= own), default=UV_GLIBC_MINORS[0])

    @property
    def uv_platform(self) -> str:
        """uv's platform name; on Linux the newest one that the target's glibc supports."""
        return UV_PLATFORMS[self.platform].format(glibc=self._glibc_minors[1])

    @property
    def unlisted_glibc(self) -> tuple[int, int] | None:
        """The target's glibc where uv has no platform name for it: the index proxy then shows wheels by number."""
        own, listed = self._glibc_minors
        return (own, listed) if own > listed and self.platform.startswith("linux-") else None


class Preferences(Struct, frozen=True):
    """Versions to keep if they still fit: name → version. Never binding.

    `commits` does the same for git: the requirement in the request → the commit that it was pinned to. `variants` has
    the label of a version's variant: name → version and label. `last` has the versions of the old lock whether they are
    to be kept or not: no package that the spec asks for goes below them while there is a solution without that.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    commits: Mapping[str, str] = field(default_factory=dict)
    variants: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    last: Mapping[str, str] = field(default_factory=dict)

    def over(self, other: Preferences) -> Preferences:
        """Take `other` for names that these preferences don't have."""
        versions, commits = {**other.versions, **self.versions}, {**other.commits, **self.commits}
        return Preferences(versions, commits, self.variants, self.last)

    def without(self, names: frozenset[str]) -> Preferences:
        return Preferences(
            {name: version for name, version in self.versions.items() if name not in names},
            {text: commit for text, commit in self.commits.items() if requirement_name(text) not in names},
            {name: variant for name, variant in self.variants.items() if name not in names},
            self.last,
        )


def request_for(
    spec: SpecInputs,
    target: TargetInputs,
    constraints: tuple[str, ...] = (),
    provided: tuple[tuple[str, str], ...] = (),
    corrections: Corrections = NO_CORRECTIONS,
    exempt: tuple[tuple[str, str | None], ...] = (),
    final: tuple[str, ...] = (),
    own: tuple[str, ...] = (),
) -> Request:
    """Make the request of one target. Packages of conda have no index. Packages from conda, or from an index of the
    spec's own, are other builds than those whose METADATA is known to lack something."""
    names = {name for name, _ in provided}
    sources = {name: index for name, index in spec.sources.items() if index != PUBLIC}
    uncorrected = {*names, *sources}
    overrides = tuple(requirement for requirement, _ in target.overrides)
    return Request(
        platform=target.platform,
        python=target.python,
        glibc=target.glibc,
        requirements=target.requirements,
        cuda=target.cuda,
        constraints=tuple(sorted({*constraints, *own, *target.constraints})),
        allow_source=spec.allow_source,
        sources=tuple(sorted((name, index) for name, index in sources.items() if name not in names)),
        public=tuple(sorted(spec.sources.keys() - sources.keys() - names)),
        exclude_newer=spec.exclude_newer,
        exempt=exempt,
        provided=provided,
        metadata=target.metadata,
        corrections=corrections.without(uncorrected).besides(map(requirement_name, overrides)),
        overrides=overrides,
        find_links=target.find_links,
        accepted=tuple(code for code, _ in target.accept if code.startswith(("requires-python", "retreat"))),
        own=own,
        final=final,
        python_version=target.full_python,
        any_python=() if target.python_version else releases_of(target.python, target.python_range),
        own_machine=machine_of(target),
        on_base=spec.base is not None,
    )


def with_constraints(request: Request, more: tuple[str, ...]) -> Request:
    return replace(request, constraints=(*request.constraints, *more)) if more else request


_R = TypeVar("_R")


def group(requests: Mapping[str, _R]) -> dict[_R, tuple[str, ...]]:
    """Group equal requests, each with the names of its targets; the request of the most targets comes first."""
    groups: dict[_R, list[str]] = {}
    for name in sorted(requests):
        groups.setdefault(requests[name], []).append(name)
    ordered = sorted(groups.items(), key=lambda row: (-len(row[1]), row[1]))
    return {request: tuple(names) for request, names in ordered}


# Packages of conda for pip: the index proxy shows uv one version of each such package, so that uv can't take another.
#
# A page has one wheel, which is never downloaded. Its METADATA names no dependencies: conda has solved those.


def provided_packages(pins: Iterable[Pin]) -> tuple[tuple[str, str], ...]:
    """List the packages that a target's conda pins provide. One whose version isn't PEP 440 provides nothing."""
    versions = {}
    for pin in pins:
        version = _pep440(pin.version)
        if pin.kind == "conda" and version is not None:
            versions.update(dict.fromkeys(pin.provides, version))
    return tuple(sorted(versions.items()))


OTHER_BASE = "if another base will do, take that"
"""The hint for a conflict with a package of the base."""


def refuse_conflicts(label: str, request: Request) -> None:
    """Raise Unsatisfiable, naming both sides, if the spec's own pip requirement excludes conda's version."""
    provided = dict(request.provided)
    markers = Markers(request.platform, request.full_python)
    for text in request.effective:
        version = provided.get(requirement_name(text))
        if version is None:
            continue
        if not markers.hold(text):
            continue
        requirement = parse_requirement(text)
        if requirement.url or not requirement.specifier.contains(version, prereleases=True):
            whose = "the base has" if request.on_base else "conda installs"
            ways: tuple[Way, ...] = ()
            hint = None
            if requirement.specifier and not request.on_base:
                ways = (Way(conda=f"{requirement_name(text)} {requirement.specifier}"),)
            if request.on_base:
                loose = (Way(line=requirement_name(text), note="without its bounds"),) if requirement.specifier else ()
                ways = (*loose, Way(replaced=(requirement_name(text),)))
                case = of_target(request.platform, request.python, request.cuda, (), None, request.glibc or "0")
                is_torch = requirement_name(text) == "torch"
                images = other_images(case, None, version, request.effective) if is_torch else None
                hint = images or OTHER_BASE
            message = f"{label}: [pip] asks for {redact(text)}, but {whose} {requirement.name} {version}"
            error = Unsatisfiable(message, hint=hint)
            error.ways = ways
            raise error.with_subjects(requirement_name(text))


def explain_conflict(conflict: Unsatisfiable, request: Request) -> Unsatisfiable:
    """Add conda's side to a conflict that uv found, and the Pythons that it leaves."""
    conflict.ways += _ways_to_python(conflict.conflict, request)
    named = [f"{name} {version}" for name, version in request.provided if name in conflict.subjects]
    if not named:
        return conflict
    whose = "the base has" if request.on_base else "conda installs"
    first = named[0].split()[0]
    conflict.message = f"{conflict.message.rstrip('.')} ({whose} {', '.join(named)})."
    if request.on_base:
        conflict.ways += (Way(replaced=(first,)),)
        conflict.hint = OTHER_BASE
    else:
        bounds = sorted({bound for bound in conflict.conflict.bounds_on(first) if bound})
        conflict.ways = (*(Way(conda=f"{first} {bound}") for bound in bounds), *conflict.ways)
    return conflict


def _ways_to_python(conflict: Conflict, request: Request) -> tuple[Way, ...]:
    """Name the Pythons that a conflict's own lower bounds leave of those that the machine may bring."""
    lower_bounds = [python for python in request.any_python if f">={python}" in conflict.bounds_on("python")]
    if not lower_bounds:
        return ()
    bound = range_between(lower_bounds[-1], request.any_python[-1])
    return (Way(python=request.python, python_range=bound),)


def _pep440(version: str) -> str | None:
    try:
        return str(Version(version.replace("_", ".")))
    except ValueError:
        return None


def requests_of(requests: Iterable[Request]) -> Sequence[Provided]:
    """List the distinct sets of provided packages, for the index proxy to serve."""
    return tuple(dict.fromkeys(request.stand_ins for request in requests if request.provided))
