"""The torch that a new spec's requirements lead to, by answers of the pip resolver, and the CUDA for it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timezone
from threading import Timer
from time import monotonic

from msgspec.structs import replace

from envspec.app.lock.resolvers import resolvers_of
from envspec.base.errors import EnvspecError, Infeasible, OutsideError
from envspec.draft.model import Draft, NewTarget
from envspec.draft.targets import CPU, ChosenMachines, Machines, SpecOfDraft, choose, with_python
from envspec.lock.inputs import spec_case
from envspec.resolve.workflow.prepare import prepare
from envspec.resolve.workflow.solve import Solved
from envspec.spec.model import Spec
from envspec.spec.newer import with_moments_of_now

_SOLVES = 3
_SECONDS = 30.0
"""Time for all answers that a new spec waits for."""


class _NoAnswer(Exception):
    """No answer of the resolver. The message has the reason."""


class _TorchSolver:
    """The solves of a new spec, within their number and time."""

    def __init__(self) -> None:
        self.left = _SOLVES
        self.until = monotonic() + _SECONDS

    def torch(self, spec: Spec) -> str | None:
        """Return the torch release, without its local part, of the answer for a spec's first target; None where the
        requirements lead to none. Raises _NoAnswer."""
        seconds = self.until - monotonic()
        if not self.left or seconds <= 0:
            raise _NoAnswer("it takes too long")
        self.left -= 1
        try:
            return _solve(spec, seconds)
        except OutsideError as error:
            reason = "the index doesn't answer" if monotonic() < self.until else "it takes too long"
            raise _NoAnswer(reason) from error
        except EnvspecError as error:
            raise _NoAnswer("nothing satisfies the requirements") from error


def _solve(spec: Spec, seconds: float) -> str | None:
    spec = with_moments_of_now(spec, datetime.now(timezone.utc))
    target, *_ = prepare(spec_case(spec), spec.targets[:1])
    begun = Solved(target.beside(()), target.corrections)
    if begun.request is None:
        return None
    with resolvers_of(spec, offline=False) as resolvers:
        timer = Timer(seconds, resolvers.stop)
        timer.start()
        try:
            solved, _ = resolvers.pip.resolve({begun.name: begun}, {})
        finally:
            timer.cancel()
    return next((pin.version.partition("+")[0] for pin in solved[begun.name].pip if pin.name == "torch"), None)


def choose_by_answers(
    draft: Draft, machines: Machines, pythons: Sequence[str], spec_of: SpecOfDraft, *, offline: bool
) -> ChosenMachines:
    """Choose targets and Python for the torch that the requirements lead to: at most three solves, the first without
    CUDA. Without an answer the facts choose for the newest torch, as the reason of the CUDA says. Raises Infeasible.
    """
    try:
        if offline:
            raise _NoAnswer("--offline")
        return _choose(draft, machines, pythons, spec_of)
    except _NoAnswer as reason:
        chosen = choose(draft, machines, pythons, spec_of)
        unknown = f"by the facts alone, as it isn't known which torch the requirements lead to: {reason}"
        return replace(chosen, why={**chosen.why, "cuda": "; ".join(filter(None, (chosen.why.get("cuda"), unknown)))})


def _choose(draft: Draft, machines: Machines, pythons: Sequence[str], spec_of: SpecOfDraft) -> ChosenMachines:
    solver, without_conda = _TorchSolver(), replace(draft, conda=())

    def answer(python: str, target: NewTarget) -> str | None:
        return solver.torch(with_python(spec_of(without_conda, (target,)), python))

    def choose_for(torch: str, sign: str = "==") -> ChosenMachines:
        says = f"the requirements lead to torch {torch}"
        return choose(draft, machines, pythons, spec_of, (f"torch{sign}{torch}", says))

    platform = (machines.platforms or draft.platforms or (CPU.platform,))[0]
    try:
        first = answer(pythons[0], replace(CPU, platform=platform))
    except _NoAnswer:
        # packages of an older day may admit no newer Python
        if len(pythons) < 2 or solver.until < monotonic():
            raise
        pythons = pythons[1:]
        first = answer(pythons[0], replace(CPU, platform=platform))
    if first is None:
        return choose(draft, machines, pythons, spec_of)
    try:
        chosen = choose_for(first)
    except Infeasible:
        chosen = choose_for(first, "<=")
    with suppress(_NoAnswer):
        second = answer(chosen.python, chosen.targets[0])
        if second and second != first:
            return choose_for(second)
    return chosen
