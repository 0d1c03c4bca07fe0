"""The conda half of a lock: requests in, pins out. rattler's solver chooses, in this process, without conda.

All targets are solved side by side on one gateway, which reads each channel once. A solution with CPU builds in a CUDA
target is solved once more without them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Container, Coroutine, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.artifacts.conda_archives import CondaArchives, is_panic
from envspec.artifacts.conda_channels import ChannelAddress
from envspec.base.errors import EnvspecError, IndexFailure, Infeasible, ToolError
from envspec.base.finding import Finding, merge_targets
from envspec.base.progress import Progress
from envspec.base.redact import redact, without_credentials
from envspec.base.threads import run_async
from envspec.lock.model import Pin
from envspec.net.limits import LIMITS
from envspec.packages.conda import BuildRecord, foreign_builds, place_of
from envspec.packages.conflict import Unsatisfiable
from envspec.packages.names import conda_name
from envspec.packages.version_numbers import numbers_in
from envspec.resolve.conda.request import (
    CondaRequest,
    best_of_each,
    build_of,
    pins_of_records,
    virtual_packages,
)
from envspec.resolve.pip.request import Preferences, group
from envspec.spec.newer import moment_of
from envspec.spec.way import Way

if TYPE_CHECKING:
    from rattler import Channel, Gateway, GenericVirtualPackage, MatchSpec, RepoDataRecord

# rattler's errors in envspec's words: the kind of failure, one readable message, and a hint.

_LINES = 12
_PREFIX = re.compile(r"^Cannot solve the request because of: ?")
_TREE = re.compile(r"^[\s│├└─]+")
_VERSION = re.compile(r"\d[\w.*]*(?: \| (?:\d[\w.*]*|\.\.\.))*")
_OTHER_PYTHON = re.compile(r"─ python(?:_abi)? .*no candidates were found")
_NO_CANDIDATES = re.compile(r"No candidates were found for ([A-Za-z0-9_.-]+)")
_REDIRECTED = re.compile(r"error following redirect for url \(([^)?]+)")
_CHANNELS = "leave out one channel after the other, and tell who runs it that its repodata is damaged"


def conda_failure(error: Exception, label: str, *, offline: bool) -> EnvspecError:
    """Make envspec's error for one of rattler's. `label` names the targets. Removes credentials."""
    from rattler.exceptions import GatewayError, SolverError

    text = redact(str(error)).strip()
    if isinstance(error, SolverError):
        return unsatisfiable(text, label)
    if isinstance(error, GatewayError):
        message = f"{label}: {'; '.join(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))}"
        if offline:
            return IndexFailure(message, hint="run without --offline once, so that the cache holds the channel")
        if "too many redirects" in text and (redirected := _REDIRECTED.search(text)):
            return IndexFailure(
                f"{label}: {redirected[1]} redirects again and again, and gives no file",
                hint="check the channel's address, and tell who runs it: its redirects go in a circle",
            )
        if re.search(r"\b(401 Unauthorized|403 Forbidden)\b", text):
            return IndexFailure(message, hint="log in with `rattler auth login` or `pixi auth login`")
        return IndexFailure(
            message,
            hint="check the channel's name and the network; a mirror of it goes into envspec's configuration:"
            ' [mirrors] conda-forge = "https://…"',
        )
    return ToolError(f"{label}: the conda solver failed: {text}", hint=_CHANNELS)


def unsatisfiable(text: str, label: str) -> Unsatisfiable:
    """Shorten a solver's report of a conflict, which repeats itself for each version."""
    report = _condense(_PREFIX.sub("", text))
    missing = _NO_CANDIDATES.search(text)
    hint = f"no channel of the spec has that {missing[1]} for this platform" if missing else None
    return Unsatisfiable(f"{label}: conda's packages don't fit together: {report}", hint=hint)


def _condense(report: str) -> str:
    """Drop branches that differ from another one only in versions, and keep at most `_LINES` lines."""
    lines = [line.rstrip() for line in report.splitlines() if line.strip()]
    distinct = _distinct(lines)
    if len(distinct) > _LINES:
        bounds = [line for line in distinct[_LINES:] if "the constraint" in line]
        distinct = [*distinct[:_LINES], f"… and {len(distinct) - _LINES - len(bounds)} more lines like these", *bounds]
    return "\n  ".join(distinct)


