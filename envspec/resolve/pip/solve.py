"""The pip half of a lock: requests in, pins out. uv chooses, envspec reads the artifacts' own METADATA, and `packaging`
judges the result.

Equal requests are solved once. The request of the most targets is solved first. The others prefer its versions, and are
then solved side by side: docs/resolution.md has measurements against uv's universal mode.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base.errors import AnswerNo, EnvspecError, Way
from envspec.base.finding import Finding, merge_targets
from envspec.base.progress import Progress
from envspec.facts import torch_builds
from envspec.facts.cuda_stack import is_toolkit
from envspec.facts.wheels import FAMILY
from envspec.lock.model import Pin
from envspec.net.index_proxy.pages import Pages
from envspec.net.index_proxy.server import IndexProxy, open_proxy
from envspec.net.remote_file import FileHashes
from envspec.net.simple_page import LivePages
from envspec.resolve.pip.answer import (
    Describer,
    Resolution,
    answer_together,
    attribute_to,
    prefix,
    raise_again,
    refuse_two_answers,
    sources_needed,
)
from envspec.resolve.pip.behind import Behind, behind_findings, find_behind
from envspec.resolve.pip.confusion import refuse_unsaid, refuse_unsaid_builds
from envspec.resolve.pip.direct import DirectReader
from envspec.resolve.pip.indexes import UvIndexes
from envspec.resolve.pip.metadata import MetadataReader
from envspec.resolve.pip.newest import (
    Releases,
    find_newest,
    is_behind,
)
from envspec.resolve.pip.notes import PipAnswer, Solution, last_solutions, notes_of
from envspec.resolve.pip.pins import in_rounds, pins_of
from envspec.resolve.pip.published import Published
from envspec.resolve.pip.reading import Counting, Reading
from envspec.resolve.pip.request import (
    Preferences,
    Request,
    group,
    refuse_conflicts,
    requests_of,
    with_constraints,
)
from envspec.resolve.pip.request_solver import Preferred, RequestSolver, TorchIndexes
from envspec.resolve.pip.reviews import addresses_of
from envspec.resolve.pip.sharing import (
    after,
    first_of,
    last_of,
    localise,
    newest_torch,
    public,
    to_share,
    versions_of,
    with_torch,
)
from envspec.resolve.pip.source import SourceReader, build_requirements
from envspec.resolve.torch_index import choice as torch_index, holes as torch_holes
from envspec.resolve.torch_index.choice import TorchIndex, choose_for_pin
from envspec.resolve.uv.answer import Found
from envspec.resolve.uv.program import Processes, Uv
from envspec.resolve.wheels.inspector import WheelInspector

_AT_ONCE = 4
"""Requests at a time, on small machines too: uv waits for pages as much as it computes."""


Prefer = Callable[[TorchIndex], Preferences]
"""Gives the versions to prefer, as an index of torch's names them."""


class Serving(Struct, frozen=True):
    """The proxy and the readers that all questions of one resolution share."""

    proxy: IndexProxy
    reading: Reading
    direct: DirectReader


