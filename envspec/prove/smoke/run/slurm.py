"""Slurm jobs: one job per partition, an array of its cases. Pure: the scripts and the sbatch commands.

A job runs the commands of an inner runner (local or apptainer). Each task writes its report and `done.json`, whole or
not at all, below the shared folder of results. These files count, not the submitting process's memory. On several nodes
the checks run once on each, and then `multi_node.py` under torchrun, whose processes meet on the first node: at the
address by which Slurm reaches it, with ranks by Slurm's number of each node, so that no name needs to resolve. Each
node counts its own ranks, and the wait for other nodes is limited: a job that can't continue reports it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from textwrap import indent

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import InputError
from envspec.base.texts import fill
from envspec.export.slurm import MEETING_POINT, OF_OTHERS
from envspec.prove.smoke.run.case import (
    CONFIG,
    MULTI_NODE,
    REPORT,
    CheckOptions,
    Folders,
    Runner,
    SmokeCase,
    check,
    join,
    quote,
    variable,
)

DONE = "done.json"
"""The file that a task of a job writes last: its exit status, node and job."""
NODE = "node-{}"
MULTI_NODE_FOLDER = "multi-node"
JOBS = "jobs"
"""The folder of scripts and of Slurm's own logs, below the results."""

CPUS = 8
"""The CPUs that a job with GPUs requests by default: for workers that load data, and for the host memory that sites
allot by CPU (DefMemPerCPU).
"""
MEETING = 300
"""The time that nodes wait for each other, in seconds."""
MULTI_NODE_LIMIT = 900
"""The time limit of a run across nodes, in seconds: NCCL can hang where no time limit of torch applies."""

LARGEST_ARRAY = 1000
"""The greatest size of an array: Slurm's MaxArraySize is 1001 by default, so array indexes go to 1000 (slurm.conf)."""


class Partition(Struct, frozen=True):
    """A partition by name, None for Slurm's default one, and which targets go there (shell patterns; empty: all)."""

    name: str | None
    targets: tuple[str, ...] = ()

    def takes(self, target: str) -> bool:
        return not self.targets or any(fnmatchcase(target, pattern) for pattern in self.targets)


def partition_of(text: str) -> Partition:
    """Read `a100` or `a100=cu126-*,cu128-ampere`. Raises InputError."""
    name, equals, patterns = text.partition("=")
    listed = tuple(pattern.strip() for pattern in patterns.split(",") if pattern.strip())
    if not name or name.startswith("-") or not name.isprintable() or (equals and not listed):
        hint = "for example --partition a100, or --partition 'a100=cu128-ampere'"
        raise InputError(f"{text!r} doesn't name a partition", hint=hint)
    return Partition(name, listed)


class Resources(Struct, frozen=True):
    """The request of every job. None leaves a value to the site, except `cpus` of jobs with GPUs (`CPUS`); `more` goes
    to sbatch unchanged.
    """

    nodes: int = 1
    account: str | None = None
    time: str | None = None
    gres: str | None = None
    gpus_per_node: str | None = None
    cpus: int | None = None
    memory: str | None = None
    more: tuple[str, ...] = ()

    @property
    def says_cpus(self) -> bool:
        """Return whether the options request CPUs, in any of sbatch's ways."""
        spelt = ("-c", "--cpus-per-", "--exclusive", "--mincpus")
        return self.cpus is not None or any(word.startswith(spelt) for word in self.more)

    def words(self) -> tuple[str, ...]:
        given = {
            "account": self.account,
            "time": self.time,
            "gres": self.gres,
            "gpus-per-node": self.gpus_per_node,
            "cpus-per-task": self.cpus,
            "mem": self.memory,
        }
        options = [f"--{name}={value}" for name, value in given.items() if value is not None]
        return (f"--nodes={self.nodes}", "--ntasks-per-node=1", *options, *self.more)


class Task(Struct, frozen=True):
    """A case on a partition: one element of a job's array. `folder` is below the results."""

    case: SmokeCase
    partition: str | None
    folder: str


class Job(Struct, frozen=True):
    """One sbatch call. `name` is unique, so that Slurm can find it. `script` is below the results. `options` are of its
    specs and the site; the command line's own win over them.
    """

    name: str
    partition: str | None
    tasks: tuple[Task, ...]
    script: str
    options: tuple[str, ...] = ()

    @property
    def is_array(self) -> bool:
        return len(self.tasks) > 1

    @property
    def wants_gpu(self) -> bool:
        return any(task.case.wants_gpu for task in self.tasks)


