"""`envspec report` as it is called: what it compares with, what it knows of vulnerabilities, where it writes."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from cli_project import Envspec, Project, changed, demo_pins
from diff_git import git, in_git

from envspec.lock.write import digest

pytest_plugins = ["cli_fixtures"]

SPEC = "specs/demo.toml"
NEW = "2099-01-01T00:00:00Z"


@pytest.fixture(autouse=True)
def no_git_of_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    # the temporary folder may be inside a repository
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))


def data(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text.split('id="data">')[1].split("</script>")[0])
    return found


def changes(text: str) -> str:
    return text.split('<section id="changes"')[1].split("</section>")[0]


def advisory(**fields: Any) -> dict[str, Any]:
    affected = [{"package": {"ecosystem": "PyPI", "name": "lib"}, "versions": ["2.5"]}]
    return {"id": "PYSEC-1", "modified": NEW, "summary": "bad", "affected": affected, **fields}


def test_writes_one_page_and_says_so(project: Project, envspec: Envspec) -> None:
    told = envspec("report", SPEC, "-o", "out/report.html")
    assert (told.code, told.out) == (0, "") and told.err.startswith("wrote out/report.html (")
    text = (project.folder / "out" / "report.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and str(project.folder) not in text
    assert [one["name"] for one in data(text)["targets"]] == ["cpu", "cu126-volta", "cu128-hopper"]


def test_some_targets(project: Project, envspec: Envspec) -> None:
    found = data(envspec("report", SPEC, "-o", "-", "--target", "cpu").out)
    assert [one["name"] for one in found["targets"]] == ["cpu"]
    assert "nvidia-cublas-cu12" not in {one["name"] for one in found["packages"]}
    told = envspec("report", SPEC, "-o", "x.html", "--target", "cpx")
    assert told.code == 2 and "did you mean cpu?" in told.err and not (project.folder / "x.html").exists()


def test_outside_of_git_nothing_is_compared(project: Project, envspec: Envspec) -> None:
    told = envspec("report", SPEC, "-o", "-")
    assert told.code == 0 and "Not compared" in changes(told.out) and str(project.folder) not in told.out
    assert envspec("report", SPEC, "-o", "-", "--from", "HEAD").code == 2


def test_against_the_last_commit(project: Project, envspec: Envspec, monkeypatch: pytest.MonkeyPatch) -> None:
    in_git(project, monkeypatch)
    assert "no difference" in changes(envspec("report", SPEC, "-o", "-").out)
    project.lock(lambda target: changed(demo_pins(target), "fsspec", version="2026.9.1"))
    assert "2026.9.0 → 2026.9.1" in changes(envspec("report", SPEC, "-o", "-").out)


def test_against_a_revision_without_the_lock(project: Project, envspec: Envspec) -> None:
    git(project, "init", "-q", "-b", "main")
    git(project, "commit", "-q", "--allow-empty", "-m", "empty")
    assert "Not compared" in changes(envspec("report", SPEC, "-o", "-").out)
    told = envspec("report", SPEC, "-o", "-", "--from", "HEAD")
    assert told.code == 0 and "no lock yet" in changes(told.out)


def test_a_target_alone_is_compared_with_itself(
    project: Project, envspec: Envspec, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_git(project, monkeypatch)
    newer = "2026.9.1"
    project.lock(lambda t: changed(demo_pins(t), "fsspec", version=newer) if t == "cpu" else demo_pins(t))
    assert newer in changes(envspec("report", SPEC, "-o", "-", "--target", "cpu").out)
    assert "no difference" in changes(envspec("report", SPEC, "-o", "-", "--target", "cu126-volta").out)


def test_a_database(project: Project, envspec: Envspec) -> None:
    Path("osv.json").write_text(json.dumps(advisory()), encoding="utf-8")
    told = envspec("report", SPEC, "-o", "-", "--database", "osv.json")
    assert told.code == 0 and told.err == "" and "PYSEC-1" in told.out
    assert list(data(told.out)["vulnerable"].values()) == [["PYSEC-1"]]


def test_an_old_database_is_told(project: Project, envspec: Envspec) -> None:
    Path("osv.json").write_text(json.dumps(advisory(modified="2020-01-01T00:00:00Z")), encoding="utf-8")
    told = envspec("report", SPEC, "-o", "-", "--database", "osv.json")
    assert told.code == 0 and "warning: the newest entry of osv.json is from 2020-01-01" in told.err
    assert "as of 2020-01-01" in told.out


def test_what_the_audit_printed(project: Project, envspec: Envspec) -> None:
    """The very output of `envspec audit --json`, asked offline of a database."""
    Path("osv.json").write_text(json.dumps(advisory()), encoding="utf-8")
    audited = envspec("audit", SPEC, "--json", "--offline", "--database", "osv.json")
    Path("audit.json").write_text(audited.out, encoding="utf-8")
    lock = project.lock()
    assert json.loads(audited.out)["digest"] == digest(lock)
    told = envspec("report", SPEC, "-o", "-", "--audit", "audit.json")
    assert told.code == 0 and list(data(told.out)["vulnerable"].values()) == [["PYSEC-1"]]
    project.lock(lambda target: changed(demo_pins(target), "fsspec", version="2026.9.1"))
    told = envspec("report", SPEC, "-o", "x.html", "--audit", "audit.json")
    assert told.code == 2 and "audit.json: this audit is of another lock" in told.err
    assert not Path("x.html").exists()


@pytest.mark.parametrize("content", [b"", b"\xff", b"{}"])
def test_what_is_no_audit(project: Project, envspec: Envspec, content: bytes) -> None:
    Path("audit.json").write_bytes(content)
    told = envspec("report", SPEC, "-o", "x.html", "--audit", "audit.json")
    assert told.code == 2 and told.err.startswith("error: audit.json:") and not Path("x.html").exists()


def test_an_audit_or_a_database(project: Project, envspec: Envspec) -> None:
    Path("a.json").write_text("{}", encoding="utf-8")
    told = envspec("report", SPEC, "-o", "x.html", "--audit", "a.json", "--database", "a.json")
    assert told.code == 2 and "give one of the two" in told.err


def test_where_nothing_can_be_written(project: Project, envspec: Envspec) -> None:
    Path("file").write_text("", encoding="utf-8")
    told = envspec("report", SPEC, "-o", "file/report.html")
    assert (told.code, told.err) == (
        3,
        "error: file: this is a file; a folder is needed\nhint: move it away, or give -o another place\n",
    )


def test_no_lock_no_page(project: Project, envspec: Envspec) -> None:
    project.lock_path.unlink()
    told = envspec("report", SPEC, "-o", "x.html")
    assert told.code == 2 and "has no lock yet" in told.err and not Path("x.html").exists()
