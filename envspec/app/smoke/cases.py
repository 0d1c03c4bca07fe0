"""The cases that `envspec smoke` runs: specs and targets, and what this machine can run of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.app import inputs
from envspec.app.this_machine import this_machine
from envspec.base.errors import InputError
from envspec.base.texts import printable
from envspec.lock.judge import SoundLock
from envspec.lock.model import LockedTarget
from envspec.prove.doctor.fits import LocalMachine, misfit
from envspec.prove.smoke.report.references import References
from envspec.prove.smoke.run.case import MULTI_NODE, SmokeCase, make_case
from envspec.spec.model import Spec

if TYPE_CHECKING:
    from envspec.app.smoke.options import SmokeOptions

Skipped = tuple[str, str, str]
"""A spec, a target, and the reason why this machine can't run it."""


Recipe = Callable[[Spec, SoundLock, LockedTarget], Mapping[str, str]]
"""Render the files of a recipe folder, by path."""


def no_recipe(spec: Spec, lock: SoundLock, target: LockedTarget) -> Mapping[str, str]:
    return {}


def recipe_of(spec: Spec, lock: SoundLock, target: LockedTarget, *, format: str) -> Mapping[str, str]:
    """Render a recipe folder of one format, as `envspec export` writes it. Raises InputError where none is possible."""
    from envspec.export.folder import render
    from envspec.export.make import make_plan

    return render(make_plan(spec, lock, target), format)


def choose_cases(options: SmokeOptions) -> tuple[tuple[SmokeCase, ...], tuple[Skipped, ...]]:
    """Give the cases that the options name, and the skipped ones. Raises InputError for a choice that can't run."""
    from envspec.prove.smoke.report.references import load_references

    selection, place, device = options.selection, options.place, options.checks.device
    slurm, within = place.runner == "slurm", place.within
    machine = this_machine(without_gpu=slurm or device == "cpu", contained=within != "local")
    given = place.image or place.sif

    def gpus(target: LockedTarget) -> bool:
        if target.inputs.cuda is None or device == "cpu":
            return False
        return slurm or device == "cuda" or bool(machine.capabilities)

    format = {"docker": "dockerfile", "apptainer": "apptainer"}.get(within)
    cases, skipped = find_cases(
        selection.paths,
        selection.targets,
        selection.locks_dir,
        machine=machine,
        gpus=gpus,
        references=load_references(selection.references) if selection.references else References({}, {}),
        recipe=partial(recipe_of, format=format) if format and not given else no_recipe,
        multi_node=options.submission.resources.nodes > 1,
    )
    if device == "cuda":
        cases, skipped = _without_cpu_targets(cases, skipped, named=bool(selection.targets))
    if given and len(cases) != 1:
        raise InputError(f"one image can't serve {len(cases)} targets", hint="choose one with --target")
    return cases, skipped


def _without_cpu_targets(
    cases: tuple[SmokeCase, ...], skipped: tuple[Skipped, ...], *, named: bool
) -> tuple[tuple[SmokeCase, ...], tuple[Skipped, ...]]:
    """Refuse a named target, or the last one left. Raises InputError."""
    without = [case for case in cases if not case.cuda]
    if without and (named or len(without) == len(cases)):
        names = ", ".join(case.title for case in without)
        raise InputError(
            f"--device cuda needs CUDA, and {names} has none", hint="leave --device out, or choose a CUDA target"
        )
    more = tuple((case.spec, case.target, "the target is for CPUs, and --device asks for cuda") for case in without)
    return tuple(case for case in cases if case.cuda), (*skipped, *more)


def find_cases(
    paths: Sequence[str],
    targets: Sequence[str],
    locks_dir: Path | None,
    *,
    machine: LocalMachine,
    gpus: Callable[[LockedTarget], bool],
    references: References,
    recipe: Recipe,
    multi_node: bool = False,
) -> tuple[tuple[SmokeCase, ...], tuple[Skipped, ...]]:
    """Give the cases of these specs for the named targets, or for all that `machine` can run; and the skipped ones.

    `gpus` says whether a target's runs get the machine's GPUs; `multi_node` adds the program for several nodes. Raises
    InputError.
    """
    programs = _programs(multi_node)
    cases: list[SmokeCase] = []
    skipped: list[Skipped] = []
    unknown = set(targets)
    for path in dict.fromkeys(paths):
        spec, lock = inputs.read_lock(path, locks_dir, making="proof")
        inputs.warn_if_stale(spec, lock)
        folder = inputs.folder_of(spec, locks_dir)
        # with one spec, a misspelt target gets its hint; of several, each may have some of those named
        named = targets if len(paths) == 1 else [name for name in targets if lock.target(name)]
        unknown -= set(named)
        if targets and not named:
            continue
        for target in inputs.locked_targets(lock, named):
            reason = None if targets else misfit(spec, target, machine)
            if reason:
                skipped.append((spec.name, target.name, reason))
                continue
            cases.append(
                make_case(
                    spec,
                    lock,
                    target,
                    locks_dir=str(folder.folder.parent),
                    programs=programs,
                    references=references.of(target.name),
                    recipe=recipe(spec, lock, target),
                    wants_gpu=gpus(target),
                )
            )
    if unknown:
        raise InputError(f"none of these specs has a target {', '.join(sorted(map(printable, unknown)))}")
    _refuse_twins(cases)
    return tuple(cases), tuple(skipped)


def _programs(multi_node: bool) -> dict[str, str]:
    from envspec.export.carried import check_files, multi_node_program

    found = dict(check_files())
    if multi_node:
        found[MULTI_NODE] = multi_node_program()
    return found


def _refuse_twins(cases: Sequence[SmokeCase]) -> None:
    """Refuse two specs with the same name, which would share folders of results."""
    seen: dict[str, str] = {}
    for case in cases:
        if case.title in seen:
            raise InputError(
                f"{seen[case.title]} and {case.path} both have runs called {case.title}",
                hint="run them one after the other",
            )
        seen[case.title] = case.path
