"""`envspec diff --audit`, asked of a loopback index with PyPI's JSON, of a downloaded database, and of nobody."""

import json
import os
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from cli_project import TWO, Envspec, Project, served, without_settings
from support.audit import Pypi, vulnerability
from support.documents import valid
from support.index import Index, status
from support.machine import Machine, cpu
from support.packages import wheel

pytest_plugins = ["cli_fixtures"]

APP, OLD, NEW = wheel("app", "1.4"), wheel("lib", "2.5"), wheel("lib", "2.6")
DAY = "2020-01-01T00:00:00.000000Z"
FILES = ("old.lock", "locks/demo/envspec.lock")


@pytest.fixture
def pypi(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pypi]:
    """The user's PyPI, which knows lib 2.5 and 2.6 as sound; the lock has gone from one to the other."""
    without_settings(monkeypatch, tmp_path / "home")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    project.spec(TWO)
    project.lock(lambda target: (served(APP), served(OLD)))
    (project.folder / "old.lock").write_bytes(project.lock_path.read_bytes())
    project.lock(lambda target: (served(APP), served(NEW)))
    running = Pypi()
    with running:
        running.add(OLD, NEW, uploaded=DAY)
        running.know("lib", "2.5")
        running.know("lib", "2.6")
        monkeypatch.setenv("UV_DEFAULT_INDEX", running.url)
        yield running


def told_facts(envspec: Envspec, *arguments: str, code: int = 0) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The document, and risk and code of what it says of lib."""
    told = envspec("diff", *FILES, "--audit", "--json", *arguments)
    assert told.code == code, told.err
    document: dict[str, Any] = valid(told.out, "diff")
    (row,) = document["packages"]
    assert row["name"] == "lib"
    found = [(fact["risk"], fact["code"]) for one in row["changes"] for fact in one["facts"]]
    return document, [fact for fact in found if fact != ("low", "published")]


def test_newly_vulnerable_and_yanked(pypi: Pypi, envspec: Envspec) -> None:
    pypi.know("lib", "2.6", vulnerability("PYSEC-1", "CVE-1", fixed=("2.7",)))
    pypi.add(NEW, uploaded=DAY, yanked="broken")
    document, found = told_facts(envspec)
    assert found == [("high", "newly-vulnerable"), ("medium", "yanked")] and document["risk"] == "high"
    assert document["audit"]["complete"] is True and document["audit"]["database"]["name"] == pypi.url
    for form in ("text", "markdown", "html"):
        told = envspec("diff", *FILES, "--audit", "--format", form)
        assert told.code == 0 and told.err == "" and "its publisher yanked it: broken" in told.out.replace("&#58;", ":")
        assert "newly vulnerable" in told.out and "CVE" in told.out
    assert {one.path.split("?")[0] for one in pypi.asked if "app" in one.path} == set(), "app hasn't changed"


def test_dates_and_what_is_too_young(pypi: Pypi, envspec: Envspec) -> None:
    assert "published on 2020-01-01" in envspec("diff", *FILES, "--audit").out
    pypi.add(NEW, uploaded=datetime.now(timezone.utc).isoformat().replace("+00:00", "Z"))
    assert told_facts(envspec)[1] == [("medium", "young")]
    assert "it was published 0 days ago" in envspec("diff", *FILES, "--audit").out
    assert told_facts(envspec, "--min-age", "0")[1] == []
    assert envspec("diff", *FILES, "--min-age", "3").code == 2


def test_a_malicious_release_stands_above_everything(pypi: Pypi, envspec: Envspec) -> None:
    pypi.know("lib", "2.6", vulnerability("GHSA-9", "MAL-2026-9"))
    assert told_facts(envspec)[1] == [("high", "malicious")]
    assert "!! lib: KNOWN TO BE MALICIOUS, GHSA-9 (MAL-2026-9)" in envspec("diff", *FILES, "--audit").out


def test_fixed(pypi: Pypi, envspec: Envspec) -> None:
    pypi.know("lib", "2.5", vulnerability("PYSEC-1"), vulnerability("PYSEC-2", "CVE-2"))
    pypi.know("lib", "2.6", vulnerability("GHSA-2", "CVE-2"))
    assert told_facts(envspec)[1] == [("medium", "still-vulnerable"), ("low", "vulnerability-fixed")]
    assert "fixes PYSEC-1 [vulnerability-fixed]\n" in envspec("diff", *FILES, "--audit").out


def test_the_spec_can_ignore_one(
    pypi: Pypi, project: Project, envspec: Envspec, monkeypatch: pytest.MonkeyPatch
) -> None:
    import subprocess

    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    new = project.lock_path.read_bytes()
    project.lock_path.write_bytes((project.folder / "old.lock").read_bytes())
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "locked"]):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
        subprocess.run(command, cwd=project.folder, check=True, capture_output=True)
    project.lock_path.write_bytes(new)
    pypi.know("lib", "2.6", vulnerability("PYSEC-1", "CVE-1"))
    told = envspec("diff", "specs/demo.toml", "--audit")
    assert told.code == 0 and "high risk\n  lib  2.5 -> 2.6" in told.out
    project.spec(TWO + '[audit.ignore]\nCVE-1 = "never reached"\n')
    told = envspec("diff", "specs/demo.toml", "--audit")
    assert told.code == 0 and "low risk\n  lib  2.5 -> 2.6" in told.out and "PYSEC-1 (CVE-1)" in told.out
    assert "the spec ignores it: never reached" in " ".join(told.out.split())


def test_not_being_able_to_look_is_told(pypi: Pypi, envspec: Envspec) -> None:
    pypi.know("lib", "2.5", vulnerability("PYSEC-1"))
    del pypi.releases["lib", "2.6"]
    document, found = told_facts(envspec, code=3)
    assert document["audit"]["unread"] == ["the database has no answer for lib 2.6"]
    assert document["audit"]["complete"] is False and found == [], "nothing is called fixed"
    for form in ("text", "markdown", "html"):
        told = envspec("diff", *FILES, "--audit", "--exit-code", "--format", form)
        assert told.code == 3 and "INCOMPLETE" in told.out and "2.6" in told.out
        assert "error: the database has no answer for lib 2.6\nhint: " in told.err


@pytest.mark.parametrize("path", ["/pypi/lib/", "/simple/lib/"])
def test_a_failing_server_is_told(pypi: Pypi, envspec: Envspec, path: str) -> None:
    pypi.fail(path, status(500))
    assert told_facts(envspec, code=3)[0]["audit"]["complete"] is False


def test_a_damaged_cache_does_not_hide_the_changes(pypi: Pypi, envspec: Envspec, tmp_path: Path) -> None:
    told_facts(envspec)
    (path,) = (tmp_path / "home" / ".cache" / "envspec" / "audit").glob("*.json")
    assert told_facts(envspec, "--offline")[0]["audit"]["complete"] is True
    path.write_text("{")
    told = envspec("diff", *FILES, "--audit", "--offline")
    assert told.code == 3 and "lib  2.5 -> 2.6" in told.out and "the stored answers are damaged" in told.err


def test_a_downloaded_database(pypi: Pypi, envspec: Envspec, tmp_path: Path) -> None:
    now = f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    affected = [{"package": {"ecosystem": "PyPI", "name": "lib"}, "versions": ["2.6"]}]
    folder = tmp_path / "osv"
    folder.mkdir()
    (folder / "G.json").write_text(json.dumps({"id": "GHSA-1", "modified": now, "affected": affected}))
    arguments = ("--offline", "--database", str(folder))
    document, found = told_facts(envspec, *arguments, code=3)
    assert (
        found == [("high", "newly-vulnerable")] and "stored for the files of lib 2.5" in document["audit"]["unread"][0]
    )
    document, found = told_facts(envspec, *arguments, "--skip-files")
    assert found == [("high", "newly-vulnerable")] and pypi.asked == []
    assert document["audit"]["not_asked"] == [
        {"codes": ["yanked", "young"], "reason": "any files (--skip-files)", "packages": ["lib"]}
    ]


def test_no_name_of_the_users_own_is_told_to_pypi(pypi: Pypi, project: Project, envspec: Envspec) -> None:
    project.lock(lambda target: (served(APP), served(NEW, index="internal")))
    document, _ = told_facts(envspec, code=3)
    assert document["audit"]["not_asked"][0]["reason"] == 'packages of the index "internal"'
    assert "internal" in document["audit"]["unread"][0] and not [one for one in pypi.asked if "2.6" in one.path]


def test_a_file_that_names_no_index(pypi: Pypi, project: Project, envspec: Envspec) -> None:
    """A requirements.txt doesn't say where its packages are from, so nobody is told their names."""
    (project.folder / "old.lock").rename(project.folder / "kept.lock")
    (project.folder / "old.txt").write_text(
        f"app==1.4 --hash=sha256:{APP.sha256}\nlib==2.5 --hash=sha256:{OLD.sha256}\n"
    )
    pypi.know("lib", "2.6", vulnerability("PYSEC-1"))
    told = envspec("diff", "old.txt", FILES[1], "--audit")
    assert told.code == 0 and "vulnerable, PYSEC-1: Bad things. (unknown for the old version)" in " ".join(
        told.out.split()
    )
    assert "not checked for vulnerability, yanked, young: packages whose index isn't known: lib" in " ".join(
        told.out.split()
    )
    assert not [one for one in pypi.asked if "2.5" in one.path]


