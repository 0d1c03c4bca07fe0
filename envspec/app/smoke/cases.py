"""The cases that smoke runs: specs and targets, and what this machine can run of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from envspec.app import inputs
from envspec.app.this_machine import this_machine
from envspec.base.errors import InputError, ToolError
from envspec.base.programs import ENVSPEC, find_program
from envspec.base.texts import printable
from envspec.configuration.settings import load_settings
from envspec.export.carried import check_files, multi_node_program
from envspec.export.folder import render
from envspec.export.make import make_plan
from envspec.lock.model import LockedTarget, SoundLock
from envspec.prove.doctor.fits import LocalMachine, reason_to_skip
from envspec.prove.smoke.report.compare import References, load_references
from envspec.prove.smoke.run.apptainer import Apptainer
from envspec.prove.smoke.run.case import (
    MULTI_NODE,
    CheckOptions,
    Folders,
    Local,
    Runner,
    SiteBuilds,
    Skipped,
    SmokeCase,
    leave_out_cpu,
    make_case,
    refuse_twins,
)
from envspec.prove.smoke.run.docker import Docker, refuse_without_buildx, user_of
from envspec.prove.smoke.run.slurm import Resources
from envspec.rules.secret_variables import refuse_secret_variables
from envspec.spec.model import ON_MACHINES, Spec

# A request to smoke: the targets, the checks, the runner, and the folders and files for the results.


class SmokeRequest(Struct, frozen=True):
    """A smoke run.

    targets     without names all that this machine, or the cluster, can run
    references  a file with the site's references for figures
    inner       with slurm the runner on the nodes
    image, sif  an image instead of one built from the recipe
    partitions  with slurm `NAME` or `NAME=TARGET,…`
    no_wait     with slurm: submit, and don't wait
    output      the folder for reports and logs; None: a new one in the cache
    near        also targets whose code this machine's GPUs run, though they are made for others
    evidence    the folder that keeps the reports that prove something
    attach      a job's number or the folder of a submission: wait for its jobs, which needs no spec
    """

    paths: tuple[str, ...]
    targets: tuple[str, ...]
    locks_dir: Path | None
    references: Path | None
    runner: str
    inner: str | None
    image: str | None
    engine: str | None
    sif: Path | None
    offline: bool
    partitions: tuple[str, ...]
    no_wait: bool
    output: Path | None
    near: bool
    evidence: Path | None
    junit: Path | None
    html: Path | None
    dry_run: bool
    attach: str | None
    checks: CheckOptions
    resources: Resources

    @property
    def within(self) -> str:
        """The runner of the checks themselves: with slurm the inner one."""
        if self.runner != "slurm":
            return self.runner
        return self.inner or ("apptainer" if self.sif else "local")

    @property
    def documents(self) -> dict[str, Path]:
        """The other files to write, by their option."""
        given = {"--junit": self.junit, "--html": self.html}
        return {option: path for option, path in given.items() if path is not None}


_RUNNERS = {"image": ("docker", "apptainer"), "sif": ("apptainer",), **dict.fromkeys(ON_MACHINES, ("local",))}
"""The runners that have what comes on top of a base, by the base's kind."""
_FORMATS = {"docker": "dockerfile", "apptainer": "apptainer"}
"""The recipe that a runner builds."""


