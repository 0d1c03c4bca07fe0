"""Releases that are reported as malicious: `lock` and `install` refuse them, by what a service that speaks as OSV's
does says, or said before. Who can't be asked stops nothing."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from cli_project import TWO, Envspec, Project, served, without_settings
from support.index import Index
from support.osv import Osv
from support.packages import wheel
from support.site import CONTACT, place_policy

pytest_plugins = ["cli_fixtures"]

APP, LIB, EVIL = wheel("app", "1.4", "lib"), wheel("lib", "2.5"), wheel("lib", "2.6")
PATH = "specs/demo.toml"
WRONG_REPORT = TWO + '[audit.ignore]\nMAL-2026-7 = "its detector took a test for code"\n'


@pytest.fixture
def osv(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Osv]:
    """The service, an index with lib 2.5 and 2.6, and nothing locked yet."""
    without_settings(monkeypatch, tmp_path / "home")
    project.lock_path.unlink(missing_ok=True)
    project.spec(TWO)
    with Osv() as running, Index() as index:
        index.add(APP, LIB, EVIL)
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        monkeypatch.setenv("ENVSPEC_OSV_URL", running.url)
        yield running


def test_it_is_not_locked(osv: Osv, project: Project, envspec: Envspec) -> None:
    told = envspec("lock", PATH)
    assert told.code == 1 and "lib 2.6: MAL-2026-7" in told.err and "GHSA" not in told.err
    assert not project.lock_path.exists() and osv.asked == [["app 1.4", "lib 2.6"]]


def test_a_report_that_is_wrong_can_be_told(osv: Osv, project: Project, envspec: Envspec) -> None:
    project.spec(WRONG_REPORT)
    told = envspec("lock", PATH)
    assert told.code == 0 and "malicious" not in told.err


@pytest.mark.slow
def test_a_constraint_keeps_it_out_and_the_days_answers_are_kept(osv: Osv, project: Project, envspec: Envspec) -> None:
    project.spec(TWO.replace('"lib"]', '"lib!=2.6"]'))
    assert envspec("lock", PATH).code == 0
    assert envspec("lock", PATH, "--upgrade").code == 0 and osv.asked == [["app 1.4", "lib 2.5"]]


def test_it_is_not_installed_by_an_older_lock(osv: Osv, project: Project, envspec: Envspec, tmp_path: Path) -> None:
    project.lock(lambda target: (served(APP, "lib"), served(EVIL)))
    told = envspec("install", PATH, "--prefix", str(tmp_path / "env"))
    assert told.code == 1 and "MAL-2026-7" in told.err and not (tmp_path / "env").exists()
    osv.status = 503
    told = envspec("install", PATH, "--prefix", str(tmp_path / "env"), "--offline")
    assert told.code == 1 and "MAL-2026-7" in told.err and len(osv.asked) == 1, "by the answer that was kept"
    told = envspec("lock", PATH)
    assert told.code == 1 and "MAL-2026-7" in told.err, "a fresh lock is no better"


@pytest.mark.parametrize(
    "words",
    [
        ("install", "--prefix", "p"),
        ("run",),
        ("bundle", "-o", "x"),
        ("image", "-o", "x.tar"),
        ("image", "--squashfs", "x"),
    ],
    ids=" ".join,
)
def test_no_command_puts_it_anywhere(osv: Osv, project: Project, envspec: Envspec, words: tuple[str, ...]) -> None:
    project.lock(lambda target: (served(APP, "lib"), served(EVIL)))
    told = envspec(words[0], PATH, *words[1:], *(["--", "true"] if words[0] == "run" else []))
    assert told.code == 1 and "MAL-2026-7" in told.err and not [*project.folder.glob("x*"), *project.folder.glob("p/*")]


@pytest.mark.parametrize(
    ("status", "body"), [(503, b""), (200, b"<html>"), (200, b'{"results": []}'), (200, b"[]"), (302, b"")]
)
def test_a_service_that_fails_stops_nothing_and_is_told(
    osv: Osv, project: Project, envspec: Envspec, status: int, body: bytes
) -> None:
    osv.status, osv.body = status, body
    project.lock(lambda target: (served(APP, "lib"), served(LIB)))
    told = envspec("install", PATH, "--prefix", "env", "--dry-run")
    assert told.code == 0 and "note: not all releases were looked up in OSV's malware reports: " in told.err


def test_offline_nobody_is_asked(osv: Osv, project: Project, envspec: Envspec) -> None:
    project.lock(lambda target: (served(APP, "lib"), served(LIB)))
    told = envspec("install", PATH, "--prefix", "env", "--offline", "--dry-run")
    assert "malware reports: --offline" in told.err and osv.asked == []


def test_who_names_no_service_sends_no_names(
    osv: Osv, project: Project, envspec: Envspec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ENVSPEC_OSV_URL")
    project.lock(lambda target: (served(APP, "lib"), served(LIB)))
    told = envspec("install", PATH, "--prefix", "env", "--dry-run")
    assert told.code == 0 and osv.asked == [] and "malware" not in told.err


def test_uvs_own_switch_counts(osv: Osv, project: Project, envspec: Envspec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENVSPEC_OSV_URL")
    monkeypatch.setenv("UV_MALWARE_CHECK", "1")
    monkeypatch.setenv("UV_MALWARE_CHECK_URL", osv.url)
    assert envspec("lock", PATH).code == 1 and len(osv.asked) == 1


def test_what_an_audit_of_a_database_found_is_known_afterwards(
    osv: Osv, project: Project, envspec: Envspec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ENVSPEC_OSV_URL")
    project.lock(lambda target: (served(APP, "lib"), served(EVIL)))
    affected = [{"package": {"ecosystem": "PyPI", "name": "lib"}, "versions": ["2.6"]}]
    record = {"id": "MAL-2026-7", "modified": "2026-11-20T00:00:00Z", "affected": affected}
    (tmp_path / "all.json").write_text(json.dumps(record))
    offline = ("--offline", "--skip-files", "--max-age", "99999")
    told = envspec("audit", PATH, "--database", str(tmp_path / "all.json"), *offline)
    assert told.code == 1 and "error: lib 2.6  [malicious]" in told.out
    told = envspec("install", PATH, "--prefix", "env", "--offline", "--dry-run")
    assert told.code == 1 and "MAL-2026-7" in told.err


@pytest.mark.parametrize("service", ["no", "failing", "offline"])
def test_where_the_site_wants_an_answer_none_is_an_error(
    osv: Osv, project: Project, envspec: Envspec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: str
) -> None:
    place_policy(monkeypatch, tmp_path, "[releases]\nask-advisories = true\n")
    project.lock(lambda target: (served(APP, "lib"), served(LIB)))
    osv.status = 503
    if service == "no":
        monkeypatch.delenv("ENVSPEC_OSV_URL")
    told = envspec("install", PATH, "--prefix", "env", "--dry-run", *["--offline"] * (service == "offline"))
    assert told.code == 3 and "[releases] ask-advisories" in told.err and CONTACT in told.err


def test_a_site_that_needs_an_answer_takes_the_one_that_is_known_where_nobody_can_be_asked(
    osv: Osv, project: Project, envspec: Envspec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its date. A release of which nobody ever said anything is refused all the same."""
    place_policy(monkeypatch, tmp_path, "[releases]\nask-advisories = true\n")
    project.lock(lambda target: (served(APP, "lib"), served(LIB)))
    assert envspec("install", PATH, "--prefix", "a", "--dry-run").code == 0
    for words in ((), ("--offline",)):
        osv.status = 503
        later(monkeypatch)
        told = envspec("install", PATH, "--prefix", "a", "--dry-run", *words)
        assert told.code == 0 and "note: OSV's malware reports are those of 20" in told.err, told.err
    project.lock(lambda target: (served(APP, "lib"), served(wheel("lib", "2.7"))))
    told = envspec("install", PATH, "--prefix", "a", "--dry-run", "--offline")
    assert told.code == 3 and "[releases] ask-advisories" in told.err and "lib 2.7" in told.err


def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers that are kept aren't today's any more."""
    monkeypatch.setattr("envspec.review.audit.malicious.FRESH", timedelta(seconds=-1))


@pytest.mark.slow
def test_a_site_that_asks_takes_no_waiver_and_no_other_service(
    osv: Osv, project: Project, envspec: Envspec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spec's `[audit]` is the repository's word, a variable the user's: neither passes a malicious release."""
    place_policy(monkeypatch, tmp_path, f'[releases]\nask-advisories = true\n[indexes.at]\nosv = "{osv.url}"\n')
    project.spec(WRONG_REPORT)
    told = envspec("lock", PATH)
    assert told.code == 1 and "MAL-2026-7" in told.err and not project.lock_path.exists()
    project.spec(TWO)
    with Osv() as other:
        for address in (other.url, "https://user:pw@osv.invalid"):
            monkeypatch.setenv("ENVSPEC_OSV_URL", address)
            told = envspec("lock", PATH)
            assert told.code == 1 and "[index-elsewhere]" in told.err and not other.asked and "pw@" not in told.err
    # where the user names none, the site's is asked
    monkeypatch.delenv("ENVSPEC_OSV_URL")
    assert "MAL-2026-7" in envspec("lock", PATH).err