class PipResolver(Struct, frozen=True):
    """A resolver of the pip half of all targets of a spec.

    indexes        the spec's named indexes: name → URL, the user's mirror of it where there is one
    default_index  PyPI's address, with the user's credentials if there are any; None for uv's own default
    flat           the flat indexes: name and page → URL
    hashes         of files whose page says none
    live_pages     pages of the user's mirror of a PyTorch index variant; None without a mirror
    refresh        ask the live PyTorch index besides the shipped facts
    notice         takes notes about skipped releases
    pages          pages of all indexes, for the index proxy
    cache          envspec's cache, where the index proxies keep the secret of their addresses
    scratch        gives an empty folder that goes when the resolution ends
    inspector      is told where the files of the pins lie, and reads their wheels
    """

    uv: Uv
    wheels: MetadataReader
    sources: SourceReader
    pages: Pages
    cache: Path
    scratch: Path
    inspector: WheelInspector
    indexes: Mapping[str, str] = field(default_factory=dict)
    flat: Mapping[tuple[str, str], str] = field(default_factory=dict)
    hashes: FileHashes | None = None
    default_index: str | None = None
    live_pages: Callable[[str], LivePages | None] = lambda variant: None
    refresh: bool = False
    progress: Progress = field(default_factory=Progress)
    notice: Callable[[Finding], None] = lambda finding: None
    _solutions: dict[str, list[Solution]] = field(default_factory=dict)
    _chosen: dict[Request, TorchIndex] = field(default_factory=dict)
    _running: list[Processes] = field(default_factory=list)

    def resolve(self, requests: Mapping[str, Request], keep: Mapping[str, Preferences]) -> dict[str, tuple[Pin, ...]]:
        """Resolve every target: returns pins by target name.

        `keep` has, by target, the versions of the old lock that stay if they still fit.

        That nothing satisfies them is said of pages as they are now, not as they were cached some minutes ago.

        Raises SourcesNeeded, Unsatisfiable, Infeasible, IndexFailure, ToolError or SpecError, each naming the target.
        """
        return self._for_one_question()._resolve(requests, keep)

    def _for_one_question(self) -> PipResolver:
        """Give the resolver for one question: one that fails ends its own programs, and no others."""
        uv = replace(self.uv, processes=Processes())
        sources = replace(self.sources, processes=Processes())
        self._running[:] = uv.processes, sources.processes
        return replace(self, uv=uv, sources=sources)

    def stop(self) -> None:
        """End the programs of the question that was begun last."""
        for processes in self._running:
            processes.stop()

    def is_behind(self, request: Request, versions: Mapping[str, str]) -> bool:
        """Say whether versions leave something far behind that a request asks for itself. Raises IndexFailure."""
        releases, taken = self._uv_indexes.releases(request), {**versions}
        newest = find_newest(request, releases)
        admits = torch_index.torch_request(request).admits
        held = torch_builds.lockable(request.platform, torch_builds.variant_of(request.cuda))
        # of torch the target's own CUDA decides, where it has one within the bounds
        in_time = (one for one in held if admits(one) and torch_index.in_time(one, request.not_after("torch")))
        if "torch" in newest:
            newest["torch"] = max(in_time, key=torch_builds.order, default=newest["torch"])

        def is_far(name: str, version: str) -> bool:
            by_version = {one.version: one for one in releases(name)}
            own, best = by_version.get(taken.get(name, "").partition("+")[0]), by_version.get(version)
            return own is not None and best is not None and is_behind(own, best, name, by_version.values())

        return any(
            is_far(name, version)
            for name, version in newest.items()
            if name not in (*FAMILY[1:], "triton") and not is_toolkit(name)
        )

    def _resolve(self, requests: Mapping[str, Request], keep: Mapping[str, Preferences]) -> dict[str, tuple[Pin, ...]]:
        for name, request in requests.items():
            with attribute_to((name,)):
                refuse_conflicts(name, request)
        groups = group(requests)
        counting = Counting(self.progress)
        with self._serving(groups, counting) as (proxy, sources):
            allowed = _buildable_packages(groups)
            addresses = addresses_of(groups)
            reading = Reading(self.wheels, sources, proxy, allowed, addresses, _below(self.scratch), counting)
            direct = DirectReader(self.cache, self.pages.files, self.wheels, sources, _below(self.scratch), counting)
            serving = Serving(proxy, reading, direct)
            try:
                refuse_unsaid_builds(groups, self._uv_indexes.has)
                answered: dict[Request, PipAnswer] = {}

                def solve_round(asked: Mapping[str, Request]) -> dict[str, tuple[Found, ...]]:
                    # a round without a solution stopped uv
                    self.uv.processes.begin()
                    groups = group(asked)
                    answered.clear()
                    answered.update(self._solve_all(groups, keep, serving))
                    return {name: answered[request].found for request, names in groups.items() for name in names}

                groups = group(in_rounds(requests, keep, solve_round, self._uv_indexes.variants_in))
                answers = {request: one.resolution for request, one in answered.items()}

                def again(solved: Request, asked: Request) -> Resolution:
                    index = TorchIndexes.of(answered[solved].index)
                    names, prefer = groups[solved], partial(_same, Preferences())
                    return self._solve(asked, names, index, prefer, {}, serving).resolution

                refuse_unsaid(answers, groups, self._uv_indexes.has, again)
                refuse_two_answers(answers, groups, reading)
                needed = sources_needed(answers, groups, self.sources.static, self._uv_indexes.releases)
                of = self._uv_indexes.releases
                solved = {
                    request: pins_of(
                        one.found, one.edges, request, answered[request].index, proxy, reading, of(request)
                    )
                    for request, one in answers.items()
                }
            except BaseException:
                self.sources.processes.stop()
                raise
            finally:
                reading.close()
        self.inspector.places.add(solved, {request: one.found for request, one in answers.items()})
        for request, names in groups.items():
            kept, files = first_of(keep, names).versions, direct.of(request)
            one = Solution(request, answered[request], kept, files, solved[request])
            for name in names:
                self._solutions.setdefault(name, []).append(one)
        pins = {name: solved[request] for request, names in groups.items() for name in names}
        if needed is not None:
            # a wheel of what stays behind comes before a source of what is there for that
            glibcs = {
                each.cause.glibc: each
                for name in needed.targets
                for each in self._behind(self._solutions[name][-1])
                if each.name in needed.about and each.cause.glibc
            }
            ways = (Way(glibc=glibc, bounds=(f"{one.name}>={one.newest}",)) for glibc, one in glibcs.items())
            needed.ways = (*ways, *needed.ways)
            raise needed.of(pins)
        return pins

    def findings(self, pins: Mapping[str, tuple[Pin, ...]], others: Iterable[Finding] = ()) -> tuple[Finding, ...]:
        """Give what there is to say of the solutions that gave these pins (by target), beside what `others` say."""
        solutions = last_solutions(self._solutions, pins)
        hashed = self.hashes.hashed_urls() if self.hashes else ()
        notes = [*notes_of(solutions, self._uv_indexes.releases, hashed, self.sources.static)]
        behind: list[Finding] = []
        for one, names in solutions.values():
            notes += [replace(finding, targets=names) for finding in one.answer.findings]
            beside = [other for other in (*others, *notes) if {*names} & {*other.targets}]
            lags = behind_findings(self._behind(one), one.request, beside)
            behind += [replace(finding, targets=names) for finding in lags]
        return (*notes, *merge_targets(behind))

    def _behind(self, one: Solution) -> tuple[Behind, ...]:
        """Find what stays behind in a solution."""
        index, answer = one.answer.index, one.answer
        request = with_constraints(one.request, index.constraints)
        case = self._published.case(request, index, answer.found, one.kept, lambda: answer.resolution.lines)
        return tuple(find_behind(case, index, answer.shared))

    def releases(self, request: Request) -> Releases:
        """List a package's releases on the index that it comes from, as a request's target sees them."""
        return self._uv_indexes.releases(request)

    @contextmanager
    def _serving(
        self, groups: Mapping[Request, tuple[str, ...]], counting: Counting
    ) -> Iterator[tuple[IndexProxy, SourceReader]]:
        """Give the index proxy that answers for these requests, and the reader of their sources."""
        live = self._live(groups)
        with self._building(_buildable_packages(groups), counting) as sources:
            describe = Describer(self.wheels, sources, _below(self.scratch), counting, self.hashes)
            provided = requests_of(groups)
            with open_proxy(live, provided, pages=self.pages, metadata=describe, folder=self.cache) as proxy:
                yield proxy, sources

    def _index(self, request: Request) -> TorchIndex:
        """Choose the index of the torch family, once for a request. Raises Infeasible, IndexFailure."""
        if request not in self._chosen:
            variants = partial(self._uv_indexes.variant_versions, request, "torch")
            self._chosen[request] = torch_index.choose(request, refresh=self.refresh, variants=variants)
        return self._chosen[request]

    def _live(self, groups: Mapping[Request, tuple[str, ...]]) -> dict[str, LivePages]:
        """Give the pages of the user's mirrors of those PyTorch indexes that are asked besides the facts."""
        chosen = []
        for request, names in groups.items():
            with attribute_to(names):
                chosen.append(self._index(request))
        indexes = [index for index in chosen if index.live and index.variant]
        live = {str(index.variant): self.live_pages(str(index.variant)) for index in indexes}
        return {variant: pages for variant, pages in live.items() if pages}

    def _solve_all(
        self, groups: Mapping[Request, tuple[str, ...]], keep: Mapping[str, Preferences], serving: Serving
    ) -> dict[Request, PipAnswer]:
        chosen = {request: self._index(request) for request in groups}
        pinned = {request: newest_torch(keep, names) for request, names in groups.items()}
        torch = {r: TorchIndexes(choose_for_pin(r, one, pinned[r]), one, pinned[r]) for r, one in chosen.items()}
        old = {request: first_of(keep, names) for request, names in groups.items()}
        last = {request: last_of(keep, names) for request, names in groups.items()}

        def job(request: Request, indexes: TorchIndexes, prefer: Prefer) -> Callable[[], PipAnswer]:
            return partial(self._solve, request, groups[request], indexes, prefer, last[request], serving)

        first, *others = groups
        pool = ThreadPoolExecutor(max(_AT_ONCE, os.cpu_count() or 1))
        try:
            if old[first].versions:
                shared = public(old[first])
                kept = {r: partial(localise, old[r].over(shared)) for r in groups}
                return answer_together(pool, {r: job(r, torch[r], kept[r]) for r in groups}, groups)
            # without an old lock the first answer sets the versions that the others shall share
            releases = torch_holes.newest_releases({request: one.first for request, one in torch.items()})
            prefer = {request: partial(with_torch, releases.get(request)) for request in groups}
            try:
                begun = job(first, torch[first], prefer[first])()
            except AnswerNo as error:
                jobs: dict[Request, Callable[[], PipAnswer]] = {first: partial(raise_again, error)}
                jobs |= {r: job(r, torch[r], prefer[r]) for r in others}
                return answer_together(pool, jobs, groups)
            apart = FAMILY if len(set(releases.values())) > 1 else ()
            following = {r: job(r, torch[r], after(begun.found, first, prefer[r], localised=not apart)) for r in others}
            answers = {first: begun, **answer_together(pool, following, groups)}
            again = to_share({r: one.found for r, one in answers.items()}, apart)
            sharing = {r: job(r, TorchIndexes.of(answers[r].index), partial(_same, one)) for r, one in again.items()}
            met = answer_together(pool, sharing, groups)
            # an older release that has lost or won dependencies is another answer, not the same one shared
            same = {
                r: one
                for r, one in met.items()
                if versions_of(one.found).keys() == versions_of(answers[r].found).keys()
            }
        except BaseException:
            self.uv.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        return {**answers, **same}

    def _solve(
        self,
        request: Request,
        names: tuple[str, ...],
        torch: TorchIndexes,
        prefer: Prefer,
        last: Mapping[str, str],
        serving: Serving,
    ) -> PipAnswer:
        """Solve a request for targets of these names. Raises what `resolve` raises."""
        indexes, variant = self._uv_indexes, torch.chosen.variant

        @cache
        def give_preferred(index: TorchIndex) -> Preferred:
            return Preferred.of(indexes.with_builds(request, prefer(index)), last)

        with self.progress.solving(names), attribute_to(names):
            label = ", ".join(names)
            try:
                files = serving.direct.of(request)
            except EnvspecError as error:
                raise prefix(error, label) from None
            return RequestSolver(
                request,
                label,
                self.uv,
                indexes,
                self._published,
                serving.proxy,
                serving.reading,
                torch,
                variant is not None and self.live_pages(variant) is None,
                give_preferred,
                files,
                _below(self.scratch),
                self.hashes,
            ).solve()

    @contextmanager
    def _building(self, allowed: frozenset[str], counting: Counting) -> Iterator[SourceReader]:
        """Give the reader of sources; where any may be built, with an index for what that takes."""
        if not allowed:
            yield self.sources
            return
        shown = Describer(self.wheels, self.sources, _below(self.scratch), counting)
        with build_requirements(self.pages, shown, self.default_index, self.cache) as builds:
            yield replace(self.sources, builds=builds)

    @property
    def _published(self) -> Published:
        return Published(self._uv_indexes, self.wheels)

    @property
    def _uv_indexes(self) -> UvIndexes:
        return UvIndexes(self.pages, self.indexes, self.flat, self.default_index)


def _same(preferences: Preferences, index: TorchIndex) -> Preferences:
    """Prefer the same versions in every index of torch's."""
    return preferences


def _buildable_packages(groups: Iterable[Request]) -> frozenset[str]:
    """List the packages that may be built for some target."""
    return frozenset(name for request in groups for name in request.allow_source)


def _below(scratch: Path) -> Path:
    """Make a new folder, as a resolver may resolve several times."""
    return Path(tempfile.mkdtemp(dir=scratch))
