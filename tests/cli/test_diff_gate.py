"""`envspec diff` as a gate: exit codes by risk, and annotations at the lines of the lock."""

import re
from dataclasses import replace
from pathlib import PurePosixPath

import pytest
from cli_project import Envspec, Project, changed, demo_pins
from diff_git import committed as committed

from envspec.app.diff import annotate
from envspec.lock.model import Artifact
from envspec.review.annotations import workflow_commands
from envspec.review.diff.rows import Fact, Review

pytest_plugins = ["cli_fixtures"]


def evil(project: Project) -> None:
    """The same version of fsspec, with another file's hash."""
    project.lock(
        lambda target: [
            replace(pin, artifact=Artifact(pin.artifact.file, "e" * 64, pin.artifact.size))
            if pin.name == "fsspec" and pin.artifact
            else pin
            for pin in demo_pins(target)
        ]
    )


@pytest.mark.parametrize("form", ["text", "markdown", "json", "github"])
def test_a_replaced_file_fails_the_gate(committed: Project, envspec: Envspec, form: str) -> None:
    evil(committed)
    told = envspec("diff", "specs/demo.toml", "--fail-on", "high", "--format", form)
    assert told.code == 1 and "the risk is high, and --fail-on is high" in told.err
    assert "fsspec" in told.out


def test_what_is_less_than_asked_for_passes(committed: Project, envspec: Envspec) -> None:
    committed.lock(lambda target: changed(demo_pins(target), "fsspec", version="2027.1"))
    assert envspec("diff", "specs/demo.toml", "--fail-on", "medium").code == 0
    committed.lock(lambda target: changed(demo_pins(target), "fsspec", version="2027.1", licence="AGPL-3.0-only"))
    assert envspec("diff", "specs/demo.toml", "--fail-on", "high").code == 0
    assert envspec("diff", "specs/demo.toml", "--fail-on", "medium").code == 1
    assert envspec("diff", "specs/demo.toml", "--fail-on", "high", "--exit-code").code == 1


def test_no_change_passes_any_gate(committed: Project, envspec: Envspec) -> None:
    committed.lock(demo_pins)
    assert envspec("diff", "specs/demo.toml", "--fail-on", "medium").code == 0


def test_an_annotation_is_at_the_line_of_the_package(committed: Project, envspec: Envspec) -> None:
    evil(committed)
    told = envspec("diff", "specs/demo.toml", "--format", "github")
    (line,) = [line for line in told.out.splitlines() if "SAME VERSION" in line]
    found = re.fullmatch(r"::error file=locks/demo/envspec\.lock,line=(\d+),title=fsspec::SAME VERSION.*", line)
    assert found
    lock = (committed.folder / "locks/demo/envspec.lock").read_text().splitlines()
    assert lock[int(found[1]) - 1 : int(found[1]) + 1] == ["[[pip]]", 'name = "fsspec"']


def test_no_foreign_word_becomes_a_command() -> None:
    flaw = Fact("high", "x", "a\n::set-output name=fresh::true\r%0A::error::b", package="a,line=9::warning")
    found = Review("demo", "a", "b", (), (), (), (), (), (), (), flaws=(flaw,))
    text = workflow_commands(annotate(found, {}), PurePosixPath("a:b,c"))
    assert text.count("\n") == 1 and "\r" not in text
    assert text.startswith("::error file=a%3Ab%2Cc,line=1,title=a%2Cline=9%3A%3Awarning::a")
    assert "%250A" in text
