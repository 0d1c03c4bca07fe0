"""`cpu-py311` in an image built from its recipe, under docker or podman.

No engine could start containers where this was written: its first real run is the first one that isn't skipped.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from support.smoke_runs import smoke

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.network]


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


def test_the_checks_run_in_it(engine: str, tmp_path: Path) -> None:
    ran = smoke("--runner", "docker", "--engine", engine, "--only", "static", "--json", "-o", str(tmp_path / "out"))
    (run,) = json.loads(ran.stdout)["runs"]
    assert run["status"] == "pass", ran.stdout
