"""Releases that are known to be malicious: `lock` and `install` refuse them, by what an index in PyPI's place says, or
said before; nobody who can't be asked stops anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_project import Envspec, Project, served, without_settings
from support.audit import Pypi, vulnerability
from support.index import status
from support.packages import wheel
from support.site import CONTACT, place_policy

pytest_plugins = ["cli_fixtures"]

APP, LIB, EVIL = wheel("app", "1.4", "lib"), wheel("lib", "2.5"), wheel("lib", "2.6")
SPEC = """\
[env]
name = "demo"
python = "3.12"
[pip]
dependencies = ["app", "lib"]
[targets.a]
platform = "linux-64"
"""
REPORT = vulnerability("GHSA-1", "MAL-2026-7", text="It sends keys away.")
LOCK, PATH = "lock", "specs/demo.toml"


@pytest.fixture
def pypi(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pypi]:
    """The user's PyPI, which knows lib 2.6 as malicious; nothing is locked yet."""
    without_settings(monkeypatch, tmp_path / "home")
    monkeypatch.delenv("ENVSPEC_ADVISORIES")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    project.lock_path.unlink(missing_ok=True)
    project.spec(SPEC)
    running = Pypi()
    with running:
        running.add(APP, LIB, EVIL)
        running.know("app", "1.4")
        running.know("lib", "2.5")
        running.know("lib", "2.6", REPORT)
        monkeypatch.setenv("UV_DEFAULT_INDEX", running.url)
        yield running


def test_it_is_not_locked(pypi: Pypi, project: Project, envspec: Envspec) -> None:
    told = envspec(LOCK, PATH)
    assert told.code == 1 and "lib 2.6: GHSA-1 (MAL-2026-7): It sends keys away." in told.err
    assert not project.lock_path.exists()


def test_a_report_that_is_wrong_can_be_told(pypi: Pypi, project: Project, envspec: Envspec) -> None:
    project.spec(SPEC + '[audit.ignore]\nMAL-2026-7 = "its detector took a test for code"\n')
    told = envspec(LOCK, PATH)
    assert told.code == 0 and "malicious" not in told.err


def test_a_constraint_keeps_it_out_and_the_day_s_answers_are_kept(
    pypi: Pypi, project: Project, envspec: Envspec
) -> None:
    project.spec(SPEC.replace('"lib"]', '"lib!=2.6"]'))
    assert envspec(LOCK, PATH).code == 0
    asked = len(pypi.paths("/json"))
    assert asked == 2
    assert envspec(LOCK, PATH, "--upgrade").code == 0 and len(pypi.paths("/json")) == asked


def test_it_is_not_installed_by_an_older_lock(pypi: Pypi, project: Project, envspec: Envspec, tmp_path: Path) -> None:
    project.lock(lambda target: (served(APP, "lib"), served(EVIL)))
    told = envspec("install", PATH, "--prefix", str(tmp_path / "env"))
    assert told.code == 1 and "MAL-2026-7" in told.err and not (tmp_path / "env").exists()
    asked = len(pypi.paths())
    told = envspec("install", PATH, "--prefix", str(tmp_path / "env"), "--offline")
    assert told.code == 1 and "MAL-2026-7" in told.err and len(pypi.paths()) == asked, "by the answer that was kept"
    told = envspec(LOCK, PATH)
    assert told.code == 1 and "MAL-2026-7" in told.err, "a fresh lock is no better"


def test_an_index_that_fails_stops_nothing_and_is_told(pypi: Pypi, envspec: Envspec) -> None:
    pypi.fail("/json", status(503))
    told = envspec(LOCK, PATH)
    assert told.code == 0 and "note: known malicious releases weren't all looked up: " in told.err


def test_a_mirror_of_files_alone_is_told_and_asked_little(pypi: Pypi, envspec: Envspec) -> None:
    pypi.fail("/json", status(404))
    told = envspec(LOCK, PATH)
    assert told.code == 0 and "this address has no database" in told.err
    assert len(pypi.paths("/json")) <= 3


def test_offline_nobody_is_asked(pypi: Pypi, project: Project, envspec: Envspec) -> None:
    project.lock(lambda target: (served(APP, "lib"), served(LIB)))
    told = envspec("install", PATH, "--prefix", "env", "--offline", "--dry-run")
    assert "note: known malicious releases weren't all looked up: --offline" in told.err
    assert pypi.paths("/json") == []


def test_who_asks_for_silence_has_it(pypi: Pypi, envspec: Envspec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVSPEC_ADVISORIES", "kept")
    told = envspec(LOCK, PATH)
    assert told.code == 0 and pypi.paths("/json") == [] and "malicious" not in told.err
    monkeypatch.setenv("ENVSPEC_ADVISORIES", "never")
    assert envspec(LOCK, PATH, "--upgrade").code == 2


@pytest.mark.parametrize("offline", [False, True])
def test_where_the_site_wants_an_answer_none_is_an_error(
    pypi: Pypi, project: Project, envspec: Envspec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offline: bool
) -> None:
    place_policy(monkeypatch, tmp_path, "[releases]\nask-advisories = true\n")
    project.lock(lambda target: (served(APP, "lib"), served(LIB)))
    pypi.fail("/json", status(503))
    told = envspec("install", PATH, "--prefix", "env", "--dry-run", *["--offline"] * offline)
    assert told.code == 3 and "they couldn't be" in told.err and CONTACT in told.err
