"""A lock judged against its spec and itself, offline.

A lock that passes is consistent. Whether the indexes serve its files isn't checked here.

Why it is so: docs/design/12-judging-locks.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from envspec.base.errors import LockError, Place
from envspec.base.finding import Finding, errors, merge_targets
from envspec.base.texts import printable
from envspec.lock.inputs import SpecCase
from envspec.lock.model import Lock, LockedTarget, SoundLock, SpecInputs, TargetInputs
from envspec.lock.rules import builds, cuda, derived, files, requirements
from envspec.lock.rules.case import LockedCase
from envspec.packages.python_range import is_within

WRONG_BUILDS = frozenset({"wrong-cuda", "cpu-build", "cpu-variant"})
"""The codes of what belongs to another CUDA, or to none."""

_Rule = Callable[[LockedCase], Iterator[Finding]]


def _without_gpus(inputs: TargetInputs) -> TargetInputs:
    return replace(inputs, gpus=(), driver=None)


def _without_machine(inputs: TargetInputs) -> TargetInputs:
    return replace(inputs, gpus=(), driver=None, glibc=None, cuda=None, find_links=(), addresses=(), accept=())


_RULES: tuple[tuple[Callable[[TargetInputs], TargetInputs], tuple[_Rule, ...]], ...] = (
    (
        _without_gpus,
        (
            cuda.wrong_builds,
            cuda.wrong_labels,
            requirements.built_sources,
            requirements.wrong_indexes,
            files.wrong_files,
            files.wrong_hashes,
            builds.wrong_build_environments,
            requirements.refused_pythons,
            derived.wrong_marks,
            derived.wrong_code,
        ),
    ),
    (
        _without_machine,
        (
            requirements.unnamed_sources,
            requirements.unmet,
            requirements.broken_constraints,
            requirements.stray_pins,
            requirements.conda_duplicates,
            requirements.wrong_edges,
        ),
    ),
)
"""The rules of pins, by what they are shown of a target's inputs. They can't depend on what is left out, so targets
whose pins and shown inputs are equal are judged once."""

_WHOLE: tuple[Callable[[Lock], Iterator[Finding]], ...] = (
    requirements.flaws,
    derived.two_hashes,
    derived.wrong_pythons,
    derived.wrong_bases,
)


class UnsoundLock(LockError):
    """The lock's pins can't be right, though its inputs are the spec's: the lock was tampered with, or is by a faulty
    envspec.

    `flaws` has all errors; the message names the first ones.
    """

    def __init__(self, path: str, flaws: Sequence[Finding], relock: str) -> None:
        self.flaws = tuple(flaws)
        left = len(self.flaws) - _SHOWN_FLAWS
        lines = [f"{printable(flaw.text)}  [{flaw.code}]" for flaw in _spread_codes(self.flaws)[:_SHOWN_FLAWS]]
        more = [f"and {left} more: `envspec check` lists them"] if left > 0 else []
        super().__init__(
            "\n  ".join(["what the lock pins can't be right for its spec:", *lines, *more]),
            hint=f"run `{relock}`, which solves again what fails; if none of you changed the lock, find out who did",
            place=Place(path),
        )


_SHOWN_FLAWS = 8


def _spread_codes(flaws: Sequence[Finding]) -> list[Finding]:
    """Put the first flaw of each code before the second of any, so that many of one kind don't hide the others."""
    seen: Counter[str] = Counter()
    ranked = []
    for flaw in flaws:
        ranked.append((seen[flaw.code], flaw))
        seen[flaw.code] += 1
    return [flaw for _, flaw in sorted(ranked, key=lambda pair: pair[0])]


def judge(lock: Lock, case: SpecCase | None = None) -> tuple[Finding, ...]:
    """Return the flaws of a lock; empty for a lock without any.

    With a spec, every target is judged by the spec's present inputs, whatever the lock records. Without a spec, it is
    judged by the inputs that the lock records. A difference from today's facts alone is a warning. `check` and `lock`
    accept neither errors nor warnings; commands that install or export accept a lock with warnings.
    """
    lock_findings = (
        *(flaw for rule in _WHOLE for flaw in rule(lock)),
        *(flaw for target in lock for flaw in derived.other_target_facts(LockedCase(target, lock.inputs), "warning")),
    )
    if case is None:
        return merge_targets((*_judge_each(lock, lock.inputs), *lock_findings))
    case = case.beside(lock)
    known = [_with_inputs(target, case.targets[target.name]) for target in lock if target.name in case.targets]
    return merge_targets(
        (
            *_judge_each(known, case.shared),
            *_facts_of_others(lock, known, case.shared),
            *_missing_builds(lock, known, case),
            *(
                Finding("error", "unknown-target", "the spec has no such target", targets=(target.name,))
                for target in lock
                if target.name not in case.targets
            ),
            *lock_findings,
        )
    )


