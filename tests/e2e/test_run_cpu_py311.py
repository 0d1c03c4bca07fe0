"""`envspec run` of the shipped lock `cpu-py311`: made once, hard-linked, trained in, and started again at once."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

TRAIN = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(64, 8)
losses = []
for _ in range(20):
    optimiser.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), x.sum(dim=1, keepdim=True))
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
assert losses[-1] < losses[0] / 2, losses
print(torch.__version__)
"""


def run(root: Path, env: dict[str, str], *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "envspec", "run", str(root / "specs" / "cpu-py311.toml"), "--", *words]
    return subprocess.run(line, cwd=folder or root, env=env, capture_output=True, text=True, check=False)


@pytest.mark.nightly
@pytest.mark.network
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the lock is for Python 3.11")
@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="the lock is for linux-64")
def test_trains_in_an_environment_that_is_made_for_it(root: Path, tmp_path: Path) -> None:
    places = {name: str(tmp_path / name) for name in ("ENVSPEC_ENVIRONMENTS_DIR", "XDG_CACHE_HOME")}
    env = {**os.environ, **places}
    env.pop("ENVSPEC_CACHE_DIR", None)
    first = run(root, env, "python", "-c", TRAIN)
    if first.returncode == 3 and "torch" in first.stderr:
        pytest.skip("no index or folder that pip is configured with has torch 2.13.0+cpu")
    assert (first.returncode, first.stdout) == (0, "2.13.0+cpu\n"), first.stderr
    (prefix,) = Path(places["ENVSPEC_ENVIRONMENTS_DIR"]).iterdir()
    library = next(prefix.rglob("libtorch_cpu.so"))
    assert library.stat().st_nlink > 1, "it shares its files with the cache"
    # offline and at once: nothing but what the first run found out is read
    begun = time.monotonic()
    second = run(root, {**env, "UV_OFFLINE": "1", "UV_DEFAULT_INDEX": "http://127.0.0.1:9"}, "true")
    assert (second.returncode, second.stderr) == (0, "")
    assert time.monotonic() - begun < 5
