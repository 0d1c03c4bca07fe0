"""The commands that the head of a definition prints, as they stand, by Apptainer itself: the images that it names come
from Docker Hub's own names, behind which is a registry on loopback.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.docker_hub import as_docker_hub
from support.hub import serving_hub
from support.sif import skip_without_tools
from test_docker_heads import images as images, printed, project as project
from test_heads import Printed

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.network, pytest.mark.e2e]

skip_without_tools()


def test_a_definitions_head_builds_and_trains(project: Path, images: dict[str, Path], tmp_path: Path) -> None:
    with serving_hub(tmp_path) as hub:
        for name, tree in images.items():
            hub.push_tree(name if "/" in name else f"library/{name}", tree)
        with as_docker_hub(hub.host, tmp_path / "hub") as found:
            run(printed(project, "apptainer", "build", "served/cpu/apptainer.def"), found)
    trains = printed(project, "apptainer", "run")
    (trains.folder / "train.py").write_text("import numpy; print('trained with', numpy.__name__)\n")
    assert "trained with numpy" in run(trains)
    # an environment without a framework proves nothing, says the check
    checked = run(printed(project, "apptainer", "test"), status=1)
    assert "the target locks none of torch" in checked and " 0 failed" in checked


def run(one: Printed, env: Mapping[str, str] | None = None, status: int = 0) -> str:
    ran = subprocess.run(
        ["sh", "-c", one.line],
        cwd=one.folder,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert ran.returncode == status, f"{one.line}\n{ran.stdout[-3000:]}{ran.stderr[-3000:]}"
    return ran.stdout + ran.stderr
