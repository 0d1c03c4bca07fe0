"""`make gpu-evidence`: one JSON a workload, none of which counts for a lock. On this machine, so without a GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.machine import ROOT
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


SMI = """#!/bin/sh
echo start >> {log}
case "$1" in
*pstate*) echo 'Field "pstate" is not a valid field to query.'; exit 2 ;;
esac
echo "NVIDIA H100, 550.54.15"
echo "NVIDIA H100, 550.54.15"
"""


def test_nvidia_smi_is_started_once_and_again_for_a_field_that_it_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi, log = tmp_path / "nvidia-smi", tmp_path / "log"
    smi.write_text(SMI.format(log=log))
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = gpu_evidence.ask_gpus(["name", "pstate", "driver_version"])
    assert found == 2 * [{"name": "NVIDIA H100", "driver_version": "550.54.15"}]
    assert log.read_text().split() == ["start", "start"]


def test_an_nvidia_smi_without_an_answer_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\nexec sleep 60\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(gpu_evidence, "SMI", 1.0)
    evidence = gpu_evidence.Evidence(tmp_path, 0.0)
    gpu_evidence.nvml(evidence, "before")
    assert evidence.steps[0]["came"] == "left out: nvidia-smi gave no answer in 1 s"
