"""`envspec audit`, asked of a loopback index that has PyPI's JSON, of one that hasn't, and of nobody."""

import json
import os
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from cli_project import TWO, Envspec, Project, pin, served, without_settings
from msgspec.structs import replace
from support.audit import Pypi, package, vulnerability
from support.documents import valid
from support.index import status
from support.osv import Osv
from support.packages import wheel

from envspec.lock.model import Artifact, Pin
from envspec.review.audit.malicious import look_for_malicious
from envspec.spec.model import Audit

pytest_plugins = ["cli_fixtures"]

APP, LIB, OWN = wheel("app", "1.4", "lib"), wheel("lib", "2.5"), wheel("own", "1.0")


OLD = "2020-01-01T00:00:00.000000Z"


PATH = "specs/demo.toml"


@pytest.fixture
def pypi(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pypi]:
    """The user's PyPI, which knows app 1.4 and lib 2.5, both old and sound."""
    without_settings(monkeypatch, tmp_path / "home")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    project.spec(TWO)
    project.lock(lambda target: (served(APP, "lib"), served(LIB)))
    running = Pypi()
    with running:
        running.add(APP, LIB, uploaded=OLD)
        running.know("app", "1.4")
        running.know("lib", "2.5")
        monkeypatch.setenv("UV_DEFAULT_INDEX", running.url)
        yield running


def as_json(envspec: Envspec, *arguments: str, code: int = 0) -> dict[str, Any]:
    told = envspec("audit", PATH, "--json", *arguments)
    assert told.code == code, told.err
    document: dict[str, Any] = valid(told.out, "audit")
    return document


def codes(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["package"], one["code"]) for one in document["findings"]]


def test_nothing_found(pypi: Pypi, envspec: Envspec) -> None:
    told = envspec("audit", PATH)
    day = datetime.now(timezone.utc)
    days = {f"{(day - timedelta(hours=hours)):%Y-%m-%d}" for hours in (0, 1)}
    assert told.code == 0 and told.err == ""
    assert " ".join(told.out.split()) in {
        f"specs/demo.toml: 2 packages of a ({pypi.url}, as of {one}) nothing found" for one in days
    }
    document = as_json(envspec)
    assert (document["ok"], document["complete"], document["findings"], document["unread"]) == (True, True, [], [])


def test_a_vulnerability(pypi: Pypi, envspec: Envspec) -> None:
    pypi.know("lib", "2.5", vulnerability("PYSEC-1", "CVE-1", fixed=("2.6",), text="Things go wrong. " * 9))
    told = envspec("audit", PATH)
    assert told.code == 1
    assert "error: lib 2.5  [vulnerability]\n  PYSEC-1 (CVE-1): Things go wrong." in told.out
    assert "\n  remedy: fixed in 2.6: envspec lock specs/demo.toml --upgrade-package lib" in told.out
    assert max(map(len, told.out.splitlines())) <= 80
    document = as_json(envspec, code=1)
    assert document["ok"] is False and codes(document) == [("lib", "vulnerability")]
    assert document["findings"][0]["advisory"]["fixed_in"] == ["2.6"]
    run = json.loads(envspec("audit", PATH, "--format", "sarif").out)["runs"][0]
    line = run["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"]
    lock = Path(run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])
    assert lock.read_text().splitlines()[line - 1 : line + 1] == ["[[pip]]", 'name = "lib"']


def test_the_spec_can_ignore_one(pypi: Pypi, project: Project, envspec: Envspec) -> None:
    pypi.know("lib", "2.5", vulnerability("PYSEC-1", "CVE-1"))
    project.spec(TWO + '[audit.ignore]\nCVE-1 = "never reached"\n')
    told = envspec("audit", PATH)
    assert told.code == 0 and "ignored: lib 2.5  [vulnerability]\n" in told.out
    assert "ignored: never reached" in told.out and told.err == "", "the lock isn't stale by it"


