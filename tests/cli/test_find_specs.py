"""Which spec a command line means: by its path, its folder, its name, or from a folder below."""

from __future__ import annotations

from pathlib import Path

import pytest

from envspec.app.find_specs import all_specs, spec_file
from envspec.app.inputs import read_spec
from envspec.base.errors import SpecError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository with two specs, and the current folder in it."""
    (tmp_path / "specs").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "src" / "deep").mkdir(parents=True)
    for name in ("a", "mm-v2.9"):
        (tmp_path / "specs" / f"{name}.toml").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_here(project: Path) -> None:
    assert all_specs(()) == ("specs/a.toml", "specs/mm-v2.9.toml")
    assert all_specs(("a", "specs/a.toml", "mm-v2.9")) == ("specs/a.toml", "specs/mm-v2.9.toml")


def test_from_a_folder_below(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / "src" / "deep")
    assert all_specs(()) == ("../../specs/a.toml", "../../specs/mm-v2.9.toml")
    assert spec_file("mm-v2.9") == "../../specs/mm-v2.9.toml"


@pytest.mark.parametrize("border", ["no repository", "a repository in it"])
def test_not_from_beyond_the_repository(project: Path, monkeypatch: pytest.MonkeyPatch, border: str) -> None:
    deep = project / "src" / "deep"
    if border == "no repository":
        (project / ".git").rmdir()
    else:
        (deep / ".git").touch()  # a submodule's is a file
    monkeypatch.chdir(deep)
    with pytest.raises(SpecError, match="there is no spec in specs/"):
        all_specs(())
    assert spec_file("a") == "a"


def test_a_folder(project: Path) -> None:
    other = project / "other"
    (other / "specs").mkdir(parents=True)
    (other / "specs" / "one.toml").touch()
    (other / "pyproject.toml").touch()
    assert spec_file("other") == "other/specs/one.toml"
    assert spec_file("other/specs") == "other/specs/one.toml"
    with pytest.raises(SpecError, match=r"the folder has 2 specs: a\.toml, mm-v2\.9\.toml") as told:
        spec_file(".")
    assert told.value.hint == "choose one: specs/a.toml"
    assert spec_file("src") == "src"


@pytest.mark.parametrize("given", ["none", "none.toml", "specs/a", "a\0b", "x" * 5000, ""])
def test_what_means_no_spec_comes_back(project: Path, given: str) -> None:
    assert spec_file(given) == given


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("mm-v2.8", "specs/mm-v2.9.toml"),
        ("a.toml", "specs/a.toml"),
        ("specs/mm-v2.9", "specs/mm-v2.9.toml"),
    ],
)
def test_a_name_that_is_nearly_right(project: Path, given: str, meant: str) -> None:
    with pytest.raises(SpecError) as told:
        read_spec(given)
    assert told.value.hint == f"did you mean {meant}?"


def test_an_empty_name(project: Path) -> None:
    for read in (read_spec, lambda name: all_specs((name,))):
        with pytest.raises(SpecError, match="the spec's path is empty"):
            read("")
