"""`cpu-py311` in a SIF built from its recipe, under the apptainer runner and the real Apptainer."""

import json
from pathlib import Path

import pytest
from support.sif import built_sif, shipped_recipe, skip_without_tools
from support.smoke_runs import smoke

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.network]

skip_without_tools()


@pytest.fixture(scope="module")
def sif(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_sif(shipped_recipe("cpu-py311", "cpu"), tmp_path_factory.mktemp("sif"))


@pytest.mark.nightly
def test_all_checks_pass_in_it(sif: Path, tmp_path: Path) -> None:
    ran = smoke("--runner", "apptainer", "--sif", str(sif), "--json", "-o", str(tmp_path / "out"))
    (run,) = json.loads(ran.stdout)["runs"]
    assert run["report"], ran.stdout
    failed = {check["name"]: check["reason"] for check in run["report"]["checks"] if check["status"] == "fail"}
    assert failed == {} and run["status"] == "pass" and ran.returncode == 0
    assert run["runner"] == "apptainer" and run["report"]["machine"]["glibc"] == "2.36"


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
