"""The stacks' specs ask for what the projects' own files ask for, and results.toml has both answers."""

import os
from pathlib import Path

import pytest

from envspec.draft.repository import read_draft
from envspec.packages.names import requirement_name
from stacks.checkouts import Checkout, digest
from stacks.own_files import own_requirements
from stacks.projects import FOLDER, Project, digests, projects, requirements_digest
from stacks.results import RESULTS, read_results, results_text

PROJECTS = projects()


def test_thirty_projects_and_more() -> None:
    for those in (PROJECTS.values(), [project for project in PROJECTS.values() if project.recorded]):
        assert len({project.repository for project in those}) >= 30
    assert {path.parent.name for path in FOLDER.glob("*/spec.toml")} == PROJECTS.keys() == digests().keys()


@pytest.mark.parametrize("project", PROJECTS.values(), ids=lambda project: project.name)
def test_a_spec_asks_for_what_the_project_asks_for(project: Project) -> None:
    asked = project.as_the_project_has_them()
    known = digests()[project.name]
    assert (len(asked), requirements_digest(asked)) == (known["count"], known["requirements"])
    bounds = project.bounds()
    assert (requirements_digest(bounds) if bounds else None) == known.get("bounds")


@pytest.mark.parametrize("project", PROJECTS.values(), ids=lambda project: project.name)
def test_a_spec_names_the_project_and_its_revision(project: Project) -> None:
    first = project.spec_path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith(f"# {project.repository}, revision {project.revision[:12]}: {', '.join(project.files)}")
    assert project.spec().exclude_newer == "2026-11-01T00:00:00Z"


@pytest.fixture
def checkouts() -> Path:
    folder = os.environ.get("ENVSPEC_STACKS")
    if not folder:
        pytest.skip("ENVSPEC_STACKS isn't set: a folder with checkouts, OWNER/NAME")
    return Path(folder)


def test_the_digests_are_those_of_the_projects_files(checkouts: Path) -> None:
    for name, project in PROJECTS.items():
        files, asked, bounds = digest(checkouts, project)
        assert files == {file["path"]: file["sha256"] for file in digests()[name]["files"]}, name
        assert asked == project.as_the_project_has_them(), name
        assert bounds == project.bounds(), name


def test_a_spec_can_begin_with_each_of_the_projects_requirements_files(
    checkouts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, project in PROJECTS.items():
        files = [path for path in project.files if path.endswith(".txt")]
        checkout = Checkout(checkouts, project)
        asked = own_requirements(checkout.read, tuple(files), ())
        for path in checkout.seen:
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_text(checkout.read(path), encoding="utf-8")
        (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / name)
        begun = [text for path in files for text in read_draft(Path(path)).pip]
        assert {requirement_name(text) for text in begun} == {requirement_name(text) for text in asked}, name


def test_the_results_are_written_as_they_are_read() -> None:
    results = read_results()
    assert results_text(results) == RESULTS.read_text(encoding="utf-8")


def test_every_difference_is_explained() -> None:
    unexplained = [
        name
        for name, result in read_results().items()
        if (result.differs or not (result.packages and result.uv_packages)) and not PROJECTS[name].explained
    ]
    assert unexplained == []
    assert PROJECTS.keys() == read_results().keys()


def test_an_answer_is_kept_without_what_the_machine_adds_to_it() -> None:
    """Else a row would change with the machine's load."""
    told = [line for result in read_results().values() for line in (result.told + result.uv_told).splitlines()]
    assert [line for line in told if line.startswith(("still ", "wrote "))] == []


def test_own_files_are_read_without_being_run() -> None:
    files = {
        "requirements.txt": "-r more/base.txt\n--index-url x\n# no\ntorch>=2  # yes\n-e .\n./local\n",
        "more/base.txt": "Foo_Bar[b] >= 1\nfoo.bar[a]<2\n",
        "pyproject.toml": '[project]\nname = "it"\ndependencies = ["a"]\n'
        '[project.optional-dependencies]\nall = ["it[x]"]\nx = ["b"]\n',
        "setup.py": 'import nothing\nBASE = ["c"]\ndef more():\n    return [*BASE, "d"]\n'
        'setup(install_requires=["e"], extras_require={"f": ["g"]})\n',
        "README.md": "Then run\n    pip install 'jax[cuda12]' -U numpy\n",
    }

    def asked(path: str, *parts: str) -> tuple[str, ...]:
        return own_requirements(files.__getitem__, (path,), parts)

    assert asked("requirements.txt") == ("foo-bar[a,b]<2,>=1", "torch>=2")
    assert asked("pyproject.toml", "all") == ("a", "b")
    assert asked("setup.py", "more", "install_requires", "f") == ("c", "d", "e", "g")
    assert asked("README.md", "pip install 'jax[cuda12]' -U numpy") == ("jax[cuda12]", "numpy")
    with pytest.raises(ValueError, match="has no line"):
        asked("README.md", "pip install torch")
