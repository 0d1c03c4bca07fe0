"""The build environments of sources: the builds' requirements, resolved to wheels with their hashes.

A source declares what its build needs in `[build-system] requires`, and its backend may ask for more (PEP 517's
`get_requires_for_build_wheel`), which runs its code. What these lead to is solved as a target's packages are: for its
Python, platform and glibc, with its torch, CUDA and NumPy, and not newer than its lock. All of it are wheels of the
default index, but for what the target itself has from another one: no build builds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.artifacts.metadata import cache_key
from envspec.artifacts.sdist.build_imports import TORCH, BuildLacks, list_names
from envspec.artifacts.sdist.pyproject import build_requires
from envspec.artifacts.sdist.source import (
    PYTHON,
    BuildFailed,
    BuildIndex,
    SourceReader,
    build_requirements,
    causes_behind,
    url_requirement_error,
)
from envspec.artifacts.sdist.static_source import FolderFacts, SourceFacts
from envspec.artifacts.sdist.unpacked_source import UnpackedSource, missing_module
from envspec.base.errors import InternalError, OutsideError, SpecError, about
from envspec.base.finding import Finding
from envspec.base.progress import Counting
from envspec.base.scratch import new_folder
from envspec.facts import wheels
from envspec.facts.cuda_stack import TORCH as TORCHES, stack_of
from envspec.lock.model import BuildPin, Pin
from envspec.packages.conflict import Unsatisfiable
from envspec.packages.metadata import Metadata
from envspec.packages.names import normalise_requirement, requirement_name
from envspec.packages.requirement import parse_requirement
from envspec.packages.version_numbers import numbers_in
from envspec.resolve.pip.answer import Describer, in_own_addresses
from envspec.resolve.pip.compile import UvCompile, UvIndex, compile_request
from envspec.resolve.pip.pins import file_to_install
from envspec.resolve.pip.request import Request, with_constraints
from envspec.resolve.pip.solve import PipResolver
from envspec.resolve.uv.errors import build_failure
from envspec.spec.way import avoiding


class BuildWanted(Struct, frozen=True):
    """A source that a target builds.

    request      of the target's pip half
    runs         its code may run, so its backend is asked, too
    constraints  PEP 508 lines that bound the build's requirements
    numpy        further such lines, the best first, of which one is to hold
    shared       the target's own torch, CUDA, NumPy, and its packages from other indexes than PyPI
    sees         the packages and versions that its build has by the spec or the old lock; None where that is to be
                 resolved
    """

    pin: Pin
    request: Request
    runs: bool
    constraints: tuple[str, ...] = ()
    numpy: tuple[str, ...] = ()
    shared: tuple[Pin, ...] = ()
    sees: tuple[tuple[str, str], ...] | None = None

    @property
    def release(self) -> str:
        """Its name and version, for messages."""
        return f"{self.pin.name} {self.pin.version}"

    @property
    def solved_for(self) -> Request:
        """Make the request for the build's environment, without its requirements and the bounds on NumPy."""
        request, has = self.request, {pin.name for pin in self.shared}
        return Request(
            request.platform,
            request.python,
            request.glibc,
            (),
            cuda=request.cuda,
            constraints=self.constraints,
            sources=tuple((name, index) for name, index in request.sources if name in has),
            exclude_newer=request.exclude_newer,
            exempt=request.exempt,
            find_links=request.find_links,
            python_version=request.python_version,
        )

    @property
    def torch(self) -> tuple[str | None, bool]:
        """Give the PyTorch index that the target's torch is from, and whether envspec's facts have that file."""
        for pin in self.shared:
            variant = pin.index.removeprefix("pytorch/")
            if pin.name == "torch" and pin.artifact and variant != pin.index:
                held = variant in wheels.variants() and wheels.load(variant).file(pin.artifact.file) is not None
                return variant, held
        return None, False


BuiltWith = tuple[BuildPin, ...]
BuildEnvironments = tuple[Mapping[BuildWanted, "BuiltWith | BuildLacks"], tuple[Finding, ...]]
"""The environments of builds, and notes on the builds that couldn't be asked."""


def build_environments(resolver: PipResolver, requests: Sequence[BuildWanted]) -> BuildEnvironments:
    """Resolve the environments of sources that `resolver` has just pinned; of those that their builds have already,
    and see all they import in, give none.

    Raises Unsatisfiable, IndexFailure or ToolError, each naming the source; SpecError for one that requires a package
    without a wheel, or a file by its URL.
    """
    if not requests:
        return {}, ()

    counting = Counting(resolver.progress)
    describe = Describer(resolver.wheels, resolver.sources, resolver.scratch, counting)
    variants = {variant for variant, held in (build.torch for build in requests) if variant and not held}
    live = {variant: pages for variant in variants if (pages := resolver.live_pages(variant))}
    with build_requirements(resolver.pages, describe, resolver.default_index, resolver.cache, live) as builds:
        reader = replace(resolver.sources, builds=builds)
        solving = _Builds(resolver, reader, builds, counting)
        return {build: solving.environment(build) for build in requests}, tuple(solving.notes)


