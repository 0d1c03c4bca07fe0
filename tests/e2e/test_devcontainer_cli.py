"""The exported devcontainer.json, read by the reference command line from npm. No engine is asked: a program that does
nothing stands in for docker."""

import fcntl
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from support.debian import kept
from support.recipes import all_recipes

ROOT = Path(__file__).resolve().parents[2]
CLI = "@devcontainers/cli@0.89.0"

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.network]


@pytest.fixture(scope="module")
def devcontainer() -> Path:
    """The program. Skips without npm, or where npm can't install it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm")
    folder = kept() / "devcontainers"
    folder.mkdir(exist_ok=True)
    program = folder / "node_modules" / ".bin" / "devcontainer"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            made = subprocess.run([npm, "install", "--silent", "--no-audit", "--prefix", str(folder), CLI], check=False)
            if made.returncode:
                pytest.skip(f"npm can't install {CLI}")
    return program


@pytest.mark.parametrize(
    ("spec", "target", "gpu"), [("mm-v2.9", "cu128-hopper", "optional"), ("team-v2.9", "cpu", None)]
)
def test_the_reference_reads_what_was_exported(devcontainer: Path, spec: str, target: str, gpu: str | None) -> None:
    repository = all_recipes().parent
    config = repository / ".devcontainer" / f"{spec}-{target}" / "devcontainer.json"
    command = [str(devcontainer), "read-configuration", "--docker-path", "/bin/true"]
    command += ["--workspace-folder", str(repository), "--config", str(config)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)["configuration"]
    context = "../../recipes"
    platform, *given = found["build"].pop("options")
    assert platform == "--platform=linux/amd64" and "--secret=id=apt-mirrors,env=APT_MIRRORS" in given
    build = {"dockerfile": f"{context}/{spec}/{target}/Dockerfile", "context": context}
    assert found["build"] == build and found["remoteUser"] == "dev"
    assert found["postStartCommand"].startswith("/opt/envspec/entrypoint.sh true")
    assert found.get("hostRequirements", {}).get("gpu") == gpu
