"""`make gpu-evidence`: one JSON a workload, none of which counts for a lock. On this machine, so without a GPU."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.compiled import needs_compiler
from support.machine import ROOT
from support.pretended_nvml import environment
from support.smoke_env import SECONDS, smoke_env as smoke_env

from bench import gpu_evidence
from envspec.export.carried import check_digest, check_files
from envspec.prove.proof.records import of_report
from envspec.prove.smoke.report.read import load_report

PROGRAM = ROOT / "bench" / "gpu_evidence.py"
WORKLOADS = ("multimodal", "basic", "llm", "deit", "dynamic")


def test_an_interpreter_without_torch_is_told(tmp_path: Path) -> None:
    words = [sys.executable, str(PROGRAM), "-o", str(tmp_path), "--python", "/bin/false"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "/bin/false has no torch that can be imported" in done.stderr
    assert "hint: name another with --python" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.nightly
@pytest.mark.e2e
def test_what_no_time_is_left_for_is_told(smoke_env: Path, tmp_path: Path) -> None:
    words = [sys.executable, str(PROGRAM), "-o", str(tmp_path), "--python", str(smoke_env / "bin" / "python")]
    done = subprocess.run([*words, "--minutes", "0"], capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 1
    steps = {one["name"]: one["came"] for one in json.loads((tmp_path / "machine.json").read_text())["steps"]}
    assert {steps[f"check-{name}.json"] for name in WORKLOADS} == {"left out: no time was left"}


@pytest.mark.nightly
@pytest.mark.e2e
def test_one_report_a_workload_and_none_is_evidence_of_a_lock(smoke_env: Path, tmp_path: Path) -> None:
    words = [sys.executable, str(PROGRAM), "-o", str(tmp_path), "--python", str(smoke_env / "bin" / "python")]
    subprocess.run([*words, "--quick"], capture_output=True, text=True, check=False, timeout=SECONDS)
    about = json.loads((tmp_path / "machine.json").read_text())
    assert about["means"].startswith("machine evidence, not the lock") and not about["gpus"]
    made = sorted(tmp_path.glob("check-*.json"))
    assert made and {path.stem.removeprefix("check-") for path in made} <= set(WORKLOADS)
    for path in made:
        proof = of_report(load_report(path), path.name)
        assert not proof.rungs and proof.refused and "it is of machine" in proof.refused
        assert not any(one["group"] == "static" for one in json.loads(path.read_text())["checks"])
    assert (tmp_path / "doctor.json").exists() and (tmp_path / "inspect.json").exists()


@pytest.mark.nightly
@pytest.mark.e2e
@pytest.mark.network
def test_with_a_lock_its_own_environment_is_made_and_its_report_is_evidence(smoke_env: Path, tmp_path: Path) -> None:
    words = [sys.executable, str(PROGRAM), "-o", str(tmp_path), "--python", str(smoke_env / "bin" / "python")]
    words += ["--minutes", "0", "--lock", "specs/cpu-py311.toml:cpu", "--quick"]
    subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS)
    steps = {one["name"]: one["came"] for one in json.loads((tmp_path / "machine.json").read_text())["steps"]}
    assert steps["lock specs/cpu-py311.toml:cpu"] == "status 0"
    (path,) = tmp_path.glob("lock/runs/*/check.json")
    report = load_report(path)
    assert report.evidence == "lock" and report.check_digest == check_digest(check_files())
    assert of_report(report, path.name).rungs == {"linked", "imports", "trained-cpu"}
    distributions = next(one for one in report.checks if one.name == "static.distributions")
    assert distributions.details["records_compared"] > 5


H100 = "NVIDIA H100 80GB HBM3,9,0,0"
SLICED = "NVIDIA H100 80GB HBM3,9,0,1"


def evidence_of(folder: Path) -> gpu_evidence.Evidence:
    return gpu_evidence.Evidence(folder, time.monotonic() + 60)


@needs_compiler
@pytest.mark.slow
def test_nvml_is_started_once_for_both_looks_however_long_that_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a pretended NVML whose start takes seconds, as a driver's does without persistence mode."""
    log = tmp_path / "log"
    made = environment(tmp_path, H100, SLICED, PRETENDED_START="2", PRETENDED_LOG=str(log))
    for name in ("LD_LIBRARY_PATH", "PRETENDED_GPUS", "PRETENDED_START", "PRETENDED_LOG"):
        monkeypatch.setenv(name, made[name])
    monkeypatch.setenv("PATH", str(tmp_path))  # no nvidia-smi is asked
    evidence = evidence_of(tmp_path)
    with gpu_evidence.Watch() as watch:
        gpu_evidence.look(evidence, watch, "before")
        gpu_evidence.look(evidence, watch, "after")
    assert [one["came"] for one in evidence.steps] == ["2 GPUs", "2 GPUs"]
    assert evidence.steps[0]["seconds"] >= 2 > evidence.steps[1]["seconds"]
    assert len(log.read_text().split()) == 1
    (first, _) = json.loads((tmp_path / "nvml-after.json").read_text())
    assert (first["capability"], first["driver"], first["temperature, C"]) == ("9.0", "580.82.07", 41)
    assert first["power, mW"] is None, "what this NVML doesn't have"


SMI = """#!/bin/sh
echo start >> {log}
{does}
"""


@pytest.mark.parametrize(
    ("does", "came"),
    [
        ("echo NVIDIA H100, 550.54.15", "1 GPUs"),
        ("exec sleep 60", "left out: nvidia-smi gave no answer in 1 s"),
        ("echo no devices; exit 9", "left out: no devices"),
    ],
)
def test_where_python_cannot_load_nvml_nvidia_smi_is_started_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, came: str
) -> None:
    smi, log = tmp_path / "nvidia-smi", tmp_path / "log"
    smi.write_text(SMI.format(log=log, does=does))
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(gpu_evidence, "SMI", 1.0)
    evidence = evidence_of(tmp_path)
    with gpu_evidence.Watch() as watch:
        monkeypatch.setattr(watch, "look", lambda: "libnvidia-ml.so.1: cannot open shared object file")
        gpu_evidence.look(evidence, watch, "before")
        gpu_evidence.look(evidence, watch, "after")
    assert evidence.steps[0]["came"] == came and evidence.steps[1]["came"].startswith("left out: libnvidia-ml")
    assert log.read_text().split() == ["start"]


@needs_compiler
def test_an_nvml_without_an_answer_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = environment(tmp_path, PRETENDED_START="60")
    for name in ("LD_LIBRARY_PATH", "PRETENDED_START"):
        monkeypatch.setenv(name, made[name])
    monkeypatch.setattr(gpu_evidence, "SMI", 1.0)
    evidence = evidence_of(tmp_path)
    with gpu_evidence.Watch() as watch:
        gpu_evidence.look(evidence, watch, "before")
        gpu_evidence.look(evidence, watch, "after")
    assert {one["came"] for one in evidence.steps} == {"left out: NVML gave no answer in 1 s"}


def test_the_plan_comes_first(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"torch": "2.9.1+cu128", "gpus": ["NVIDIA H100 80GB HBM3"], "cuda": "12.8", "architectures": ["sm_90"]}
    monkeypatch.setattr(gpu_evidence, "probe", lambda python: found)
    assert gpu_evidence.main(["--plan", "--python", "py", "--lock", "specs/mm-v2.9.toml:cu128-hopper"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("plan: torch 2.9.1+cu128 of py, 1 GPU: NVIDIA H100 80GB HBM3; nothing is downloaded")
    assert "within 8 min" in said[1] and "specs/mm-v2.9.toml:cu128-hopper" in said[2]
