"""The exported jobs in a real Slurm: GPUs asked for in each of Slurm's ways, options over those of the job's head, and
jobs that are submitted with --export or from within another one.

Slurm believes that the nodes have GPUs. Apptainer, pyxis and torchrun are stand-ins, which start processes and say what
these see.
"""

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace
from support.slurm import slurm
from test_slurm_exported import STAND_INS

sys.path.append(str(Path(__file__).parents[1] / "export"))
from recipe_plans import of_target, shipped_spec

from envspec.export.slurm import APPTAINER_JOB, PYXIS_JOB, render
from envspec.prove.smoke.run.case import CheckOptions, Folders, Local, SmokeCase
from envspec.prove.smoke.run.jobs import JobPlan
from envspec.prove.smoke.run.slurm import Partition, Resources, plan_jobs, submission
from envspec.spec.cluster import SlurmTable

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.xdist_group("slurm")]

GPU, CPU = ("mm-v2.9", "cu128-hopper"), ("cpu-py311", "cpu")
ONE = SlurmTable(cpus_per_gpu=1)
SAYS = """#!/bin/bash
echo "node=$SLURM_NODEID gpus=${CUDA_VISIBLE_DEVICES-} cpus=$(nproc) array=${SLURM_ARRAY_TASK_ID-} $*" >>"$SAID"
"""
PYXIS = """#!/bin/bash
# pyxis takes its options from srun's, and runs the words that are left in the image
words=()
for word; do [[ $word =~ ^--(no-)?container- ]] || words+=("${word//\\/opt\\/envspec/TOOLS}"); done
exec SRUN "${words[@]}"
"""


class Ran(Struct):
    """A job that was submitted: what sbatch refused, the job's log, and for each task the node, the GPUs that it sees
    and the words of torchrun."""

    refused: str = ""
    status: int = 0
    log: str = ""
    said: tuple[dict[str, str], ...] = ()

    @property
    def gpus(self) -> list[tuple[int, int]]:
        """For each node the GPUs that are visible and the ranks that torchrun starts."""
        seen = [one["gpus"].split(",") if one["gpus"] else [] for one in self.said]
        return [(len(of), int(one["--nproc-per-node"])) for of, one in zip(seen, self.said, strict=True)]


class Cluster:
    def __init__(self, conf: Path, folder: Path) -> None:
        self.folder = folder
        self.tools = folder / "tools"
        self.tools.mkdir()
        real = subprocess.run(["which", "srun"], capture_output=True, text=True, check=True).stdout.strip()
        pyxis = PYXIS.replace("TOOLS", str(self.tools).replace("/", "\\/")).replace("SRUN", real)
        apptainer = STAND_INS["apptainer"].replace("$STAND_INS", str(self.tools).replace("/", "\\/"))
        texts = {"apptainer": apptainer, "srun": pyxis, "entrypoint.sh": '#!/bin/sh\nexec "$@"\n'}
        for name, text in texts.items():
            (self.tools / name).write_text(text)
            (self.tools / name).chmod(0o755)
        self.stand_in("torchrun")
        self.env = {**os.environ, "SLURM_CONF": str(conf), "PATH": f"{self.tools}:{os.environ['PATH']}"}

    def stand_in(self, name: str) -> None:
        """Have a program say what it is started with."""
        (self.tools / name).write_text(SAYS.replace("$SAID", str(self.folder / "said")))
        (self.tools / name).chmod(0o755)

    def submit(
        self,
        *options: str,
        job: str = APPTAINER_JOB,
        of: tuple[str, str] = GPU,
        asked: SlurmTable = ONE,
        within: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
    ) -> Ran:
        """Submit a job, within another one if `within` is the command of that, and wait for its end."""
        plan = of_target(*of)
        # what sbatch leaves out of the environment the stand-ins need all the same; bash sets PATH and exports none
        text = render(replace(plan, slurm=asked))[job].replace("\nset -e", f"\nPATH={self.tools}:$PATH\nset -e", 1)
        (self.folder / job).write_text(text)
        (self.folder / f"{of[0]}-{of[1]}.sif").touch()
        (said := self.folder / "said").unlink(missing_ok=True)
        for old in self.folder.glob("*.out"):
            old.unlink()
        words = ["sbatch", "--parsable", *options, job, "train.py"]
        if within:
            words = [*within, "bash", "-c", shlex.join(words)]
        ran = subprocess.run(
            ["timeout", "60", *words], cwd=self.folder, env={**self.env, **(env or {})}, capture_output=True, text=True
        )
        number = re.search(r"^\d+$", ran.stdout, re.MULTILINE)
        if number is None:
            return Ran(refused=ran.stderr)
        ends = self.wait(number[0])
        log = "".join(path.read_text() for path in sorted(self.folder.glob("*.out")))
        lines = sorted(said.read_text().splitlines()) if said.exists() else []
        words_of = [dict(word.partition("=")[::2] for word in line.split()) for line in lines]
        return Ran("", max(ends), log, tuple(words_of))

    def wait(self, number: str) -> list[int]:
        """The exit status of each task of a job, once all have ended."""
        for _ in range(400):
            shown = subprocess.run(
                ["scontrol", "show", "job", number], env=self.env, capture_output=True, text=True, check=True
            ).stdout
            states = re.findall(r"JobState=(\w+)", shown)
            if not {"PENDING", "RUNNING", "COMPLETING"}.intersection(states):
                return [int(status) for status in re.findall(r"ExitCode=(\d+):", shown)]
            time.sleep(0.1)
        subprocess.run(["scancel", number], env=self.env, check=True)
        raise AssertionError(shown)


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with slurm(tmp_path_factory.mktemp("asked"), 2, gpus=(4, 4)) as path:
        yield path