def test_licences_of_the_spec(pypi: Pypi, project: Project, envspec: Envspec) -> None:
    project.spec(TWO + '[audit]\nallow-licences = ["BSD-*"]\nlicences = { lib = "BSD-3-Clause" }\n')
    assert codes(as_json(envspec, code=1)) == [("app", "licence")]


@pytest.mark.parametrize("form", ["json", "html"])
def test_yanked(pypi: Pypi, envspec: Envspec, form: str) -> None:
    """And nothing of a file's age or hash, which exclude-newer and `verify` hold."""
    pypi.form = form
    pypi.add(APP, uploaded=OLD, yanked="broken")
    pypi.add(LIB, uploaded=f"{datetime.now(timezone.utc) - timedelta(days=2):%Y-%m-%dT%H:%M:%S.%fZ}")
    pypi.lie_about(LIB, "f" * 64)
    assert codes(as_json(envspec)) == [("app", "yanked")]
    assert codes(as_json(envspec, "--fail-on", "warning", code=1)) == [("app", "yanked")]


def test_a_target(pypi: Pypi, project: Project, envspec: Envspec) -> None:
    project.spec(TWO + '[targets.b]\nplatform = "linux-64"\n')
    project.lock(lambda target: (served(APP, "lib"), served(LIB)) if target == "a" else (served(LIB),))
    pypi.know("app", "1.4", vulnerability("PYSEC-1"))
    assert as_json(envspec, "--target", "b")["targets"] == ["b"]
    document = as_json(envspec, code=1)
    assert document["findings"][0]["targets"] == ["a"]
    assert "error: app 1.4 [a]  [vulnerability]" in envspec("audit", PATH).out
    assert envspec("audit", PATH, "--target", "c").code == 2


def test_a_mirror_without_a_database_is_no_pass(pypi: Pypi, envspec: Envspec) -> None:
    pypi.database = False
    pypi.add(APP, uploaded=OLD, yanked="broken")
    told = envspec("audit", PATH)
    assert told.code == 3 and "app 1.4  [yanked]" in told.out and "nothing found" not in told.out
    assert "error: the database has none of the releases" in told.err
    document = as_json(envspec, code=3)
    assert (document["ok"], document["complete"]) == (False, False)
    run = json.loads(envspec("audit", PATH, "-f", "sarif").out)["runs"][0]
    assert run["invocations"][0]["executionSuccessful"] is False
    assert envspec("audit", PATH, "--offline").code == 3


def test_one_release_without_an_answer_is_no_pass(pypi: Pypi, envspec: Envspec) -> None:
    del pypi.releases["lib", "2.5"]
    assert "the database has no answer for lib 2.5" in as_json(envspec, code=3)["unread"]


@pytest.mark.parametrize("path", ["/pypi/lib/", "/simple/lib/"])
def test_a_failing_server_is_no_pass(pypi: Pypi, envspec: Envspec, path: str) -> None:
    pypi.fail(path, status(500))
    document = as_json(envspec, code=3)
    assert len(document["unread"]) == 1 and "HTTP 500" in document["unread"][0]


