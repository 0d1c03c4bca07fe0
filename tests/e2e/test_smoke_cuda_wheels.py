"""Each CUDA target that docs/evidence says is trained on a CPU is trained again from its lock: several GB each, so once
a week and by hand. One spec's files lie on the disk at a time.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.smoke_runs import ENVSPEC, ROOT, environment

from envspec.base.errors import ToolError
from envspec.install.interpreter import find_interpreter
from envspec.lock.read import load
from envspec.prove.smoke.report.read import load_report

pytestmark = [pytest.mark.huge, pytest.mark.e2e, pytest.mark.network]

KEPT = [load_report(path) for path in sorted((ROOT / "docs" / "evidence").glob("*-on-a-cpu.json"))]
CLAIMED = [(one.spec, one.target) for one in KEPT if one.cuda]


@pytest.fixture(scope="module")
def caches(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables of caches of one spec's own: its targets share wheels."""
    folder = tmp_path_factory.mktemp(request.param)
    yield {"ENVSPEC_CACHE_DIR": str(folder / "envspec"), "UV_CACHE_DIR": str(folder / "uv")}
    subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.mark.parametrize(("caches", "target"), CLAIMED, indirect=["caches"], ids=list(map("-".join, CLAIMED)))
def test_it_is_trained_again(
    caches: dict[str, str], target: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    spec = request.node.callspec.params["caches"]
    (python,) = {one.inputs.python for one in load(ROOT / "locks" / spec / "envspec.lock") if one.name == target}
    try:
        find_interpreter(python, os.environ)
    except ToolError as error:
        pytest.skip(str(error))
    command = [*ENVSPEC, "smoke", f"specs/{spec}.toml", "--target", target, "--device", "cpu", "--json"]
    ran = subprocess.run(
        [*command, "-o", str(tmp_path / "out")],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        env=environment(caches),
    )
    (run,) = json.loads(ran.stdout)["runs"]
    assert (run["status"], ran.returncode) == ("pass", 0), (run["reason"], ran.stderr[-3000:])
    assert run["report"]["summary"]["headline"].startswith("no GPU check ran: ")
