"""Several local projects: a spec names one of them, and lists what the others ask for."""

from pathlib import Path

import pytest
from support.drafts import draft, notes

from envspec.cli.main import run
from envspec.draft.join import Declaration, join
from envspec.draft.model import Draft
from envspec.draft.repository import read_draft
from envspec.spec.parse import load_spec


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def project(folder: str, *asked: str, more: str = "") -> Path:
    """Write a project, with an extra `fast` and a group `dev`."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = Path(folder, "pyproject.toml")
    path.write_text(
        f'[project]\nname = "{path.parent.name}"\nversion = "1"\ndependencies = {list(asked)}\n{more}\n'
        f'[project.optional-dependencies]\nfast = ["{path.parent.name}-fast"]\n[dependency-groups]\ndev = ["pytest"]\n'
    )
    return path


def joined(*files: Path) -> Draft:
    return join([Declaration(str(file), read_draft(file)) for file in files], ())


def asked_by(name: str = "demo") -> set[str]:
    spec = load_spec(f"specs/{name}.toml")
    return {one.text for one in spec.pip_dependencies(spec.targets[0])}


@pytest.mark.parametrize("as_folders", [False, True])
def test_the_requirements_of_all_are_asked_for(as_folders: bool, capsys: pytest.CaptureFixture[str]) -> None:
    files = [project("a", "six"), project("b", "idna>=2", "six>=1.10"), project("c", "attrs")]
    words = [word for file in files for word in ("--from", str(file.parent if as_folders else file))]
    assert run(["init", "demo", *words]) == 0, capsys.readouterr().err
    assert asked_by() == {"six", "six>=1.10", "idna>=2", "attrs"}
    spec = load_spec("specs/demo.toml")
    assert spec.project is not None and spec.project.name == "a"
    assert "the requirements of the project in b are listed" in capsys.readouterr().err


def test_one_that_the_spec_cant_name_is_listed_with_the_others() -> None:
    dynamic = project("a", more='dynamic = ["dependencies"]')
    dynamic.write_text(dynamic.read_text().replace("dependencies = []\n", "") + "[tool.setuptools.dynamic]\n")
    dynamic.write_text(dynamic.read_text() + 'dependencies = { file = "list.txt" }\n')
    Path("a/list.txt").write_text("six\n")
    found = joined(dynamic, project("b", "idna"))
    assert (found.pip, found.own, found.project) == (("six",), ("idna",), ("b", ()))
    other = project("c", "idna", more="[project.optional-dependencies]\na_b = []\na-b = []")
    other.write_text(other.read_text().partition("[project.optional-dependencies]\nfast")[0])
    found = joined(other, project("d", "attrs"))
    assert set(found.pip) == {"idna"} and found.project == ("d", ()) and found.own == ("attrs",)


def test_bounds_of_one_that_cant_be_named_after_all_stay(capsys: pytest.CaptureFixture[str]) -> None:
    a = project("a", "idna<4", "beta", more="")
    a.write_text(a.read_text() + '[tool.uv.sources]\nbeta = { git = "https://example.org/beta" }\n')
    words = ["--from", str(a), "--from", str(project("b", "idna>=2"))]
    assert run(["init", "demo", *words, "-o", "elsewhere/specs/demo.toml"]) == 0, capsys.readouterr().err
    spec = load_spec("elsewhere/specs/demo.toml")
    assert spec.project is None
    assert {one.text for one in spec.pip.dependencies} == {"idna<4,>=2", "beta @ git+https://example.org/beta"}


def test_one_that_requires_another_asks_no_index_for_it() -> None:
    found = joined(project("core", "six"), project("train", "core[fast]>=1", "idna"))
    assert found.pip == ("idna",) and found.own == ("six", "core-fast") and found.project == ("core", ("fast",))
    assert tuple(found.available) == ("group dev",), "those of the project that the spec names"
    assert "left out of the project that is listed: extra fast, group dev" in notes(found)
    assert "core[fast]>=1 of train/pyproject.toml is left out: it's the project of core/pyproject.toml" in notes(found)
    found = joined(project("train", "core[fast,none]", "idna"), project("core", "six"))
    assert set(found.pip) == {"idna"} and found.project == ("core", ("fast",)) and "no extra none" in notes(found)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "-e ./a\n-e ./b[fast]\n./c\n"),
        ("Dockerfile", "FROM x\nRUN pip install -e ./a && pip install ./b[fast] ./c\n"),
        ("environment.yml", "dependencies:\n  - pip:\n    - -e ./a\n    - -e ./b[fast]\n    - ./c\n"),
        ("pixi.toml", '[pypi-dependencies]\na = { path = "a" }\nb = { path = "b", extras = ["fast"] }\nc.path = "c"\n'),
    ],
)
def test_folders_that_a_file_installs(name: str, text: str) -> None:
    project("a", "six")
    project("b", "idna")
    project("c", "attrs", more="")
    found = draft(name, text)
    assert found.project == ("a", ()) and found.own == ("six",)
    assert set(found.pip) == {"idna", "b-fast", "attrs"}, notes(found)


@pytest.mark.parametrize("name", ["uv", "poetry"])
def test_a_path_of_another_project(name: str) -> None:
    project("b", "idna", more="")
    with_b = Path("b/pyproject.toml")
    with_b.write_text(with_b.read_text() + '[tool.uv.sources]\nidna = { path = ".." }\n')  # a circle
    if name == "uv":
        text = '[project]\nname = "a"\nversion = "1"\ndependencies = ["b[fast]", "six"]\n'
        text += '[tool.uv.sources]\nb = { path = "./b", editable = true }\n'
    else:
        text = '[tool.poetry.dependencies]\nsix = "*"\nb = { path = "./b", extras = ["fast"] }\n'
    found = draft("pyproject.toml", text)
    assert {*found.pip, *found.own} == {"six", "b-fast"}, notes(found)


def test_a_path_out_of_the_folder_is_not_read(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project("b", "hunter22")
    project("a", "six")
    Path("within").mkdir()
    monkeypatch.chdir("within")
    found = draft("requirements.txt", "einops\n-e ../a\n-e ../b\n")
    assert "hunter22" not in str(found) and "it lies outside" in notes(found)