class _Builds(Struct):
    resolver: PipResolver
    reader: SourceReader
    index: BuildIndex
    counting: Counting
    notes: list[Finding] = field(default_factory=list)
    _required: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _solved: dict[Request, BuiltWith] = field(default_factory=dict)
    _sources: dict[Pin, UnpackedSource] = field(default_factory=dict)
    _missed: dict[Pin, str] = field(default_factory=dict)

    def environment(self, build: BuildWanted) -> BuiltWith | BuildLacks:
        with about(build.pin.name):
            if build.sees is not None:
                try:
                    return self._lacks(build, self._facts(build.pin).builds, dict(build.sees)) or ()
                except OutsideError:
                    # not even the source can be had: what the lock has of it stays
                    return ()
            lines = self._requires(build)
            requires = tuple(_plain(line, build) for line in lines)
            if (lacks := self._lacks(build, lines, list_names(requires))) and TORCH in lacks.modules:
                # nothing that a build requires brings torch by another name
                return lacks
            if not requires:
                return lacks or ()
            pins = self._solve_within_bounds(build, requires)
            if _lacks_wheel(requires, pins):
                pins = self._solve_within_bounds(build, (*requires, "wheel"))
            if lacks := self._lacks(build, lines, {pin.name: pin.version for pin in pins}):
                return lacks
            if module := self._missed.get(build.pin):
                self._note(build, f"it imports {module}, which isn't there while locking")
            return pins

    def _lacks(self, build: BuildWanted, declared: Sequence[str], versions: Mapping[str, str]) -> BuildLacks | None:
        """Give what the build imports and isn't among packages (name → version)."""
        imports = self._facts(build.pin).imports.with_module(self._missed.get(build.pin))
        has_torch = any(pin.name in TORCHES for pin in build.shared)
        return imports.lacks(build.pin.name, declared, versions, has_torch=has_torch)

    def _facts(self, pin: Pin) -> SourceFacts | FolderFacts:
        """Read what the build of a source declares and imports."""
        static, within = self.reader.static, _folder_within(pin)
        file = self.resolver.inspector.places.file(pin)
        if file is not None and not within:
            return static.read(file, pin.name, pin.version)
        key = cache_key("build-facts", str(pin.git or pin.artifact), within)
        return static.read_once(key, FolderFacts, lambda: self._source(pin).facts())

    def _source(self, pin: Pin) -> UnpackedSource:
        if pin not in self._sources:
            places = self.resolver.inspector.places
            file, repository, folder = places.file(pin), places.repository(pin), new_folder(self.resolver.scratch)
            if repository is not None:
                self._sources[pin] = self.reader.git_source(*repository, folder)
            elif file is not None:
                self._sources[pin] = self.reader.sdist_source(file, folder, _folder_within(pin))
            else:
                raise InternalError(f"nothing is known of where the source of {pin.name} {pin.version} lies")
        return self._sources[pin]

    def _solve_within_bounds(self, build: BuildWanted, requires: tuple[str, ...]) -> BuiltWith:
        """Solve what a build requires with the first of the bounds on NumPy with which there is a solution."""
        request, direct = replace(build.solved_for, requirements=requires), list_names(requires)
        lines = (*request.constraints, *build.numpy)
        # a bound on a package that a build doesn't meet changes nothing: targets of several CUDAs share its answer
        bounded = {requirement_name(line) for line in lines} - direct.keys()
        if TORCHES.isdisjoint(direct) and not any(requirement_name(line) in direct for line in build.numpy):
            own = tuple(line for line in request.constraints if requirement_name(line) in direct)
            with suppress(Unsatisfiable):
                pins = self._solve_once(replace(request, constraints=own, cuda=None), build)
                if bounded.isdisjoint(pin.name for pin in pins):
                    return pins
        conflicts: list[Unsatisfiable] = []
        for bound in build.numpy or ("",):
            within = with_constraints(request, (bound,) if bound else ())
            try:
                return self._solve_once(within, build)
            except Unsatisfiable as conflict:
                conflicts.append(conflict)
        if build.shared:
            conflicts[0].hint = against_lock(build.pin.name)
        raise conflicts[0]

    def _solve_once(self, request: Request, build: BuildWanted) -> BuiltWith:
        if request not in self._solved:
            self._solved[request] = tuple(self._solve(request, build))
        return self._solved[request]

    def _requires(self, build: BuildWanted) -> tuple[str, ...]:
        """Give what a build declares that it requires, and what its backend asks for where its code may run. An answer
        that isn't all is kept for this run alone."""
        pin = build.pin
        key = _key(pin, runs=build.runs)
        if key not in self._required:
            known = self.reader.cache.get(key)
            lines, is_all = (known.requires_dist, True) if known else self._read_requires(build)
            self._required[key] = lines
            if is_all and not known:
                self.reader.cache.put(key, Metadata(pin.name, pin.version, lines, (), None, None))
        return self._required[key]

    def _read_requires(self, build: BuildWanted) -> tuple[tuple[str, ...], bool]:
        with self.counting.step(f"asking what the build of {build.release} requires"):
            if not (facts := self._facts(build.pin)).asks:
                return facts.builds, True
            source = self._source(build.pin)
            declared = build_requires(source.project)
            if not build.runs:
                return tuple(dict.fromkeys(declared)), True
            names = list_names(declared)
            if large := next(filter(stack_of, names), None):
                self._note(build, f"asking it takes {large}, which locking doesn't fetch")
                # setuptools before 70.1 asks for wheel
                more = ("wheel",) if "setuptools" in names else ()
                return tuple(dict.fromkeys((*declared, *more))), False
            own = tuple((index.name, index.url) for index in self._indexes(build) if not index.default)
            reader = replace(self.reader, builds=replace(self.index, own=own))
            try:
                lines = reader.ask_backend(source, new_folder(self.resolver.scratch))
                return tuple(dict.fromkeys((*declared, *lines))), True
            except BuildFailed as error:
                module = missing_module(error.output)
                if module is not None and source.is_of_others(module):
                    self._missed[build.pin] = module
                else:
                    self._note(build, build_failure(error.output))
                return tuple(dict.fromkeys(declared)), False

    def _note(self, build: BuildWanted, why: str) -> None:
        message = f"{build.release}: its build can't say here what else it needs, so the lock has what it declares"
        self.notes.append(Finding("info", "build-not-asked", f"{message}: {why}"))

    def _shows(self, build: BuildWanted) -> str | None:
        """Name the PyTorch index of the target's torch where the index of builds has its page."""
        variant, is_held = build.torch
        return variant if is_held or variant in self.index.proxy.live else None

    def _indexes(self, build: BuildWanted) -> list[UvIndex]:
        return self.resolver.uv_indexes.of_builds(build.solved_for, self._shows(build), self.index.proxy)

    def _solve(self, request: Request, build: BuildWanted) -> Iterator[BuildPin]:
        proxy, label = self.index.proxy, f"the build of {build.release}"
        backend = None if self._shows(build) else build.torch[0]
        with causes_behind(proxy), self.resolver.progress.doing(f"resolving what {label} requires"):
            uv, indexes = self.resolver.uv, self._indexes(build)
            packages = compile_request(
                UvCompile(uv, request, indexes, new_folder(self.resolver.scratch), label, proxy, torch_backend=backend)
            )
        for package in sorted(in_own_addresses(packages, proxy, {}), key=lambda package: package.name):
            file = file_to_install(package, request)
            if file is None or not file.file.endswith(".whl") or file.sha256 is None:
                raise avoiding(
                    SpecError(
                        f"{label} requires {package.name} {package.version}, which has no wheel that fits: "
                        "builds build nothing themselves",
                    ),
                    build.pin.name,
                    build.pin.version,
                )
            yield BuildPin(package.name, str(package.version), file.file, file.sha256, file.size)


