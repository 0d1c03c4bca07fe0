"""The check's code for GPUs, run from end to end with a CUDA that is the CPU: pretended_cuda.py says what that can't
show."""

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from envspec_check.lock import read_target
from support.smoke_env import CHECK, CONFIG, SECONDS, smoke_env as smoke_env
from uv import find_uv_bin

from envspec.prove.proof.records import of_report, refusal
from envspec.prove.smoke.report.read import load_report
from envspec.prove.smoke.report.result import is_pretended

PROGRAM = Path(__file__).with_name("pretended_cuda.py")
CANT = {"dataloader.pinned", "compile.cuda_graphs", "compile.extension", "operators.fp32_modes"}
"""What fails for want of a GPU: no memory is pinned, there are no CUDA graphs, no kernels of nvcc and no TF32."""
OLDEST, NEWEST = "2.1.0", "2.9.1"
"""The torch for CUDA that the shipped locks have; that for CPUs is the environment's of the other tests."""
NO_FP16 = {"training.fp16", "training.scaler"}
"""What fails with a torch whose CPUs have no fp16."""


READ_ONLY = """
set -e
mount --bind "$1" "$1"
mount -o remount,bind,ro /
mount -t tmpfs none /dev/shm
export HOME="$1" TMPDIR="$1"
shift
[ ! -w /etc ]
exec "$@"
"""


def pretended(prefix: Path, folder: Path, *groups: str, gpus: int = 1, read_only: bool = False) -> Path:
    """The report of the check in an environment whose target is for an H100."""
    config = read_target(str(CONFIG))
    config["lock"]["targets"]["cpu"].update(cuda="12.8", gpus=["H100"], architectures=["sm_90"])
    canonical = json.dumps(config["lock"], sort_keys=True, separators=(",", ":"))
    config["lock_digest"] = f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"
    target, report = folder / "target.json", folder / "check.json"
    target.write_text(json.dumps(config))
    words = [str(prefix / "bin" / "python"), str(PROGRAM), str(CHECK), "--config", str(target), "--json", str(report)]
    words += ["--quick", "--device", "cuda", *(word for group in groups for word in ("--only", group))]
    if read_only:
        words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", READ_ONLY, "sh", str(folder), *words]
    env = {**os.environ, "PRETENDED_COUNT": str(gpus)}
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False, env=env)
    assert report.exists(), done.stderr
    return report


def statuses(path: Path) -> dict[str, Any]:
    return {one["name"]: one["status"] for one in json.loads(path.read_text())["checks"]}


@pytest.mark.nightly
@pytest.mark.e2e
def test_the_code_for_gpus_runs_and_its_report_is_no_evidence(smoke_env: Path, tmp_path: Path) -> None:
    path = pretended(smoke_env, tmp_path, "device", "dataloader")
    found = statuses(path)
    assert {name for name, status in found.items() if status == "fail"} <= CANT
    assert found["device.capability"] == found["device.memory"] == "pass"
    report = load_report(path)
    assert report.device == "cuda" and not report.without_gpu
    assert is_pretended(report) and refusal(report) == "its GPU is pretended"
    assert of_report(report, "x").rungs == frozenset()
    assert report.torch is not None and report.torch.version.endswith("+pretended")


@pytest.mark.nightly
@pytest.mark.e2e
def test_it_trains_there_as_on_a_gpu(smoke_env: Path, tmp_path: Path) -> None:
    """By the default workload, in every precision, with the scaler, streams and NVML; twice the same."""
    path = pretended(smoke_env, tmp_path, "operators", "training", "determinism", "collectives", "figures")
    found = statuses(path)
    assert {name for name, status in found.items() if status == "fail"} <= CANT
    assert found["training.fp16"] == found["training.bf16"] == found["determinism.repeat"] == "pass"


@pytest.mark.nightly
@pytest.mark.e2e
def test_two_gpus_train_in_a_container_that_is_read_only_but_for_a_home(smoke_env: Path, tmp_path: Path) -> None:
    """Its root is mounted read-only, as by docker run --read-only; the ranks are two, by Gloo for NCCL."""
    path = pretended(smoke_env, tmp_path, "device", "dataloader", "collectives", "compile", gpus=2, read_only=True)
    found = statuses(path)
    assert {name for name, status in found.items() if status == "fail"} <= CANT
    assert found["device.count"] == found["collectives.nccl"] == found["compile.eager"] == "pass"
    assert json.loads(path.read_text())["machine"]["gpus"][1]["capability"] == "9.0"


@pytest.mark.huge
@pytest.mark.e2e
@pytest.mark.parametrize(("version", "fails"), [(OLDEST, NO_FP16), (NEWEST, set())])
def test_the_oldest_and_the_newest_locked_torch_train_there(tmp_path: Path, version: str, fails: set[str]) -> None:
    prefix = tmp_path / "env"
    own = {**os.environ, "UV_CACHE_DIR": str(tmp_path / "cache")}
    # what a lock of it has besides, by our corrections
    beside = ["numpy<2", "setuptools<70"] if version == OLDEST else ["numpy"]
    for words in (
        ["venv", "-q", "--python", "3.11", str(prefix)],
        # named, since uv prefers the environment that it was started from
        ["pip", "install", "-q", "--python", str(prefix), f"torch=={version}", *beside],
    ):
        subprocess.run([find_uv_bin(), *words], env=own, check=True, timeout=2 * SECONDS)
    path = pretended(prefix, tmp_path, "device", "training", "determinism", "dataloader", "collectives")
    found = statuses(path)
    assert {name for name, status in found.items() if status == "fail"} <= CANT | fails
    assert found["training.bf16"] == found["determinism.repeat"] == found["determinism.resume"] == "pass"