def _distinct(lines: list[str]) -> list[str]:
    """List a tree's lines, with only the first of sibling branches with the same texts."""
    branches: dict[str, list[str]] = {}
    while lines:
        end = next((n for n, line in enumerate(lines[1:], 1) if _depth(line) <= _depth(lines[0])), len(lines))
        branch, lines = [lines[0], *_distinct(lines[1:end])], lines[end:]
        branches.setdefault("\n".join(_VERSION.sub("#", _TREE.sub("", line)) for line in branch), branch)
    # a build for another Python is no news, unless there are no others
    telling = [branch for branch in branches.values() if not (len(branch) == 2 and _OTHER_PYTHON.search(branch[1]))]
    return [line for branch in telling or branches.values() for line in branch]


def _depth(line: str) -> int:
    match = _TREE.match(line)
    return match.end() if match else 0


def base_constraints(cuda: str | None, names: Iterable[str]) -> tuple[str, ...]:
    """Make match specs that keep every package to the target's CUDA, or CUDA out of a CPU target.

    `names` are the packages of the spec: one that names CUDA's own packages in a CPU target gets them.
    """
    if cuda:
        return (f"cuda-version {'.'.join(cuda.split('.')[:2])}.*",)
    if any(name.startswith("cuda") for name in names):
        return ()
    return ("cuda-version <0", "cudatoolkit <0")


def to_look_up(solution: Iterable[BuildRecord], cuda: str | None, excused: Container[str]) -> dict[str, str]:
    """List the siblings needed to judge a solution: package → match spec of its builds."""
    specs = {}
    for build in solution:
        if build.name in excused or build.subdir == "noarch" or build.for_cuda == (cuda is not None):
            continue
        marked = build.for_cpu or (cuda is None)
        specs[build.name] = build.name if marked else f"{build.name} =={build.version}"
    return specs


def wrong_variants(
    solution: Iterable[BuildRecord], siblings: Iterable[BuildRecord], cuda: str | None
) -> list[BuildRecord]:
    """Find the builds of a solution for the wrong device if builds for the right one exist.

    A build counts as its package's CPU build if its name says so, or if the same version has a CUDA build that
    isn't older. A package that dropped CUDA, or never had it, is neither.
    """
    by_name: dict[str, list[BuildRecord]] = {}
    for sibling in siblings:
        by_name.setdefault(sibling.name, []).append(sibling)
    wrong = []
    for build in solution:
        same_name = by_name.get(build.name, [])
        if cuda is None:
            if build.for_cuda and any(not other.for_cuda for other in same_name):
                wrong.append(build)
        elif not build.for_cuda:
            right = [other for other in same_name if other.for_cuda]
            same = any(other.version == build.version and other.number >= build.number for other in right)
            if right and (build.for_cpu or same):
                wrong.append(build)
    return wrong


def exempt_packages(solution: Sequence[BuildRecord], chosen: Iterable[str]) -> frozenset[str]:
    """Find the packages whose build the spec chose by name, and the CPU builds that belong with them."""
    tied: dict[str, set[str]] = {}
    cpu = {build.name for build in solution if build.for_cpu}
    for build in solution:
        for depend in build.depends if build.name in cpu else ():
            if (needed := conda_name(depend)) in cpu:
                tied.setdefault(build.name, set()).add(needed)
                tied.setdefault(needed, set()).add(build.name)
    waiting, exempt = list(chosen), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in exempt:
            exempt.add(name)
            waiting += tied.get(name, ())
    return frozenset(exempt)


def constraint(name: str, builds: Iterable[BuildRecord], cuda: str | None) -> str:
    """Make a match spec that admits only a package's builds for the right device."""
    own = [build for build in builds if build.name == name]
    right = [build for build in own if build.for_cuda == (cuda is not None)]
    wrong = [build for build in own if build.for_cuda != (cuda is not None)]
    mark = "cuda" if cuda else "cpu"
    if all(mark in build.string for build in right) and not any(mark in build.string for build in wrong):
        return f"{name} * *{mark}*"
    strings = sorted({build.string for build in right} - {build.string for build in wrong})
    return f'{name}[build="^({"|".join(map(re.escape, strings))})$"]'