def test_nobody_there_is_no_pass(envspec: Envspec, pypi: Pypi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    document = as_json(envspec, code=3)
    assert len(document["unread"]) == 2 and all("can't be read" in one for one in document["unread"])


def test_no_name_of_the_users_own_is_told_to_pypi(pypi: Pypi, project: Project, envspec: Envspec) -> None:
    with Pypi() as internal:
        internal.add(OWN, uploaded=OLD, yanked="broken")
        project.spec(TWO.replace("[pip]", f'[pip]\nindexes = {{ internal = "{internal.url}" }}'))
        project.lock(lambda target: (served(APP, "lib"), served(LIB), served(OWN, index="internal")))
        document = as_json(envspec)
        assert codes(document) == [("own", "yanked")]
    assert document["not_asked"] == [
        {"codes": ["vulnerability"], "reason": 'packages of the index "internal"', "packages": ["own"]}
    ]
    assert pypi.paths("own") == [] and internal.paths("/pypi/") == []


def test_two_forms_at_once_are_refused(pypi: Pypi, envspec: Envspec) -> None:
    told = envspec("audit", PATH, "--json", "-f", "sarif")
    assert told.code == 2 and told.err.endswith("hint: give one of the two\n")
    assert json.loads(told.out)["schema"] == "envspec/error/1"


def test_offline_takes_what_was_learned(pypi: Pypi, envspec: Envspec) -> None:
    assert "no recent enough answer is stored for app 1.4, lib 2.5" in envspec("audit", PATH, "--offline").err
    pypi.know("lib", "2.5", vulnerability("PYSEC-1"))
    pypi.add(APP, uploaded=OLD, yanked="broken")
    online = as_json(envspec, code=1)
    pypi.asked.clear()
    assert as_json(envspec, "--offline", code=1) == online
    assert pypi.asked == []


def stored(tmp_path: Path) -> Path:
    (path,) = (tmp_path / "home" / ".cache" / "envspec" / "audit").glob("*.json")
    return path


def test_offline_answers_grow_old(pypi: Pypi, envspec: Envspec, tmp_path: Path) -> None:
    as_json(envspec)
    path = stored(tmp_path)
    document = json.loads(path.read_text())
    old = f"{datetime.now(timezone.utc) - timedelta(days=8):%Y-%m-%dT%H:%M:%SZ}"
    for _, answer in document["releases"]:
        answer["fetched"] = old
    for row in document["files"]:
        row[2] = old
    path.write_text(json.dumps(document))
    as_json(envspec, "--offline", code=3)
    assert as_json(envspec, "--offline", "--max-age", "9")["database"]["oldest"] == old


def test_damaged_answers_are_no_pass(pypi: Pypi, envspec: Envspec, tmp_path: Path) -> None:
    as_json(envspec)
    stored(tmp_path).write_text("{")
    told = envspec("audit", PATH, "--offline")
    assert told.code == 3 and "the stored answers are damaged" in told.err and told.out == ""
    as_json(envspec)
    as_json(envspec, "--offline")


def test_answers_of_another_index_do_not_count(pypi: Pypi, envspec: Envspec, monkeypatch: pytest.MonkeyPatch) -> None:
    as_json(envspec)
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    as_json(envspec, "--offline", code=3)


def test_a_cache_that_cant_be_written(pypi: Pypi, envspec: Envspec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVSPEC_CACHE_DIR", "/dev/null/x")
    told = envspec("audit", PATH)
    assert told.code == 0 and "warning: " in told.err and "can't be stored for --offline" in told.err


def test_credentials_stay_out(pypi: Pypi, envspec: Envspec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pypi.credentials = ("me", "s3cr3t")
    monkeypatch.setenv("UV_DEFAULT_INDEX", pypi.url_with("me", "s3cr3t"))
    told = envspec("audit", PATH)
    assert told.code == 0 and "s3cr3t" not in told.out + told.err + stored(tmp_path).read_text()
    pypi.credentials = ("me", "other")
    told = envspec("audit", PATH)
    assert told.code == 3 and "s3cr3t" not in told.out + told.err


def test_unlocked(pypi: Pypi, project: Project, envspec: Envspec) -> None:
    project.lock_path.unlink()
    assert envspec("audit", PATH).code == 2


def test_an_index_that_nobody_knows_is_no_pass(pypi: Pypi, project: Project, envspec: Envspec) -> None:
    project.lock(lambda target: (served(APP, "lib"), served(LIB), served(OWN, index="gone")))
    assert as_json(envspec, code=3)["unread"] == ['no address is known for the index "gone" of own 1.0']


def test_a_file_that_its_index_no_longer_has_is_no_pass(pypi: Pypi, project: Project, envspec: Envspec) -> None:
    pypi.add(wheel("own", "2.0"), uploaded=OLD)
    pypi.know("own", "1.0")
    project.lock(lambda target: (served(APP, "lib"), served(LIB), served(OWN)))
    assert as_json(envspec, code=3)["unread"] == ['the index "pypi" doesn\'t have the locked files of own 1.0']


def test_conda_packages_are_not_looked_up_as_files(pypi: Pypi, project: Project, envspec: Envspec) -> None:
    def conda(name: str, *provides: str) -> Pin:
        artifact = Artifact(f"{name}-1.4-0.conda", "a" * 64, 10)
        return Pin("conda", name, "1.4", "conda-forge/linux-64", artifact, direct=True, build="0", provides=provides)

    project.lock(lambda target: (conda("app", "app"), *(conda(f"lib{n}") for n in range(20)), served(LIB)))
    told = as_json(envspec)["not_asked"]
    assert [(one["codes"], one["reason"], len(one["packages"])) for one in told] == [
        (["vulnerability"], "conda packages that aren't on PyPI", 20),
        (["yanked"], "conda packages", 21),
    ]
    shown = " ".join(envspec("audit", PATH).out.split())
    assert (
        "conda packages: app, lib0, lib1, lib10, lib11, lib12, lib13, lib14, lib15, lib16, lib17, lib18 and 9 more"
        in shown
    )
    assert shown.endswith("nothing found")


def test_builds_of_the_pytorch_index_are_known_without_a_mirror(pypi: Pypi, project: Project, envspec: Envspec) -> None:
    from envspec.facts import wheels

    known = next(one for one in wheels.load("cu126").files("torch") if one.version == "2.9.1+cu126")

    def torch(sha256: str, file: str = known.file) -> Pin:
        bare = pin("torch", "2.9.1+cu126", index="pytorch/cu126", direct=True)
        return replace(bare, artifact=Artifact(file, sha256, known.size))

    pypi.know("torch", "2.9.1")
    for flags in ((), ("--offline",)):
        project.lock(lambda target: (torch(known.sha256), served(LIB)))
        document = as_json(envspec, *flags)
        assert [(one["codes"], one["packages"]) for one in document["not_asked"]] == [(["yanked"], ["torch"])]
    project.lock(lambda target: (torch("f" * 64, known.file.replace("2.9.1", "2.99")), served(LIB)))
    (unread,) = as_json(envspec, code=3)["unread"]
    assert unread == 'no address is known for the index "pytorch/cu126" of torch 2.9.1+cu126'


def test_a_lock_outside_is_no_path_of_this_machine(
    pypi: Pypi, project: Project, envspec: Envspec, tmp_path: Path
) -> None:
    pypi.know("lib", "2.5", vulnerability("PYSEC-1"))

    def uri(*arguments: str) -> str:
        run = json.loads(envspec("audit", PATH, "--format", "sarif", *arguments).out)["runs"][0]
        location: dict[str, str] = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
        assert location["uriBaseId"] == "%SRCROOT%" and location["uriBaseId"] in run["originalUriBaseIds"]
        return location["uri"]

    assert uri() == "locks/demo/envspec.lock"
    (project.folder / "locks").rename(tmp_path / "other locks")
    assert uri("--locks-dir", "../other locks") == "demo/envspec.lock", "no repository holds it"
    (tmp_path / ".git").mkdir()
    assert uri("--locks-dir", str(tmp_path / "other locks")) == "other%20locks/demo/envspec.lock"


# `envspec audit` with a downloaded database.


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
    assert "not checked for yanked: any files (--skip-files): app, lib nothing found" in " ".join(told.out.split())
    assert as_json(envspec, *arguments, "--skip-files")["not_asked"] == [
        {"codes": ["yanked"], "reason": "any files (--skip-files)", "packages": ["app", "lib"]}
    ]
    assert pypi.asked == []


def test_files_that_nobody_wants_to_know_of(pypi: Pypi, envspec: Envspec, osv: Callable[..., str]) -> None:
    pypi.add(APP, uploaded=OLD, yanked="broken")
    pypi.fail("/simple/", status(500))
    as_json(envspec, code=3)
    pypi.asked.clear()
    assert as_json(envspec, "--skip-files")["findings"] == []
    assert pypi.paths("/simple/") == []


def advisory(identifier: str, *, fixed: str = "2.6", package: str = "lib") -> dict[str, Any]:
    """An advisory as OSV's service gives it."""
    events = [{"introduced": "0"}, {"fixed": fixed}]
    return {
        "id": identifier,
        "modified": OLD,
        "aliases": [identifier.replace("GHSA", "CVE")],
        "summary": "Things go wrong.",
        "database_specific": {"severity": "HIGH"},
        "affected": [
            {"package": {"name": package, "ecosystem": "PyPI"}, "ranges": [{"type": "ECOSYSTEM", "events": events}]}
        ],
    }


@pytest.fixture
def service(pypi: Pypi, monkeypatch: pytest.MonkeyPatch) -> Iterator[Osv]:
    """OSV's service, which the user named; PyPI here is a mirror of the files."""
    pypi.database = False
    with Osv() as running:
        monkeypatch.setenv("ENVSPEC_OSV_URL", running.url)
        yield running


def test_a_named_service_gets_one_query_about_all(pypi: Pypi, envspec: Envspec, service: Osv) -> None:
    service.found = {"lib 2.5": ["GHSA-1", "MAL-2026-7"]}
    service.records = {name: advisory(name) for name in service.found["lib 2.5"]}
    document = as_json(envspec, code=1)
    assert sorted(codes(document)) == [("lib", "malicious"), ("lib", "vulnerability")]
    assert document["database"]["name"] == f"{service.url}/v1/querybatch" and document["complete"]
    assert service.asked == [["app 1.4", "lib 2.5"]] and sorted(service.details) == ["GHSA-1", "MAL-2026-7"]
    assert not pypi.paths("/json$")
    assert codes(as_json(envspec, "--offline", code=1)) == codes(document) and len(service.asked) == 1


def test_a_query_has_pages(envspec: Envspec, service: Osv) -> None:
    service.found, service.most = {"lib 2.5": ["GHSA-1", "GHSA-2", "GHSA-3"]}, 2
    service.records = {name: advisory(name) for name in service.found["lib 2.5"]}
    assert len(as_json(envspec, code=1)["findings"]) == 3
    assert service.asked == [["app 1.4", "lib 2.5"], ["lib 2.5"]]


@pytest.mark.parametrize(("status", "body"), [(503, b""), (200, b"[]"), (200, b'{"results": []}')])
def test_a_service_without_a_whole_answer_is_no_pass(envspec: Envspec, service: Osv, status: int, body: bytes) -> None:
    service.status, service.body = status, body
    document = as_json(envspec, code=3)
    assert not document["complete"] and len(document["unread"]) == 1 and len(service.asked) == 1


def test_an_advisory_that_cant_be_read_is_no_pass(envspec: Envspec, service: Osv) -> None:
    service.found, service.records = {"lib 2.5": ["GHSA-1"]}, {"GHSA-1": {"id": "GHSA-1"}}
    document = as_json(envspec, code=3)
    assert not document["complete"] and "GHSA-1" in document["unread"][0]


def test_answers_about_malware_alone_are_no_audit(envspec: Envspec, service: Osv) -> None:
    service.found = {"lib 2.5": ["GHSA-1"]}
    pins, now = [package("app", "1.4"), package("lib", "2.5")], datetime.now(timezone.utc)
    look = look_for_malicious(pins, Audit(), os.environ, now, service=service.url, offline=False)
    assert look.findings == () and service.asked and not service.details
    assert as_json(envspec, "--offline", code=3)["complete"] is False