def plan_jobs(
    cases: Sequence[SmokeCase],
    partitions: Sequence[Partition],
    token: str,
    asking: Callable[[SmokeCase], tuple[str, ...]] = lambda case: (),
) -> tuple[Job, ...]:
    """Make the jobs of a matrix of cases × partitions, without the cases that no partition takes. `token` makes the
    jobs' names unique; `asking` gives what a case asks of sbatch, and cases that ask for the same share a job.
    """
    jobs: list[Job] = []
    for place in partitions:
        alike: dict[tuple[str, ...], list[SmokeCase]] = {}
        for case in cases:
            if place.takes(case.target):
                alike.setdefault(asking(case), []).append(case)
        for options, taken, begin in (
            (options, of, at) for options, of in alike.items() for at in range(0, len(of), LARGEST_ARRAY)
        ):
            number = len(jobs)
            tasks = tuple(
                Task(case, place.name, f"runs/{number}-{case.title}{_suffix(place.name)}")
                for case in taken[begin : begin + LARGEST_ARRAY]
            )
            jobs.append(Job(f"envspec-{token}-{number}", place.name, tasks, f"{JOBS}/{number}.sh", options))
    return tuple(jobs)


def _suffix(partition: str | None) -> str:
    return f"-{re.sub(r'[^A-Za-z0-9._-]', '_', partition)}" if partition else ""


def outputs(task: Task, nodes: int) -> tuple[str, ...]:
    """List the folders, below the results, of a task's reports: on several nodes one per node, and one for all."""
    if nodes == 1:
        return (task.folder,)
    return (*(f"{task.folder}/{NODE.format(index)}" for index in range(nodes)), f"{task.folder}/{MULTI_NODE_FOLDER}")


def submission(job: Job, resources: Resources, results: Path) -> tuple[str, ...]:
    """Make the sbatch command, which prints the job's number."""
    words = ["sbatch", "--parsable", f"--job-name={job.name}", f"--chdir={results}"]
    # below --chdir: a pattern, in which the folder's own name would be read as one
    words += [f"--output={JOBS}/{'%A_%a' if job.is_array else '%j'}.log"]
    words += [f"--array=0-{len(job.tasks) - 1}"] if job.is_array else []
    words += [*job.options, *([f"--partition={job.partition}"] if job.partition else [])]
    return (*words, *resources.words(), str(results / job.script))


def asking_for(job: Job, resources: Resources) -> Resources:
    """Complete a job's request: with GPUs and no number of CPUs, `CPUS` CPUs."""
    return replace(resources, cpus=CPUS) if job.wants_gpu and not resources.says_cpus else resources


def _fill(name: str, values: Mapping[str, str]) -> str:
    return fill(Path(__file__).with_name("scripts").joinpath(name).read_text(encoding="utf-8"), values)


def script(job: Job, inner: Runner, options: CheckOptions, folders: Folders, nodes: int) -> str:
    """Render the batch script of a job."""
    parts = [_fill("head.sh", {"name": job.name, "done": DONE, "of_others": "\n".join(OF_OTHERS)})]
    for index, task in enumerate(job.tasks):
        carried, out = str(folders.carried_folder(task.case)), variable("out")
        checking = check(inner, task.case, options, carried, out)
        parts += [f"{index})\n    run={quote(str(folders.results / task.folder))}\n"]
        parts += [f"    run_check() {{\n        {join(checking.argv)}\n    }}\n"]
        if nodes > 1:
            program = inner.python(task.case, carried, out, _multi_node(inner, task.case, options, carried, out, nodes))
            # --foreground: a signal to the job's processes reaches torchrun itself
            bounded = ("timeout", "--foreground", "--kill-after=30", str(MULTI_NODE_LIMIT), *program.argv)
            parts += [f"    count_ranks() {{\n        {_ranks(inner, task.case, carried, out)}\n    }}\n"]
            parts += [f"    run_multi_node() {{\n        {join(bounded)}\n    }}\n"]
        parts += ["    ;;\n"]
    parts += ["esac\n\n"]
    values = {
        **{"done": DONE, "report": REPORT, "multi_node": MULTI_NODE_FOLDER, "limit": str(MULTI_NODE_LIMIT)},
        "meeting": indent("\n".join(MEETING_POINT), "    "),
        "script": quote(str(folders.results / job.script)),
    }
    return "".join(parts) + _fill("one_node.sh" if nodes == 1 else "several_nodes.sh", values)


_COUNT = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 2)"


def _ranks(inner: Runner, case: SmokeCase, carried: str, out: str) -> str:
    """Make the shell command that prints a node's number of ranks: one per GPU that torch can use, else 2. torchrun's
    own `gpu` fails on a node without GPUs.
    """
    if not case.wants_gpu:
        return "echo 2"
    return join(inner.python(case, carried, out, ("-I", "-c", _COUNT)).argv)


def _multi_node(
    inner: Runner, case: SmokeCase, options: CheckOptions, carried: str, out: str, nodes: int
) -> tuple[str, ...]:
    inside = inner.places(carried, out)
    return (
        "-I", "-m", "torch.distributed.run", f"--nnodes={nodes}", f"--nproc-per-node={variable('ranks')}",
        f"--node-rank={variable('SLURM_NODEID')}", f"--master-addr={variable('address')}",
        f"--master-port={variable('port')}", f"--rdzv-conf=timeout={MEETING}",
        str(inside.carried / MULTI_NODE), "--config", str(inside.carried / CONFIG), "--device", options.device,
        "--json", str(inside.results / REPORT),
    )  # fmt: skip