def went_back(refused: Iterable[BuildRecord], solution: Iterable[BuildRecord], cuda: str | None) -> list[Finding]:
    """List the packages that have another release than they would have with a build for the wrong device."""
    taken = {build.name: build for build in solution}
    device = f"a build for CUDA {cuda}" if cuda else "a CPU build"
    return [
        Finding(
            "info",
            "passed-over",
            f"{wrong.name} {taken[wrong.name].version} is locked, not {wrong.version}: no release after it has "
            f"{device} that goes with the rest",
            package=wrong.name,
        )
        for wrong in {build.name: build for build in refused}.values()
        if wrong.name in taken and taken[wrong.name].version != wrong.version
    ]


def describe_cuda_builds(
    name: str, builds: Iterable[BuildRecord], cuda: str, python: str, admitted: Sequence[str] = ()
) -> str | None:
    """Describe the existing CUDA builds of a package, the nearest to the asked CUDA first; None without any.

    `admitted` are the versions that the spec admits; empty for all.
    """
    known: dict[str, set[str]] = {}
    fits: list[str] = []
    for build in builds:
        if build.name == name and build.for_cuda and build.cuda and build.runs_on_python(python):
            known.setdefault(build.version, set()).add(build.cuda)
            if build.admits(cuda) and build.version not in fits:
                fits.append(build.version)
    if not known:
        return None
    versions = [version for version in known if version in admitted] or list(known)
    nearest = sorted(versions, key=lambda v: (min(_distance(c, cuda) for c in known[v]), _reverse(v)))[:4]
    listed = "; ".join(f"{v} for CUDA {', '.join(sorted(known[v], key=numbers_in))}" for v in nearest)
    text = f"existing CUDA builds of {name} for Python {python}: {listed}"
    fitting = sorted((v for v in fits if v not in nearest), key=_reverse)
    return text + (f"; {name} {fitting[0]} runs with CUDA {cuda}" if fitting else "")


def _distance(cuda: str, target_cuda: str) -> int:
    (a, b), (c, d) = numbers_in(cuda)[:2], numbers_in(target_cuda)[:2]
    return abs((a - c) * 20 + b - d)


def _reverse(version: str) -> tuple[int, ...]:
    return tuple(-number for number in numbers_in(version))


def _worth_sharing(solved: Mapping[CondaRequest, Solution]) -> dict[CondaRequest, dict[str, str]]:
    """Give the preferences of each request that is worth a second solve: name → version, and the build if it stays.

    Packages that differ between requests may agree on the lowest version that any of them has. CUDA's own packages
    differ by their nature, and versions that the rest of a solution excludes aren't tried. Empty if nothing can move.
    """
    from rattler import MatchSpec

    records = {build: record for solution in solved.values() for build, record in solution.items()}

    def admits(depend: str, build: BuildRecord) -> bool:
        return MatchSpec(depend).matches(records[build])

    lowest: dict[str, BuildRecord] = {}
    for builds in solved.values():
        for build in builds:
            known = lowest.get(build.name)
            if not build.for_cuda and (known is None or _order(build.version) < _order(known.version)):
                lowest[build.name] = build
    again = {}
    for request, builds in solved.items():
        own = {build.name: build for build in builds}
        moving = {
            name: lowest[name]
            for name, build in own.items()
            if not build.for_cuda and name in lowest and lowest[name].version != build.version
        }
        moving = _movable(own, moving, admits)
        if moving:
            unchanged = {name: f"{build.version} {build.string}" for name, build in own.items()}
            again[request] = unchanged | {name: build.version for name, build in moving.items()}
    return again


def _movable(
    own: Mapping[str, BuildRecord], moving: Mapping[str, BuildRecord], admits: Callable[[str, BuildRecord], bool]
) -> dict[str, BuildRecord]:
    """Find the packages that can move together while all others stay."""
    left = dict(moving)
    while left:
        after = {**own, **left}
        stuck = set()
        for build in after.values():
            for depend in build.depends:
                name = conda_name(depend)
                if (name in left or build.name in left) and name in after and not admits(depend, after[name]):
                    # whichever of the two moves is the one that can't
                    stuck.add(build.name if build.name in left else name)
        if not stuck:
            break
        for name in stuck:
            del left[name]
    return left


def _order(version: str) -> tuple[tuple[int, str], ...]:
    parts = re.findall(r"\d+|[a-z]+", version.lower())
    return tuple((int(part[:600]), "") if part.isdecimal() else (-1, part) for part in parts)


