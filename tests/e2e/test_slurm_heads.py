"""The `sbatch` commands that the heads of the shipped jobs print, as they stand, by a real Slurm whose nodes are as
large as they ask for and never come up: it takes the job, or says what is wrong with the words.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.slurm import slurm

sys.path.append(str(Path(__file__).parents[1] / "export"))
from test_heads import Printed, shipped_heads

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.xdist_group("slurm")]

NODES = "NodeName=gpus[1-4] CPUs=64 Gres=gpu:8"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with slurm(tmp_path_factory.mktemp("heads"), absent=NODES) as conf:
        yield {**os.environ, "SLURM_CONF": str(conf)}


def submit(env: dict[str, str], words: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", shlex.join(words)], env=env, cwd=folder, capture_output=True, text=True, check=False
    )


def test_slurm_takes_each_head_s_command(cluster: dict[str, str]) -> None:
    lines = [one for one in shipped_heads() if "sbatch" in one.words]
    assert len({one.file for one in lines}) == 2 * len({one.file.parent for one in lines}) > 16
    wrong = {one.file: told for one in lines if (told := refusal(cluster, one))}
    assert wrong == {}
    one = next(one for one in lines if "--gpus-per-node=8" in one.words)
    more = tuple(word.replace("-node=8", "-node=9") for word in one.words)
    assert "configuration is not available" in submit(cluster, more, one.folder).stderr


def refusal(env: dict[str, str], one: Printed) -> str:
    done = submit(env, one.words, one.folder)
    found = re.fullmatch(r"Submitted batch job (\d+)\n", done.stdout)
    if found:
        subprocess.run(["scancel", found[1]], env=env, check=True)
    return "" if found else done.stdout + done.stderr
