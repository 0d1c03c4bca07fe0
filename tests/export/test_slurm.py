"""Slurm jobs: what `srun` is asked for, seen by running the script with a program in its place that says so."""

import re
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from recipe_plans import of_target, shipped_spec, with_values

from envspec.export.plan import OnBase
from envspec.export.slurm import APPTAINER_JOB, PYXIS_JOB, render
from envspec.spec.cluster import SlurmTable

_SRUN = '#!/bin/sh\nfor word; do printf "<%s> " "$word"; done\n'
_SCONTROL = """#!/bin/sh
case "$*" in
"show hostnames node-[07-08]") echo node-07; echo node-08 ;;
"--oneliner show node node-07") ${NO_NODE:+exit 1}; echo "NodeName=node-07 NodeAddr=10.0.0.7 NodeHostName=n7" ;;
*) exit 9 ;;
esac
"""


def run(tmp_path: Path, script: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    for name, text in (("srun", _SRUN), ("scontrol", _SCONTROL)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    given = {
        "PATH": f"{tools}:/usr/bin:/bin",
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "SLURM_JOB_ID": "123456",
        "SLURM_JOB_NODELIST": "node-[07-08]",
        "SLURM_JOB_NUM_NODES": "2",
        **env,
    }
    return subprocess.run(
        ["bash", "-s", "--", *arguments], input=script, text=True, capture_output=True, check=False, env=given
    )


@pytest.mark.parametrize("job", [APPTAINER_JOB, PYXIS_JOB])
def test_training_meets_on_the_first_node(tmp_path: Path, job: str) -> None:
    script = render(of_target("mm-v2.9", "cu128-hopper"))[job]
    (tmp_path / "mm-v2.9-cu128-hopper.sif").touch()
    ran = run(tmp_path, script, "train.py", "--name", "a b", SLURM_GPUS_ON_NODE="4")
    assert ran.returncode == 0, ran.stderr
    assert "<torchrun> <--nnodes=2> <--nproc-per-node=4> <--master-addr=10.0.0.7> <--master-port=23456>" in ran.stdout
    assert ran.stdout.endswith(" <train.py> <--name> <a b> ")
    # the shell that the nodes run counts ranks by Slurm's number of its own
    words = re.findall(r"<([^>]*)>", ran.stdout)
    begin = words.index("sh")
    carried = tmp_path / "entrypoint.sh"
    carried.write_text(_SRUN)
    command = [word.replace("/opt/envspec/entrypoint.sh", str(carried)) for word in words[begin:]]
    for node in ("0", "1"):
        there = subprocess.run(command, capture_output=True, text=True, check=True, env={"SLURM_NODEID": node})
        assert there.stdout.startswith(f"<torchrun> <--node-rank={node}> <--nnodes=2> ")
        assert there.stdout.endswith(" <train.py> <--name> <a b> ")


@pytest.mark.parametrize("launch", ["torchrun", "srun"])
@pytest.mark.parametrize("kind", ["image", "sif", "prefix", "module"])
def test_a_job_on_a_base_starts_the_bases_python(tmp_path: Path, kind: str, launch: str) -> None:
    """No entry point is there, and the base's torchrun may be of a Python that sees none of what is added."""
    plan = of_target("mm-v2.9", "cu128-hopper")
    of_base = tuple(with_values(of, on_base=OnBase(kind, "/usr/bin/python3.12", "/usr", "x")) for of in plan.targets)
    jobs = render(replace(plan, targets=of_base, slurm=SlurmTable(launch=launch, signal="USR1@60")))
    assert jobs.keys() == ({APPTAINER_JOB, PYXIS_JOB} if kind == "image" else {APPTAINER_JOB})
    (tmp_path / "mm-v2.9-cu128-hopper.sif").touch()
    (tmp_path / "mm-v2.9-cu128-hopper/bin").mkdir(parents=True)
    (tmp_path / "mm-v2.9-cu128-hopper/bin/activate").write_text("export ACTIVE=$NOT_SET")
    within = kind in ("image", "sif")
    for script in jobs.values():
        ran = run(tmp_path, script, "train.py", "a b", SLURM_GPUS_ON_NODE="4", SLURM_CPUS_ON_NODE="8")
        assert ran.returncode == 0 and ran.stdout.endswith(" <train.py> <a b> "), ran.stderr
        words = re.findall(r"<([^>]*)>", ran.stdout)
        command = words[words.index("sh") :]
        assert f"exec sh {'/opt/envspec' if within else 'envspec'}/warned.sh USR1 python3 " in command[2]
        assert ("-m torch.distributed.run" in command[2]) == (launch == "torchrun")
        assert "entrypoint.sh" not in script and ("apptainer" in words) == (within and script == jobs[APPTAINER_JOB])
        smoke = re.findall(r"<([^>]*)>", run(tmp_path, script, SLURM_CPUS_ON_NODE="8").stdout)
        check = "/opt/envspec/check" if within else "envspec/envspec-check.pyz"
        config = "/opt/envspec/target.json" if within else "cu128-hopper/target.json"
        assert smoke[-5:] == ["python3", "-I", check, "--config", config]


def test_a_node_whose_address_is_not_told_is_met_by_name(tmp_path: Path) -> None:
    (tmp_path / "cpu-py311-cpu.sif").touch()
    script = render(of_target("cpu-py311", "cpu"))[APPTAINER_JOB]
    ran = run(tmp_path, script, "train.py", NO_NODE="yes")
    assert ran.returncode == 0 and "<--master-addr=node-07>" in ran.stdout, ran.stderr


@pytest.mark.parametrize("job", [APPTAINER_JOB, PYXIS_JOB])
def test_each_node_runs_one_task_with_all_its_cpus(tmp_path: Path, job: str) -> None:
    script = render(of_target("mm-v2.9", "cu128-hopper"))[job]
    (tmp_path / "mm-v2.9-cu128-hopper.sif").touch()
    ran = run(tmp_path, script, SLURM_CPUS_PER_TASK="8")
    assert ran.stdout.startswith("<--ntasks=2> <--ntasks-per-node=1> <--kill-on-bad-exit=1> <--cpus-per-task=8> <")
    assert "--cpus-per-task" not in run(tmp_path, script).stdout


def test_apptainer_sees_the_gpu_and_no_home(tmp_path: Path) -> None:
    ran = run(tmp_path, render(of_target("mm-v2.9", "cu128-hopper"))[APPTAINER_JOB], ENVSPEC_SIF=__file__)
    assert (
        f"<apptainer> <exec> <--nv> <--cleanenv> <--no-home> <--bind> <{tmp_path}> <--bind> <{tmp_path}:/workspace>"
        in ran.stdout
    )
    assert ran.stdout.endswith(f"<{__file__}> <sh> <{'/opt/envspec'}/entrypoint.sh> <smoke> ")


def test_pyxis_gets_the_image_and_the_folder(tmp_path: Path) -> None:
    ran = run(tmp_path, render(of_target("mm-v2.9", "cu128-hopper"))[PYXIS_JOB], ENVSPEC_IMAGE="team/mm:1")
    assert "<--container-image=team/mm:1> " in ran.stdout and "LD_LIBRARY_PATH" not in ran.stdout
    assert f"<--container-mounts={tmp_path}:{tmp_path},{tmp_path}:/workspace>" in ran.stdout


def test_pyxis_hands_on_the_lock_and_the_file_of_the_warning(tmp_path: Path) -> None:
    plan = replace(of_target("mm-v2.9", "cu128-hopper"), slurm=SlurmTable(signal="USR1@60"))
    ran = run(tmp_path, render(plan)[PYXIS_JOB], ENVSPEC_IMAGE="team/mm:1", ENVSPEC_LOCK="cu128-hopper=sha256:0")
    (exported,) = re.findall("<--export=([^>]*)>", ran.stdout)
    assert {"ENVSPEC_LOCK", "ENVSPEC_CHECKPOINT"} <= {*exported.split(",")}
    ran = run(tmp_path, render(plan)[PYXIS_JOB], ENVSPEC_IMAGE="team/mm:1")
    assert ("ENVSPEC_LOCK," in ran.stdout) is not plan.shares


def test_pyxis_gets_what_the_sites_fabric_needs(tmp_path: Path) -> None:
    script = render(of_target("mm-v2.9", "cu128-hopper"))[PYXIS_JOB]
    given = {
        "ENVSPEC_MOUNTS": "/opt/ofi:/opt/ofi",
        "ENVSPEC_LIBRARIES": "/opt/ofi/lib:/opt/cray",
        "NCCL_NET": "AWS Libfabric",
    }
    ran = run(tmp_path, script, ENVSPEC_IMAGE="team/mm:1", **given)
    assert f",{tmp_path}:/workspace,/opt/ofi:/opt/ofi> <--no-container-mount-home>" in ran.stdout
    exported = next(word for word in ran.stdout.split("> <") if word.startswith("--export="))
    assert exported.endswith(",LD_LIBRARY_PATH=/opt/ofi/lib:/opt/cray") and "NCCL_NET," in exported


def test_a_missing_image_is_said_before_a_node_is_used(tmp_path: Path) -> None:
    ran = run(tmp_path, render(of_target("mm-v2.9", "cu128-hopper"))[APPTAINER_JOB])
    assert ran.returncode == 2 and "set ENVSPEC_SIF" in ran.stderr and not ran.stdout


def test_one_job_for_all_targets_is_told_which(tmp_path: Path) -> None:
    jobs = render(shipped_spec("mm-v2.9"))
    for job, suffix in ((APPTAINER_JOB, "sif"), (PYXIS_JOB, "sqsh")):
        asked = run(tmp_path, jobs[job])
        assert asked.returncode == 2 and "set ENVSPEC_TARGET to one of cpu, cu126-volta, " in asked.stderr
        image = tmp_path / f"mm-v2.9-cu126-volta.{suffix}"
        image.touch()
        ran = run(tmp_path, jobs[job], ENVSPEC_TARGET="cu126-volta")
        assert ran.returncode == 0 and str(image) in ran.stdout, ran.stderr


def test_a_job_without_gpus_has_one_rank(tmp_path: Path) -> None:
    (tmp_path / "mm-v2.9-cpu.sif").touch()
    job = render(shipped_spec("mm-v2.9"))[APPTAINER_JOB]
    for gpus, ranks in (("0", 1), ("2", 2)):
        ran = run(tmp_path, job, "train.py", ENVSPEC_TARGET="cpu", SLURM_GPUS_ON_NODE=gpus)
        assert f"<--nproc-per-node={ranks}>" in ran.stdout, ran.stderr


@pytest.mark.parametrize(("cpus", "each"), [("16", 4), ("7", 1), ("2", 1)])
def test_ranks_that_srun_starts_share_a_nodes_cpus(tmp_path: Path, cpus: str, each: int) -> None:
    plan = of_target("mm-v2.9", "cu128-hopper")
    (tmp_path / "mm-v2.9-cu128-hopper.sif").touch()
    text = render(replace(plan, slurm=SlurmTable(launch="srun", mpi="pmix")))[APPTAINER_JOB]
    given = {"SLURM_CPUS_ON_NODE": cpus, "SLURM_GPUS_ON_NODE": "4"}
    ran = run(tmp_path, text, "train.py", "a b", **given)
    begin = f"<--mpi=pmix> <--ntasks=8> <--ntasks-per-node=4> <--kill-on-bad-exit=1> <--cpus-per-task={each}> "
    assert ran.stdout.startswith(begin), ran.stderr
    assert ran.stdout.endswith(" <python> <4> <10.0.0.7> <23456> <train.py> <a b> ")
    # the smoke check is one a node
    assert run(tmp_path, text, **given).stdout.startswith("<--mpi=pmix> <--ntasks=2> <--ntasks-per-node=1> ")


@pytest.mark.parametrize(
    ("options", "own"),
    [
        ((), True),
        (("--qos=long", "--gres=ssd:1"), True),
        (("--gres=gpu:a100:2",), False),
        (("--gres=ssd:1,gpu:2",), False),
        (("--gpus=4",), False),
        (("--gpus-per-node=h100:2",), False),
        (("--gpus-per-task=1",), False),
        (("--gpus-per-socket=1", "--sockets-per-node=2"), False),
    ],
)
def test_options_that_ask_for_gpus_replace_the_jobs_own(options: tuple[str, ...], own: bool) -> None:
    for text in render(replace(of_target("mm-v2.9", "cu128-hopper"), slurm=SlurmTable(options=options))).values():
        asked = [line.removeprefix("#SBATCH ") for line in text.split("\n") if line.startswith("#SBATCH ")]
        assert ("--gpus-per-node=1" in asked) == own == ("--gpus-per-node=8 " in text)
        assert [*options] == asked[len(asked) - len(options) :]


def test_what_slurm_gave_is_compared_before_a_program_starts(tmp_path: Path) -> None:
    script = render(of_target("mm-v2.9", "cu128-hopper"))[APPTAINER_JOB]
    (tmp_path / "mm-v2.9-cu128-hopper.sif").touch()
    for env, told in (
        ({"SLURM_GPUS_PER_NODE": "a100:2", "SLURM_GPUS_ON_NODE": "1"}, "asks for 2 GPUs, and this job has 1: ask in"),
        ({"SLURM_GPUS_ON_NODE": "2", "ENVSPEC_RANKS_PER_NODE": "3"}, "asks for 3 ranks on 2 GPUs"),
        # the stand-in for srun counts no GPUs
        ({"SLURM_GPUS_ON_NODE": "2", "CUDA_VISIBLE_DEVICES": "0,1"}, "the first node has 2 GPUs, and processes of"),
    ):
        ran = run(tmp_path, script, "train.py", **env)
        assert (ran.returncode, ran.stdout) == (2, "") and told in ran.stderr
        assert len(ran.stderr.splitlines()) == 1
    for given in ("a100", "2", "a100:1,h100:2", ""):
        ran = run(tmp_path, script, "train.py", SLURM_GPUS_PER_NODE=given, SLURM_GPUS_ON_NODE="2")
        assert ran.returncode == 0, ran.stderr


def test_nothing_of_an_outer_job_reaches_srun(tmp_path: Path) -> None:
    (tmp_path / "cpu-py311-cpu.sif").touch()
    tells = f"{render(of_target('cpu-py311', 'cpu'))[APPTAINER_JOB]}\nenv\n"
    outer = dict.fromkeys(("SLURM_MEM_PER_CPU", "SLURM_GPUS", "SLURM_GPUS_PER_TASK", "SLURM_CPU_BIND_LIST"), "1")
    outer |= {"SLURM_NTASKS_PER_GPU": "1", "SLURM_EXPORT_ENV": "NONE", "SRUN_CPUS_PER_TASK": "1"}
    ran = run(tmp_path, tells, "train.py", **outer, SLURM_CPUS_PER_GPU="1", SLURM_NTASKS_PER_NODE="1", SLURM_HINT="x")
    left = {line.partition("=")[0] for line in ran.stdout.split("\n")}
    assert not left & {*outer, "SLURM_CPUS_PER_GPU"} and {"SLURM_NTASKS_PER_NODE", "SLURM_HINT", "PATH"} <= left