@pytest.fixture
def cluster(conf: Path, tmp_path: Path) -> Cluster:
    return Cluster(conf, tmp_path)


CLEARED = "--gpus-per-node="
"""Leaves out the head's own: two of Slurm's ways at once are one too many for sbatch."""
GIVEN: dict[str, tuple[int, tuple[str, ...]]] = {
    "default": (1, ()),
    "gpus-per-node": (2, ("--gpus-per-node=2",)),
    "kind": (2, ("--gpus-per-node=a100:2",)),
    "gres": (2, ("--gres=gpu:2",)),
    "gres-3": (3, ("--gres=gpu:3",)),
    "gres-kind": (2, (CLEARED, "--gres=gpu:a100:2")),
    "gpus": (2, (CLEARED, "--gpus=2")),
    "gpus-kind": (2, (CLEARED, "--gpus=a100:2")),
    "G": (2, (CLEARED, "-G2")),
    "task": (2, (CLEARED, "--gpus-per-task=2")),
    "socket": (2, (CLEARED, "--gpus-per-socket=1", "--sockets-per-node=2", "--ntasks-per-node=2")),
    "twice": (2, ("--gpus-per-node=2", "--gres=gpu:2")),
    "node-and-all": (2, ("--gpus-per-node=2", "--gpus=2")),
    "node-and-task": (2, ("--gpus-per-node=2", "--gpus-per-task=2")),
    "bound": (2, ("--gpus-per-node=2", "--gpu-bind=single:1")),
    "tasks": (2, ("--gpus-per-node=2", "--ntasks-per-node=2")),
    "memory": (2, ("--gpus-per-node=2", "--mem-per-gpu=20M")),
}


@pytest.mark.by_commit(4)
@pytest.mark.parametrize("job", [APPTAINER_JOB, PYXIS_JOB], ids=["apptainer", "stand-in-for-pyxis"])
@pytest.mark.parametrize("way", GIVEN)
def test_the_gpus_of_the_command_line_are_what_the_ranks_see(cluster: Cluster, way: str, job: str) -> None:
    count, options = GIVEN[way]
    ran = cluster.submit(*options, job=job)
    assert (ran.status, ran.gpus) == (0, [(count, count)]), ran


@pytest.mark.parametrize(
    ("count", "env"),
    [
        (2, {"SBATCH_GRES": "gpu:2"}),
        (2, {"SBATCH_GPUS_PER_NODE": "a100:2"}),
        (2, {"SBATCH_GPUS_PER_NODE": "2", "SBATCH_GPUS": "2"}),
        (3, {"SBATCH_GPUS_PER_NODE": "0", "SBATCH_GRES": "gpu:a100:3"}),
    ],
)
def test_the_gpus_of_sbatchs_variables_are_what_the_ranks_see(
    cluster: Cluster, count: int, env: dict[str, str]
) -> None:
    ran = cluster.submit(env=env)
    assert (ran.status, ran.gpus) == (0, [(count, count)]), ran