_T = TypeVar("_T")
_TORCH = ("pytorch", "libtorch")
"""Packages of which the rules refuse the CPU build in a CUDA target, whatever requires it."""
Records = Sequence["RepoDataRecord"]
Solution = Mapping[BuildRecord, "RepoDataRecord"]


class CondaResolver(Struct, frozen=True, dict=True):
    """A resolver of the conda half of all targets of a spec.

    gateway    rattler's gateway: the cache, the user's network settings and logins
    channels   the addresses of the spec's channels, the most important one first
    offline    the gateway uses no network, and messages say so
    archives   the addresses of the packages themselves
    seconds    the most that an answer may take, with all that the channels are asked for it: rattler has limits on a
               try alone
    """

    gateway: Gateway
    channels: tuple[ChannelAddress, ...]
    offline: bool = False
    progress: Progress = field(default_factory=Progress)
    archives: CondaArchives | None = None
    seconds: float = LIMITS.whole_seconds
    _passed_over: dict[tuple[Pin, ...], tuple[Finding, ...]] = field(default_factory=dict)

    def resolve(
        self, requests: Mapping[str, CondaRequest], keep: Mapping[str, Preferences]
    ) -> dict[str, tuple[Pin, ...]]:
        """Resolve every target: returns pins by target name.

        `keep` has, by target, the packages of the old lock that stay if they still fit: name → version and
        build ("2.7.1 cuda126_mkl_py312_h30b5a27_300").

        Raises Unsatisfiable, Infeasible, IndexFailure or ToolError, each naming the targets.
        """
        groups = group(requests)
        old = {request: next((keep[n] for n in names if n in keep), Preferences()) for request, names in groups.items()}
        return run_async(self._resolve(groups, old))

    async def _resolve(
        self, groups: Mapping[CondaRequest, tuple[str, ...]], old: Mapping[CondaRequest, Preferences]
    ) -> dict[str, tuple[Pin, ...]]:
        solves = {request: _Solve(self, request, ", ".join(names)) for request, names in groups.items()}

        async def solve(request: CondaRequest, versions: Mapping[str, str]) -> Solution:
            with self.progress.solving(groups[request]):
                return await solves[request].run(versions)

        solved = dict(zip(groups, await _together([solve(r, old[r].versions) for r in groups]), strict=True))
        if not any(preferences.versions for preferences in old.values()):
            again = _worth_sharing(solved)
            answers = await _together([solve(request, versions) for request, versions in again.items()])
            solved.update(zip(again, answers, strict=True))
        pins = {request: pins_of_records(solved[request], self.names, request.names) for request in groups}
        for request, own in pins.items():
            # a tried change of the spec may lead to the same pins, and comes later
            self._passed_over.setdefault(own, tuple(solves[request].passed_over))
        return {target: pins[request] for request, targets in groups.items() for target in targets}

    def findings(self, pins: Mapping[str, tuple[Pin, ...]]) -> tuple[Finding, ...]:
        """Report the releases that the solutions of these pins (by target) passed over for their builds."""
        over = (replace(note, targets=(name,)) for name, own in pins.items() for note in self._passed_over.get(own, ()))
        return tuple(merge_targets(over))

    async def answer(self, answer: Coroutine[Any, Any, _T], label: str) -> _T:
        """Wait for an answer of rattler's. `label` names the targets, or the purpose. Raises Unsatisfiable,
        IndexFailure, ToolError."""
        from rattler.exceptions import GatewayError, SolverError

        try:
            return await asyncio.wait_for(answer, self.seconds)
        except asyncio.TimeoutError:
            places = ", ".join(without_credentials(channel.address) for channel in self.channels)
            raise IndexFailure(
                f"{label}: {places} can't be read within {self.seconds:g} s",
                hint="check the network; [timeouts] in envspec's configuration gives a slow channel more time",
            ) from None
        except (GatewayError, SolverError) as error:
            raise conda_failure(error, label, offline=self.offline) from None
        except BaseException as error:
            if not is_panic(error):
                raise
            # the channels' answers are rattler's only input
            message = f"{label}: rattler can't read what one of the channels serves, and says no more"
            raise IndexFailure(message, hint=_CHANNELS) from None

    async def query(self, specs: Sequence[MatchSpec], platforms: Iterable[Any], label: str) -> list[RepoDataRecord]:
        """List every record of the channels that one of the match specs matches. `label` and the errors are those of
        `answer`."""
        if not specs:
            return []
        question = self.gateway.query(
            list(self.known), [*platforms, "noarch"], specs, recursive=False, channel_relations="disabled"
        )
        return [record for records in await self.answer(question, label) for record in records]

    @cached_property
    def known(self) -> list[Channel]:
        """The channels as rattler has them."""
        from rattler import Channel

        return [Channel(channel.address) for channel in self.channels]

    @cached_property
    def names(self) -> dict[str, str]:
        """The channels' names in the lock, by their addresses without logins, as rattler says of a record."""
        return {_bare(channel): address.name for channel, address in zip(self.known, self.channels, strict=True)}