def flaws_of(lock: Lock, case: SpecCase) -> tuple[Finding, ...]:
    """Return the errors of a lock. Later changes of the spec make a lock stale, not wrong."""
    return judge(lock, case if case.is_of(lock) else None)


def _with_inputs(target: LockedTarget, inputs: TargetInputs) -> LockedTarget:
    """Give a target with the spec's inputs, and the Python that it was solved for."""
    own = target.inputs
    return replace(target, inputs=replace(inputs, python_version=own.python_version, newest_python=own.newest_python))


def _facts_of_others(lock: Lock, targets: Iterable[LockedTarget], shared: SpecInputs) -> Iterator[Finding]:
    """Yield the differences from today's facts of targets whose GPUs, CUDA or platform the spec changed."""
    for target in targets:
        own, new = lock.target(target.name), target.inputs
        if own and (own.inputs.gpus, own.inputs.cuda, own.inputs.platform) != (new.gpus, new.cuda, new.platform):
            yield from derived.other_target_facts(LockedCase(target, shared), "error")


def _missing_builds(lock: Lock, targets: Iterable[LockedTarget], case: SpecCase) -> Iterator[Finding]:
    for target in targets:
        against_lock = case.spec.terms_of(target.name).built_against_lock
        yield from builds.missing_build_environments(LockedCase(target, case.shared), against_lock)


def judge_on_python(lock: Lock, target: LockedTarget, version: str) -> tuple[Finding, ...]:
    """Return the flaws that a target of a sound lock would have on a Python that it wasn't solved for: by
    Requires-Python and markers, as far as the lock holds them."""
    inputs = target.inputs
    if not is_within(version, inputs.python, inputs.python_range):
        message = f"the spec asks for Python {inputs.python_range or inputs.python}"
        return (Finding("error", derived.WRONG_PYTHON, message, targets=(target.name,)),)
    return judge_target(replace(target, inputs=replace(inputs, python_version=version)), lock.inputs)


def judge_target(target: LockedTarget, shared: SpecInputs) -> tuple[Finding, ...]:
    """Return the flaws of one target's pins, by the inputs that it records."""
    return tuple(_judge_each((target,), shared))


def _judge_each(targets: Iterable[LockedTarget], shared: SpecInputs) -> Iterator[Finding]:
    judged: dict[object, tuple[Finding, ...]] = {}
    for target in targets:
        yield from _judge_pins(target, shared, judged)
        today = derived.with_todays_names(target)
        if today is not target:
            # by these names, too, every requirement has to be met
            by_today = tuple(_judge_pins(today, shared, {}))
            yield from by_today
            yield from derived.other_names(LockedCase(target, shared), "error" if errors(by_today) else "warning")


def _judge_pins(
    target: LockedTarget, shared: SpecInputs, judged: dict[object, tuple[Finding, ...]]
) -> Iterator[Finding]:
    # Pins are compared as objects, since comparing thousands by value takes longer than judging them.
    pins = tuple(map(id, target.pins))
    for shown, rules in _RULES:
        inputs = shown(target.inputs)
        if (rules, inputs, pins) not in judged:
            own = LockedTarget(target.name, inputs, target.pins, provided=target.provided, extras=target.extras)
            case = LockedCase(own, shared)
            judged[rules, inputs, pins] = tuple(flaw for rule in rules for flaw in rule(case))
        for flaw in judged[rules, inputs, pins]:
            yield replace(flaw, targets=(target.name,))
    # their GPUs decide, which most rules aren't shown
    yield from cuda.wrong_variants(LockedCase(target, shared))


def sound(lock: Lock, case: SpecCase, path: str) -> SoundLock:
    """Judge a lock against its spec and return it as sound, with its warnings. Raises UnsoundLock for errors; `path`
    is the lock's, for the message."""
    flaws = judge(lock, case)
    if wrong := errors(flaws):
        raise UnsoundLock(path, wrong, f"envspec lock {case.spec.path}")
    return SoundLock.of(replace(lock, targets=tuple(map(derived.strictest, lock))), flaws)