@pytest.mark.parametrize(
    "options",
    [
        ("--gres=gpu:2",),
        ("--gres=gpu:a100:2",),
        ("--gpus=2",),
        ("--gpus=a100:2",),
        ("--gpus-per-task=2",),
        ("--gpus-per-node=a100:2",),
        ("--gpus-per-socket=1", "--sockets-per-node=2", "--mincpus=2"),
        ("--gpus-per-node=2", "--gres=gpu:2"),
    ],
)
def test_the_gpus_of_the_specs_options_are_what_the_ranks_see(cluster: Cluster, options: tuple[str, ...]) -> None:
    for asked in (replace(ONE, options=options), replace(ONE, options=options, launch="srun")):
        cluster.stand_in("python")
        ran = cluster.submit(asked=asked)
        assert ran.status == 0 and len(ran.said) == (1 if asked.launch == "torchrun" else 2), ran
        assert {one["gpus"].count(",") for one in ran.said} == {1}, ran
        assert asked.launch == "srun" or ran.gpus == [(2, 2)]


def test_two_numbers_of_gpus_are_refused_before_training(cluster: Cluster) -> None:
    ran = cluster.submit("--gpus-per-node=2", "--gres=gpu:1")
    assert ran.status == 2 and ran.said == (), ran
    assert "--gpus-per-node asks for 2 GPUs, and this job has 1" in ran.log


def test_more_ranks_than_gpus_are_refused_before_training(cluster: Cluster) -> None:
    ran = cluster.submit("--gpus-per-node=2", env={"ENVSPEC_RANKS_PER_NODE": "3"})
    assert ran.status == 2 and ran.said == (), ran
    assert "ENVSPEC_RANKS_PER_NODE asks for 3 ranks on 2 GPUs" in ran.log
    assert cluster.submit("--gpus-per-node=2", env={"ENVSPEC_RANKS_PER_NODE": "1"}).gpus == [(2, 1)]


@pytest.mark.parametrize(
    "options",
    [
        ("--gres=gpu:a100:2",),
        ("--gpus=2",),
        ("-G2",),
        ("--gpus-per-task=2",),
        ("--gpus-per-socket=1", "--sockets-per-node=2"),
        ("--ntasks-per-gpu=1",),
        ("--cpus-per-task=2",),
        ("-c2",),
    ],
)
def test_sbatch_itself_refuses_what_the_head_warns_of(cluster: Cluster, options: tuple[str, ...]) -> None:
    assert "sbatch: " in cluster.submit(*options).refused


@pytest.mark.parametrize("job", [APPTAINER_JOB, PYXIS_JOB], ids=["apptainer", "stand-in-for-pyxis"])
def test_each_node_sees_the_gpus_that_it_was_asked_for(cluster: Cluster, job: str) -> None:
    for options in (("--gpus-per-node=2",), ("--gres=gpu:2",), (CLEARED, "--gpus-per-task=2")):
        ran = cluster.submit("--nodes=2", *options, job=job)
        assert (ran.status, ran.gpus) == (0, [(2, 2), (2, 2)]), ran


@pytest.mark.parametrize("asked", [ONE, replace(ONE, launch="srun"), replace(ONE, max_restarts=1)])
def test_nodes_with_different_numbers_of_gpus_are_refused_before_training(cluster: Cluster, asked: SlurmTable) -> None:
    ran = cluster.submit("--nodes=2", CLEARED, "--gpus=5", asked=asked)
    assert ran.status and ran.said == (), ran
    assert re.search(
        r"envspec: the first node has \d GPUs, and processes of the job see \d/\d: .*--gpus-per-node", ran.log
    ), ran.log


def test_each_task_of_an_array_sees_its_gpus(cluster: Cluster) -> None:
    ran = cluster.submit("--array=0-2", "--gres=gpu:2")
    assert ran.gpus == [(2, 2)] * 3 and {one["array"] for one in ran.said} == {"0", "1", "2"}


@pytest.mark.parametrize("option", ["", "--gres=gpu:2", "--gpus=2", "--gpus-per-task=2", "--gpus-per-node=a100:2"])
def test_a_target_for_cpus_has_one_rank_beside_targets_with_gpus(cluster: Cluster, option: str) -> None:
    """As the head of a job with both says it, whatever the spec asks for."""
    asked = replace(ONE, options=(option,) if option else ())
    text = render(replace(shipped_spec("mm-v2.9"), slurm=asked))[APPTAINER_JOB]
    (words,) = re.findall(r"^#   ENVSPEC_TARGET=cpu sbatch (.*) job\.sbatch ", text, re.MULTILINE)
    ran = cluster.submit(*words.replace("=8", "=2").split(), asked=asked)
    assert (ran.status, ran.gpus) == (0, [(0, 1)]), ran
    cluster.stand_in("python")
    ran = cluster.submit(*words.replace("=8", "=2").split(), asked=replace(asked, launch="srun"))
    assert ran.status == 0 and [one["gpus"] for one in ran.said] == [""], ran


