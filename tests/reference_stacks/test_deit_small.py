"""D2: the training of stack.deit_small learns, with several seeds, and one that is wrong in one place doesn't."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.smoke_env import CHECK
from support.smoke_runs import ENVSPEC, environment

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.huge
@pytest.mark.e2e
@pytest.mark.network
@pytest.mark.usefixtures("own_caches")
def test_d2_deit_learns_files_of_images_and_a_wrong_training_is_told(tmp_path: Path) -> None:
    """On a CPU, a smaller shape of the model: by the real timm, torchvision and torch of the shipped lock."""
    prefix = tmp_path / "env"
    made = [*ENVSPEC, "install", "specs/deit-v2.6.toml", "--target", "cu124", "--prefix", str(prefix)]
    subprocess.run(made, cwd=ROOT, check=True, env=environment(os.environ))
    program = Path(__file__).with_name("deit_small.py")
    words = [str(prefix / "bin/python"), str(program), str(CHECK), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {name: status for name, (status, _) in found.items()} == {
        **dict.fromkeys(("seed 0", "seed 1", "seed 2"), "pass"),
        **dict.fromkeys(("labels of other images", "weights that stay", "a loss that is climbed"), "fail"),
    }
