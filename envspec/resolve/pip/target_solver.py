"""The solver of one target: its loop's questions to uv, and the judges of the answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from copy import copy
from functools import partial
from pathlib import Path
from typing import TypeGuard, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.artifacts.sdist.source import url_requirement_error
from envspec.base.errors import AnswerNo, EnvspecError, IndexFailure, InternalError
from envspec.base.scratch import new_folder
from envspec.lock.model import Pin
from envspec.net.index_proxy.releases import is_older
from envspec.net.index_proxy.server import IndexProxy
from envspec.net.remote_file import FileHashes
from envspec.packages.conflict import Conflict, Stray, Unsatisfiable
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
from envspec.resolve.pip.direct import DirectFiles, DirectReader
from envspec.resolve.pip.indexes import UvIndexes
from envspec.resolve.pip.leads import LeadCase, Leading, leading
from envspec.resolve.pip.loop import Answer, End, Settled, Unsettled, settle
from envspec.resolve.pip.newest import first_day, newer_glibc
from envspec.resolve.pip.notes import PipAnswer, downgrades, rejected_findings
from envspec.resolve.pip.outgrown import find_outgrown, refuse_outgrown
from envspec.resolve.pip.pins import for_variants
from envspec.resolve.pip.problem import Problem, Subject
from envspec.resolve.pip.published import Published
from envspec.resolve.pip.reading import Reading, git_only_url_error, stray_repository, with_metadata_line
from envspec.resolve.pip.request import Preferences, Request, explain_conflict
from envspec.resolve.pip.retreat import caps, lost_extras, refuse_lost_extras
from envspec.resolve.pip.reviews import addresses_of, reviews_of
from envspec.resolve.pip.sharing import last_versions, localise, public, versions_of
from envspec.resolve.torch_index.choice import TorchIndex, index_of_older
from envspec.resolve.torch_index.holes import explain_torch, unreachable_index
from envspec.resolve.uv.answer import Found
from envspec.resolve.uv.errors import UnmetImport
from envspec.resolve.uv.program import Uv

_Error = TypeVar("_Error", bound=EnvspecError)
Prefer = Callable[[TorchIndex], Preferences]
"""Gives the versions to prefer, as an index of torch's names them."""


class Preferred(Struct, frozen=True):
    """The versions that a problem prefers. A version shared from another target isn't `pinned`, and may be older than
    this target's last lock; torch is never shared.

    all     the versions that uv prefers
    pinned  the versions from the last lock
    shared  from another target
    last    the last lock's, whether they are to be kept or not
    """

    all: Preferences
    pinned: Mapping[str, str]
    shared: Mapping[str, str]
    last: Mapping[str, str]

    @classmethod
    def of(cls, preferences: Preferences) -> Preferred:
        last = public(Preferences(preferences.last)).versions
        # what another target has was judged for that one alone; of torch's family a release has another label by CUDA
        locked = {n: held for n, held in preferences.versions.items() if held.partition("+")[0] == last.get(n)}
        shared = {n: held for n, held in preferences.versions.items() if n not in locked and n != "torch"}
        return cls(preferences, locked, shared, last)

    @property
    def settled(self) -> dict[str, str]:
        """The versions that no leader moves."""
        return {n: held for n, held in {**self.shared, **self.pinned}.items() if not is_older(held, self.last.get(n))}


class TorchIndexes(Struct, frozen=True):
    """The indexes of a request's torch family: the pinned one, and the one that the facts choose.

    may_move  uv may ask another index than the first
    """

    first: TorchIndex
    chosen: TorchIndex
    pinned: str | None = None
    may_move: bool = True

    @classmethod
    def of(cls, index: TorchIndex) -> TorchIndexes:
        """Make a choice of one index, besides which uv asks no other."""
        return cls(index, index, may_move=False)


class Ends(Struct):
    """The ends that the problems of one resolution came to. Equal problems of several targets are settled once."""

    _ends: dict[object, tuple[str, Future[End]]] = field(default_factory=dict)
    _starting: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: object, problem: Problem, run: Callable[[], End]) -> End:
        """Give the end of a problem with this key. Raises what `run` raises."""
        with self._starting:
            is_known = key in self._ends
            asker, future = self._ends.setdefault(key, (problem.label, Future()))
        if not is_known:
            try:
                future.set_result(run())
            except BaseException as error:  # noqa: BLE001 - who waits for the end gets it, too
                future.set_exception(error)
        try:
            end = future.result()
        except EnvspecError as error:
            raise _own_error(error, asker, problem.label) from None
        if isinstance(end, Settled):
            return replace(end, answer=end.answer.of_target(problem))
        return Unsettled(end.problem.of_target(problem), _own_error(end.refusal, asker, problem.label))


