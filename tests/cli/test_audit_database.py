"""`envspec audit` with a downloaded database."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from audit_index import APP, FILES, OLD, PATH, as_json, codes, pypi as pypi
from cli_project import Envspec
from support.audit import Pypi
from support.index import status

pytest_plugins = ["cli_fixtures"]


@pytest.fixture
def osv(tmp_path: Path) -> Callable[..., str]:
    """Write a database with one advisory, of lib 2.5 unless told; gives its path."""

    def write(modified: datetime | None = None, package: str = "lib", **more: Any) -> str:
        at = modified or datetime.now(timezone.utc)
        record = {
            "id": "GHSA-1",
            "modified": f"{at:%Y-%m-%dT%H:%M:%SZ}",
            "summary": "Bad",
            "affected": [{"package": {"ecosystem": "PyPI", "name": package}, "versions": ["2.5"]}],
            **more,
        }
        path = tmp_path / "osv.json"
        path.write_text(json.dumps(record))
        return str(path)

    return write


def test_a_downloaded_database(pypi: Pypi, envspec: Envspec, osv: Callable[..., str]) -> None:
    pypi.database = False
    pypi.add(APP, uploaded=OLD, yanked="broken")
    document = as_json(envspec, "--database", osv(), code=1)
    assert codes(document) == [("lib", "vulnerability"), ("app", "yanked")]
    assert document["database"]["name"] == "osv.json" and pypi.paths("/pypi/") == []
    pypi.asked.clear()
    assert as_json(envspec, "--database", osv(), "--offline", code=1)["findings"] == document["findings"]
    assert pypi.asked == []
    # its answers aren't PyPI's
    as_json(envspec, "--offline", code=3)


def test_an_old_database_is_no_pass(pypi: Pypi, envspec: Envspec, osv: Callable[..., str]) -> None:
    old = osv(datetime.now(timezone.utc) - timedelta(days=30))
    assert "the database osv.json is too old" in as_json(envspec, "--database", old, code=3)["unread"][0]
    as_json(envspec, "--database", old, "--max-age", "31", code=1)


def test_a_broken_database(pypi: Pypi, envspec: Envspec, tmp_path: Path) -> None:
    (tmp_path / "db.zip").write_text("x")
    told = envspec("audit", PATH, "--database", str(tmp_path / "db.zip"))
    assert (told.code, told.out) == (2, "") and "this isn't a database in the OSV format" in told.err


def test_a_database_alone_says_nothing_of_files(pypi: Pypi, envspec: Envspec, osv: Callable[..., str]) -> None:
    arguments = ("--offline", "--database", osv(package="other"))
    told = envspec("audit", PATH, *arguments)
    assert told.code == 3 and "nothing found" not in told.out
    assert "error: no recent enough facts are stored for the files of app 1.4, lib 2.5" in told.err
    assert "--skip-files" in told.err and "all.zip" not in told.err, "the hint is about files"
    assert as_json(envspec, *arguments, code=3)["complete"] is False
    told = envspec("audit", PATH, *arguments, "--skip-files")
    assert told.code == 0 and told.err == ""
    assert f"not checked for {FILES}: any files (--skip-files): app, lib nothing found" in " ".join(told.out.split())
    assert as_json(envspec, *arguments, "--skip-files")["not_asked"] == [
        {"codes": FILES.split(", "), "reason": "any files (--skip-files)", "packages": ["app", "lib"]}
    ]
    assert pypi.asked == []


def test_files_that_nobody_wants_to_know_of(pypi: Pypi, envspec: Envspec, osv: Callable[..., str]) -> None:
    pypi.add(APP, uploaded=OLD, yanked="broken")
    pypi.fail("/simple/", status(500))
    as_json(envspec, code=3)
    pypi.asked.clear()
    assert as_json(envspec, "--skip-files")["findings"] == []
    assert pypi.paths("/simple/") == []


def test_a_broken_entry_is_named(pypi: Pypi, envspec: Envspec, osv: Callable[..., str]) -> None:
    broken = [{"package": {"ecosystem": "PyPI", "name": "lib"}, "ranges": [{"type": "ECOSYSTEM"}]}]
    told = envspec("audit", PATH, "--database", osv(affected=broken))
    assert (told.code, told.out) == (2, "") and "the entry GHSA-1 isn't in the OSV format" in told.err
