"""The environments that sources are built in: what their builds require, resolved to wheels with their hashes.

A source declares what its build needs in `[build-system] requires`, and its backend may ask for more (PEP 517's
`get_requires_for_build_wheel`), which runs its code. What these lead to is solved as a target's packages are: for its
Python, platform and glibc, and not newer than its lock. All of it are wheels of the default index: no build builds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.errors import AnswerNo, EnvspecError, InternalError, SpecError, about
from envspec.lock.model import BuildPin, Pin
from envspec.net.index_proxy.pages import Upstream
from envspec.packages.names import normalise_requirement
from envspec.packages.requirement import parse_requirement
from envspec.record import dataclass, replace
from envspec.resolve.pip.answer import in_own_addresses
from envspec.resolve.pip.build_requirements import BuildIndex, build_requirements, built_from_elsewhere
from envspec.resolve.pip.compile import UvIndex, compile_request
from envspec.resolve.pip.describe import Describer
from envspec.resolve.pip.metadata import Metadata, cache_key
from envspec.resolve.pip.pins import installed
from envspec.resolve.pip.reading import Counting
from envspec.resolve.pip.request import Preferences, Request
from envspec.resolve.pip.source import PYTHON, BuildFailed, SourceReader
from envspec.resolve.pip.unbuilt import missing_module
from envspec.rules.finding import Finding
from envspec.uv.errors import build_failure

if TYPE_CHECKING:
    from envspec.resolve.pip.solve import PipResolver


@dataclass(frozen=True)
class BuildWanted:
    """A source that a target builds.

    request      of the target's pip half
    runs         its code may run, so its backend is asked, too
    constraints  PEP 508 lines that bound what its build requires
    """

    pin: Pin
    request: Request
    runs: bool
    constraints: tuple[str, ...] = ()

    @property
    def solved_for(self) -> Request:
        """Make the request of what the build requires, but for the requirements."""
        asked = self.request
        return Request(
            asked.platform,
            asked.python,
            asked.glibc,
            (),
            constraints=self.constraints,
            exclude_newer=asked.exclude_newer,
            exempt=asked.exempt,
        )


BuiltWith = tuple[BuildPin, ...]


def build_environments(resolver: PipResolver, wanted: Sequence[BuildWanted]) -> dict[BuildWanted, BuiltWith]:
    """Resolve the environments of sources that `resolver` has just pinned.

    Raises Unsatisfiable, IndexFailure or ToolError, each naming the source; SpecError for one that requires a package
    without a wheel, or a file by its URL.
    """
    if not wanted:
        return {}
    numbers = itertools.count()

    def folder() -> Path:
        path = resolver.scratch / f"builds-{next(numbers)}"
        path.mkdir(parents=True)
        return path

    counting = Counting(resolver.progress)
    describe = Describer(resolver.wheels, resolver.sources, folder(), counting)
    with build_requirements(resolver.pages, describe, resolver.default_index, resolver.cache) as builds:
        reader = replace(resolver.sources, builds=builds)
        solving = _Builds(resolver, reader, builds, folder, counting)
        return {one: solving.environment(one) for one in wanted}


@dataclass
class _Builds:
    resolver: PipResolver
    reader: SourceReader
    index: BuildIndex
    folder: Callable[[], Path]
    counting: Counting
    _asked: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _solved: dict[Request, BuiltWith] = field(default_factory=dict)

    def environment(self, wanted: BuildWanted) -> BuiltWith:
        name = f"{wanted.pin.name} {wanted.pin.version}"
        with about(wanted.pin.name):
            requires = tuple(self._lines(wanted, name))
            if not requires:
                return ()
            request = replace(wanted.solved_for, requirements=requires)
            if request not in self._solved:
                self._solved[request] = tuple(self._solve(request, name))
            return self._solved[request]

    def _lines(self, wanted: BuildWanted, name: str) -> Iterator[str]:
        """Yield what a build requires in its target, as PEP 508 lines."""
        for line in self._requires(wanted, name):
            try:
                requirement = parse_requirement(line)
                if requirement.url:
                    raise built_from_elsewhere(requirement.url)
                yield normalise_requirement(line)
            except ValueError:
                raise SpecError(
                    f"the build of {name} requires {line!r}, which is no requirement",
                    hint="choose another release, or one that has a wheel",
                ) from None

    def _requires(self, wanted: BuildWanted, name: str) -> tuple[str, ...]:
        pin = wanted.pin
        file = self.resolver.inspector.places.file(pin)
        repository = self.resolver.inspector.places.repository(pin)
        key = _key(pin, runs=wanted.runs)
        if key in self._asked:
            return self._asked[key]
        known = self.reader.cache.get(key)
        if known is not None:
            return known.requires_dist
        failed: BuildFailed | None = None
        with self.counting.one(f"asking what the build of {name} requires"):
            if repository is not None:
                source = self.reader.git_source(*repository, self.folder())
            elif file is not None:
                within = (pin.url or "").partition("#subdirectory=")[2]
                told = None if within else self.reader.all_it_requires(file, pin.name, pin.version)
                if told is not None:
                    return self._keep(key, pin, told)
                source = self.reader.sdist_source(file, self.folder(), within)
            else:
                raise InternalError(f"nothing is known of where the source of {name} lies")
            declared = source.build_requires()
            asked: tuple[str, ...] = ()
            if wanted.runs:
                try:
                    asked = self.reader.asked_by_backend(source, self.folder())
                except BuildFailed as error:
                    failed = error
                    self.resolver.notice(_not_asked(name, error))
        requires = tuple(dict.fromkeys((*declared, *asked)))
        return self._keep(key, pin, requires, known=failed is None)

    def _keep(self, key: str, pin: Pin, requires: tuple[str, ...], *, known: bool = True) -> tuple[str, ...]:
        self._asked[key] = requires
        if known:
            self.reader.cache.put(key, Metadata(pin.name, pin.version, requires, (), None, None))
        return requires

    def _solve(self, request: Request, name: str) -> Iterator[BuildPin]:
        proxy = self.index.proxy
        url = proxy.index(Upstream(self.index.default))
        label = f"the build of {name}"
        try:
            with self.resolver.progress.doing(f"resolving what {label} requires"):
                found = compile_request(
                    self.resolver.uv,
                    request,
                    preferences=Preferences(),
                    indexes=[UvIndex("pypi", url, default=True)],
                    direct={},
                    folder=self.folder(),
                    label=label,
                    proxy_host=proxy.host,
                )
        except EnvspecError as error:
            if proxy.failures and not isinstance(error, AnswerNo):
                # uv saw the proxy fail; what failed is behind it
                raise proxy.failures[-1] from None
            error.message = proxy.plain(error.message)
            raise
        for package in sorted(in_own_addresses(found, proxy, {}), key=lambda one: one.name):
            file = installed(package, request)
            if file is None or not file.file.endswith(".whl") or file.sha256 is None:
                raise SpecError(
                    f"{label} requires {package.name} {package.version}, which has no wheel that fits: builds build "
                    "nothing themselves",
                    hint="choose a release that has a wheel, or name what the build needs: [pip] build-dependencies",
                )
            yield BuildPin(package.name, str(package.version), file.file, file.sha256, file.size)


def _key(pin: Pin, *, runs: bool) -> str:
    """Return the key of what a source's build requires: of its very bytes, and of the Python that its code ran on."""
    bytes_of = str(pin.git) if pin.git else f"{pin.artifact} {(pin.url or '').partition('#')[2]}"
    return cache_key("build-requires", pin.name, bytes_of, PYTHON if runs else "declared")


def _not_asked(name: str, failed: BuildFailed) -> Finding:
    module = missing_module(failed.output)
    why = f"it imports {module}, which the build doesn't have" if module else build_failure(failed.output)
    message = f"{name}: its build can't say here what else it needs, so the lock has what it declares: {why}"
    return Finding("info", "build-not-asked", message)
