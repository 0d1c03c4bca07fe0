"""The faults of a spec's lock, as findings against its targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.app import inputs
from envspec.base.errors import LockError
from envspec.base.finding import Finding
from envspec.prove.doctor.feasibility import Feasibility
from envspec.spec.model import Spec

if TYPE_CHECKING:
    from envspec.base.finding import Finding


def with_lock(
    spec: Spec, verdicts: Sequence[Feasibility], locks_dir: Path | None
) -> tuple[tuple[Feasibility, ...], tuple[Finding, ...]]:
    """Add to the verdicts what can't be right in their lock; give them, and the findings about the whole lock."""
    remedy = f"envspec lock {spec.path}{inputs.elsewhere(locks_dir)}"
    folder = inputs.folder_of(spec, locks_dir)
    try:
        lock = folder.read()
    except LockError as error:
        return tuple(verdicts), (Finding("error", "lock-damaged", str(error), remedy=error.hint or remedy),)
    if lock is None:
        return tuple(verdicts), ()
    from envspec.lock.inputs import has_equal_inputs
    from envspec.lock.judge import judge, outdated_facts

    flaws = judge(lock, spec if has_equal_inputs(spec, lock) else None)
    if flaws:
        return tuple(_with_flaws(verdict, flaws, remedy) for verdict in verdicts), ()
    facts = outdated_facts(lock)
    return tuple(_with_facts(verdict, facts, f"{remedy} --upgrade") for verdict in verdicts), ()


def _with_facts(verdict: Feasibility, facts: Sequence[tuple[str, str]], remedy: str) -> Feasibility:
    """Add what envspec's tables say otherwise since the lock was made: a warning, for the lock holds what it was judged
    with."""
    told = (f"its lock was made with other facts: {said} by today's" for name, said in facts if name == verdict.target)
    found = tuple(Finding("warning", "facts-changed", message, remedy=remedy) for message in told)
    return replace(verdict, findings=(*verdict.findings, *found)) if found else verdict


def _with_flaws(verdict: Feasibility, flaws: Sequence[Finding], remedy: str) -> Feasibility:
    own = [flaw for flaw in flaws if verdict.target in flaw.targets]
    if not own or verdict.status == "elsewhere":
        return verdict
    told = ((flaw.code, f"its lock can't be right: {flaw.message}") for flaw in own)
    found = tuple(Finding("error", code, message, remedy=remedy) for code, message in told)
    return replace(verdict, status="infeasible", torch=(), findings=(*verdict.findings, *found))
