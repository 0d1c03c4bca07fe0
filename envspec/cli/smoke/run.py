"""What `envspec smoke` does: from what was asked to runs, and from runs to documents and an exit code."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.atomic import try_out
from envspec.cli import options
from envspec.cli.console import out, say
from envspec.cli.main import tell
from envspec.cli.outputs import location, write_text
from envspec.cli.smoke import cases as smoke_cases
from envspec.cli.smoke import show as smoke_show
from envspec.errors import InputError, StorageError, ToolError
from envspec.smoke.report.result import Results, Run
from envspec.smoke.run.case import Case, Folders, Options
from envspec.smoke.run.submitted import STATE, Submitted, read_submitted
from envspec.storage import storage_error
from envspec.texts import printable

if TYPE_CHECKING:
    from envspec.lock.model import LockedTarget
    from envspec.smoke.run.runner import Runner

_OF_RUNNERS = {
    "image": ("docker",), "engine": ("docker",), "sif": ("apptainer", "slurm"), "inner": ("slurm",),
    "partitions": ("slurm",), "account": ("slurm",), "limit": ("slurm",), "gres": ("slurm",),
    "gpus_per_node": ("slurm",), "cpus_per_task": ("slurm",), "memory": ("slurm",),
    "sbatch_args": ("slurm",), "no_wait": ("slurm",),
}  # fmt: skip
"""Options that mean something to some runners only."""
EXIT = {"pass": 0, "fail": 1, "skip": 1, "error": 3}
"""The exit code by the verdict of all runs: no answer is the outside's failure, not the environment's."""
_SPELT = {"partitions": "--partition", "limit": "--time", "memory": "--mem", "sbatch_args": "--sbatch-arg"}


@dataclass(frozen=True)
class Asked:
    """The command line of `envspec smoke`, option by option."""

    paths: tuple[str, ...]
    targets: tuple[str, ...]
    runner: str
    device: str
    workload: str | None
    steps: int | None
    quick: bool
    only: tuple[str, ...]
    timeout: int | None
    references: Path | None
    output: Path | None
    junit: Path | None
    html: Path | None
    dry_run: bool
    offline: bool
    image: str | None
    engine: str | None
    sif: Path | None
    partitions: tuple[str, ...]
    nodes: int
    inner: str | None
    account: str | None
    limit: str | None
    gres: str | None
    gpus_per_node: str | None
    cpus_per_task: int | None
    memory: str | None
    sbatch_args: tuple[str, ...]
    no_wait: bool
    attach: str | None
    locks_dir: Path | None
    as_json: bool

    def run(self) -> int:
        """Do it. Raises InputError, StorageError, ToolError."""
        if self.attach is not None:
            self._refuse_unwritable()
            return self._attached(self.attach)
        self._refuse()
        folders = Folders(self._cache(), self._results())
        cases, skipped = self._cases()
        if self.runner == "slurm":
            return self._slurm(cases, skipped, folders)
        runner = self._runner(self.runner, folders)
        if self.dry_run:
            return self._dry_local(runner, cases, skipped, folders)
        from envspec.smoke.run.foreground import perform

        titles = [f"{case.spec} × {case.target}" for case in cases]
        try:
            with smoke_show.progress(titles, quiet=self.as_json) as shown:
                runs = perform(runner, cases, self._options(), folders, shown.told, shown.ended)
        except KeyboardInterrupt:
            say(f"interrupted: what is done so far lies in {folders.results}")
            return 130
        return self._finish((*runs, *self._skipped(skipped)), folders.results)

    # what was asked, in the words of the parts that do it

    def _refuse(self) -> None:
        if not self.paths:
            raise InputError(
                "which spec?", hint="envspec smoke specs/NAME.toml, or --attach JOB for what was submitted"
            )
        for name, runners in _OF_RUNNERS.items():
            if getattr(self, name) and self.runner not in runners:
                spelt = _SPELT.get(name, "--" + name.replace("_", "-"))
                raise InputError(f"{spelt} is for --runner {' or '.join(runners)}, not for {self.runner}")
        if self.nodes > 1 and self.runner != "slurm":
            raise InputError(f"--nodes is for --runner slurm, not for {self.runner}")
        if self.sif and self.inner == "local":
            raise InputError("--sif is for --inner apptainer")
        if self.dry_run and self.as_json:
            raise InputError("--dry-run prints what would be run, which has no JSON")
        self._refuse_unwritable()

    def _refuse_unwritable(self) -> None:
        """Before hours of a cluster, not after them. Raises StorageError."""
        for option, path in self._documents().items():
            try:
                with location(path.parent, self.paths).open(make=True) as folder:
                    folder.refuse_odd(path.name)
                    try_out(folder)
            except OSError as error:
                raise storage_error(error, path, option=option) from None

    def _documents(self) -> dict[str, Path]:
        """The files that are written besides, by their option."""
        given = {"--junit": self.junit, "--html": self.html}
        return {} if self.dry_run else {option: path for option, path in given.items() if path is not None}

    def _options(self) -> Options:
        return Options(self.device, self.workload, self.steps, self.quick, self.only, self.timeout)

    def _cache(self) -> Path:
        from envspec.settings import load_settings

        return load_settings().cache().absolute() / "smoke"

    def _results(self) -> Path:
        if self.output is not None:
            return Path(os.path.abspath(self.output))
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        return self._cache() / "results" / f"{stamp}-{secrets.token_hex(2)}"

    def _within(self) -> str:
        """The runner that the checks run in: for slurm the inner one."""
        if self.runner != "slurm":
            return self.runner
        return self.inner or ("apptainer" if self.sif else "local")

    def _cases(self) -> tuple[tuple[Case, ...], tuple[smoke_cases.Skipped, ...]]:
        from envspec.smoke.report.references import References, load_references

        within = self._within()
        blind = self.runner == "slurm" or self.device == "cpu"
        machine = smoke_cases.this_machine(without_gpu=blind, contained=within != "local")
        given = self.image or self.sif

        def gpus(target: LockedTarget) -> bool:
            if target.inputs.cuda is None or self.device == "cpu":
                return False
            return self.runner == "slurm" or self.device == "cuda" or bool(machine.capabilities)

        format = {"docker": "dockerfile", "apptainer": "apptainer"}.get(within)
        cases, skipped = smoke_cases.find_cases(
            self.paths,
            self.targets,
            self.locks_dir,
            machine=machine,
            gpus=gpus,
            references=load_references(self.references) if self.references else References({}, {}),
            recipe=partial(smoke_cases.recipe_of, format=format) if format and not given else smoke_cases.no_recipe,
            multi_node=self.nodes > 1,
        )
        if self.device == "cuda":
            cases, skipped = self._without_cpu_targets(cases, skipped)
        if given and len(cases) != 1:
            raise InputError(f"one image, and {len(cases)} targets to check in it", hint="choose one with --target")
        return cases, skipped

    def _without_cpu_targets(
        self, cases: tuple[Case, ...], skipped: tuple[smoke_cases.Skipped, ...]
    ) -> tuple[tuple[Case, ...], tuple[smoke_cases.Skipped, ...]]:
        """Raises InputError for a target that was named, or where no other is left."""
        without = [case for case in cases if not case.cuda]
        if without and (self.targets or len(without) == len(cases)):
            names = ", ".join(case.title for case in without)
            raise InputError(
                f"--device cuda, and {names} has no CUDA", hint="leave --device out, or choose a CUDA target"
            )
        told = tuple((case.spec, case.target, "it is for CPUs, and --device cuda was asked for") for case in without)
        return tuple(case for case in cases if case.cuda), (*skipped, *told)

    def _runner(self, name: str, folders: Folders) -> Runner:
        from envspec.smoke.run.apptainer import Apptainer
        from envspec.smoke.run.docker import Docker, user_of
        from envspec.smoke.run.local import Local

        if name == "docker":
            engine = self.engine or next((each for each in ("docker", "podman") if shutil.which(each)), None)
            if engine is None and not self.dry_run:
                raise ToolError("neither docker nor podman is in PATH", hint="install one, or take --runner apptainer")
            engine = engine or "docker"
            if engine == "docker" and not self.image and not self.dry_run:
                _need_buildx()
            return Docker(folders, engine, user_of(engine, (os.getuid(), os.getgid())), self.image)
        if name == "apptainer":
            program = next((each for each in ("apptainer", "singularity") if shutil.which(each)), None)
            if program is None and not self.dry_run:
                raise ToolError(
                    "neither apptainer nor singularity is in PATH", hint="on clusters: module load apptainer"
                )
            return Apptainer(folders, program or "apptainer", Path(os.path.abspath(self.sif)) if self.sif else None)
        return Local(folders, smoke_cases.ENVSPEC, self.offline)

    # Slurm

    def _slurm(self, cases: tuple[Case, ...], skipped: tuple[smoke_cases.Skipped, ...], folders: Folders) -> int:
        from envspec.smoke.run.jobs import Plan, prepare_all, submit
        from envspec.smoke.run.slurm import Partition, Resources, partition_of, plan_jobs

        if (folders.results / STATE).exists():
            raise InputError(
                f"{folders.results} holds jobs that were submitted already",
                hint=f"envspec smoke --attach {folders.results}, or another folder for -o",
            )
        # the folder is used once, so its name makes the jobs' names unique
        token = hashlib.sha256(str(folders.results).encode()).hexdigest()[:8]
        partitions = [partition_of(text) for text in self.partitions] or [Partition(None)]
        resources = Resources(
            self.nodes, self.account, self.limit, self.gres, self.gpus_per_node, self.cpus_per_task, self.memory,
            self.sbatch_args,
        )  # fmt: skip
        homeless = [case for case in cases if not any(place.takes(case.target) for place in partitions)]
        if homeless and len(homeless) == len(cases):
            raise InputError(
                f"no partition takes {', '.join(case.title for case in homeless)}",
                hint="see the patterns of --partition NAME=TARGET,…",
            )
        cases = tuple(case for case in cases if case not in homeless)
        skipped = (*skipped, *((case.spec, case.target, "no --partition takes it") for case in homeless))
        jobs = plan_jobs(cases, partitions, token)
        plan = Plan(cases, jobs, self._runner(self._within(), folders), self._options(), resources, folders)
        if self.dry_run:
            return self._dry(plan.steps(), skipped)
        if not cases:
            return self._finish(self._skipped(skipped), folders.results)
        if shutil.which("sbatch") is None:
            raise ToolError("sbatch isn't in PATH", hint="submit from a login node of the cluster")
        try:
            titles = [f"{case.spec} × {case.target}" for case in cases]
            with smoke_show.progress(titles, quiet=self.as_json) as shown:
                plan, failed = prepare_all(plan, shown.told)
            submitted = submit(plan, Submitted((), failed, skipped), self._remember(folders))
        except KeyboardInterrupt:
            say("interrupted")
            if (folders.results / STATE).exists():
                say(f"hint: some jobs may run already: envspec smoke --attach {folders.results}")
            return 130
        numbers = " ".join(job.job for job in submitted.jobs if job.job)
        if numbers:
            say(f"submitted: {numbers}; reports go to {folders.results}")
        for job in submitted.jobs:
            if problem := job.unsure or (job.refused if self.no_wait else None):
                say(f"{job.name}: {printable(problem)}")
        if self.no_wait:
            if self.as_json:
                raise InputError("--no-wait has nothing to report", hint="--json goes with --attach")
            out(str(folders.results))
            return 3 if failed or any(job.job is None for job in submitted.jobs) else 0
        return self._wait(submitted, folders.results)

    def _remember(self, folders: Folders) -> Callable[[str], None]:
        """Write down where a job's results go, for `--attach JOB`."""

        def remember(job: str) -> None:
            write_text(folders.cache / "jobs" / job, f"{folders.results}\n")

        return remember

    def _attached(self, where: str) -> int:
        if self.paths or self.targets:
            raise InputError("--attach takes no spec and no target: it goes on with what was submitted")
        results = Path(os.path.abspath(where))
        pointer = self._cache() / "jobs" / where
        if not (results / STATE).exists() and where.isdigit():
            try:
                results = Path(pointer.read_text(encoding="utf-8").rstrip("\n"))
            except OSError:
                raise InputError(
                    f"no job {where} was submitted from here", hint="give --attach the folder of its results"
                ) from None
        return self._wait(read_submitted(results), results)

    def _wait(self, submitted: Submitted, results: Path) -> int:
        from envspec.smoke.run.jobs import titles, wait

        failed = [Run(s, t, "slurm", "error", None, reason, None, log) for s, t, reason, log in submitted.failed]
        try:
            with smoke_show.progress(list(titles(submitted)), quiet=self.as_json) as shown:
                runs = wait(submitted, results, shown.told, shown.ended)
        except KeyboardInterrupt:
            say("interrupted: the jobs go on")
            say(f"hint: envspec smoke --attach {results}")
            return 130
        return self._finish((*runs, *failed, *self._skipped(submitted.skipped, "slurm")), results)

    # what comes out

    def _skipped(self, skipped: Iterable[smoke_cases.Skipped], runner: str | None = None) -> tuple[Run, ...]:
        return tuple(Run(spec, target, runner or self.runner, "skip", None, reason) for spec, target, reason in skipped)

    def _dry_local(
        self, runner: Runner, cases: Sequence[Case], skipped: tuple[smoke_cases.Skipped, ...], folders: Folders
    ) -> int:
        from envspec.smoke.run.command import Step
        from envspec.smoke.run.foreground import steps

        found: list[Step] = []
        for case in cases:
            before, checking = steps(runner, case, self._options(), folders)
            found += [*before, checking]
        return self._dry(found, skipped)

    def _dry(self, found: Sequence[object], skipped: tuple[smoke_cases.Skipped, ...]) -> int:
        from envspec.smoke.run.command import dry

        for spec, target, reason in skipped:
            out(f"# skipped: {spec} × {target}: {printable(reason)}")
        if found:
            out(dry(found))  # type: ignore[arg-type]
        return 0

    def _finish(self, runs: tuple[Run, ...], results: Path) -> int:
        from envspec.smoke.report.as_json import as_json

        whole = Results(runs)
        failed: StorageError | None = None
        for option, path in self._documents().items():
            # hours of a cluster aren't thrown away because one page can't be written
            try:
                write_text(path, _document(option, whole), option, self.paths)
                say(f"wrote {path}")
            except StorageError as error:
                tell(error)
                failed = error
        if self.as_json:
            options.print_json("smoke", as_json(whole))
        else:
            from envspec.cli.smoke.table import lines

            out("\n".join(lines(whole)))
        if any(run.status != "skip" for run in runs):
            say(f"reports and logs: {results}")
        if failed is not None:
            return failed.exit_code
        return EXIT[whole.verdict]


def _document(option: str, results: Results) -> str:
    if option == "--junit":
        from envspec.smoke.report.junit import junit

        return junit(results)
    from envspec.smoke.report.page import page

    return page(results)


def _need_buildx() -> None:
    """Raises ToolError where docker can't build as the recipe wants it."""
    from envspec.smoke.run.process import ask

    done = ask(["docker", "buildx", "version"])
    if done.status:
        said = done.said.strip().splitlines()
        raise ToolError(
            f"docker has no buildx, which builds the image: {printable(said[0]) if said else 'it says nothing'}",
            hint="install docker's buildx plugin, or take --engine podman, or --image with one that is built",
        )