def choose_cases(request: SmokeRequest) -> tuple[tuple[SmokeCase, ...], tuple[Skipped, ...]]:
    """Give the cases of the named targets, or of all that this machine can run, and the skipped ones.

    Raises as `read_lock`; InputError for a choice that can't run.
    """
    cpu, slurm = request.checks.device == "cpu", request.runner == "slurm"
    machine = this_machine(without_gpu=slurm or cpu, contained=request.within != "local")
    machine = replace(machine, near=request.near)
    references = load_references(request.references) if request.references else References({}, {})
    programs = _programs(request.resources.nodes > 1)
    cases: list[SmokeCase] = []
    skipped: list[Skipped] = []
    unknown = set(request.targets)
    for path in dict.fromkeys(request.paths):
        spec, lock = inputs.read_lock(path, request.locks_dir, making="proof", on_base=True)
        if spec.base and request.within not in _RUNNERS[spec.base.kind]:
            inputs.refuse_base(spec, f"--runner {request.within} on a {spec.base.kind}")
        locks = inputs.folder_of(spec, request.locks_dir).folder.parent
        # with one spec, a misspelt target gets its hint; of several, each may have some of those named
        named = request.targets if len(request.paths) == 1 else [name for name in request.targets if lock.target(name)]
        unknown -= set(named)
        if request.targets and not named:
            continue
        for target in inputs.locked_targets(lock, named):
            reason = reason_to_skip(
                spec, target, machine, nodes=request.resources.nodes, is_named=bool(request.targets)
            )
            if reason:
                skipped.append((spec.name, target.name, reason))
                continue
            cases.append(
                make_case(
                    spec,
                    lock,
                    target,
                    locks_dir=str(locks),
                    programs=programs,
                    references=references.of(target.name),
                    recipe=_recipe(request, spec, lock, target),
                    wants_gpu=_wants_gpu(request, target, machine),
                )
            )
    if unknown:
        raise InputError(f"none of these specs has a target {', '.join(sorted(map(printable, unknown)))}")
    refuse_twins(cases)
    if request.checks.device == "cuda":
        cases, more = leave_out_cpu(cases, named=bool(request.targets))
        skipped += more
    if (request.image or request.sif) and len(cases) != 1:
        raise InputError(f"one image can't serve {len(cases)} targets", hint="choose one with --target")
    return tuple(cases), tuple(skipped)


def _wants_gpu(request: SmokeRequest, target: LockedTarget, machine: LocalMachine) -> bool:
    """Return whether a target's runs get the machine's GPUs."""
    if target.inputs.cuda is None or request.checks.device == "cpu":
        return False
    return request.runner == "slurm" or request.checks.device == "cuda" or bool(machine.capabilities)


def _recipe(request: SmokeRequest, spec: Spec, lock: SoundLock, target: LockedTarget) -> Mapping[str, str]:
    """Render the recipe folder that an image is built from, as `envspec export` writes it; empty where none is built.
    Raises InputError where none is possible."""
    format = _FORMATS.get(request.within)
    if format is None or request.image or request.sif:
        return {}
    refuse_secret_variables(spec, [target.name])
    return render(make_plan(spec, lock, target), format)


def _programs(multi_node: bool) -> dict[str, str]:
    programs = dict(check_files())
    if multi_node:
        programs[MULTI_NODE] = multi_node_program()
    return programs


# The runners of `envspec smoke`, with this machine's programs.


def make_runner(name: str, request: SmokeRequest, folders: Folders) -> Runner:
    """Make the runner of this name. Raises ToolError where its program is missing and would run."""
    if name == "docker":
        engine = request.engine or _first_in_path("docker", "podman")
        if engine is None and not request.dry_run:
            raise ToolError("neither docker nor podman is in PATH", hint="install one, or use --runner apptainer")
        engine = engine or "docker"
        if engine == "docker" and not request.image and not request.dry_run:
            refuse_without_buildx()
        user = user_of(engine, (os.getuid(), os.getgid()))
        return Docker(folders, engine, user, request.image, site=SiteBuilds(load_settings(), os.environ))
    if name == "apptainer":
        program = _first_in_path("apptainer", "singularity")
        if program is None and not request.dry_run:
            raise ToolError("neither apptainer nor singularity is in PATH", hint="on clusters: module load apptainer")
        sif = Path(os.path.abspath(request.sif)) if request.sif else None
        return Apptainer(folders, program or "apptainer", sif, site=SiteBuilds(load_settings(), os.environ))
    return Local(folders, ENVSPEC, request.offline)


def _first_in_path(*programs: str) -> str | None:
    return next((program for program in programs if find_program(program, os.environ)), None)
