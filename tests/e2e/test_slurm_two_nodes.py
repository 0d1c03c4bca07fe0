"""The exported Slurm job on two nodes of a real Slurm: CPUs for each GPU, and an elastic torchrun that loses a node.

Both nodes are this machine, and have as many GPUs as Slurm believes. Apptainer is a stand-in; torchrun is torch's own.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.slurm import slurm
from support.smoke_env import smoke_env as smoke_env
from test_slurm_exported import STAND_INS

sys.path.append(str(Path(__file__).parents[1] / "export"))
from recipe_plans import of_target

from envspec.export.slurm import APPTAINER_JOB, render
from envspec.spec.cluster import SlurmTable

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.e2e, pytest.mark.xdist_group("slurm")]


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with slurm(tmp_path_factory.mktemp("two"), 2, gpus=(1, 1)) as path:
        yield path


def submitted(folder: Path, conf: Path, path: str, *argv: str) -> str:
    """Submit in a folder with the stand-ins and an image, wait, and give what Slurm says of the job at its end."""
    (tools := folder / "tools").mkdir()
    # both nodes have the address where all meet, and whoever comes first would be met
    late = '[ "$SLURM_NODEID" = 0 ] || sleep 4'
    stand_ins = {"apptainer": STAND_INS["apptainer"], "entrypoint.sh": f'#!/bin/sh\n{late}\nexec "$@"\n'}
    for name, text in stand_ins.items():
        (tools / name).write_text(text.replace("$STAND_INS", str(tools).replace("/", "\\/")))
        (tools / name).chmod(0o755)
    env = {**os.environ, "SLURM_CONF": str(conf), "PATH": f"{tools}:{path}:{os.environ['PATH']}"}

    def ask(*words: str) -> str:
        return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=True).stdout

    job = ask("sbatch", "--parsable", *argv).strip()
    for _ in range(1200):
        shown = ask("scontrol", "show", "job", job)
        if any(f"JobState={state} " in shown for state in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")):
            break
        time.sleep(0.25)
    ask("scancel", job)
    return shown + "".join(log.read_text() for log in folder.glob("*.out"))


def test_each_gpu_brings_its_cpus(conf: Path, tmp_path: Path) -> None:
    asked = SlurmTable(cpus_per_gpu=1)
    plan = of_target("mm-v2.9", "cu128-hopper")
    (tmp_path / "job.sbatch").write_text(render(replace(plan, slurm=asked))[APPTAINER_JOB])
    (tmp_path / "mm-v2.9-cu128-hopper.sif").touch()
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "torchrun").write_text('#!/bin/bash\necho "node $SLURM_NODEID: $*, $SLURM_CPUS_PER_GPU"\n')
    (tmp_path / "own" / "torchrun").chmod(0o755)
    shown = submitted(tmp_path, conf, str(tmp_path / "own"), "--nodes=2", "job.sbatch", "train.py")
    assert "JobState=COMPLETED" in shown and "CpusPerTres=gres:gpu:1" in shown and "NumCPUs=2" in shown
    for node in (0, 1):
        assert f"node {node}: --node-rank={node} --nnodes=2 --nproc-per-node=1 --master-addr=127.0.0.1 " in shown


SURVIVES = """
import os, signal, sys, time
from pathlib import Path
node, restarts, world = (os.environ[name] for name in ("SLURM_NODEID", "TORCHELASTIC_RESTART_COUNT", "WORLD_SIZE"))
with (Path(sys.argv[1]) / "said").open("a") as said:
    said.write(f"node {node}: {world} processes, restart {restarts}\\n")
if world == "2":
    if node == "1":
        os.kill(os.getppid(), signal.SIGKILL)  # as if the node were lost, torchrun and all
    time.sleep(2)
    sys.exit(1)  # and with it the next collective
"""


def test_an_elastic_torchrun_goes_on_without_a_lost_node(conf: Path, smoke_env: Path, tmp_path: Path) -> None:
    asked = SlurmTable(max_restarts=2, min_nodes=1)
    (tmp_path / "job.sbatch").write_text(render(replace(of_target("cpu-py311", "cpu"), slurm=asked))[APPTAINER_JOB])
    (tmp_path / "cpu-py311-cpu.sif").touch()
    (tmp_path / "train.py").write_text(SURVIVES)
    argv = ("--nodes=2", "job.sbatch", "train.py", str(tmp_path))
    shown = submitted(tmp_path, conf, str(smoke_env / "bin"), *argv)
    said = (tmp_path / "said").read_text().splitlines()
    assert sorted(said[:2]) == ["node 0: 2 processes, restart 0", "node 1: 2 processes, restart 0"], shown
    assert said[-1] == "node 0: 1 processes, restart 1", shown
