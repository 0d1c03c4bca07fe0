"""The pip half of a lock: requests in, pins out. uv chooses, envspec reads the artifacts' own METADATA, and `packaging`
judges the result.

Equal requests are solved once. The request of the most targets is solved first. The others prefer its versions, and are
then solved side by side: docs/resolution.md has measurements against uv's universal mode.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base.conflict import Conflict, Stray
from envspec.base.errors import AnswerNo, EnvspecError, IndexFailure, OutsideError, Unsatisfiable, Way
from envspec.base.finding import Finding, merge_targets
from envspec.base.progress import Progress
from envspec.facts import torch_builds
from envspec.facts.cuda_stack import is_toolkit
from envspec.facts.wheels import FAMILY
from envspec.lock.model import Pin
from envspec.net.index_proxy.pages import Pages
from envspec.net.index_proxy.releases import is_older
from envspec.net.index_proxy.server import IndexProxy, open_proxy
from envspec.net.remote_file import FileHashes
from envspec.net.simple_page import LivePages
from envspec.packages.address import Address, parse_address
from envspec.packages.names import requirement_name
from envspec.packages.requirement import head_of, parse_requirement
from envspec.resolve.pip.answer import (
    Describer,
    Resolution,
    add_corrections,
    answer_of,
    answer_together,
    attribute_to,
    dated_sources,
    drop_unreachable,
    hint_about_pre_releases,
    in_own_addresses,
    older_sources,
    prefix,
    raise_again,
    read_metadata,
    refuse_two_answers,
    sources_needed,
    with_hashes,
)
from envspec.resolve.pip.behind import OF_TARGET, Behind, behind_findings, find_behind, reason_of
from envspec.resolve.pip.compile import sources_for_uv
from envspec.resolve.pip.confusion import refuse_unsaid, refuse_unsaid_builds
from envspec.resolve.pip.direct import DirectFiles, DirectReader
from envspec.resolve.pip.indexes import Question, UvIndexes
from envspec.resolve.pip.leads import LeadCase, leads, raise_in_order
from envspec.resolve.pip.metadata import MetadataReader
from envspec.resolve.pip.newest import (
    Releases,
    find_newest,
    first_day,
    has_pre_release,
    is_behind,
    newer_glibc,
    own_asks,
    possible_sources,
    stray_pre_releases,
)
from envspec.resolve.pip.notes import Solution, downgrades, last_solutions, rejected_findings, tell_notes
from envspec.resolve.pip.pins import extras_of, in_rounds, pins_of
from envspec.resolve.pip.published import Published
from envspec.resolve.pip.reading import Counting, Reading, git_only_url_error, stray_repository, with_metadata_line
from envspec.resolve.pip.request import (
    Preferences,
    Request,
    explain_conflict,
    group,
    refuse_conflicts,
    requests_of,
    with_constraints,
)
from envspec.resolve.pip.retreat import (
    Retreat,
    in_place_of,
    lost_extras,
    newest_releases,
    refuse_lost_extras,
    refuse_retreats,
    retreats,
    suspects,
    versions_above,
    went_back,
)
from envspec.resolve.pip.sharing import (
    after,
    first_of,
    last_of,
    last_versions,
    localise,
    public,
    solve_in_indexes_of_pins,
    to_share,
    versions_of,
    with_torch,
)
from envspec.resolve.pip.source import SourceReader, build_requirements, url_requirement_error
from envspec.resolve.pip.unbounded import lags, may_retreat, names_torch, refuse_outgrown, without_bounds
from envspec.resolve.torch_index import choice as torch_index, holes as torch_holes
from envspec.resolve.torch_index.choice import TorchIndex
from envspec.resolve.torch_index.holes import explain_torch
from envspec.resolve.uv.answer import Found
from envspec.resolve.uv.errors import UnmetImport
from envspec.resolve.uv.program import Processes, Uv
from envspec.resolve.wheels.inspector import WheelInspector

_AT_ONCE = 4
"""Requests at a time, on small machines too: uv waits for pages as much as it computes."""


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
    _unbounded: dict[Request, tuple[Found, ...]] = field(default_factory=dict)
    _moved: dict[Request, tuple[Finding, ...]] = field(default_factory=dict)
    _running: list[Processes] = field(default_factory=list)
    _shared: dict[Request, Mapping[str, str]] = field(default_factory=dict)

    def resolve(self, requests: Mapping[str, Request], keep: Mapping[str, Preferences]) -> dict[str, tuple[Pin, ...]]:
        """Resolve every target: returns pins by target name.

        `keep` has, by target, the versions of the old lock that stay if they still fit.

        That nothing satisfies them is said of pages as they are now, not as they were cached some minutes ago.

        Raises SourcesNeeded, Unsatisfiable, Infeasible, IndexFailure, ToolError or SpecError, each naming the target.
        """
        try:
            return self._for_one_question()._resolve(requests, keep)
        except Unsatisfiable:
            if self.uv.fresh or self.uv.offline:
                raise
            self.uv.fresh = True
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
            addresses = _addresses(groups)
            reading = Reading(self.wheels, sources, proxy, allowed, addresses, _below(self.scratch), counting)
            direct = DirectReader(self.cache, self.pages.files, self.wheels, sources, _below(self.scratch), counting)
            try:
                refuse_unsaid_builds(groups, self._uv_indexes.has)
                answered: dict[Request, Resolution] = {}
                indexes: dict[Request, TorchIndex] = {}

                def solve_round(asked: Mapping[str, Request]) -> dict[str, tuple[Found, ...]]:
                    groups = group(asked)

                    def solve_in(chosen: Mapping[Request, TorchIndex]) -> Mapping[Request, Sequence[Found]]:
                        # a round without a solution stopped uv
                        self.uv.processes.begin()
                        answered.clear()
                        answered.update(self._solve_all(groups, chosen, proxy, keep, reading, direct))
                        return {request: one.found for request, one in answered.items()}

                    indexes.clear()
                    indexes.update(solve_in_indexes_of_pins(groups, self._index, keep, solve_in))
                    return {name: answered[request].found for request, names in groups.items() for name in names}

                groups = group(in_rounds(requests, keep, solve_round, self._uv_indexes.variants_in))
                answers = dict(answered)

                def again(solved: Request, asked: Request) -> Resolution:
                    question = self._question(asked, indexes[solved], proxy, (), direct.of)
                    return answer_of(self._solve(asked, question, Preferences(), reading), asked, reading)

                refuse_unsaid(answers, groups, self._uv_indexes.has, again)
                refuse_two_answers(answers, groups, reading)
                needed = sources_needed(answers, groups, self.sources.static, self._uv_indexes.releases)
                of = self._uv_indexes.releases
                solved = {
                    request: pins_of(one.found, one.edges, request, indexes[request], proxy, reading, of(request))
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
            shared = self._shared.get(request, {})
            one = Solution(request, answers[request], indexes[request], kept, files, solved[request], shared)
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

    def tell(
        self, pins: Mapping[str, tuple[Pin, ...]], notice: Callable[[Finding], None], others: Iterable[Finding] = ()
    ) -> None:
        """Write what there is to say of the solutions that gave these pins (by target), beside what `others` say."""
        told = [*others]

        def say(finding: Finding) -> None:
            told.append(finding)
            notice(finding)

        solutions = last_solutions(self._solutions, pins)
        hashed = self.hashes.hashed_urls() if self.hashes else ()
        tell_notes(solutions, self._uv_indexes.releases, hashed, self.sources.static, say)
        behind = []
        for request, (one, names) in solutions.items():
            for finding in self._moved.get(request, ()):
                say(replace(finding, targets=names))
            stand_for = [other for other in told if {*names} & {*other.targets}]
            behind += [
                replace(finding, targets=names)
                for finding in behind_findings(self._behind(one), one.request, stand_for)
            ]
        for finding in merge_targets(behind):
            say(finding)

    def _behind(self, one: Solution) -> tuple[Behind, ...]:
        """Find what stays behind in a solution."""
        request = with_constraints(one.request, one.index.constraints)
        case = self._published.case(request, one.index, one.answer.found, one.kept, lambda: one.answer.lines)
        return tuple(find_behind(case, one.index, one.shared))

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
        self,
        groups: Mapping[Request, tuple[str, ...]],
        indexes: Mapping[Request, TorchIndex],
        proxy: IndexProxy,
        keep: Mapping[str, Preferences],
        reading: Reading,
        direct: DirectReader,
    ) -> dict[Request, Resolution]:
        def solve(request: Request, preferences: Preferences) -> tuple[Found, ...]:
            with self.progress.solving(groups[request]), attribute_to(groups[request]):
                names = groups[request]
                question = self._question(request, indexes[request], proxy, names, direct.of)
                wanted = self._uv_indexes.with_builds(request, preferences)
                return self._solve(request, question, wanted, reading, last_of(keep, names))

        def answer(request: Request, preferences: Preferences) -> Resolution:
            return answer_of(solve(request, preferences), request, reading)

        old = {request: first_of(keep, names) for request, names in groups.items()}
        first, *others = groups
        answers: dict[Request, Resolution] = {}
        pool = ThreadPoolExecutor(max(_AT_ONCE, os.cpu_count() or 1))
        try:
            if old[first].versions:
                shared = public(old[first])
                kept = {r: localise(old[r].over(shared), indexes[r]) for r in groups}
                return answer_together(pool, {r: partial(answer, r, kept[r]) for r in groups}, groups)
            # without an old lock the first answer sets the versions that the others shall share
            releases = torch_holes.newest_releases(indexes)
            old = {request: with_torch(releases.get(request), indexes[request]) for request in groups}
            try:
                found = solve(first, old[first])
            except AnswerNo as error:
                jobs = {first: partial(raise_again, error), **{r: partial(answer, r, old[r]) for r in others}}
                return answer_together(pool, jobs, groups)
            apart = FAMILY if len(set(releases.values())) > 1 else ()
            kept = {r: after(found, first, old[r], None if apart else indexes[r]) for r in others}
            # what follows from it is worked out while uv solves for the others
            jobs = {first: partial(answer_of, found, first, reading)}
            jobs |= {r: partial(answer, r, kept[r]) for r in others}
            answers = answer_together(pool, jobs, groups)
            again = to_share({r: one.found for r, one in answers.items()}, apart)
            said = {r: (self._moved[r], self._shared[r]) for r in again}
            met = answer_together(
                pool, {r: partial(answer, r, preferences) for r, preferences in again.items()}, groups
            )
            # an older release that has lost or won dependencies is another answer, not the same one shared
            same = {
                r: one
                for r, one in met.items()
                if versions_of(one.found).keys() == versions_of(answers[r].found).keys()
            }
            for r in met.keys() - same.keys():
                self._moved[r], self._shared[r] = said[r]
        except BaseException:
            self.uv.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        return {**answers, **same}

    def _solve(
        self,
        request: Request,
        question: Question,
        preferences: Preferences,
        reading: Reading,
        last: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[Found, ...]:
        index, proxy, label = question.torch, question.proxy, question.label
        for one in question.direct.values():
            reading.know(one.file, one.metadata, request.metadata)
        barred, rejected, uvs = tuple[str, ...](), dict[str, str](), dict[str, str]()
        # what another target has was judged for that one alone; of torch's family a release has another label by CUDA
        last = public(Preferences(last)).versions
        stays = {n: held for n, held in preferences.versions.items() if held.partition("+")[0] == last.get(n)}
        releases = self._uv_indexes.releases(request)

        def ask(
            asked: Request, prefer: Preferences = preferences, *, sources: bool = True, of: Question = question
        ) -> tuple[Found, ...]:
            while True:
                try:
                    found = in_own_addresses(of.ask(asked, prefer, barred), proxy, question.direct)
                    of_asked = self._uv_indexes.releases(asked)
                    unseen = {*older_sources(found, asked, of_asked)}
                    unseen |= {*dated_sources(found, asked, stays, of_asked)}
                    if not unseen:
                        return with_hashes(found, asked, self.hashes)
                    asked = replace(asked, unfit=(*asked.unfit, *sorted(unseen)))
                except Unsatisfiable as conflict:
                    proof = conflict.conflict
                    unfit = _unfit(proof, asked) or possible_sources(
                        self._uv_indexes.packages_in(proof, asked), asked, releases
                    )
                    if not (unfit and sources):
                        raise
                    # their sources may do: what they are needed for is told then, and nothing is built
                    asked = replace(asked, unfit=(*asked.unfit, *unfit))
                except IndexFailure as failure:
                    # uv builds of git what it is asked for alone: a neighbour of the spec's repositories is asked for
                    neighbour = _neighbour(failure.stray, asked)
                    if neighbour is None:
                        raise
                    asked = replace(asked, requirements=(*asked.requirements, neighbour))

        def settle(begun: Request, back: tuple[Retreat, ...] = (), *, sources: bool = True) -> tuple[Found, ...]:
            nonlocal barred, uvs
            asking, ways_there = in_place_of(back, begun), dict[str, str]()
            while True:
                try:
                    found = drop_unreachable(ask(asking, sources=sources), request, reading)
                except Unsatisfiable:
                    if back:
                        # the releases that name the target's Python can't stand beside the rest
                        refuse_retreats(back, begun, label, releases)
                    raise
                uvs = uvs or versions_of(found)
                if went_back(ways_there, found, request, releases):
                    refuse_retreats(back, begun, label, releases)
                unsure = suspects(found, asking, releases)
                if not unsure and not has_pre_release(found, stays):
                    return found
                answer = answer_of(found, asking, reading)
                more_back = [one for one in retreats(unsure, asking, answer.asks, releases) if not one.is_asked(asking)]
                if more_back:
                    if lost := [one for one in more_back if not one.may_be_built and one.named is None]:
                        refuse_retreats(lost, asking, label, releases)
                    rejected.update({one.name: one.why(request) for one in more_back if one.refuses})
                    back = (*back, *(one for one in more_back if not one.may_be_built))
                    ways_there |= versions_above((one.name for one in back), found, answer.edges)
                    asking = in_place_of(more_back, asking)
                    continue
                more = stray_pre_releases(found, request, answer.asks, stays, releases)
                if not more:
                    return found
                barred = (*barred, *more)
                had = versions_of(found)
                rejected.update({name: f"{had[name]} is a pre-release, which nothing asks for" for name in more})

        try:
            asking = with_constraints(request, index.constraints)
            capped = retreats(newest_releases(asking, releases), asking, own_asks(asking), releases)
            if lost := [one for one in capped if one.named is None]:
                refuse_retreats(lost, asking, label, releases)
            rejected.update({one.name: one.why(request) for one in capped})
            found = settle(asking, capped)
            # what another target has is preferred too, and may be older than this one's last lock; but torch is each
            # one's own
            shared = {n: held for n, held in preferences.versions.items() if n not in stays and n != "torch"}
            self._shared[request] = shared
            settled = {n: held for n, held in {**shared, **stays}.items() if not is_older(held, last.get(n))}
            case_of = partial(self._published.case, asking, index)
            own = case_of(found, settled, lambda: answer_of(found, asking, reading).lines)
            fitting = {name: [one.version for one in own.fitting[name]] for name in own.order}
            had = {n: v for n, v in last_versions(last, asking).items() if v in fitting.get(n, ())}
            raised = raise_in_order(
                found,
                leads(own),
                had,
                lambda more: settle(with_constraints(asking, more), capped, sources=False),
            )
            case = case_of(raised, settled, lambda: answer_of(raised, asking, reading).lines)
            if may_retreat(case):
                free = replace(question, torch=TorchIndex(None), gated=False)
                unbounded = partial(ask, prefer=replace(preferences, versions=stays), of=free)
                # what went back for another of the spec's own isn't the target's doing
                moved = {
                    one.name: str(one.version)
                    for one in raised
                    if is_older(case.taken.get(one.name, ""), own.taken.get(one.name))
                }
                self._compare(raised, request, label, unbounded, reading, {**shared, **moved})
            found, now = raised, versions_of(raised)
            gone = downgrades(now, last, case.edges) if last else ()
            self._moved[request] = *gone, *rejected_findings(rejected, uvs, now, stays)
            self._refuse_lost_extras(case, index, label, reading)
            return found
        except Unsatisfiable as conflict:
            if not (question.uv.fresh or question.uv.offline):
                # a page that uv keeps may be older than the release that would do
                question.uv.fresh = True
                return self._solve(request, question, preferences, reading, last)
            conflict = explain_torch(conflict, request, index, gated=question.gated)
            conflict.hint = hint_about_pre_releases(conflict, barred)
            self._uv_indexes.refuse_flat(request, label)
            proof = conflict.conflict
            conflict.ways += tuple(self._uv_indexes.ways_to_missing(request, proof))
            unfit = () if any(one.glibc for one in conflict.ways) else proof.packages_of("no-wheel")
            conflict.ways = (*newer_glibc(unfit, request, releases), *conflict.ways)
            if not any(one.cuda for one in conflict.ways):
                conflict.ways += tuple(first_day(proof, request, self._uv_indexes.releases))
            raise add_corrections(explain_conflict(conflict, request), request.corrections) from None
        except UnmetImport as failed:
            raise with_metadata_line(failed, request, reading.sources, _below(self.scratch)) from None
        except IndexFailure as failure:
            self._uv_indexes.refuse_flat(request, label)
            if proxy.failures:
                # uv saw the proxy fail; what failed is behind it
                raise prefix(proxy.failures[0], label) from None
            failure.message = proxy.plain(failure.message)
            if (stray := failure.stray) and not question.backend:
                url = proxy.plain(stray.url)
                if not url.startswith("git+"):
                    told = url_requirement_error(url) if stray.building else git_only_url_error(stray.name, url)
                    raise prefix(told, label) from None
                if not stray.building and stray.name not in sources_for_uv(request):
                    raise prefix(stray_repository(stray.name, url, _addresses((request,))), label) from None
            if not index.live or question.gated:
                raise
            raise torch_holes.unreachable_index(failure, request, index, label) from None

    def _compare(
        self,
        found: tuple[Found, ...],
        request: Request,
        label: str,
        ask: Callable[[Request], tuple[Found, ...]],
        reading: Reading,
        shared: Mapping[str, str],
    ) -> None:
        """Compare a solution with uv's unbounded one, which `ask` gives. Raises Retreated for a package that goes back
        for the target's CUDA to a release that doesn't name its torch."""
        free = without_bounds(request)
        if free not in self._unbounded:
            try:
                self._unbounded[free] = ask(free)
            except (AnswerNo, OutsideError):
                # the solution stands without it: this only says more of it
                self._unbounded[free] = found
        several = lags(found, self._unbounded[free], request, self._uv_indexes.releases(request), shared)
        if several:
            edges = answer_of(found, request, reading).edges
            left = [one for one in several if not names_torch(edges.get(one.name, ()), one.own)]
            refuse_outgrown(left, request, label)

    def _refuse_lost_extras(self, case: LeadCase, index: TorchIndex, label: str, reading: Reading) -> None:
        """Raise Retreated for an extra of the spec's that a solution gives up for the target's sake."""
        request, wanted = case.request, {head.name for head in map(head_of, case.request.effective) if head.extras}
        if not wanted:
            return
        ahead = {
            one.name: (one.newest, reason_of([one], request, one.cause.glibc), one.cause.glibc or None)
            for one in find_behind(case, index, {})
            if one.name in wanted and one.cause.kind in OF_TARGET
        }

        def extras_in(package: Found) -> frozenset[str]:
            return extras_of(read_metadata((package,), request, reading)[package.name])

        lost = lost_extras(case.found, request, extras_in, ahead, self._uv_indexes.releases(request))
        known = [
            replace(one, offers=self._published.extras(request, index, one.name, one.release.version)) for one in lost
        ]
        # where they can't be read, the warning of an extra that isn't there stands alone
        refuse_lost_extras([one for one in known if one.extra in one.offers], request, label)

    def _question(
        self,
        request: Request,
        index: TorchIndex,
        proxy: IndexProxy,
        names: Sequence[str],
        direct: Callable[[Request], DirectFiles],
    ) -> Question:
        # without a mirror uv asks the live index, which it knows itself
        own = index.live and index.variant is not None and self.live_pages(index.variant) is None
        gated, label = index.variant is not None and not own, ", ".join(names)
        try:
            files = direct(request)
        except EnvspecError as error:
            raise prefix(error, label) from None
        return Question(self.uv, self._uv_indexes, index, gated, proxy, files, label, _below(self.scratch))

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


def _buildable_packages(groups: Iterable[Request]) -> frozenset[str]:
    """List the packages that may be built for some target."""
    return frozenset(name for request in groups for name in request.allow_source)


def _addresses(groups: Iterable[Request]) -> tuple[Address, ...]:
    """List the addresses that the spec itself names, for some target."""
    urls = (parse_requirement(text).url for request in groups for text in request.addressed if "@" in text)
    return tuple(parse_address(url) for url in dict.fromkeys(urls) if url)


def _neighbour(stray: Stray | None, request: Request) -> str | None:
    """Find the requirement of a package out of a repository of the spec that uv may not build."""
    if stray is None or not stray.barred:
        return None
    if stray.name not in request.allow_source or stray.name in map(requirement_name, request.addressed):
        return None
    with suppress(ValueError):
        address = parse_address(stray.url)
        if any(replace(one, revision=None).has_beside(address) for one in _addresses((request,))):
            return f"{stray.name} @ {stray.url}"
    return None


def _below(scratch: Path) -> Path:
    """Make a new folder, as a resolver may resolve several times."""
    return Path(tempfile.mkdtemp(dir=scratch))


def _unfit(proof: Conflict, request: Request) -> list[str]:
    """Find packages that uv rejected because no wheel fits, and whose sources it hasn't seen."""
    return sorted({*proof.packages_of("no-wheel")} - {*request.allow_source, *request.unfit})
