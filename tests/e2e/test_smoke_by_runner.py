"""`cpu-py311`, made from its lock, under the local runner: every one of the real checks.

The run is the one that test_shipped.py asks for too.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.sif import built_sif, shipped_recipe, skip_without_tools
from support.smoke_runs import SPEC, skip_without_torch, smoke, whole_run

from envspec.pytest_plugin import cases


@pytest.mark.nightly
@pytest.mark.e2e
@pytest.mark.network
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the lock is for Python 3.11")
def test_all_checks_pass(tmp_path_factory: pytest.TempPathFactory) -> None:
    (case,) = cases([Path(SPEC)])
    status, out, _ = whole_run(tmp_path_factory)([case.path, "--target", case.target, "--json"])
    skip_without_torch(out)
    (run,) = json.loads(out)["runs"]
    assert run["status"] == "pass", out
    statuses = {check["name"]: check["status"] for check in run["report"]["checks"]}
    assert "fail" not in statuses.values()
    # what needs no GPU isn't skipped, but for what a CPU build has not, and what another workload trains
    groups = {name.partition(".")[0] for name, status in statuses.items() if status == "pass"}
    assert {"static", "operators", "training", "determinism", "compile", "dataloader", "collectives"} <= groups
    assert status == 0


@pytest.fixture
def engine() -> str:
    """An engine that starts containers. Skips, by name, without one."""
    for name in ("docker", "podman"):
        if shutil.which(name) is None:
            continue
        told = subprocess.run([name, "run", "--rm", "hello-world"], capture_output=True, timeout=120, check=False)
        if told.returncode == 0:
            return name
    pytest.skip("neither docker nor podman starts a container here")


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.network
def test_the_checks_run_in_it(engine: str, tmp_path: Path) -> None:
    words = ("--runner", "docker", "--engine", engine, "--only", "static", "--json", "-o", str(tmp_path / "out"))
    ran = smoke(*words, env={"UV_PYTHON_DOWNLOADS": "automatic"})
    (run,) = json.loads(ran.stdout)["runs"]
    assert run["status"] == "pass", ran.stdout


skip_without_tools()


@pytest.fixture(scope="module")
def sif(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_sif(shipped_recipe("cpu-py311", "cpu"), tmp_path_factory.mktemp("sif"))


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.network
@pytest.mark.nightly
def test_all_checks_pass_in_it(sif: Path, tmp_path: Path) -> None:
    ran = smoke("--runner", "apptainer", "--sif", str(sif), "--json", "-o", str(tmp_path / "out"))
    (run,) = json.loads(ran.stdout)["runs"]
    assert run["report"], ran.stdout
    failed = {check["name"]: check["reason"] for check in run["report"]["checks"] if check["status"] == "fail"}
    assert failed == {} and run["status"] == "pass" and ran.returncode == 0
    assert run["runner"] == "apptainer" and run["report"]["machine"]["glibc"] == "2.36"


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.network
@pytest.mark.nightly
def test_nothing_of_the_callers_leaks_in(sif: Path, tmp_path: Path) -> None:
    site = tmp_path / "leak"
    site.mkdir()
    (site / "torch.py").write_text("raise SystemExit('a torch of the caller')\n")
    out = tmp_path / "out"
    ran = smoke(
        "--runner", "apptainer", "--sif", str(sif), "--json", "--only", "static", "-o", str(out),
        env={"PYTHONUSERBASE": str(site), "APPTAINERENV_HOME": str(site)},
    )  # fmt: skip
    (run,) = json.loads(ran.stdout)["runs"]
    assert run["status"] == "pass", ran.stdout
