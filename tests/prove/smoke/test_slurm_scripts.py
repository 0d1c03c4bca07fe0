"""Batch scripts under bash, as Slurm would start them, with stand-ins for the environment's Python and for srun."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from runner_samples import case

from envspec.prove.smoke.run.case import CheckOptions, Folders, Local
from envspec.prove.smoke.run.jobs import JobPlan
from envspec.prove.smoke.run.slurm import MULTI_NODE_LIMIT, Partition, Resources, plan_jobs

GPU_CASE = case("cu128-hopper", cuda="12.8")


def script(tmp_path: Path, python: str, *, nodes: int = 1, device: str = "auto") -> Path:
    """The batch script of one job whose environment's `python` is this bash program."""
    folders = Folders(tmp_path / "cache", tmp_path / "results")
    one = replace(GPU_CASE, wants_gpu=device != "cpu")
    bin = folders.prefix(one) / "bin"
    bin.mkdir(parents=True)
    (bin / "activate").write_text("echo activated by a package that talks\n")
    (bin / "python").write_text(f"#!/bin/bash\n{python}\n")
    (bin / "python").chmod(0o755)
    options, resources = CheckOptions(device), Resources(nodes)
    jobs = plan_jobs([one], [Partition(None)], "0a1b2c3d")
    path = folders.results / jobs[0].script
    path.parent.mkdir(parents=True)
    path.write_text(
        JobPlan((one,), jobs, Local(folders, ("envspec",)), options, resources, folders).script(jobs[0]).texts[0][1]
    )
    return path


def environment(tmp_path: Path, **more: str) -> Mapping[str, str]:
    return {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "SLURM_JOB_ID": "65536", "SLURM_NODEID": "1", **more}


def done(path: Path) -> int:
    return int(json.loads((path / "done.json").read_text())["status"])


def test_a_job_that_is_ended_still_says_how(tmp_path: Path) -> None:
    """Slurm tells all processes of a job at once; the check reports and ends, and the shell writes down how."""
    path = script(tmp_path, "trap 'echo report; exit 130' TERM; echo ready; while :; do sleep 0.1; done")
    with subprocess.Popen(
        ["bash", str(path)], env=environment(tmp_path), stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "ready\n":
            pass
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(30) == 130
    assert done(tmp_path / "results" / "runs" / "0-demo-cu128-hopper") == 130


def test_several_nodes_that_are_ended_begin_nothing_new(tmp_path: Path) -> None:
    path = script(tmp_path, "true", nodes=2)
    srun = tmp_path / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text(f'#!/bin/bash\necho "$*" >>{tmp_path}/steps\nkill -TERM $PPID\n')
    srun.chmod(0o755)
    ran = subprocess.run(["bash", str(path)], env=environment(tmp_path, SLURM_JOB_NUM_NODES="2"), check=False)
    assert ran.returncode == 143
    assert len((tmp_path / "steps").read_text().splitlines()) == 1
    assert done(tmp_path / "results" / "runs" / "0-demo-cu128-hopper" / "multi-node") == 143


@pytest.mark.parametrize(("device", "ranks"), [("auto", "4"), ("cpu", "2")])
def test_a_nodes_ranks_are_counted_on_the_node(tmp_path: Path, device: str, ranks: str) -> None:
    path = script(tmp_path, '[ "$2" = -c ] && echo 4 || printf "%s\\n" "$@"', nodes=2, device=device)
    argv = ["bash", str(path), "multi-node", "10.0.0.1", "25536"]
    ran = subprocess.run(argv, env=environment(tmp_path), capture_output=True, text=True, check=True)
    words = ran.stdout.splitlines()
    assert {f"--nproc-per-node={ranks}", "--node-rank=1", "--master-addr=10.0.0.1"} < set(words)


def test_a_node_without_torch_starts_no_ranks(tmp_path: Path) -> None:
    path = script(tmp_path, '[ "$2" = -c ] && exit 3; echo started', nodes=2)
    argv = ["bash", str(path), "multi-node", "10.0.0.1", "25536"]
    ran = subprocess.run(argv, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert ran.returncode == 3 and "started" not in ran.stdout


@pytest.mark.slow
def test_nodes_that_never_meet_end_with_a_message(tmp_path: Path) -> None:
    path = script(tmp_path, '[ "$2" = -c ] && echo 2 || exec sleep 600', nodes=2)
    text = path.read_text()
    assert f" {MULTI_NODE_LIMIT} env " in text
    path.write_text(text.replace(f" {MULTI_NODE_LIMIT} env ", " 1 env "))
    argv = ["bash", str(path), "multi-node", "10.0.0.1", "25536"]
    begin = time.monotonic()
    ran = subprocess.run(argv, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert ran.returncode == 124 and "do the nodes reach each other at 10.0.0.1, port 25536?" in ran.stderr
    assert time.monotonic() - begin < 300


@pytest.mark.parametrize("job", ["1", "11999", "12000", "4294967295"])
def test_the_port_is_below_those_of_linux_itself(tmp_path: Path, job: str) -> None:
    """ip_local_port_range begins at 32768 where nobody set it."""
    path = script(tmp_path, "true", nodes=2)
    srun = tmp_path / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text(f'#!/bin/bash\necho "${{@: -1}}" >>{tmp_path}/last\n')
    srun.chmod(0o755)
    (srun.parent / "scontrol").symlink_to("/bin/true")
    env = {**environment(tmp_path, SLURM_JOB_NUM_NODES="2", SLURM_JOB_NODELIST="n[1-2]"), "SLURM_JOB_ID": job}
    subprocess.run(["bash", str(path)], env=env, check=False)
    port = int((tmp_path / "last").read_text().splitlines()[-1])
    assert 20000 <= port < 32000