OVER: dict[str, tuple[str, str]] = {
    "--job-name=other": ("JobName", "other"),
    "--nodes=2": ("NumNodes", "2"),
    "--gpus-per-node=2": ("TresPerNode", "gres:gpu:2"),
    "--cpus-per-gpu=3": ("CpusPerTres", "gres:gpu:3"),
    "--time=7": ("TimeLimit", "00:07:00"),
    "--mem=60M": ("MinMemoryNode", "60M"),
    "--account=other": ("Account", "other"),
    "--partition=main": ("Partition", "main"),
    "--constraint=other": ("Features", "other"),
    "--no-requeue": ("Requeue", "0"),
    "--nice=9": ("Nice", "9"),
    "--output=other.txt": ("StdOut", "FOLDER/other.txt"),
}


@pytest.mark.parametrize("option", OVER)
def test_an_option_of_the_command_line_replaces_the_one_of_the_head(cluster: Cluster, option: str) -> None:
    asked = replace(ONE, account="own", partition="absent", constraint="own", memory="50M", requeue=True)
    asked = replace(asked, options=("--nice=7",))
    (cluster.folder / "job.sbatch").write_text(render(replace(of_target(*GPU), slurm=asked))[APPTAINER_JOB])
    given = [option, *(["--partition=main"] if option != "--partition=main" else []), "--hold"]
    ran = subprocess.run(
        ["sbatch", "--parsable", *dict.fromkeys(given), "job.sbatch", "train.py"],
        cwd=cluster.folder, env=cluster.env, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    number = ran.stdout.strip()
    shown = subprocess.run(["scontrol", "show", "job", number], env=cluster.env, capture_output=True, text=True).stdout
    subprocess.run(["scancel", number], env=cluster.env, check=True)
    name, value = OVER[option]
    assert re.search(rf"\b{name}={re.escape(value.replace('FOLDER', str(cluster.folder)))}(\s|-\d)", shown), shown


EXPORTS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "none": (("--export=NONE",), {}),
    "nil": (("--export=NIL",), {}),
    "list": (("--export=HF_TOKEN",), {"HF_TOKEN": "t"}),
    "value": (("--export=HF_TOKEN=t",), {}),
    "all-and": (("--export=ALL,HF_TOKEN=t",), {}),
    "variable": ((), {"SBATCH_EXPORT": "NONE"}),
    "variable-list": ((), {"SBATCH_EXPORT": "HF_TOKEN", "HF_TOKEN": "t"}),
    "of-srun": ((), {"SLURM_EXPORT_ENV": "NONE"}),
    "of-srun-alone": ((), {"SRUN_EXPORT_ENV": "NONE"}),
}


@pytest.mark.by_commit(4)
@pytest.mark.parametrize("job", [APPTAINER_JOB, PYXIS_JOB], ids=["apptainer", "stand-in-for-pyxis"])
@pytest.mark.parametrize("way", EXPORTS)
def test_a_job_trains_with_what_export_leaves(cluster: Cluster, way: str, job: str) -> None:
    options, env = EXPORTS[way]
    ran = cluster.submit("--gpus-per-node=2", *options, job=job, env=env)
    assert (ran.status, ran.gpus) == (0, [(2, 2)]), ran
    assert cluster.submit(*options, job=job, of=CPU, env=env).gpus == [(0, 1)]


def test_the_spec_may_say_export(cluster: Cluster) -> None:
    assert cluster.submit(of=CPU, asked=SlurmTable(options=("--export=NONE",))).gpus == [(0, 1)]


