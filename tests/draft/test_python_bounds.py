"""The Python of a new spec is within what the files ask for: patch releases, too, as packaging and rattler read it."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st
from packaging.specifiers import SpecifierSet
from support.drafts import draft, notes, settled
from support.examples import examples

from envspec.base.errors import Place
from envspec.cli.main import run
from envspec.draft.gather import Gathered
from envspec.packages.python_range import releases_of
from envspec.spec.forms import PYTHONS
from envspec.spec.parse import load_spec


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def chosen(*words: str) -> tuple[str, ...]:
    """The releases that a new spec admits."""
    assert run(["init", "demo", *words]) == 0
    spec = load_spec("specs/demo.toml")
    return releases_of(spec.python, spec.python_range)


PYPROJECT = '[project]\nname = "own"\nversion = "1"\nrequires-python = "{}"\ndependencies = ["six"]\n'
FORMATS = {
    "pyproject.toml": PYPROJECT,
    "setup.py": "from setuptools import setup\nsetup(python_requires='{}', install_requires=['six'])\n",
    "setup.cfg": "[options]\npython_requires = {}\ninstall_requires = six\n",
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("bound", "minors"),
    [
        ("==3.11.5", ["3.11"]),
        ("===3.11.5", ["3.11"]),
        ("==3.10.14", ["3.10"]),
        ("<=3.11", ["3.10"]),
        (">=3.8,<=3.11", ["3.10"]),
        (">3.11,<3.12.4", ["3.11", "3.12"]),
        (">=3.9,<3.12.6,!=3.12.5", ["3.12"]),
        ("~=3.11.9", ["3.11"]),
        ("==3.11", ["3.11"]),
        (">=3.13.2", ["3.13", "3.14"]),
        (">=3.8", ["3.12"]),
    ],
)
def test_a_requires_python(name: str, bound: str, minors: list[str]) -> None:
    Path(name).write_text(FORMATS[name].format(bound))
    releases = chosen("--from", name)
    assert releases and all(SpecifierSet(bound).contains(one) for one in releases)
    assert releases[0].rpartition(".")[0] in minors


@pytest.mark.parametrize(
    ("python", "bound"),
    [
        ("^3.10.4", ">=3.10.4,<4"), ("~3.11.9", ">=3.11.9,<3.12"), ("3.11.9", "==3.11.9"), ("~3.10", ">=3.10,<3.11"),
        ("<=3.11", "<=3.11"), ("3.11.*", "==3.11.*"), ("^3.8,<3.9 || ^3.10,<3.11", "!=3.9.*,<3.11,>=3.8"),
        ("~3.10 | ~3.13", ">=3.10,<3.14,!=3.11.*,!=3.12.*"), ("3.11", "==3.11.0"),
    ],
)  # fmt: skip
def test_poetrys_forms(python: str, bound: str) -> None:
    Path("pyproject.toml").write_text(f'[tool.poetry.dependencies]\npython = "{python}"\nsix = "*"\n')
    assert all(SpecifierSet(bound).contains(one) for one in chosen("--from", "pyproject.toml"))


VERSIONS = st.one_of(
    st.integers(8, 14).map("3.{}".format), st.builds("3.{}.{}".format, st.integers(8, 14), st.integers(0, 18))
)
CLAUSES = st.one_of(
    st.builds("{}{}".format, st.sampled_from(["=", "==", "!=", "<", "<=", ">", ">=", "~=", ""]), VERSIONS),
    st.builds("{}3.{}.*".format, st.sampled_from(["", "=", "!="]), st.integers(8, 14)),
)
BOUNDS = st.lists(st.lists(CLAUSES, min_size=1, max_size=3).map(",".join), min_size=1, max_size=2).map("|".join)


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(BOUNDS)
@example("3.11.5=h955ad1f_0")
@example("=3.11.5=h955ad1f_0")
@example(">=3.10,<3.13.0a0")
@example("3.8.*|3.10.*")
@example("==3.11")
def test_conda_forms_are_rattlers(bound: str) -> None:
    rattler = pytest.importorskip("rattler")
    gathered = Gathered()
    gathered.python_of_match_spec(bound, Place("environment.yml"))
    found = gathered.draft()
    python = settled(found).python
    asked = settled(found).requires or (python and (f"=={python}" + ".*" * (python.count(".") < 2)))
    version = re.sub(r"=[^=,|<>~]*_[0-9]+$", "", bound)
    version = f"=={version.lstrip('=')}" if version != bound else version
    spec = rattler.VersionSpec(version)
    admitted = {one for minor in PYTHONS for one in releases_of(minor, None) if spec.matches(rattler.Version(one))}
    ours = {one for minor in PYTHONS for one in releases_of(minor, asked)}
    if admitted:
        assert ours == admitted, (bound, asked)
    else:
        assert settled(found).python is None and settled(found).requires is None and "is left out" in notes(found)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("python=3.11", "3.11"), ("python=3.11.5", "3.11.5"), ("python 3.11.5", "3.11.5"), ("python==3.11.*", "3.11"),
        ("python=3.10.13=hd12c33a_1_cpython", "3.10.13"), ("conda-forge::python=3.11.3", "3.11.3"),
        ("python[version='3.11.5']", "3.11.5"), ("python==3.11", "3.11.0"),
    ],
)  # fmt: skip
def test_an_environment_yml(line: str, expected: str) -> None:
    found = draft("environment.yml", f'dependencies:\n  - "{line}"\n  - numpy\n')
    assert settled(found).python == expected
    assert ("means 3.11.0 alone" in notes(found)) == (expected == "3.11.0")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".python-version", "3.12.6\n"),
        (".python-version", "cpython-3.12.6\n"),
        ("Dockerfile", "FROM python:3.12.6-slim\nRUN pip install six\n"),
        ("cog.yaml", "build:\n  python_version: '3.12.6'\n  python_packages: [six]\n"),
    ],
)
def test_a_version_that_a_file_names(name: str, text: str) -> None:
    assert settled(draft(name, text)).python == "3.12.6"
    older = draft(name, text.replace("3.12.6", "3.12.1"))
    assert settled(older).python == "3.12" and "3.12.1 is taken as 3.12: envspec knows no build of it" in notes(older)


def test_files_that_say_it_together() -> None:
    Path("pyproject.toml").write_text(PYPROJECT.format(">=3.8,<=3.11"))
    Path("environment.yml").write_text("dependencies: ['python>=3.10', numpy]\n")
    Path(".python-version").write_text("3.10\n")
    assert {one[:4] for one in chosen("--from", ".")} == {"3.10"}


def test_a_python_that_no_file_admits_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.txt").write_text("six\n")
    Path(".python-version").write_text("3.11\n")
    Path("pyproject.toml").write_text(PYPROJECT.format("==3.11.5").replace("own", "a"))
    assert all(one == "3.11.5" for one in chosen("--from", ".python-version", "--from", "pyproject.toml"))
    told = capsys.readouterr().err
    assert (
        'envspec knows no build of Python 3.11.5, so `lock` refuses it: add [conda] dependencies = ["python"]' in told
    )


def test_environments_of_pixi_bound_it_together() -> None:
    text = '[workspace]\nchannels = ["conda-forge"]\nplatforms = ["linux-64"]\n[dependencies]\npython = ">=3.10"\n'
    text += '[feature.old.dependencies]\npython = "<=3.11"\n[environments]\nold = ["old"]\nnew = []\n'
    found = draft("pixi.toml", text)
    assert settled(found).requires == ">=3.10,<=3.11"
