"""The solver of one request: what its loop asks uv, and what its answers are judged by."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import EnvspecError, IndexFailure, Unsatisfiable
from envspec.net.index_proxy.releases import is_older
from envspec.net.index_proxy.server import IndexProxy
from envspec.net.remote_file import FileHashes
from envspec.packages.requirement import head_of
from envspec.resolve.pip.answer import (
    add_corrections,
    answer_of,
    in_own_addresses,
    prefix,
    read_metadata,
    ways_to_pre_releases,
)
from envspec.resolve.pip.behind import OF_TARGET, find_behind, reason_of
from envspec.resolve.pip.compile import UvCompile, compile_request, sources_for_uv
from envspec.resolve.pip.direct import DirectFiles
from envspec.resolve.pip.indexes import UvIndexes
from envspec.resolve.pip.leads import LeadCase, Leading, leading, leads
from envspec.resolve.pip.loop import Answer, End, Settled, Unsettled, settle
from envspec.resolve.pip.newest import first_day, newer_glibc
from envspec.resolve.pip.notes import PipAnswer, downgrades, rejected_findings
from envspec.resolve.pip.outgrown import find_outgrown, refuse_outgrown
from envspec.resolve.pip.pins import extras_of
from envspec.resolve.pip.problem import Problem
from envspec.resolve.pip.published import Published
from envspec.resolve.pip.reading import Reading, git_only_url_error, stray_repository, with_metadata_line
from envspec.resolve.pip.request import Preferences, Request, explain_conflict, with_constraints
from envspec.resolve.pip.retreat import caps, lost_extras, refuse_lost_extras
from envspec.resolve.pip.reviews import addresses_of, reviews_of
from envspec.resolve.pip.sharing import last_versions, public, versions_of
from envspec.resolve.pip.source import url_requirement_error
from envspec.resolve.torch_index.choice import TorchIndex, index_of_older
from envspec.resolve.torch_index.holes import explain_torch, unreachable_index
from envspec.resolve.uv.answer import Found
from envspec.resolve.uv.errors import UnmetImport
from envspec.resolve.uv.program import Uv


class Preferred(Struct, frozen=True):
    """The versions that a problem prefers: of those that another target has none is `kept`, and may be older than this
    one's last lock; but torch is each one's own.

    all     as uv is told
    kept    from the last lock
    shared  from another target
    last    the last lock's, whether they are to be kept or not
    """

    all: Preferences
    kept: Mapping[str, str]
    shared: Mapping[str, str]
    last: Mapping[str, str]

    @classmethod
    def of(cls, preferences: Preferences, last: Mapping[str, str]) -> Preferred:
        had = public(Preferences(last)).versions
        # what another target has was judged for that one alone; of torch's family a release has another label by CUDA
        kept = {n: held for n, held in preferences.versions.items() if held.partition("+")[0] == had.get(n)}
        shared = {n: held for n, held in preferences.versions.items() if n not in kept and n != "torch"}
        return cls(preferences, kept, shared, had)

    @property
    def settled(self) -> dict[str, str]:
        """The versions that no leader moves."""
        return {n: one for n, one in {**self.shared, **self.kept}.items() if not is_older(one, self.last.get(n))}


class TorchIndexes(Struct, frozen=True):
    """The indexes of a request's torch family: that of the pin to keep, and the one that the facts choose.

    others  whether another than the first may be asked
    """

    first: TorchIndex
    chosen: TorchIndex
    pinned: str | None = None
    others: bool = True

    @classmethod
    def of(cls, index: TorchIndex) -> TorchIndexes:
        """Give one, beside which no other is asked."""
        return cls(index, index, others=False)


class RequestSolver(Struct, frozen=True):
    """A request, and what it is solved with.

    label      its targets' names, for messages
    own_index  whether uv asks a live PyTorch index by itself: there is no mirror of it
    preferred  gives the versions to prefer, as an index of torch's names them
    direct     the files that the spec names by their URL
    scratch    gets a folder for each question
    """

    request: Request
    label: str
    uv: Uv
    indexes: UvIndexes
    published: Published
    proxy: IndexProxy
    reading: Reading
    torch: TorchIndexes
    own_index: bool
    preferred: Callable[[TorchIndex], Preferred]
    direct: DirectFiles
    scratch: Path
    hashes: FileHashes | None = None

    def solve(self) -> PipAnswer:
        """Solve the request, with what is to be said of it. Raises SourcesNeeded, Unsatisfiable, Infeasible,
        IndexFailure, ToolError or SpecError."""
        for one in self.direct.values():
            self.reading.know(one.file, one.metadata, self.request.metadata)
        reviews = replace(reviews_of(self.indexes), of_end=self._refuse, restart=self._restart)
        try:
            end = settle(self._begin(self.torch.first), self.ask, reviews, self._lead)
        except UnmetImport as failed:
            folder = Path(tempfile.mkdtemp(dir=self.scratch))
            raise with_metadata_line(failed, self.request, self.reading.sources, folder) from None
        except IndexFailure as failure:
            raise self._explain_failure(failure) from None
        if isinstance(end, Settled):
            return self._answer(end)
        raise (
            self._explain_conflict(end.refusal, end.problem) if isinstance(end.refusal, Unsatisfiable) else end.refusal
        )

    def _begin(self, index: TorchIndex, *, is_fresh: bool = False, is_spare: bool = False) -> Problem:
        request = with_constraints(self.request, index.constraints)
        kept = self.preferred(index).kept
        problem = Problem(request, self.label, kept=kept, index=index, is_fresh=is_fresh, is_spare=is_spare)
        return problem.beside(*caps(problem, self.indexes.releases(request)))

    def _restart(self, end: End) -> Problem | None:
        """Ask again with pages as they are now before a conflict is told, and in another index of torch's where that of
        the pin has no answer, or none with the pin, or where a refusal names torch."""
        refusal = end.refusal if isinstance(end, Unsettled) else None
        problem = end.problem if isinstance(end, Unsettled) else end.answer.problem
        is_fresh, torch = problem.is_fresh, self.torch
        if isinstance(refusal, Unsatisfiable) and not (is_fresh or self.uv.fresh or self.uv.offline):
            # a page that uv keeps may be older than the release that would do
            return self._begin(problem.index, is_fresh=True, is_spare=problem.is_spare)
        if problem.is_spare or not torch.others:
            return None
        if problem.index == torch.chosen:
            older = index_of_older(self.request, torch.chosen) if refusal and "torch" in refusal.packages else None
            return self._begin(older, is_fresh=is_fresh, is_spare=True) if older else None
        if isinstance(end, Settled) and torch.pinned in [p.version for p in end.answer.found if p.name == "torch"]:
            return None
        return self._begin(torch.chosen, is_fresh=is_fresh)

    def _is_gated(self, index: TorchIndex) -> bool:
        """Say whether the index proxy serves an index of torch's: else uv asks the live one."""
        return index.variant is not None and not (index.live and self.own_index)

    def ask(self, problem: Problem) -> Answer:
        """Ask uv once. Raises what `compile_request` raises."""
        gated, index = self._is_gated(problem.index), problem.index
        packages = compile_request(
            UvCompile(
                replace(self.uv, fresh=self.uv.fresh or problem.is_fresh),
                problem.question,
                self.indexes.for_request(problem.question, index if gated else None, self.proxy),
                Path(tempfile.mkdtemp(dir=self.scratch)),
                self.label,
                self.proxy,
                self.preferred(index).all,
                self.direct,
                None if gated else index.variant,
                problem.lines("final"),
            )
        )
        own = in_own_addresses(packages, self.proxy, self.direct)
        return Answer(problem, own, self.reading, self.indexes.releases(problem.request), self.hashes)

    def _case(self, answer: Answer) -> LeadCase:
        found, problem = answer.found, answer.problem
        settled = self.preferred(problem.index).settled
        return self.published.case(
            problem.request,
            problem.index,
            found,
            settled,
            lambda: answer_of(found, problem.request, self.reading).lines,
        )

    def _lead(self, own: Answer) -> Leading:
        case, last = self._case(own), self.preferred(own.problem.index).last
        fitting = {name: [one.version for one in case.fitting[name]] for name in case.order}
        had = {n: v for n, v in last_versions(last, own.problem.request).items() if v in fitting.get(n, ())}
        return leading(leads(case), had, case.taken)

    def _refuse(self, end: Settled) -> None:
        """Raise Retreated for a package of the spec, or an extra of its, that an end gives up for the target's sake."""
        case, problem = self._case(end.answer), end.answer.problem
        # what went back for another of the spec's own isn't the target's doing
        own = versions_of(end.own.found)
        led = {n: version for n, version in versions_of(end.answer.found).items() if is_older(version, own.get(n))}
        shared = {**self.preferred(problem.index).shared, **led}
        refuse_outgrown(find_outgrown(case, problem.index, shared), problem.request, self.label)
        self._refuse_lost_extras(case, problem.index)

    def _refuse_lost_extras(self, case: LeadCase, index: TorchIndex) -> None:
        request, wanted = case.request, {head.name for head in map(head_of, case.request.effective) if head.extras}
        if not wanted:
            return
        ahead = {
            one.name: (one.newest, reason_of([one], request, one.cause.glibc), one.cause.glibc or None)
            for one in find_behind(case, index, {})
            if one.name in wanted and one.cause.kind in OF_TARGET
        }

        def extras_in(package: Found) -> frozenset[str]:
            return extras_of(read_metadata((package,), request, self.reading)[package.name])

        lost = lost_extras(case.found, request, extras_in, ahead, self.indexes.releases(request))
        known = [
            replace(one, offers=self.published.extras(request, index, one.name, one.release.version)) for one in lost
        ]
        # where they can't be read, the warning of an extra that isn't there stands alone
        refuse_lost_extras([one for one in known if one.extra in one.offers], request, self.label)

    def _answer(self, end: Settled) -> PipAnswer:
        problem, found = end.answer.problem, end.answer.found
        preferred, now = self.preferred(problem.index), versions_of(found)
        last = preferred.last
        edges = answer_of(found, problem.request, self.reading).lines if last else {}
        gone = downgrades(now, last, edges)
        rejected = {bound.package: bound.why for bound in problem.bounds if bound.why}
        passed_over = rejected_findings(rejected, versions_of(end.first.found), now, preferred.kept)
        resolution = answer_of(found, self.request, self.reading)
        return PipAnswer(resolution, problem.index, (*gone, *passed_over), preferred.shared)

    def _explain_conflict(self, conflict: Unsatisfiable, problem: Problem) -> Unsatisfiable:
        """Add the ways out of a conflict, and what else may be part of it."""
        request = problem.request
        conflict = explain_torch(conflict, request, problem.index, gated=self._is_gated(problem.index))
        conflict.ways += ways_to_pre_releases(problem.lines("final"))
        self.indexes.refuse_flat(request, self.label)
        proof = conflict.conflict
        conflict.ways += tuple(self.indexes.ways_to_missing(request, proof))
        unfit = () if any(one.glibc for one in conflict.ways) else proof.packages_of("no-wheel")
        conflict.ways = (*newer_glibc(unfit, request, self.indexes.releases(request)), *conflict.ways)
        if not any(one.cuda for one in conflict.ways):
            conflict.ways += tuple(first_day(proof, request, self.indexes.releases))
        return add_corrections(explain_conflict(conflict, request), request.corrections)

    def _explain_failure(self, failure: IndexFailure) -> EnvspecError:
        """Say what failed behind the index proxy, or what a package named that the spec didn't."""
        proxy, request, chosen = self.proxy, self.request, self.torch.chosen
        self.indexes.refuse_flat(request, self.label)
        if proxy.failures:
            # uv saw the proxy fail; what failed is behind it
            return prefix(proxy.failures[0], self.label)
        failure.message = proxy.plain(failure.message)
        gated = self._is_gated(chosen)
        if (stray := failure.stray) and (gated or chosen.variant is None):
            url = proxy.plain(stray.url)
            if not url.startswith("git+"):
                told = url_requirement_error(url) if stray.building else git_only_url_error(stray.name, url)
                return prefix(told, self.label)
            if not stray.building and stray.name not in sources_for_uv(request):
                return prefix(stray_repository(stray.name, url, addresses_of((request,))), self.label)
        if not chosen.live or gated:
            return failure
        return unreachable_index(failure, request, chosen, self.label)