SALLOC = ("salloc", "-Q")
WITHIN = {
    "mem-per-cpu": (*SALLOC, "--mem-per-cpu=100M"),
    "mem": (*SALLOC, "--mem=300M"),
    "mem-per-gpu": (*SALLOC, "--gpus=1", "--mem-per-gpu=50M"),
    "gpus": (*SALLOC, "--gpus=1"),
    "gpus-per-node": (*SALLOC, "--gpus-per-node=1"),
    "gpus-per-task": (*SALLOC, "--ntasks=1", "--gpus-per-task=1"),
    "gpus-per-socket": (*SALLOC, "--gpus-per-socket=1", "--sockets-per-node=1"),
    "gpu-bind": (*SALLOC, "--gpus=1", "--gpu-bind=single:1"),
    "ntasks-per-gpu": (*SALLOC, "--gpus=1", "--ntasks-per-gpu=1"),
    "ntasks-per-core": (*SALLOC, "--ntasks-per-core=1"),
    "ntasks": (*SALLOC, "--ntasks=3"),
    "cpus-per-task": (*SALLOC, "--cpus-per-task=3"),
    "cpus-per-gpu": (*SALLOC, "--gpus=1", "--cpus-per-gpu=3"),
    "hint": (*SALLOC, "--hint=nomultithread"),
    "threads": (*SALLOC, "--threads-per-core=1"),
    "overcommit": (*SALLOC, "--overcommit", "--ntasks=4"),
    "distribution": (*SALLOC, "--distribution=cyclic"),
    "two-parts": (*SALLOC, "--ntasks=1", ":", "--ntasks=1"),
    "a-step": (*SALLOC, "--gpus-per-node=2", "--cpus-per-task=2", "srun"),
    "a-bound-step": (*SALLOC, "--gpus=2", "srun", "--cpu-bind=map_cpu:1", "--gpus=1", "--mem=5", "--exact"),
}


@pytest.mark.by_commit(4)
@pytest.mark.parametrize("way", WITHIN)
def test_a_job_that_is_submitted_from_within_another_one_trains(cluster: Cluster, way: str) -> None:
    for of, asked, options, seen in (
        (CPU, SlurmTable(memory="50M"), (), (0, 1)),
        (CPU, SlurmTable(), (), (0, 1)),
        (GPU, ONE, ("--gpus-per-node=2",), (2, 2)),
        (GPU, ONE, ("--gpus-per-node=0",), (0, 1)),
    ):
        ran = cluster.submit(*options, of=of, asked=asked, within=WITHIN[way])
        assert (ran.status, ran.gpus) == (0, [seen]), (of, options, ran)


@pytest.mark.parametrize("way", ["mem-per-cpu", "gpus", "ntasks-per-gpu", "a-step"])
def test_a_job_for_a_stand_in_for_pyxis_trains_from_within_another_one(cluster: Cluster, way: str) -> None:
    asked = SlurmTable(memory="50M")
    assert cluster.submit(of=CPU, asked=asked, within=WITHIN[way], job=PYXIS_JOB).gpus == [(0, 1)]
    assert cluster.submit("--gpus-per-node=2", within=WITHIN[way], job=PYXIS_JOB).gpus == [(2, 2)]


@pytest.mark.parametrize("way", ["none", "variable-list", "mem-per-cpu", "gpus", "cpus-per-gpu", "a-bound-step"])
def test_the_smoke_checks_own_job_runs_on_each_node(cluster: Cluster, way: str) -> None:
    """Its script, with a stand-in for the environment's Python."""
    case = SmokeCase("demo", "cpu", "demo.toml", "locks", "linux-64", None, "0", {"target.json": "{}"})
    folders = Folders(cluster.folder / "cache", cluster.folder / "results")
    resources = Resources(nodes=2, cpus=2, memory="40M")
    jobs = plan_jobs((case,), [Partition(None)], "0a1b2c3d")
    (job,) = jobs
    plan = JobPlan((case,), jobs, Local(folders, ("envspec",)), CheckOptions(), resources, folders)
    (binaries := folders.prefix(case) / "bin").mkdir(parents=True)
    (binaries / "activate").touch()
    (binaries / "python").write_text(f'#!/bin/bash\necho "node=$SLURM_NODEID $*" >>{cluster.folder}/said\n')
    (binaries / "python").chmod(0o755)
    (folders.results / "jobs").mkdir(parents=True)
    (folders.results / job.script).write_text(plan.script(job).texts[0][1])
    options, env = EXPORTS.get(way, ((), {}))
    words = [*submission(job, replace(resources, more=options), folders.results)]
    if way in WITHIN:
        words = [*WITHIN[way], "bash", "-c", shlex.join(words)]
    ran = subprocess.run(words, cwd=cluster.folder, env={**cluster.env, **env}, capture_output=True, text=True)
    log = folders.results / "jobs" / f"{ran.stdout.strip()}.log"
    assert cluster.wait(ran.stdout.strip()) == [0], log.read_text()
    said = (cluster.folder / "said").read_text()
    # the checks, then all nodes at once
    assert len(re.findall("node=0 -I ", said)) == len(re.findall("node=1 -I ", said)) == 2, log.read_text()