def _own_error(error: _Error, asker: str, label: str) -> _Error:
    """Give a target an error of its own, to which it adds what it is for."""
    own = copy(error)
    if error.message.startswith(f"{asker}: "):
        own.message = label + error.message.removeprefix(asker)
    return own


class Serving(Struct, frozen=True):
    """The proxy, the readers and the answers that all questions of one resolution share.

    has_mirror  says whether the user has a mirror of a PyTorch index: without one uv asks a live one by itself
    pins_of     makes the pins of an answer
    """

    uv: Uv
    indexes: UvIndexes
    published: Published
    proxy: IndexProxy
    reading: Reading
    direct: DirectReader
    scratch: Path
    has_mirror: Callable[[str], bool]
    pins_of: Callable[[PipAnswer], tuple[Pin, ...]]
    hashes: FileHashes | None = None
    ends: Ends = field(default_factory=Ends)


class TargetSolver(Struct, frozen=True):
    """A target with the functions and versions that solve it.

    label   its name, for messages
    torch   gives the indexes of a request's torch family
    prefer  gives the versions to prefer, as an index of torch's names them
    last    the versions of the last lock
    """

    subject: Subject
    label: str
    serving: Serving
    torch: Callable[[Request], TorchIndexes]
    prefer: Prefer
    last: Mapping[str, str]

    def solve(self) -> PipAnswer:
        """Solve the target, with the findings on it. Raises Unsatisfiable, Infeasible, IndexFailure, ToolError or
        SpecError."""
        begun, serving = self._start(self.subject), self.serving
        reviews = replace(reviews_of(serving.indexes), of_end=self._follow, once=self._settle_once)
        try:
            end = settle(self._begin(begun), self.ask, reviews, self._lead)
        except UnmetImport as failed:
            raise with_metadata_line(
                failed, begun.own_request, serving.reading.sources, new_folder(serving.scratch)
            ) from None
        except IndexFailure as failure:
            raise self._explain_failure(failure, begun.own_request) from None
        if isinstance(end, Settled):
            assert end.outcome is not None
            return end.outcome
        if _is_of_uv(end.refusal):
            raise self._explain_conflict(end.refusal, end.problem)
        raise end.refusal

    def _start(self, subject: Subject) -> Problem:
        if (request := subject.request) is None:
            raise InternalError(f"{self.label} asks for nothing of pip")
        for direct in self._direct(request).values():
            self.serving.reading.know(direct.file, direct.metadata, request.metadata)
        return Problem(request, self.label, index=self.torch(request).first, subject=subject)

    def _begin(self, problem: Problem) -> Problem:
        """Give a problem without the bounds of answers, with the versions to keep and the caps on what the spec asks
        for."""
        bare = replace(problem, bounds=(), pinned=self._prefer_versions(problem).pinned)
        return bare.beside(*caps(bare, self.serving.indexes.releases(bare.request)))

    def _settle_once(self, problem: Problem, run: Callable[[], End]) -> End:
        """Give the end of a problem with what is made of it, or what refuses that."""
        preferred = self._prefer_versions(problem)
        versions = (preferred.all.versions, preferred.all.commits, preferred.last)
        key = (
            problem.own_request,
            problem.index,
            problem.is_fresh,
            *(tuple(sorted(version.items())) for version in versions),
        )

        def settle_whole() -> End:
            end = run()
            if not isinstance(end, Settled):
                return end
            try:
                self._refuse(end)
            except AnswerNo as refusal:
                return Unsettled(end.problem, refusal)
            return replace(end, outcome=self._answer(end))

        return self.serving.ends.get(key, problem, settle_whole)

    def _follow(self, end: End) -> Problem | End:
        """Begin anew where an end isn't the last word. Raises AnswerNo for an answer that is refused."""
        again = self._afresh(end) or self._elsewhere(end) or self._with_variants(end)
        return self._begin(again) if again else self._review_whole(end)

    def _afresh(self, end: End) -> Problem | None:
        """Ask with pages as they are now, before a conflict counts: one that uv keeps may be older than the release
        that would do."""
        uv, problem = self.serving.uv, end.problem
        if isinstance(end, Settled) or not _is_of_uv(end.refusal) or problem.is_fresh or uv.fresh or uv.offline:
            return None
        return replace(problem, is_fresh=True)

    def _elsewhere(self, end: End) -> Problem | None:
        """Ask in another index of torch's where that of the pin has no answer, or none with the pin, and where a
        refusal names torch."""
        problem, torch = end.problem, self.torch(end.problem.own_request)
        if problem.is_fallback or not torch.may_move:
            return None
        if problem.index != torch.chosen:
            packages = end.answer.packages if isinstance(end, Settled) else ()
            stays = any((package.name, package.version) == ("torch", torch.pinned) for package in packages)
            return None if stays else replace(problem, index=torch.chosen)
        of_torch = not isinstance(end, Settled) and "torch" in end.refusal.subjects
        older = index_of_older(problem.own_request, torch.chosen) if of_torch else None
        return replace(problem, index=older, is_fallback=True) if older else None

    def _with_variants(self, end: End) -> Problem | None:
        """Ask again for the variants of this target's own machines, where an answer or a conflict has some."""
        problem = end.problem
        if isinstance(end, Settled):
            packages = end.answer.packages
            names = {package.name for package in packages if any(file.variant for file in package.files)}
        elif isinstance(end.refusal, Unsatisfiable):
            packages, names = (), {*self.serving.indexes.variants_in(problem.own_request, end.refusal.conflict)}
        else:
            return None
        request = for_variants(problem.own_request, names, packages, self._prefer_versions(problem).all.variants)
        if request == problem.own_request:
            return None
        return replace(problem, own_request=request, index=self.torch(request).first, is_fallback=False)

    def _review_whole(self, end: End) -> Problem | End:
        """Let the target look at the whole answer (`workflow.solve.Solved.review`), or drop the rules' refusals where
        they leave no answer."""
        subject, fresh = end.problem.subject, end.problem.is_fresh
        assert subject is not None
        if not isinstance(end, Settled):
            before = subject.without_refusals() if isinstance(end.refusal, Unsatisfiable) else None
            return self._begin(replace(self._start(before), is_fresh=fresh)) if before else end
        answer = end.outcome
        assert answer is not None
        reviewed = subject.review(self.serving.pins_of(answer))
        if reviewed.request != subject.request:
            return self._begin(replace(self._start(reviewed), is_fresh=fresh))
        return replace(end, outcome=replace(answer, subject=reviewed))

    def _prefer_versions(self, problem: Problem) -> Preferred:
        own = problem.subject.preferences if problem.subject else None
        preferences = localise(own, problem.index) if own else replace(self.prefer(problem.index), last=self.last)
        return Preferred.of(self.serving.indexes.with_builds(problem.own_request, preferences))

    def _direct(self, request: Request) -> DirectFiles:
        try:
            return self.serving.direct.of(request)
        except EnvspecError as error:
            raise prefix(error, self.label) from None

    def _is_gated(self, index: TorchIndex) -> bool:
        """Return whether the index proxy serves an index of torch's: else uv asks the live one."""
        return index.variant is not None and (not index.live or self.serving.has_mirror(index.variant))

    def ask(self, problem: Problem) -> Answer:
        """Ask uv once. Raises what `compile_request` raises."""
        serving, index, gated = self.serving, problem.index, self._is_gated(problem.index)
        direct = self._direct(problem.own_request)
        packages = compile_request(
            UvCompile(
                replace(serving.uv, fresh=serving.uv.fresh or problem.is_fresh),
                problem.question,
                serving.indexes.for_request(problem.question, index if gated else None, serving.proxy),
                new_folder(serving.scratch),
                self.label,
                serving.proxy,
                self._prefer_versions(problem).all,
                direct,
                None if gated else index.variant,
                problem.lines("final"),
            )
        )
        own = in_own_addresses(packages, serving.proxy, direct)
        return Answer(problem, own, serving.reading, serving.indexes.releases(problem.request), serving.hashes)

    def _case(self, answer: Answer) -> LeadCase:
        packages, problem = answer.packages, answer.problem
        return self.serving.published.case(
            problem.request,
            problem.index,
            packages,
            self._prefer_versions(problem).settled,
            lambda: answer_of(packages, problem.request, self.serving.reading).lines,
        )

    def _lead(self, own: Answer) -> Leading:
        case, last = self._case(own), self._prefer_versions(own.problem).last
        previous = {
            name: version
            for name, version in last_versions(last, own.problem.request).items()
            if name in case.order and any(release.version == version for release in case.fitting(name))
        }
        return leading(case, previous)

    def _refuse(self, end: Settled) -> None:
        """Raise Retreated for a package of the spec, or an extra of its, that an end gives up for the target's sake."""
        case, problem = self._case(end.answer), end.problem
        # what went back for another of the spec's own isn't the target's doing
        own = versions_of(end.own.packages)
        led = {n: version for n, version in versions_of(end.answer.packages).items() if is_older(version, own.get(n))}
        shared = {**self._prefer_versions(problem).shared, **led}
        refuse_outgrown(find_outgrown(case, problem.index, shared), problem.request, self.label)
        self._refuse_lost_extras(case, problem.index)

    def _refuse_lost_extras(self, case: LeadCase, index: TorchIndex) -> None:
        request, with_extras = case.request, {head.name for head in map(head_of, case.request.effective) if head.extras}
        if not with_extras:
            return
        ahead = {
            behind.name: (behind.newest, reason_of([behind], request, behind.cause.glibc), behind.cause.glibc or None)
            for behind in find_behind(case, index, {})
            if behind.name in with_extras and behind.cause.kind in OF_TARGET
        }

        def extras_in(package: Found) -> frozenset[str]:
            return read_metadata((package,), request, self.serving.reading)[package.name].extras

        offers, releases = (
            partial(self.serving.published.extras, request, index),
            self.serving.indexes.releases(request),
        )
        lost = lost_extras(case.packages, request, extras_in, ahead, offers, releases)
        refuse_lost_extras([*lost], request, self.label)

    def _answer(self, end: Settled) -> PipAnswer:
        problem, packages, reading = end.problem, end.answer.packages, self.serving.reading
        preferred, now = self._prefer_versions(problem), versions_of(packages)
        resolution = answer_of(packages, problem.own_request, reading)
        rejected = {bound.package: bound.why for bound in problem.bounds if bound.why}
        passed_over = rejected_findings(rejected, versions_of(end.first.packages), now, preferred.pinned)
        return PipAnswer(
            problem.own_request,
            resolution,
            problem.index,
            (*downgrades(now, preferred.last, resolution.lines), *passed_over),
            preferred.shared,
        )

    def _explain_conflict(self, conflict: Unsatisfiable, problem: Problem) -> Unsatisfiable:
        """Add the ways out of a conflict, and what else may be part of it."""
        request, indexes = problem.request, self.serving.indexes
        conflict = explain_torch(conflict, request, problem.index, gated=self._is_gated(problem.index))
        conflict.ways += ways_to_pre_releases(problem.lines("final"))
        indexes.refuse_flat(request, self.label)
        proof = conflict.conflict
        conflict.ways += tuple(indexes.ways_to_missing(request, proof))
        unfit = () if any(way.glibc for way in conflict.ways) else proof.packages_of("no-wheel")
        conflict.ways = (*newer_glibc(unfit, request, indexes.releases(request)), *conflict.ways)
        if not any(way.cuda for way in conflict.ways):
            conflict.ways += tuple(first_day(proof, request, indexes.releases))
        return add_corrections(explain_conflict(conflict, request), request.corrections)

    def _explain_failure(self, failure: IndexFailure, request: Request) -> EnvspecError:
        """Say what failed behind the index proxy, or what a package named that the spec didn't."""
        proxy, chosen = self.serving.proxy, self.torch(request).chosen
        self.serving.indexes.refuse_flat(request, self.label)
        if proxy.failures:
            # uv saw the proxy fail; what failed is behind it
            return prefix(proxy.failures[0], self.label)
        failure.message = proxy.plain(failure.message)
        gated = self._is_gated(chosen)
        stray = failure.evidence
        if isinstance(stray, Stray) and (gated or chosen.variant is None):
            url = proxy.plain(stray.url)
            if not url.startswith("git+"):
                error = url_requirement_error(url) if stray.building else git_only_url_error(stray.name, url)
                return prefix(error, self.label)
            if not stray.building and stray.name not in sources_for_uv(request):
                return prefix(stray_repository(stray.name, url, addresses_of((request,))), self.label)
        if not chosen.live or gated:
            return failure
        return unreachable_index(failure, request, chosen, self.label)


def _is_of_uv(refusal: AnswerNo) -> TypeGuard[Unsatisfiable]:
    """Return whether a refusal is uv's own conflict."""
    return isinstance(refusal, Unsatisfiable) and refusal.conflict != Conflict()
