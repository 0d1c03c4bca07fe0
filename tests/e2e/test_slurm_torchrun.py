"""The exported Slurm job with a real Slurm, a real Apptainer and torch's own torchrun: what becomes of two ranks that
end before a warning, by it, or not at all. The image is a Debian in a folder, which sees a shipped lock's environment.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from envspec_check.lock import read_target
from msgspec.structs import replace
from support.debian import debian_tree
from support.smoke_env import CONFIG, smoke_env as smoke_env
from support.warned import KINDS, TRAINS

sys.path.append(str(Path(__file__).parents[1] / "export"))
from recipe_plans import of_target

from envspec.export.carried import carried_files
from envspec.export.slurm import APPTAINER_JOB, render
from envspec.spec.cluster import SlurmTable

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.e2e, pytest.mark.xdist_group("slurm")]


class Job:
    """A job that was submitted in a folder, and has begun to train."""

    def __init__(self, conf: Path, prefix: Path, folder: Path, kind: str, when: str, minutes: int) -> None:
        self.folder, carried = folder, folder / "carried"
        for name, text in carried_files().items():
            (carried / name).parent.mkdir(parents=True, exist_ok=True)
            (carried / name).write_text(text, encoding="utf-8")
        (carried / "target.json").write_text(json.dumps(read_target(str(CONFIG))), encoding="utf-8")
        asked = SlurmTable(requeue=True, signal="USR1@60")
        (folder / "job.sbatch").write_text(render(replace(of_target("cpu-py311", "cpu"), slurm=asked))[APPTAINER_JOB])
        (folder / "train.py").write_text(TRAINS)
        base = Path(os.path.realpath(prefix / "bin" / "python")).parents[1]  # the environment's Python is a link
        self.env = {
            **os.environ,
            "SLURM_CONF": str(conf),
            "ENVSPEC_SIF": str(debian_tree()),
            "ENVSPEC_RANKS_PER_NODE": "2",
            "APPTAINER_BIND": f"{carried}:/opt/envspec,{prefix},{base}",
            "APPTAINERENV_ENVSPEC_PREFIX": str(prefix),
        }
        argv = ("--parsable", f"--time={minutes}", "job.sbatch", "train.py", str(folder), kind, when, "USR1")
        self.number = self.ask("sbatch", *argv).strip()
        self.wait(lambda: len([*folder.glob("ready-*")]) == 2, 100)

    def ask(self, *argv: str) -> str:
        return subprocess.run(argv, cwd=self.folder, env=self.env, capture_output=True, text=True, check=True).stdout

    def wait(self, is_so: Callable[[], bool], seconds: int) -> None:
        for _ in range(4 * seconds):
            if is_so():
                return
            time.sleep(0.25)
        raise AssertionError(self.state() + "".join(log.read_text() for log in self.folder.glob("*.out")))

    def state(self) -> str:
        return self.ask("scontrol", "show", "job", self.number)

    def ends(self, *words: str, seconds: int = 60) -> None:
        self.wait(lambda: all(word in self.state() for word in words), seconds)

    @property
    def ended(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("ended-*"))


@pytest.fixture
def job(slurm_cluster: Path, smoke_env: Path, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    jobs = []

    def submit(kind: str, when: str, minutes: int = 10) -> Job:
        jobs.append(Job(slurm_cluster, smoke_env, tmp_path, kind, when, minutes))
        return jobs[-1]

    if shutil.which("apptainer") is None:
        pytest.skip("no apptainer")
    yield submit
    for one in jobs:
        one.ask("scancel", one.number)


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_that_end_before_a_warning_are_done(job: Callable[..., Job], kind: str) -> None:
    one = job(kind, "before")
    (one.folder / "enough").touch()
    one.ends("Restarts=0", "JobState=COMPLETED", "ExitCode=0:0")
    assert one.ended == ["ended-0", "ended-1"]
    assert not [*one.folder.glob(".checkpoint*")]


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_that_end_by_a_warning_go_on_later_if_they_saved(job: Callable[..., Job], kind: str) -> None:
    """None ends by the signal, also one that doesn't know it; torchrun gets none."""
    one = job(kind, "during")
    one.ask("scancel", "--batch", "--signal=USR1", one.number)
    if kind == "neither":
        time.sleep(4)
        assert one.ended == []
        (one.folder / "enough").touch()
        one.ends("Restarts=0", "JobState=COMPLETED", "ExitCode=0:0")
    else:
        one.ends("Restarts=1", "JobState=PENDING")
        assert (one.folder / f".checkpoint-{one.number}.last").read_text() == "7"
    assert one.ended == ["ended-0", "ended-1"]


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_that_outlive_a_warning_end_with_the_time(job: Callable[..., Job], kind: str) -> None:
    one = job(kind, "after", minutes=2)
    one.ends("Restarts=0", "JobState=TIMEOUT", seconds=300)
    assert one.ended == []
    assert (one.folder / f".checkpoint-{one.number}").read_text() == ("" if kind == "neither" else "7")
