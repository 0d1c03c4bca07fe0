"""`envspec diff --verify`: changed pins, asked of a loopback index that has them, has others, or doesn't answer."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_project import Envspec, Project, served, without_settings
from diff_git import git, in_git
from support.documents import valid
from support.index import Index, status
from support.packages import Dist, wheel

from envspec.lock.model import Artifact, Pin

pytest_plugins = ["cli_fixtures"]

LIB, NEWER = wheel("lib", "2.5"), wheel("lib", "2.6")
OTHER = wheel("lib", "2.5", tag="cp312-none-any")
SPEC = """\
[env]
name = "demo"
python = "3.12"
[pip]
dependencies = ["lib"]
[targets.a]
platform = "linux-64"
"""


@pytest.fixture
def index(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """The user's PyPI, and a project in git whose lock has lib 2.5."""
    without_settings(monkeypatch, tmp_path / "home")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    project.spec(SPEC)
    project.lock(lambda target: (pin_of(LIB),))
    in_git(project, monkeypatch)
    with Index() as running:
        running.add(LIB, NEWER)
        monkeypatch.setenv("UV_DEFAULT_INDEX", running.url)
        yield running


def pin_of(package: Dist) -> Pin:
    """A pin with all that its index says of the file."""
    pin = served(package)
    return replace(pin, licence="MIT")


def told(envspec: Envspec, *arguments: str, code: int) -> dict[str, Any]:
    ran = envspec("diff", "specs/demo.toml", "--verify", "--json", "--fail-on", "high", *arguments)
    assert ran.code == code, ran.err + ran.out
    document: dict[str, Any] = valid(ran.out, "diff")
    return document


@pytest.mark.slow
def test_a_bump_that_its_index_publishes(index: Index, project: Project, envspec: Envspec) -> None:
    project.lock(lambda target: (pin_of(NEWER),))
    found = told(envspec, code=0)
    assert found["verified"] == {"complete": True, "pins": {"asked": 1, "proved": 1, "refuted": 0}, "unasked": []}
    for form in ("text", "markdown", "html"):
        assert (
            "of 1 changed pin they publish 1 so" in envspec("diff", "specs/demo.toml", "--verify", "--format", form).out
        )


def test_another_file_that_the_index_holds_is_low(index: Index, project: Project, envspec: Envspec) -> None:
    index.add(OTHER)
    project.lock(lambda target: (pin_of(OTHER),))
    assert envspec("diff", "specs/demo.toml", "--fail-on", "high").code == 1
    assert told(envspec, code=0)["risk"] == "low"


def test_another_file_that_it_does_not_hold_is_refuted(index: Index, project: Project, envspec: Envspec) -> None:
    project.lock(lambda target: (pin_of(OTHER),))
    found = told(envspec, code=1)
    assert [(one["risk"], one["code"], one["package"]) for one in found["flaws"]] == [("high", "not-published", "lib")]
    assert found["verified"]["pins"] == {"asked": 1, "proved": 0, "refuted": 1}


def test_a_new_version_that_nobody_published_is_raised(index: Index, project: Project, envspec: Envspec) -> None:
    forged = replace(pin_of(NEWER), artifact=Artifact(NEWER.file, "e" * 64))
    project.lock(lambda target: (forged,))
    assert envspec("diff", "specs/demo.toml", "--fail-on", "medium").code == 0, "a bump like any other"
    found = told(envspec, code=1)
    assert (found["risk"], [one["code"] for one in found["flaws"]]) == ("high", ["other-hash"])
    ran = envspec("diff", "specs/demo.toml", "--verify", "--format", "github")
    assert "::error file=locks/demo/envspec.lock,line=" in ran.out and "NOT WHAT ITS INDEX PUBLISHES" in ran.out


def test_offline_it_could_not_be_asked(index: Index, project: Project, envspec: Envspec) -> None:
    project.lock(lambda target: (pin_of(OTHER),))
    found = told(envspec, "--offline", code=3)
    assert found["verified"]["unasked"] == [{"reason": "--offline forbids asking", "packages": ["lib 2.5"]}]
    assert found["flaws"] == [] and found["risk"] == "high", "what can't be asked isn't lowered either"
    assert index.asked == []


def test_an_index_that_fails_could_not_be_asked(index: Index, project: Project, envspec: Envspec) -> None:
    project.lock(lambda target: (replace(pin_of(NEWER), artifact=Artifact(NEWER.file, "e" * 64)),))
    index.fail("/lib/", status(503))
    found = told(envspec, code=3)
    assert not found["verified"]["complete"] and found["flaws"] == []
    ran = envspec("diff", "specs/demo.toml", "--verify")
    assert ran.code == 3 and "couldn't be asked: lib 2.6" in ran.err and "COULDN'T BE ASKED: lib 2.6" in ran.out


def test_only_what_changed_is_asked(index: Index, project: Project, envspec: Envspec) -> None:
    git(project, "commit", "-q", "--allow-empty", "-m", "more")
    assert told(envspec, code=0)["verified"]["pins"]["asked"] == 0
    assert index.asked == []


def test_two_files_have_no_indexes(index: Index, project: Project, envspec: Envspec) -> None:
    lock = str(project.lock_path)
    ran = envspec("diff", lock, lock, "--verify")
    assert ran.code == 2 and "two files have none" in ran.err


@pytest.mark.slow
def test_one_run_writes_every_format(index: Index, project: Project, envspec: Envspec) -> None:
    project.lock(lambda target: (pin_of(OTHER),))
    also = ("--also", "json", "out.json", "--also", "html", "out.html", "--also", "github", "out.txt")
    ran = envspec("diff", "specs/demo.toml", "--verify", "--format", "markdown", *also)
    assert ran.code == 0 and "<summary>Indexes</summary>" in ran.out
    valid((project.folder / "out.json").read_text(), "diff")
    assert (project.folder / "out.html").read_text().startswith("<!doctype html>")
    assert (project.folder / "out.txt").read_text().startswith("::error file=")
    assert [one.path for one in index.asked].count("/simple/lib/") == 1, "one page, asked once"
