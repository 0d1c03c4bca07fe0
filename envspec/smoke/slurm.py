"""Slurm jobs: one job a partition, an array of the cases that go there. Pure: the scripts and the lines of sbatch.

A job runs what an inner runner (local or apptainer) says. Each of its tasks writes its report and `done.json`, whole or
not at all, below the shared folder of results; that, and not what the submitting process remembers, is what counts.
On several nodes the checks run once on each, and then `across.py` under torchrun, which meets on the first node: at
the address by which Slurm reaches it, with ranks by Slurm's number of each node, so that no name needs to resolve.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from envspec.errors import InputError
from envspec.smoke.case import ACROSS, CONFIG, REPORT, Case, Folders, Options
from envspec.smoke.command import joined, quoted, variable
from envspec.smoke.runner import Runner, check

DONE = "done.json"
"""What a task of a job writes last: its exit status, node and job."""
NODE = "node-{}"
ACROSS_FOLDER = "across"
JOBS = "jobs"
"""The folder of scripts and of Slurm's own logs, below that of the results."""

LARGEST_ARRAY = 1000
"""Slurm's MaxArraySize is 1001 where nobody set it: array indexes go to 1000 (slurm.conf)."""


@dataclass(frozen=True)
class Partition:
    """A partition by name, None for Slurm's default one, and which targets go there (shell patterns; empty: all)."""

    name: str | None
    targets: tuple[str, ...] = ()

    def takes(self, target: str) -> bool:
        return not self.targets or any(fnmatchcase(target, pattern) for pattern in self.targets)


def partition_of(text: str) -> Partition:
    """`a100` or `a100=cu126-*,cu128-ampere`. Raises InputError."""
    name, equals, patterns = text.partition("=")
    listed = tuple(pattern.strip() for pattern in patterns.split(",") if pattern.strip())
    if not name or name.startswith("-") or not name.isprintable() or (equals and not listed):
        raise InputError(
            f"{text!r} names no partition", hint="for example --partition a100, or --partition 'a100=cu128-ampere'"
        )
    return Partition(name, listed)


@dataclass(frozen=True)
class Resources:
    """What every job asks for. None leaves it to the site; `more` goes to sbatch as it is."""

    nodes: int = 1
    account: str | None = None
    time: str | None = None
    gres: str | None = None
    gpus_per_node: str | None = None
    more: tuple[str, ...] = ()

    def words(self) -> tuple[str, ...]:
        given = {
            "account": self.account,
            "time": self.time,
            "gres": self.gres,
            "gpus-per-node": self.gpus_per_node,
        }
        options = [f"--{name}={value}" for name, value in given.items() if value is not None]
        return (f"--nodes={self.nodes}", "--ntasks-per-node=1", *options, *self.more)


@dataclass(frozen=True)
class Task:
    """A case on a partition: one element of a job's array. `folder` is below the results."""

    case: Case
    partition: str | None
    folder: str


@dataclass(frozen=True)
class Job:
    """One sbatch. `name` is this submission's alone: Slurm can be asked for it. `script` is below the results."""

    name: str
    partition: str | None
    tasks: tuple[Task, ...]
    script: str

    @property
    def is_array(self) -> bool:
        return len(self.tasks) > 1


def plan_jobs(cases: Sequence[Case], partitions: Sequence[Partition], token: str) -> tuple[Job, ...]:
    """The jobs of a matrix of cases × partitions, without the cases that no partition takes. `token` makes the jobs'
    names this submission's own."""
    jobs: list[Job] = []
    for place in partitions:
        taken = [case for case in cases if place.takes(case.target)]
        for begin in range(0, len(taken), LARGEST_ARRAY):
            number = len(jobs)
            tasks = tuple(
                Task(case, place.name, f"runs/{number}-{case.title}{_suffix(place.name)}")
                for case in taken[begin : begin + LARGEST_ARRAY]
            )
            jobs.append(Job(f"envspec-{token}-{number}", place.name, tasks, f"{JOBS}/{number}.sh"))
    return tuple(jobs)


def _suffix(partition: str | None) -> str:
    return f"-{re.sub(r'[^A-Za-z0-9._-]', '_', partition)}" if partition else ""


def outputs(task: Task, nodes: int) -> tuple[str, ...]:
    """The folders, below the results, in which a task leaves reports: on several nodes one of each, and one of all."""
    if nodes == 1:
        return (task.folder,)
    return (*(f"{task.folder}/{NODE.format(index)}" for index in range(nodes)), f"{task.folder}/{ACROSS_FOLDER}")


