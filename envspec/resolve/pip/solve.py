"""The pip half of a lock: requests in, pins out. uv chooses, envspec reads the artifacts' own METADATA, and `packaging`
judges the result.

Equal requests are solved once. The request of the most targets is solved first. The others prefer its versions, and are
then solved side by side.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.artifacts.metadata import MetadataReader
from envspec.artifacts.sdist.source import SourceReader, build_requirements
from envspec.artifacts.wheel_inspector import WheelInspector
from envspec.base.errors import AnswerNo
from envspec.base.finding import Finding, merge_targets
from envspec.base.progress import Counting, Progress
from envspec.base.threads import Pool
from envspec.facts.cuda_stack import is_toolkit
from envspec.facts.wheels import FAMILY
from envspec.lock.model import Pin
from envspec.net.index_proxy.pages import Pages
from envspec.net.index_proxy.server import open_proxy
from envspec.net.remote_file import FileHashes
from envspec.net.simple_page import LivePages
from envspec.resolve.pip.answer import (
    Describer,
    Resolution,
    answer_together,
    attribute_to,
    raise_again,
    refuse_two_answers,
    sources_needed,
)
from envspec.resolve.pip.behind import Behind, behind_findings, find_behind
from envspec.resolve.pip.confusion import refuse_unsaid, refuse_unsaid_builds
from envspec.resolve.pip.direct import DirectReader
from envspec.resolve.pip.indexes import UvIndexes
from envspec.resolve.pip.newest import Releases, admitted_releases, is_behind
from envspec.resolve.pip.notes import PipAnswer, Solution, notes_of
from envspec.resolve.pip.pins import file_to_install, pins_of
from envspec.resolve.pip.problem import Subject, Unreviewed
from envspec.resolve.pip.published import Published
from envspec.resolve.pip.reading import Reading
from envspec.resolve.pip.request import (
    Preferences,
    Request,
    group,
    refuse_conflicts,
    requests_of,
    with_constraints,
)
from envspec.resolve.pip.reviews import addresses_of
from envspec.resolve.pip.sharing import (
    after,
    first_of,
    localise,
    merge_pins,
    public,
    to_share,
    versions_of,
    with_torch,
)
from envspec.resolve.pip.sources_needed import SourcesNeeded
from envspec.resolve.pip.target_solver import Prefer, Serving, TargetSolver, TorchIndexes
from envspec.resolve.torch_index import choice as torch_index, holes as torch_holes
from envspec.resolve.torch_index.choice import TorchIndex, choose_for_pin
from envspec.resolve.uv.program import Processes, Uv
from envspec.spec.way import Way

_AT_ONCE = 4
"""Requests at a time, on small machines too: uv waits for pages as much as it computes."""


_T = TypeVar("_T")
_S = TypeVar("_S", bound=Subject)
Answered = tuple[dict[str, _S], SourcesNeeded | None]
"""Targets with their pins, by name, and the sources that those need."""


class PipResolver(Struct, frozen=True, dict=True):
    """A resolver of the pip half of all targets of a spec.

    indexes        the spec's named indexes: name → URL, the user's mirror of it where there is one
    default_index  PyPI's address, with the user's credentials if there are any; None for uv's own default
    flat           the flat indexes: name and page → URL
    hashes         of files whose page says none
    live_pages     pages of the user's mirror of a PyTorch index variant; None without a mirror
    refresh        ask the live PyTorch index besides the shipped facts
    pages          pages of all indexes, for the index proxy
    cache          envspec's cache, where the index proxies keep the secret of their addresses
    scratch        gives an empty folder that goes when the resolution ends
    inspector      gets the addresses of the pins' files, and reads their wheels
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
    _solutions: list[Solution] = field(default_factory=list)
    _chosen: dict[Request, TorchIndex] = field(default_factory=dict)
    _running: list[Processes] = field(default_factory=list)

    def resolve(self, targets: Mapping[str, _S], keep: Mapping[str, Preferences]) -> Answered[_S]:
        """Resolve targets, by name; gives them with their pins, and the sources that they need.

        `keep` has, by target, the versions of the old lock that stay if they still fit.

        Before it reports a conflict, it asks whether cached pages have changed.

        Raises Unsatisfiable, Infeasible, IndexFailure, ToolError or SpecError, each naming the target.
        """
        return self._for_one_question()._resolve(targets, keep)

    def _for_one_question(self) -> PipResolver:
        """Give the resolver for one question: one that fails ends its own programs, and no others."""
        uv = replace(self.uv, processes=Processes())
        sources = replace(self.sources, processes=Processes())
        self._running[:] = uv.processes, sources.processes
        return replace(self, uv=uv, sources=sources)

    def stop(self) -> None:
        """End the programs of the latest question."""
        for processes in self._running:
            processes.stop()

    def is_behind(self, request: Request, versions: Mapping[str, str]) -> bool:
        """Return whether versions leave a package of the request's own far behind. Raises IndexFailure."""
        releases = self.releases(request)
        # of torch the target's own CUDA decides, where it has one within the bounds
        held = torch_index.lockable_releases(request, request.cuda)

        def is_far(name: str) -> bool:
            by_version = {release.version: release for release in releases(name)}
            admitted = (release.version for release in admitted_releases(name, request, releases))
            newest = held[-1] if name == "torch" and held else next(admitted, "")
            own, best = by_version.get(versions.get(name, "").partition("+")[0]), by_version.get(newest)
            return own is not None and best is not None and is_behind(own, best, name, by_version.values())

        names = (name for name in request.named if name not in (*FAMILY[1:], "triton") and not is_toolkit(name))
        return any(map(is_far, names))

    def _resolve(self, targets: Mapping[str, _S], keep: Mapping[str, Preferences]) -> Answered[_S]:
        requests = {name: target.request for name, target in targets.items() if target.request is not None}
        for name, request in requests.items():
            with attribute_to((name,)):
                refuse_conflicts(name, request)
        groups = group(requests)
        with self._serving(groups, Counting(self.progress)) as serving:
            try:
                refuse_unsaid_builds(groups, self.uv_indexes.has)
                answers = self._solve_all(targets, groups, keep, serving)
                solved = group({name: answer.request for name, answer in answers.items()})
                resolutions = {request: answers[names[0]].resolution for request, names in solved.items()}

                def again(solved: Request, widened: Request) -> Resolution:
                    return self._ask_more(answers, solved, widened, serving)

                refuse_unsaid(resolutions, solved, self.uv_indexes.has, again)
                refuse_two_answers(resolutions, solved, serving.reading)
                needed = sources_needed(resolutions, solved, self.sources.static, self.uv_indexes.releases)
            except BaseException:
                self.sources.processes.stop()
                raise
            finally:
                serving.reading.close()
            solutions = tuple(
                Solution(answers[names[0]], first_of(keep, names).versions, serving.pins_of(answers[names[0]]), names)
                for names in solved.values()
            )
        self._solutions[:] = solutions
        if needed is not None:
            # a wheel of what stays behind comes before a source of what is there for that
            glibcs = {
                each.cause.glibc: each
                for solution in solutions
                if {*solution.targets} & {*needed.targets}
                for each in self._behind(solution)
                if each.name in needed.about and each.cause.glibc
            }
            ways = (Way(glibc=glibc, bounds=(f"{behind.name}>={behind.newest}",)) for glibc, behind in glibcs.items())
            needed.ways = (*ways, *needed.ways)
        return {name: cast("_S", answer.subject) for name, answer in answers.items()}, needed

    def findings(self, known: Iterable[Finding] = ()) -> tuple[Finding, ...]:
        """Give the findings on the last solutions, besides those of `others`."""
        hashed = self.hashes.hashed_urls() if self.hashes else ()
        notes = [*merge_targets(self._of_holes())]
        notes += notes_of(self._solutions, self.uv_indexes.releases, hashed, self.sources.static)
        behind: list[Finding] = []
        for solution in self._solutions:
            notes += [replace(finding, targets=solution.targets) for finding in solution.answer.findings]
            beside = [other for other in (*known, *notes) if {*solution.targets} & {*other.targets}]
            lags = behind_findings(self._behind(solution), solution.answer.request, beside)
            behind += [replace(finding, targets=solution.targets) for finding in lags]
        return (*notes, *merge_targets(behind))

    def _of_holes(self) -> Iterator[Finding]:
        """Warn of what the shipped facts lack, where torch is older for it."""
        shared = torch_holes.everywhere((solution.answer.request, solution.pins) for solution in self._solutions)
        for solution in self._solutions:
            request, index = solution.answer.request, solution.answer.index
            pinned = solution.pinned.get("torch")
            if hole := torch_holes.finding(request, index, solution.pins, pinned, shared):
                yield replace(hole, targets=solution.targets)

    def _behind(self, solution: Solution) -> tuple[Behind, ...]:
        """Find what stays behind in a solution."""
        index, answer = solution.answer.index, solution.answer
        request = with_constraints(answer.request, index.constraints)
        case = self._published.case(request, index, answer.packages, solution.pinned, lambda: answer.resolution.lines)
        return tuple(find_behind(case, index, answer.shared))

    def releases(self, request: Request) -> Releases:
        """List a package's releases on the index that it comes from, as a request's target sees them."""
        return self.uv_indexes.releases(request)

    @contextmanager
    def _serving(self, groups: Mapping[Request, tuple[str, ...]], counting: Counting) -> Iterator[Serving]:
        """Give what answers for these requests: the index proxy, and the readers of what is chosen."""
        live = self._live(groups)
        allowed = frozenset(name for request in groups for name in request.allow_source)
        with self._building(allowed, counting) as sources:
            describe = Describer(self.wheels, sources, self.scratch, counting, self.hashes)
            provided = requests_of(groups)
            with open_proxy(live, provided, pages=self.pages, metadata=describe, folder=self.cache) as proxy:
                reading = Reading(self.wheels, sources, proxy, allowed, addresses_of(groups), self.scratch, counting)

                known: dict[object, tuple[Pin, ...]] = {}

                def pins_of_answer(answer: PipAnswer) -> tuple[Pin, ...]:
                    request, index, packages = key = (answer.request, answer.index, answer.packages)
                    if key not in known:
                        releases, edges = self.uv_indexes.releases(request), answer.resolution.edges
                        known[key] = pins_of(packages, edges, request, index, proxy, reading, releases)
                        for pin, package in zip(known[key], packages, strict=True):
                            self.inspector.places.add(pin, file_to_install(package, request), package.git)
                    return known[key]

                yield Serving(
                    self.uv,
                    self.uv_indexes,
                    self._published,
                    proxy,
                    reading,
                    DirectReader(self.cache, self.pages.files, self.wheels, sources, self.scratch, counting),
                    self.scratch,
                    lambda variant: self.live_pages(variant) is not None,
                    pins_of_answer,
                    self.hashes,
                )

    def _index(self, request: Request) -> TorchIndex:
        """Choose the index of the torch family, once for a request. Raises Infeasible, IndexFailure."""
        if request not in self._chosen:
            variants = partial(self.uv_indexes.variant_versions, request, "torch")
            self._chosen[request] = torch_index.choose(request, refresh=self.refresh, variants=variants)
        return self._chosen[request]

    def _live(self, groups: Mapping[Request, tuple[str, ...]]) -> dict[str, LivePages]:
        """Give the pages of the user's mirrors of those PyTorch indexes that are asked besides the facts."""
        live = {}
        for request, names in groups.items():
            with attribute_to(names):
                index = self._index(request)
            if index.live and index.variant and (pages := self.live_pages(index.variant)):
                live[index.variant] = pages
        return live

    def _solve_all(
        self,
        targets: Mapping[str, Subject],
        groups: Mapping[Request, tuple[str, ...]],
        keep: Mapping[str, Preferences],
        serving: Serving,
    ) -> dict[str, PipAnswer]:
        alike = {name: names for names in groups.values() for name in names}
        own_pins = {name: merge_pins(keep, names) for name, names in alike.items()}

        def choose(name: str, request: Request) -> TorchIndexes:
            chosen, pinned = self._index(request), own_pins[name].versions.get("torch")
            return TorchIndexes(choose_for_pin(request, chosen, pinned), chosen, pinned)

        def prefer_old(name: str, shared: Preferences) -> Prefer:
            # variants are those of the target's own machines
            variants = keep[name].variants if name in keep else {}
            return partial(localise, replace(first_of(keep, alike[name]), variants=variants).over(shared))

        def job(name: str, prefer: Prefer, before: PipAnswer | None = None) -> Callable[[], PipAnswer]:
            subject = before.subject if before and before.subject else targets[name]
            torch = partial(_only, TorchIndexes.of(before.index)) if before else partial(choose, name)
            return partial(self._solve, TargetSolver(subject, name, serving, torch, prefer, own_pins[name].last))

        pool = Pool(max(_AT_ONCE, os.cpu_count() or 1))
        try:
            first, *rest = alike
            if (before := first_of(keep, alike[first])).versions:
                return answer_together(pool, {n: job(n, prefer_old(n, public(before))) for n in alike})
            # without an old lock the first answer sets the versions that the others shall share
            begun_in = {request: choose(members[0], request).first for request, members in groups.items()}
            releases = torch_holes.newest_releases(begun_in)
            prefer = {n: partial(with_torch, releases.get(r)) for r, members in groups.items() for n in members}
            try:
                begun = job(first, prefer[first])()
            except AnswerNo as error:
                jobs: dict[str, Callable[[], PipAnswer]] = {first: partial(raise_again, error)}
                return answer_together(pool, jobs | {n: job(n, prefer[n]) for n in rest})
            apart = FAMILY if len(set(releases.values())) > 1 else ()
            following = {
                n: job(n, prefer[n] if n in alike[first] else after(begun, prefer[n], localised=not apart))
                for n in rest
            }
            answers = {first: begun, **answer_together(pool, following)}
            again = to_share(answers, apart)
            met = answer_together(pool, {n: job(n, partial(_only, pins), answers[n]) for n, pins in again.items()})
            # an older release that has lost or won dependencies is another answer, not the same one shared
            same = {
                n: answer
                for n, answer in met.items()
                if versions_of(answer.packages).keys() == versions_of(answers[n].packages).keys()
            }
        except BaseException:
            self.uv.processes.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        return {**answers, **same}

    def _solve(self, solver: TargetSolver) -> PipAnswer:
        names = (solver.label,)
        with self.progress.solving(names), attribute_to(names):
            return solver.solve()

    def _ask_more(
        self, answers: Mapping[str, PipAnswer], solved: Request, widened: Request, serving: Serving
    ) -> Resolution:
        """Solve a request anew, with more sources than the one that is solved."""
        name, answer = next((name, known) for name, known in answers.items() if known.request == solved)
        torch = partial(_only, TorchIndexes.of(answer.index))
        prefer = partial(_only, Preferences())
        return self._solve(TargetSolver(Unreviewed(widened), name, serving, torch, prefer, {})).resolution

    @contextmanager
    def _building(self, allowed: frozenset[str], counting: Counting) -> Iterator[SourceReader]:
        """Give the reader of sources; where any may be built, with an index for what that takes."""
        if not allowed:
            yield self.sources
            return
        shown = Describer(self.wheels, self.sources, self.scratch, counting)
        with build_requirements(self.pages, shown, self.default_index, self.cache) as builds:
            yield replace(self.sources, builds=builds)

    @cached_property
    def _published(self) -> Published:
        return Published(self.uv_indexes, self.wheels)

    @cached_property
    def uv_indexes(self) -> UvIndexes:
        """The spec's indexes for uv."""
        return UvIndexes(self.pages, self.indexes, self.flat, self.default_index)


def _only(value: _T, whatever: object) -> _T:
    """Give the same for everything."""
    return value
