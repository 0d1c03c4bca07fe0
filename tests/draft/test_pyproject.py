"""pyproject.toml: what its dynamic fields, groups and workspaces ask for."""

import os
from pathlib import Path

import pytest
from support.drafts import draft, notes, settled

from envspec.cli.main import run
from envspec.spec.parse import load_spec


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


PROJECT = '[project]\nname = "{}"\nversion = "1"\nrequires-python = ">=3.10,<3.11"\n'


def write(files: dict[str, str]) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)


def test_poetry_2_has_its_dependencies_in_its_own_table() -> None:
    text = PROJECT.format("own") + 'dynamic = ["dependencies"]\n[tool.poetry.dependencies]\n'
    found = draft("pyproject.toml", text + 'numpy = "^2"\nsix = ">=1.16"\n')
    assert (found.pip, settled(found).python) == (("numpy>=2,<3", "six>=1.16"), "3.10")


@pytest.mark.parametrize(
    ("table", "others"),
    [
        ("", {"setup.py": "from setuptools import setup\nsetup(install_requires=['six'])\n"}),
        ('[tool.hatch.metadata.hooks.requirements_txt]\nfiles = ["list.txt"]\n', {"list.txt": "six\n"}),
    ],
)
def test_dynamic_dependencies_leave_the_bound_on_python(table: str, others: dict[str, str]) -> None:
    write(
        {
            "pyproject.toml": PROJECT.format("own") + 'dynamic = ["dependencies", "optional-dependencies"]\n' + table,
            **others,
        }
    )
    assert run(["init", "demo", "--from", "."]) == 0
    spec = load_spec("specs/demo.toml")
    assert spec.python == "3.10" and [one.text for one in spec.pip.dependencies] == ["six"]
    assert "the extras are dynamic, and left out" in Path("specs/demo.toml").read_text()


def test_groups_have_the_lines_of_those_that_they_include() -> None:
    text = PROJECT.format("own") + 'dependencies = ["six"]\n[dependency-groups]\ntest = ["pytest"]\n'
    found = draft(
        "pyproject.toml", text + 'dev = ["ruff", { include-group = "test" }]\nround = [{ include-group = "round" }]\n'
    )
    assert found.available == {"group test": ("pytest",), "group dev": ("ruff", "pytest")}
    assert "the group round is left out: " in notes(found)


WORKSPACE = '[tool.uv.workspace]\nmembers = ["packages/*"]\nexclude = ["packages/old"]\n'
MEMBERS = {
    f"packages/{name}/pyproject.toml": PROJECT.format(f"a-{name}") + f"dependencies = {lines}\n"
    for name, lines in {"core": ["idna"], "train": ["a-core", "attrs"], "old": ["nose"]}.items()
}


def test_a_root_that_is_no_project_brings_its_members() -> None:
    write(MEMBERS)
    root = WORKSPACE + "[dependency-groups]\ndev = ['pytest']\n[tool.uv.sources]\na-core = { workspace = true }\n"
    found = draft("pyproject.toml", root)
    assert set(found.pip) == {"idna", "attrs"}, "a member is no index's to give"
    write({"pyproject.toml": root})
    assert run(["init", "demo", "--from", "."]) == 0


def test_a_root_takes_the_members_that_it_names() -> None:
    write(MEMBERS)
    text = PROJECT.format("own") + 'dependencies = ["six", "a-core"]\n' + WORKSPACE
    found = draft("pyproject.toml", text + "[tool.uv.sources]\na-core = { workspace = true }\n")
    assert (found.own, found.pip) == (("six",), ("idna",))


def test_default_groups_are_told_and_pdms_sources_are_indexes() -> None:
    text = PROJECT.format("own") + 'dependencies = ["six"]\n[tool.uv]\ndefault-groups = ["dev"]\n'
    found = draft(
        "pyproject.toml", text + '[[tool.pdm.source]]\nname = "own"\nurl = "https://pkgs.example.org/simple"\n'
    )
    assert "default-groups (dev) are left out" in notes(found) and found.indexes == {
        "own": "https://pkgs.example.org/simple"
    }


def test_a_workspace_leads_nowhere_else(here: Path) -> None:
    write(
        {
            "own/pyproject.toml": '[dependency-groups]\na = []\n[tool.uv.workspace]\nmembers = ["../*", "/tmp/*"]\n',
            **MEMBERS,
        }
    )
    os.chdir("own")
    assert draft("pyproject.toml", Path("pyproject.toml").read_text()).pip == ()


def test_conda_locks_own_table() -> None:
    text = PROJECT.format("own") + 'dependencies = ["six"]\n[tool.conda-lock]\nchannels = ["conda-forge"]\n'
    text += 'platforms = ["linux-64", "osx-arm64"]\nallow-pypi-requests = true\n[tool.conda-lock.dependencies]\n'
    text += 'ffmpeg = "^6.1"\nnumpy = "1.26.*"\nidna = { source = "pypi", version = ">=3" }\ncuda-version = "12.6.*"\n'
    text += 'openmpi = { version = ">=4", channel = "bioconda" }\n'
    found = draft("pyproject.toml", text)
    assert found.conda == ("ffmpeg >=6.1,<7", "numpy 1.26.*", "bioconda::openmpi >=4")
    assert (found.pip, found.platforms, settled(found).cuda) == (("idna>=3",), ("linux-64", "osx-arm64"), ("12.6",))
    assert "tool.conda-lock.allow-pypi-requests is left out" in notes(found)
