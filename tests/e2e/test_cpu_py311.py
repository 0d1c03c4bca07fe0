"""The shipped lock `cpu-py311`, proved: installed with hashes into an empty environment, consistent, and trained in."""

import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.network]

DOWNLOAD = (sys.executable, "-m", "pip", "download", "-q", "--no-deps")
TRAIN = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(64, 8)
y = x.sum(dim=1, keepdim=True)
losses = []
for _ in range(20):
    optimiser.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
assert losses[-1] < losses[0] / 2, losses
assert torch.from_numpy(x.numpy()).equal(x)
print(torch.__version__)
"""


def run(command: Sequence[str | Path], **options: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


# each `.ci/run` installs another lock with pip when it sets up, and this one into its image, SIF and Nix environment
@pytest.mark.nightly
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the lock is for Python 3.11")
@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="the lock is for linux-64")
def test_installs_with_hashes_and_trains(root: Path, tmp_path: Path) -> None:
    requirements = root / "locks" / "cpu-py311" / "cpu" / "requirements.txt"
    wheel = "torch==2.13.0+cpu"
    found = subprocess.run(
        [*DOWNLOAD, "--only-binary=:all:", "-d", tmp_path / "w", wheel], capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.skip(f"no index or folder that pip is configured with has {wheel}")
    prefix = tmp_path / "env"
    venv.create(prefix, with_pip=True)
    python = prefix / "bin" / "python"
    run([python, "-m", "pip", "install", "-q", "--require-hashes", "--no-deps", "-r", requirements])
    assert "No broken requirements found" in run([python, "-m", "pip", "check"])
    assert run([python, "-c", TRAIN]).strip() == "2.13.0+cpu"
    listed = run([python, "-m", "pip", "list", "--format=freeze", "--exclude", "pip"])
    installed = listed.lower().replace("_", "-").split()
    locked = [line.split()[0] for line in requirements.read_text().splitlines() if "==" in line and line[0] != "#"]
    assert sorted(installed) == sorted(locked)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the lock is for Python 3.11")
def test_a_wrong_hash_is_refused_by_pip(root: Path, tmp_path: Path) -> None:
    text = (root / "locks" / "cpu-py311" / "cpu" / "requirements.txt").read_text()
    line = next(line for line in text.splitlines() if "--hash" in line)
    digest = line.partition("sha256:")[2]
    broken = tmp_path / "requirements.txt"
    broken.write_text(text.partition("# From the index")[0].replace(digest, "0" * 64))
    done = subprocess.run(
        [*DOWNLOAD, "--require-hashes", "-d", tmp_path / "w", "-r", broken], capture_output=True, text=True, check=False
    )
    assert done.returncode
    assert "DO NOT MATCH THE HASHES" in done.stderr