def test_nobody_is_asked_unless_told_to(pypi: Pypi, envspec: Envspec) -> None:
    told = envspec("diff", *FILES)
    assert told.code == 0 and pypi.asked == []
    for flags in (("--offline",), ("--skip-files",), ("--max-age", "3"), ("--database", "old.lock")):
        told = envspec("diff", *FILES, *flags)
        assert told.code == 2 and f"error: {flags[0]} needs --audit\nhint: add --audit" in told.err


def test_nothing_changed(pypi: Pypi, envspec: Envspec) -> None:
    told = envspec("diff", FILES[1], FILES[1], "--audit")
    assert told.code == 0 and "no difference" in told.out and pypi.asked == []


def test_real_advisories_that_an_upgrade_of_the_year_fixed_stand_first(machine: Machine, index: Index) -> None:
    """urllib3's of December 2025, beside another package of the serving team: releases as they were locked, stand-ins
    for their wheels."""
    for line in ("fastapi 0.123.0", "fastapi 0.128.0", "urllib3 2.5.0", "urllib3 2.6.2"):
        index.add(wheel(*line.split()), uploaded=DAY)
    machine.locked(spec=cpu("fastapi==0.123.0", "urllib3==2.5.0"))
    old = machine.lock_path().read_bytes()
    machine.locked("--upgrade", spec=cpu("fastapi", "urllib3"))
    (machine.folder / "old.lock").write_bytes(old)
    advisories = Path(__file__).resolve().parents[1] / "data" / "year" / "advisories"
    asked = ("diff", *FILES, "--audit", "--skip-files", "--database", str(advisories), "--max-age", "10000")
    told = machine.envspec(*asked, "--format", "markdown", status=0).out.replace("&#58;", ":").splitlines()
    assert "known vulnerabilities fixed in urllib3" in told[0]
    first, second = [line for line in told if line.startswith("- ")][:2]
    assert "urllib3 2.5.0" in first and "CVE-2025-66418" in first and "CVE-2025-66471" in first
    assert "fastapi 0.123.0" in second