class _Solve(Struct, frozen=True):
    """The solver of one request."""

    resolver: CondaResolver
    request: CondaRequest
    label: str
    passed_over: list[Finding] = field(default_factory=list)

    async def run(self, prefer: Mapping[str, str]) -> Solution:
        """Solve the request: records for the right device, those in `prefer` if they still fit."""
        request = self.request
        specs = [self._match_spec(text) for text in request.solved_specs]
        chosen = [spec.name.normalized for spec in specs if spec.build is not None]
        held = [*base_constraints(request.cuda, request.names), *request.constraints]
        locked = best_of_each(await self._records_to_keep(specs, prefer), request.python)
        wrong: list[BuildRecord] = []
        refused: list[BuildRecord] = []
        siblings: list[BuildRecord] = []
        while True:
            try:
                records = await self._solve(specs, held, locked)
            except Unsatisfiable as conflict:
                if wrong:
                    raise await self._wrong_build(wrong, siblings, conflict) from None
                raise await self._with_nearest(conflict) from None
            solution = {build_of(record): record for record in records}
            builds = list(solution)
            siblings = await self._siblings(builds, exempt_packages(builds, chosen))
            wrong = wrong_variants(builds, siblings, request.cuda)
            if not wrong:
                break
            held += [constraint(build.name, siblings, request.cuda) for build in wrong]
            refused += wrong
        foreign = foreign_builds(builds, request.cuda) if request.cuda else []
        if foreign:
            listed = "; ".join(f"{build} is for CUDA {build.cuda}" for build in foreign)
            raise Infeasible(f"{self.label}: the target is for CUDA {request.cuda}, but {listed}")
        self.passed_over[:] = went_back(refused, builds, request.cuda)
        return solution

    async def _solve(self, specs: Sequence[MatchSpec], held: Iterable[str], locked: Records) -> Records:
        from rattler import solve

        request = self.request
        return await self.resolver.answer(
            solve(
                list(self.resolver.known),
                list(specs),
                gateway=self.resolver.gateway,
                platforms=[request.platform, "noarch"],  # type: ignore[list-item]
                locked_packages=list(locked),
                virtual_packages=_virtual(request),
                exclude_newer=moment_of(request.exclude_newer),
                constraints=[self._match_spec(text) for text in held],
                # a lock's channels are those that the spec names, and no others that these refer to
                channel_relations="disabled",
            ),
            self.label,
        )

    async def _records_to_keep(self, specs: Iterable[MatchSpec], prefer: Mapping[str, str]) -> list[RepoDataRecord]:
        """List the records in `prefer` that the channels still give: rattler takes what it is told is locked from any.

        A package comes from the channel that the spec names for it, or else from the first that has what the spec asks
        for, or the package at all where the spec doesn't ask.
        """
        named = {spec.name.normalized: spec.channel for spec in specs if spec.channel is not None}
        records = await self._records([_exact(name, text) for name, text in prefer.items()])
        place = {_bare(channel): number for number, channel in enumerate(self.resolver.known)}
        lower = sorted({_name(record) for record in records if place.get(_at(record))} - named.keys())
        first: dict[str, int] = {}
        requested = [text for text in self.request.solved_specs if conda_name(text) in lower]
        for record in await self._records([*requested, *set(lower).difference(map(conda_name, requested))]):
            first[_name(record)] = min(place.get(_at(record), 0), first.get(_name(record), len(place)))
        return [
            record
            for record in records
            for channel in [named.get(_name(record))]
            if (_bare(channel) == _at(record) if channel else place.get(_at(record), 0) <= first.get(_name(record), 0))
        ]

    async def _records(self, specs: Iterable[str]) -> list[RepoDataRecord]:
        """List every record of the channels that one of the match specs matches."""
        return await self.resolver.query(list(map(self._match_spec, specs)), [self.request.platform], self.label)

    async def _siblings(self, builds: Iterable[BuildRecord], chosen: Container[str]) -> list[BuildRecord]:
        needed = to_look_up(builds, self.request.cuda, chosen)
        return [build_of(record) for record in await self._records(needed.values())]

    def _match_spec(self, text: str) -> MatchSpec:
        """Parse a match spec, with a channel of the spec at its address on this machine."""
        from rattler import MatchSpec

        channel, separator, rest = text.partition("::")
        if separator:
            for known, address in zip(self.resolver.known, self.resolver.channels, strict=True):
                if place_of(text)[0] == address.name:
                    text = f"{known.base_url.rstrip('/')}{channel.removeprefix(address.name)}::{rest}"
        return MatchSpec(text)

    async def _with_nearest(self, conflict: Unsatisfiable) -> Unsatisfiable:
        """Add to a conflict the spec's match specs without bounds, and the existing CUDA builds of its packages."""
        bounded = dict.fromkeys(conda_name(spec) for spec in self.request.specs if conda_name(spec) != spec)
        conflict.ways = tuple(Way(conda=name, note="without its bounds") for name in bounded if "::" not in name)
        if self.request.cuda is None:
            return conflict
        names = [name for name in self.request.names if not name.startswith("cuda")]
        builds = [build_of(record) for record in await self._records(names)]
        conflict.hint = await self._existing(names, builds) or conflict.hint
        return conflict

    async def _wrong_build(
        self, wrong: Sequence[BuildRecord], siblings: Sequence[BuildRecord], conflict: Unsatisfiable
    ) -> Infeasible:
        cuda = self.request.cuda
        if cuda is None:
            return Infeasible(
                f"{self.label}: {'; '.join(f'{build} is a CUDA build' for build in wrong)}, and this is a CPU target",
                hint=conflict.message.partition(": ")[2],
            )
        # libtorch and its like only follow what was asked for
        names = [build.name for build in wrong if build.name in self.request.names] or [wrong[0].name]
        existing = await self._existing(names, siblings)
        reason = conflict.message.partition(": ")[2]
        cpu = "; ".join(f"{build} is the CPU build" for build in wrong if build.name in names)
        error = Infeasible(
            f"{self.label}: {cpu}, the target is for CUDA {cuda}, and no CUDA build fits: {reason}",
            hint=existing or f"the channels have no CUDA build of {names[0]} for Python {self.request.python}",
        )
        error.ways = () if names[0] in _TORCH else (Way(conda=f"{names[0]} * *cpu*"),)
        return error

    async def _existing(self, names: Sequence[str], builds: Sequence[BuildRecord]) -> str | None:
        """Describe the existing CUDA builds of these packages, of versions that the spec admits if there are any."""
        assert self.request.cuda is not None
        specs = [_without_build(spec) for spec in self.request.specs if conda_name(spec) in names]
        admitted = [build_of(record) for record in await self._records(specs)]
        texts = []
        for name in names:
            versions = [build.version for build in admitted if build.name == name]
            text = describe_cuda_builds(name, builds, self.request.cuda, self.request.python, versions)
            texts += [text] if text else []
        return ". ".join(texts) or None


async def _together(jobs: Sequence[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Run jobs side by side. Raises the first failure, in the jobs' order, once all have ended."""
    answers = await asyncio.gather(*jobs, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]


def _name(record: RepoDataRecord) -> str:
    return record.name.normalized


def _at(record: RepoDataRecord) -> str:
    return without_credentials(record.channel or "").rstrip("/")


def _bare(channel: Channel) -> str:
    return without_credentials(channel.base_url).rstrip("/")


def _exact(name: str, text: str) -> str:
    version, _, build = text.partition(" ")
    return f"{name} =={version} {build}".rstrip()


def _without_build(spec: str) -> str:
    """Loosen a match spec so that it admits any build of the same versions."""
    plain = spec.partition("[")[0].split()
    return " ".join(plain[:2])


def _virtual(request: CondaRequest) -> list[GenericVirtualPackage]:
    from rattler import GenericVirtualPackage, PackageName, Version
    from rattler.package import BuildString

    return [
        GenericVirtualPackage(PackageName(name), Version(version), BuildString(build))
        for name, version, build in virtual_packages(request)
    ]
