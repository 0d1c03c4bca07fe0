"""Slurm: scripts and lines of sbatch, what its programs say, and what comes of tasks that end in any way."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from runner_samples import HOSTILE, HOSTILE_CASE, PLAIN, case
from slurm_answers import TWO, plan
from smoke_golden import golden

from envspec.base.errors import InputError
from envspec.prove.smoke.run.apptainer import Apptainer
from envspec.prove.smoke.run.case import Folders
from envspec.prove.smoke.run.command import dry
from envspec.prove.smoke.run.slurm import LARGEST_ARRAY, Partition, Resources, partition_of, plan_jobs

SITE = Resources(account="team", time="30", gpus_per_node="8", more=("--constraint=a b;c",))


PLANS = {
    "one": plan((case(),), [Partition(None)], Resources()),
    "matrix": plan(TWO, [Partition("h100", ("*-hopper",)), Partition("any")], SITE),
    "nodes": plan(TWO[:1], [Partition("h100")], replace(SITE, nodes=2)),
}


PLANS["apptainer"] = replace(PLANS["one"], inner=Apptainer(PLAIN, sif=Path("/images/x.sif")))


@pytest.mark.parametrize("name", PLANS)
def test_golden(name: str) -> None:
    text = dry(PLANS[name].steps()) + "\n"
    assert text == golden(f"slurm-{name}.sh", text)


@pytest.mark.parametrize("nodes", [1, 3])
def test_any_script_is_sound(nodes: int, tmp_path: Path) -> None:
    made = plan((HOSTILE_CASE, case("other")), [Partition("it's;$(id)")], Resources(nodes), HOSTILE)
    text = dict(made.script(made.jobs[0]).texts)["jobs/0.sh"]
    path = tmp_path / "script.sh"
    path.write_text(text)
    subprocess.run(["bash", "-n", str(path)], check=True)
    if shutil.which("shellcheck"):
        told = subprocess.run(
            ["shellcheck", "--severity=warning", str(path)], capture_output=True, text=True, check=False
        )
        assert told.returncode == 0, told.stdout


def test_a_script_runs_its_check_with_hostile_paths(tmp_path: Path) -> None:
    """The batch script under bash, as Slurm would start it: the check is started, and its end written down."""
    folders = Folders(tmp_path / "ca che's $(id)", tmp_path / 're"sults, $HOME; x')
    prefix = folders.prefix(HOSTILE_CASE)
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "activate").write_text("ACTIVATED=yes; export ACTIVATED\n")
    python = prefix / "bin" / "python"
    python.write_text(
        '#!/bin/bash\nprintf "%s\\n" "$ACTIVATED" "$PYTHONNOUSERSITE" "${PYTHONPATH-none}" "$@"; exit 3\n'
    )
    python.chmod(0o755)
    made = plan((case("first"), HOSTILE_CASE), [Partition(None)], Resources(), folders)
    script = folders.results / "jobs" / "0.sh"
    script.parent.mkdir(parents=True)
    script.write_text(made.script(made.jobs[0]).texts[0][1])
    env = {"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "1", "PYTHONPATH": "/elsewhere"}
    ran = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=False, env=env)
    out = folders.results / made.jobs[0].tasks[1].folder
    assert ran.returncode == 3, ran.stderr
    assert ran.stdout.splitlines()[:5] == [
        "yes",
        "1",
        "none",
        "-I",
        str(folders.carried_folder(HOSTILE_CASE) / "check"),
    ]
    assert ran.stdout.splitlines()[-1] == str(out / "check.json")
    done = json.loads((out / "done.json").read_text())
    assert (done["status"], done["job"]) == (3, "7")


def test_a_matrix_is_an_array_a_partition() -> None:
    jobs = plan_jobs(TWO, [Partition("a"), Partition("b", ("*-ampere",))], "t")
    assert [(job.partition, len(job.tasks), job.is_array) for job in jobs] == [("a", 2, True), ("b", 1, False)]
    folders = [task.folder for job in jobs for task in job.tasks]
    assert len(set(folders)) == 3


def test_no_array_is_larger_than_slurm_allows() -> None:
    cases = [case(f"t{number}") for number in range(LARGEST_ARRAY + 1)]
    assert [len(job.tasks) for job in plan_jobs(cases, [Partition(None)], "t")] == [LARGEST_ARRAY, 1]


@pytest.mark.parametrize("text", ["", "=x", "a=", "-x", "a\n", "a= , "])
def test_what_is_no_partition_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        partition_of(text)


def test_a_partition_takes_what_fits_its_patterns() -> None:
    place = partition_of("a100=*-ampere,cpu")
    assert [place.takes(name) for name in ("cu128-ampere", "cpu", "cu128-hopper")] == [True, True, False]
    assert partition_of("any").takes("whatever")
