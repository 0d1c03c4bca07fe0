"""A spec's own project that must be compiled is built once, until something that shapes its wheel changes."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.network, pytest.mark.e2e]

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
PYPROJECT = """\
[build-system]
requires = ["setuptools>=77", {more}]
build-backend = "setuptools.build_meta"
[project]
name = "my-model"
version = "0.3.0"
[tool.setuptools]
packages = ["my_model"]
"""
SPEC = f'[env]\nname = "own"\npython = "{PYTHON}"\nproject = ".."\n[targets.cpu]\nplatform = "linux-64"\n'
SETUP = "from setuptools import setup\nopen({witness!r}, 'a').write('built ')\nsetup()\n"


@pytest.fixture
def witness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ENVSPEC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "witness"


def made(folder: Path, witness: Path, more: str) -> Path:
    (folder / "my_model").mkdir(parents=True)
    (folder / "specs").mkdir()
    (folder / "pyproject.toml").write_text(PYPROJECT.format(more=more))
    (folder / "specs" / "own.toml").write_text(SPEC)
    (folder / "setup.py").write_text(SETUP.format(witness=str(witness)))
    (folder / "my_model" / "__init__.py").write_text("answer = 1\n")
    run(folder, "lock")
    return folder


def run(folder: Path, command: str, *options: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "envspec", command, "specs/own.toml", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def installed(folder: Path, witness: Path, prefix: str) -> tuple[str, bool]:
    """Install into an environment: the answer that its copy of the project gives, and whether a build ran."""
    before = witness.read_text() if witness.exists() else ""
    run(folder, "install", "--prefix", str(folder.parent / prefix))
    inside = folder.parent / prefix / "bin" / "python"
    said = subprocess.run(
        [inside, "-I", "-c", "import my_model; print(my_model.answer)"], capture_output=True, text=True, check=True
    )
    return said.stdout.strip(), witness.read_text() != before


def test_a_compiled_project_is_built_once_for_the_same_files(tmp_path: Path, witness: Path) -> None:
    project = made(tmp_path / "project", witness, '"pybind11"')
    assert installed(project, witness, "one") == ("1", True)
    assert installed(project, witness, "two") == ("1", False)
    # what a tool keeps beside the code
    (project / ".cache").mkdir()
    (project / ".cache" / "note").write_text("new")
    assert installed(project, witness, "one") == ("1", False)
    (project / "my_model" / "__init__.py").write_text("answer = 2\n")
    assert installed(project, witness, "two") == ("2", True)
    assert installed(project, witness, "one") == ("2", False)


@pytest.mark.parametrize("more", ["", '"pybind11", "setuptools-scm"'])
def test_one_of_pure_python_or_with_a_version_of_git_is_built_each_time(
    tmp_path: Path, witness: Path, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SETUPTOOLS_SCM_PRETEND_VERSION", "0.3.0")
    project = made(tmp_path / "project", witness, more)
    assert installed(project, witness, "one") == ("1", True)
    assert installed(project, witness, "two") == ("1", True)
