"""The loop of a resolution: uv is asked, reviews look at its answer, and it is asked again with the bounds that they
give, until none is new. Then the spec's own requirements lead, each at the newest release that can be had.

Why it is so: docs/design/04-resolution.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, partial

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import AnswerNo, EnvspecError, IndexFailure, InternalError
from envspec.net.remote_file import FileHashes
from envspec.packages.conflict import Unsatisfiable
from envspec.resolve.pip.answer import Resolution, answer_of, drop_unreachable, with_hashes
from envspec.resolve.pip.leads import Leading
from envspec.resolve.pip.newest import Releases
from envspec.resolve.pip.notes import PipAnswer
from envspec.resolve.pip.problem import Bound, Problem
from envspec.resolve.pip.reading import Reading
from envspec.resolve.uv.answer import Found

_ROUNDS = 48
"""Questions about one problem: each has a bound more than the one before, or a leader less."""
_BEGINNINGS = 64
"""Problems of one target: each has something more than the one before, or less where that left no answer."""


class Answer(Struct, frozen=True, dict=True):
    """uv's answer to a problem, with the sources by which reviews judge it.

    uv_packages  the packages as uv gave them
    releases  the pages that uv chose from
    hashes    the hashes of files whose pages have none
    """

    problem: Problem
    uv_packages: tuple[Found, ...]
    reading: Reading
    releases: Releases
    hashes: FileHashes | None = None

    def of_target(self, equal: Problem) -> Answer:
        """Give the answer as one to an equal problem of another target."""
        own = replace(self, problem=self.problem.of_target(equal))
        own.__dict__.update(self.__dict__)
        return own

    @cached_property
    def packages(self) -> tuple[Found, ...]:
        """The packages, without those to which only a correction leads, each file with its hash. Raises IndexFailure,
        and what reading METADATA raises."""
        hashed = with_hashes(self.uv_packages, self.problem.question, self.hashes)
        return drop_unreachable(hashed, self.problem.request, self.reading)

    @cached_property
    def resolution(self) -> Resolution:
        """The packages with their METADATA, judged under all bounds. Raises what `packages` raises."""
        return answer_of(self.packages, self.problem.question, self.reading)


class Settled(Struct, frozen=True):
    """The end of a loop.

    answer   the one for which no review has a new bound
    first    uv's first answer with all sources that it has to see
    own      the answer before the spec's requirements led
    outcome  the target's result, once reviews of the whole have nothing new
    """

    answer: Answer
    first: Answer
    own: Answer
    outcome: PipAnswer | None = None

    @property
    def problem(self) -> Problem:
        return self.answer.problem


class Unsettled(Struct, frozen=True):
    """The end of a loop without an answer: the problem, and its refusal."""

    problem: Problem
    refusal: AnswerNo


End = Settled | Unsettled
Ask = Callable[[Problem], Answer]
Review = Callable[[Answer], Iterable[Bound]]
"""Gives bounds for the next question. Raises AnswerNo for an answer that is refused."""
Relaxation = Callable[[Problem, EnvspecError], Iterable[Bound]]
"""Gives what uv hasn't been shown, where that may mend an error. Raises AnswerNo where it knows a better reason."""


class Reviews(Struct, frozen=True):
    """The functions that look at answers, the cheapest first, and at conflicts and ends.

    of_end  looks at an end: gives the problem to begin anew with, or the end itself where it is final; raises AnswerNo
            for a refused answer
    once    gives the end of a problem; an equal problem of another target may have it already
    """

    of_answers: tuple[Review, ...]
    of_conflicts: tuple[Relaxation, ...]
    of_end: Callable[[End], Problem | End] = lambda end: end
    once: Callable[[Problem, Callable[[], End]], End] = lambda problem, run: run()


def settle(begun: Problem, ask: Ask, reviews: Reviews, lead: Callable[[Answer], Leading]) -> End:
    """Ask until no review has a new bound, then with as many leading bounds as uv can meet. Begin anew as long as the
    review of the end gives another problem. Where a fallback is refused too, the refusal before it is reported.

    Raises what `ask` raises, and InternalError after too many questions.
    """
    refused: Unsettled | None = None
    problem = begun
    for _ in range(_BEGINNINGS):
        end = reviews.once(problem, partial(_settle, problem, ask, reviews, lead))
        try:
            following = reviews.of_end(end)
        except AnswerNo as refusal:
            end = Unsettled(end.problem, refusal)
            following = reviews.of_end(end)
        if isinstance(end, Unsettled):
            refused = refused if problem.is_fallback and refused else end
        if not isinstance(following, Problem):
            return refused if refused and isinstance(following, Unsettled) else following
        problem = following
    raise InternalError(f"{begun.label}: no end after {_BEGINNINGS} answers")


def _settle(initial: Problem, ask: Ask, reviews: Reviews, lead: Callable[[Answer], Leading]) -> End:
    """Ask in two stages. The first asks without the bounds that lead, until no review has a new bound: its answer is
    the fallback of the second. The second adds the leading bounds; each conflict drops some of them.
    """
    problem = base = initial
    first: Answer | None = None
    fallback: Answer | None = None
    leading: Leading | None = None
    for _ in range(_ROUNDS):
        try:
            answer, new_bounds = _answer(problem, ask, reviews)
        except AnswerNo as refusal:
            if leading is None:
                return Unsettled(problem, refusal)
            leading = leading.without(frozenset(refusal.subjects))
        else:
            if not any(bound.form == "source" for bound in new_bounds):
                first = first or answer
            if new_bounds:
                problem = problem.beside(*new_bounds)
                continue
            assert answer is not None and first is not None
            if fallback is not None:
                return Settled(answer, first, fallback)
            fallback, leading = answer, lead(answer)
            # other bounds may belong to this answer alone: reviews find them again where the next answer needs them
            base = initial.beside(*(bound for bound in problem.bounds if bound.form in ("final", "requirement")))
        assert fallback is not None and first is not None
        following = leading.following
        if following is None:
            return Settled(fallback, first, fallback)
        leading, problem = following, base.beside(*following.bounds)
    raise InternalError(f"{initial.label}: no end after {_ROUNDS} questions: {problem.bounds[-1].line}")


def _answer(problem: Problem, ask: Ask, reviews: Reviews) -> tuple[Answer | None, tuple[Bound, ...]]:
    """Ask once: gives the answer, if there is one, and the first new bounds."""
    try:
        answer = ask(problem)
    except (Unsatisfiable, IndexFailure) as error:
        for relax in reviews.of_conflicts:
            if more := problem.unknown(relax(problem, error)):
                return None, more
        raise
    for review in reviews.of_answers:
        if more := problem.unknown(review(answer)):
            return answer, more
    return answer, ()