def _plain(line: str, build: BuildWanted) -> str:
    """Give what a build requires in its target as a PEP 508 line. Raises ToolError, SpecError."""
    try:
        if url := parse_requirement(line).url:
            raise url_requirement_error(url)
        return normalise_requirement(line)
    except ValueError:
        raise SpecError(f"the build of {build.release} requires {line!r}, which is no requirement") from None


def _lacks_wheel(requires: Sequence[str], pins: BuiltWith) -> bool:
    """Return whether the setuptools of a build asks for wheel, which isn't there: before 70.1, of 2024-06-19, its
    backend does. The setuptools that was asked is a newer one where the lock has a day or a bound."""
    versions = {pin.name: pin.version for pin in pins}
    if "wheel" in versions or "setuptools" not in map(requirement_name, requires):
        return False
    return "setuptools" in versions and numbers_in(versions["setuptools"]) < (70, 1)


def against_lock(package: str) -> str:
    """Write the hint for a source whose build can't have the target's packages."""
    return (
        f"if you know what it is built with, say so, and the lock then has it: [pip] "
        f'build-dependencies = {{ {package} = ["torch", …] }}'
    )


def _folder_within(pin: Pin) -> str:
    """Name the folder of a project within the file that its URL names."""
    return (pin.url or "").partition("#subdirectory=")[2]


def _key(pin: Pin, *, runs: bool) -> str:
    """Return the key of what a source's build requires: of its very bytes, and of the Python that its code ran on."""
    bytes_of = str(pin.git) if pin.git else f"{pin.artifact} {(pin.url or '').partition('#')[2]}"
    return cache_key("build-requires", pin.name, bytes_of, PYTHON if runs else "declared")