def submission(job: Job, resources: Resources, results: Path) -> tuple[str, ...]:
    """The line of sbatch; it prints the job's number."""
    words = ["sbatch", "--parsable", f"--job-name={job.name}", f"--chdir={results}"]
    # below --chdir: a pattern, in which the folder's own name would be read as one
    words += [f"--output={JOBS}/{'%A_%a' if job.is_array else '%j'}.log"]
    words += [f"--array=0-{len(job.tasks) - 1}"] if job.is_array else []
    words += [f"--partition={job.partition}"] if job.partition else []
    return (*words, *resources.words(), str(results / job.script))


_HEAD = """\
#!/bin/bash
# {name}: written by envspec smoke
set -u
umask 022

# $1: the exit status. What stands in done.json is over.
finish() {{
    printf '{{"status": %d, "node": "%s", "job": "%s"}}\\n' "$1" "${{SLURMD_NODENAME:-$(hostname)}}" "$SLURM_JOB_ID" \\
        >"$out/.done.$$" && mv "$out/.done.$$" "$out/{done}"
}}

case "${{SLURM_ARRAY_TASK_ID:-0}}" in
"""

_ONE = """\
out=$run
mkdir -p "$out" && rm -f "$out/{done}" "$out/{report}"
run_check
status=$?
finish "$status"
exit "$status"
"""

_SEVERAL = """\
script={script}
case "${{1:-}}" in
node)
    out=$run/node-$SLURM_NODEID
    mkdir -p "$out" && rm -f "$out/{done}" "$out/{report}"
    run_check
    finish "$?"
    exit 0
    ;;
across)
    out=$run/{across}
    address=$2
    port=$3
    mkdir -p "$out"
    run_across
    exit
    ;;
esac

# The checks on each node, then all nodes at once. torchrun meets on the first; the port is the job's own.
steps=(--ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1)
[ -z "${{SLURM_CPUS_PER_TASK:-}}" ] || steps+=(--cpus-per-task="$SLURM_CPUS_PER_TASK")
srun "${{steps[@]}}" bash "$script" node
out=$run/{across}
mkdir -p "$out" && rm -f "$out/{done}" "$out/{report}"
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$(scontrol --oneliner show node "$first" | sed -n 's/.* NodeAddr=\\([^ ]*\\).*/\\1/p')
srun "${{steps[@]}}" bash "$script" across "${{address:-$first}}" "$((20000 + SLURM_JOB_ID % 20000))"
status=$?
finish "$status"
exit "$status"
"""


def script(job: Job, inner: Runner, options: Options, folders: Folders, nodes: int) -> str:
    """The batch script of a job, whole."""
    parts = [_HEAD.format(name=job.name, done=DONE)]
    for index, task in enumerate(job.tasks):
        carried, out = str(folders.carried(task.case)), variable("out")
        checking = check(inner, task.case, options, carried, out)
        parts += [f"{index})\n    run={quoted(str(folders.results / task.folder))}\n"]
        parts += [f"    run_check() {{\n        {joined(checking.argv)}\n    }}\n"]
        if nodes > 1:
            across = inner.python(task.case, carried, out, _across(inner, task.case, options, carried, out, nodes))
            parts += [f"    run_across() {{\n        {joined(across.argv)}\n    }}\n"]
        parts += ["    ;;\n"]
    parts += ["esac\n\n"]
    values: Mapping[str, str] = {"done": DONE, "report": REPORT, "across": ACROSS_FOLDER}
    tail = _ONE if nodes == 1 else _SEVERAL
    return "".join(parts) + tail.format(**values, script=quoted(str(folders.results / job.script)))


def _across(inner: Runner, case: Case, options: Options, carried: str, out: str, nodes: int) -> tuple[str, ...]:
    inside = inner.places(carried, out)
    ranks = "gpu" if case.cuda and options.device != "cpu" else "2"
    return (
        "-m", "torch.distributed.run", f"--nnodes={nodes}", f"--nproc-per-node={ranks}",
        f"--node-rank={variable('SLURM_NODEID')}", f"--master-addr={variable('address')}",
        f"--master-port={variable('port')}",
        str(inside.carried / ACROSS), "--config", str(inside.carried / CONFIG), "--device", options.device,
        "--json", str(inside.results / REPORT),
    )  # fmt: skip
