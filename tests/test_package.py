"""The project as a package: what its wheel holds, and that pyproject.toml and specs/dev.toml agree."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import tomli
from packaging.requirements import Requirement

import envspec


@pytest.fixture(scope="module")
def pyproject(root: Path) -> dict[str, Any]:
    return tomli.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def dev(root: Path) -> dict[str, Any]:
    return tomli.loads((root / "specs" / "dev.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    (file,) = folder.glob("*.whl")
    return zipfile.Path(file)


def flat(project: dict[str, Any], extra: str) -> set[str]:
    """The requirements of an extra, with the project's own extras followed."""
    requirements = set()
    for text in project["optional-dependencies"][extra]:
        requirement = Requirement(text)
        if requirement.name == project["name"]:
            requirements |= {r for inner in requirement.extras for r in flat(project, inner)}
        else:
            requirements.add(text)
    return requirements


def test_dev_spec_equals_pyproject(pyproject: dict[str, Any], dev: dict[str, Any]) -> None:
    project = pyproject["project"]
    listed = dev["pip"]["dependencies"]
    assert set(listed) == {*project["dependencies"], *flat(project, "dev")}
    assert len(listed) == len(set(listed))
    assert set(pyproject["build-system"]["requires"]) <= set(listed), (
        "the editable install builds with the locked tools"
    )


def test_dev_targets_are_named_for_make(dev: dict[str, Any]) -> None:
    python = dev["env"]["python"].replace(".", "")
    assert {name: target["platform"] for name, target in dev["targets"].items()} == {
        f"py{python}-{target['platform']}": target["platform"] for target in dev["targets"].values()
    }


@pytest.mark.slow
def test_wheel_holds_every_file(wheel: zipfile.Path, project_files: tuple[Path, ...]) -> None:
    ours = {str(file) for file in project_files if file.parts[0] == "envspec"}
    assert {".py", ".json"} <= {Path(file).suffix for file in ours}
    assert "envspec/py.typed" in ours
    inside = {name for name in wheel.root.namelist() if name.startswith("envspec/") and not name.endswith("/")}
    check = {str(file) for file in project_files if file.parts[0] == "check" and "tests" not in file.parts}
    carried = {f"envspec/carried/{name}" for name in check if name.endswith(".py")}
    assert carried and inside == ours | carried


@pytest.mark.slow
def test_wheel_metadata(wheel: zipfile.Path, root: Path) -> None:
    (info,) = (entry for entry in wheel.iterdir() if entry.name.endswith(".dist-info"))
    metadata = (info / "METADATA").read_text()
    assert re.search(rf"^Version: {re.escape(envspec.__version__)}$", metadata, re.MULTILINE)
    assert re.search(r"^License-Expression: Apache-2\.0$", metadata, re.MULTILINE)
    assert (info / "licenses" / "LICENSE").read_text() == (root / "LICENSE").read_text()
    assert "envspec = envspec.__main__:main" in (info / "entry_points.txt").read_text()
