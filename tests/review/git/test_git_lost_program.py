"""git's drivers after the program that they call is gone, or is another one: git's own merge, with markers."""

import sys
from pathlib import Path

import pytest
from git_project import BASE, LOCK, Repository, pin

from envspec.review.git.setup import drivers


def set_up(folder: Path, *program: str) -> Repository:
    repository = Repository(folder)
    repository.envspec("git-setup")
    for key, value in drivers(program).items():
        repository.git("config", key, value)
    return repository


def programs(folder: Path) -> dict[str, tuple[str, ...]]:
    """Programs that git can't call, or that end without having merged."""
    silent = folder / "silent"
    silent.write_text("#!/bin/sh\nexit 1\n")
    older = folder / "older"
    older.write_text("#!/bin/sh\necho 'no such command' >&2\nexit 2\n")
    for path in (silent, older):
        path.chmod(0o755)
    return {
        "gone": ("/nowhere/envspec",),
        "not installed any more": (sys.executable, "-I", "-m", "no_such_module"),
        "says nothing": (str(silent),),
        "another version": (str(older),),
    }


@pytest.mark.by_day(1)
@pytest.mark.parametrize("which", ["gone", "not installed any more", "says nothing", "another version"])
def test_both_sides_stand_between_markers(tmp_path: Path, which: str) -> None:
    repository = set_up(tmp_path / "clone", *programs(tmp_path)[which])
    repository.branches(BASE, BASE.bump(pin("numpy", "2.2")), BASE.bump(pin("numpy", "2.3")))
    said = repository.git("merge", "--no-edit", "topic", code=1)
    assert repository.unmerged() == {LOCK}, "what is rendered needs no program"
    text = (repository.folder / LOCK).read_text()
    assert text.count("<<<<<<< ") == text.count(">>>>>>> ") > 0
    assert "2.2" in text and "2.3" in text, "neither side wins in silence"
    assert "envspec git-setup" in said, "and the way to mend it is told"


@pytest.mark.slow
def test_the_program_that_is_there_decides(tmp_path: Path) -> None:
    repository = set_up(tmp_path / "clone", sys.executable, "-m", "envspec")
    repository.branches(BASE, BASE.bump(pin("numpy", "2.2")), BASE.bump(pin("tqdm", "4.2")))
    assert "git-setup" not in repository.git("merge", "--no-edit", "topic")
    assert repository.unmerged() == set()


def test_a_rendered_file_is_one_line_of_a_diff(tmp_path: Path) -> None:
    repository = set_up(tmp_path / "clone", "/nowhere/envspec")
    repository.commit(BASE)
    repository.commit(BASE.bump(pin("numpy", "2.2")).bump(pin("tqdm", "4.2")))
    shown = repository.git("diff", "HEAD~1", "--", "locks/demo/cpu")
    lines = [line for line in shown.splitlines() if line[0] in "+-" and not line.startswith(("+++", "---"))]
    said = "rendered file, to be as envspec.lock gives it; `envspec check` names an edited line and the remedy: "
    assert len(lines) == 2 and all(said in line for line in lines) and lines[0] != lines[1]


def test_a_file_of_ones_own_is_shown(tmp_path: Path) -> None:
    """A requirements.txt in such a folder that envspec didn't render, whatever it says further down."""
    repository = set_up(tmp_path / "clone", "/nowhere/envspec")
    repository.commit(BASE)
    path = repository.folder / "locks" / "mine" / "cpu" / "requirements.txt"
    path.parent.mkdir(parents=True)
    path.write_text("numpy==2.1\n# Rendered by envspec from ../envspec.lock.\n")
    repository.commit()
    path.write_text("evil==1\n# Rendered by envspec from ../envspec.lock.\n")
    assert "+evil==1" in repository.git("diff", "--", "locks/mine")
