"""`envspec diff`: against git and on two files, in every format; as a gate; with `--audit` and `--verify`."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath
from typing import Any

import jsonschema
import pytest
from cli_project import TWO, Envspec, Project, changed, demo_pins, served, without_settings
from diff_git import committed as committed, git, in_git
from msgspec.structs import replace
from support.audit import Pypi, vulnerability
from support.documents import valid
from support.index import Index, status
from support.machine import Machine, cpu
from support.packages import Dist, wheel

from envspec.app.annotate import AnnotatedFiles, annotate
from envspec.lock.model import Artifact, Pin
from envspec.review.annotations import workflow_commands
from envspec.review.diff.rows import Fact, Review

pytest_plugins = ["cli_fixtures"]


def document(text: str) -> dict[str, Any]:
    found: dict[str, Any] = valid(text, "diff")
    return found


def test_against_the_last_commit(committed: Project, envspec: Envspec) -> None:
    told = envspec("diff", "specs/demo.toml")
    assert (told.code, told.err) == (0, "")
    assert told.out == (
        "demo: HEAD -> locks/demo/envspec.lock\n"
        "low risk: 1 package changed (1 low)\n"
        "\n"
        "low risk\n"
        "  fsspec  2026.9.0 -> 2026.9.1  patch  via lib, pong, torch\n"
    )


def test_against_any_revision(committed: Project, envspec: Envspec) -> None:
    told = envspec("diff", "specs/demo.toml", "--from", "HEAD~1", "--json")
    found = document(told.out)
    assert found["old"] == "HEAD~1 (no lock yet)" and found["targets"]["added"] == [
        "cpu",
        "cu126-volta",
        "cu128-hopper",
    ]
    assert {package["name"] for package in found["packages"]} >= {"app", "fsspec", "torch"}


def test_the_status_says_on_request_whether_something_changed(committed: Project, envspec: Envspec) -> None:
    assert envspec("diff", "specs/demo.toml").code == 0
    assert envspec("diff", "specs/demo.toml", "--exit-code").code == 1
    assert envspec("diff", "specs/demo.toml", "--exit-code", "--json").code == 1
    git(committed, "add", ".")
    git(committed, "commit", "-q", "-m", "newer")
    told = envspec("diff", "specs/demo.toml", "--exit-code")
    assert (told.code, told.out.splitlines()[1:]) == (0, ["no difference"])
    assert document(envspec("diff", "specs/demo.toml", "--json").out)["risk"] is None


@pytest.mark.by_day(1)
@pytest.mark.parametrize("form", ["text", "markdown", "json", "html"])
def test_formats(committed: Project, envspec: Envspec, form: str) -> None:
    told = envspec("diff", "specs/demo.toml", "--format", form)
    assert told.code == 0 and "2026.9.1" in told.out and told.out.endswith("\n")
    if form == "json":
        assert told.out == envspec("diff", "specs/demo.toml", "--json").out


def test_a_lock_that_is_gone(committed: Project, envspec: Envspec) -> None:
    committed.lock_path.unlink()
    told = envspec("diff", "specs/demo.toml")
    assert told.code == 0 and "(no lock any more)" in told.out and "removed" in told.out


def test_locks_elsewhere(committed: Project, envspec: Envspec) -> None:
    (committed.folder / "locks").rename(committed.folder / "other")
    told = envspec("diff", "specs/demo.toml", "--locks-dir", "other")
    assert told.code == 0 and told.out.startswith("demo: HEAD (no lock yet) -> other/demo/envspec.lock\n")


def test_two_files(committed: Project, envspec: Envspec) -> None:
    rendered = "locks/demo/cpu/requirements.txt"
    told = envspec("diff", "locks/demo/envspec.lock", "locks/demo/envspec.lock")
    assert told.code == 0 and told.out.endswith("no difference\n")
    assert envspec("diff", rendered, "locks/demo/envspec.lock").code == 0


def test_every_kind_of_change_is_of_the_schema(project: Project, envspec: Envspec) -> None:
    old = project.folder / "old.lock"
    old.write_bytes(project.lock_path.read_bytes())

    def evil(target: str) -> Any:
        pins = demo_pins(target)
        torch = next(pin for pin in pins if pin.name == "torch")
        assert torch.artifact
        pins = changed(pins, "torch", artifact=replace(torch.artifact, sha256="0" * 64), licence=None)
        return changed(pins, "app", version="2.0", dependencies=())[: -1 if target == "cpu" else None]

    project.lock(evil)
    found = document(envspec("diff", str(old), "locks/demo/envspec.lock", "--json").out)
    assert found["risk"] == "high"
    document(envspec("diff", "locks/demo/envspec.lock", "locks/demo/cpu/requirements.txt", "--json").out)
    with pytest.raises(jsonschema.ValidationError):
        document(json.dumps({**found, "packages": [{}]}))


ERRORS = [
    (["specs/demo.toml", "--from", "none"], "'none' doesn't name a commit", 2),
    (["specs/demo.toml", "--from=--output=stolen"], "isn't a git revision", 2),
    (["specs/none.toml"], "none.toml", 2),
    (["specs/demo.toml", "locks/demo/envspec.lock"], "this is a spec, not a lock", 2),
    (["none.lock", "locks/demo/envspec.lock"], "there is no such file", 2),
    (["specs/demo.toml", "--format", "pdf"], "pdf", 2),
    (["a", "b", "--from", "HEAD"], "--from compares a spec's lock with a git revision", 2),
]


@pytest.mark.parametrize(("arguments", "message", "code"), ERRORS, ids=[" ".join(one[0]) for one in ERRORS])
def test_errors(committed: Project, envspec: Envspec, arguments: list[str], message: str, code: int) -> None:
    before = committed.files()
    told = envspec("diff", *arguments)
    assert told.code == code and message in told.err.lower() and told.err.startswith("error: ") and told.out == ""
    assert committed.files() == before


def test_outside_a_repository(project: Project, envspec: Envspec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.folder.parent))
    told = envspec("diff", "specs/demo.toml")
    assert told.code == 2 and "isn't in a git repository" in told.err and "hint: name two files" in told.err


def test_without_git(committed: Project, envspec: Envspec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(committed.folder))
    told = envspec("diff", "specs/demo.toml")
    assert told.code == 3 and told.err.startswith("error: git isn't installed\nhint: ")


def test_a_damaged_old_lock(committed: Project, envspec: Envspec) -> None:
    text = committed.lock_path.read_text(encoding="utf-8")
    committed.lock_path.write_text(text.replace("2026.9.1", "2026.9 1"), encoding="utf-8")
    git(committed, "commit", "-q", "-a", "-m", "by hand")
    committed.lock()
    told = envspec("diff", "specs/demo.toml")
    assert told.code == 2 and "HEAD:locks/demo/envspec.lock:51: [[pip]]: version must be a version" in told.err


@pytest.mark.slow
def test_colour_on_terminals_only(committed: Project) -> None:
    """A whole process at a terminal of its own, and one with a pipe."""
    import pty

    command = [sys.executable, "-m", "envspec", "diff", "specs/demo.toml"]
    env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    for extra, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        leader, follower = pty.openpty()
        subprocess.run(command, stdout=follower, env={**env, **extra}, check=True)
        os.close(follower)
        shown = os.read(leader, 65536)
        os.close(leader)
        assert (b"\x1b[" in shown) is coloured
    piped = subprocess.run(command, capture_output=True, env=env, check=True).stdout
    assert b"\x1b[" not in piped and b"fsspec" in piped


@pytest.mark.slow
def test_only_what_it_needs_is_loaded(committed: Project) -> None:
    code = (
        "import sys; from envspec.cli.main import run; run(['diff', 'specs/demo.toml']);"
        "print(*sorted({'rich', 'yaml', 'rattler', 'urllib3', 'uv'} & set(sys.modules)), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr.strip() == ""


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


def test_the_day_of_a_release(pypi: Pypi, envspec: Envspec) -> None:
    assert "published on 2020-01-01" in envspec("diff", *FILES, "--audit").out
    assert envspec("diff", *FILES, "--max-age", "3").code == 2


def test_a_malicious_release_stands_above_everything(pypi: Pypi, envspec: Envspec) -> None:
    pypi.know("lib", "2.6", vulnerability("GHSA-9", "MAL-2026-9"))
    assert told_facts(envspec)[1] == [("high", "malicious")]
    assert "!! lib: KNOWN TO BE MALICIOUS, GHSA-9 (MAL-2026-9)" in envspec("diff", *FILES, "--audit").out


def test_the_spec_can_ignore_one(
    pypi: Pypi, project: Project, envspec: Envspec, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = project.lock_path.read_bytes()
    project.lock_path.write_bytes((project.folder / "old.lock").read_bytes())
    in_git(project, monkeypatch)
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
        {"codes": ["yanked"], "reason": "any files (--skip-files)", "packages": ["lib"]}
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
    assert "not checked for vulnerability, yanked: packages whose index isn't known: lib" in " ".join(told.out.split())
    assert not [one for one in pypi.asked if "2.5" in one.path]


def test_nobody_is_asked_unless_told_to(pypi: Pypi, envspec: Envspec) -> None:
    told = envspec("diff", *FILES)
    assert told.code == 0 and pypi.asked == []
    for flags in (("--offline",), ("--skip-files",), ("--max-age", "3"), ("--database", "old.lock")):
        told = envspec("diff", *FILES, *flags)
        assert told.code == 2 and f"error: {flags[0]} needs --audit\nhint: add --audit" in told.err


def test_nothing_changed_asks_nobody(pypi: Pypi, envspec: Envspec) -> None:
    told = envspec("diff", FILES[1], FILES[1], "--audit")
    assert told.code == 0 and "no difference" in told.out and pypi.asked == []


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


@pytest.mark.by_day(1)
@pytest.mark.parametrize("form", ["text", "markdown", "json", "github"])
def test_a_replaced_file_fails_the_gate(committed: Project, envspec: Envspec, form: str) -> None:
    evil(committed)
    told = envspec("diff", "specs/demo.toml", "--fail-on", "high", "--format", form)
    assert told.code == 1 and "the risk is high, and --fail-on is high" in told.err
    assert "fsspec" in told.out


@pytest.mark.slow
def test_what_is_less_than_asked_for_passes(committed: Project, envspec: Envspec) -> None:
    committed.lock(lambda target: changed(demo_pins(target), "fsspec", version="2027.1"))
    assert envspec("diff", "specs/demo.toml", "--fail-on", "medium").code == 0
    committed.lock(lambda target: changed(demo_pins(target), "fsspec", version="2027.1", licence="AGPL-3.0-only"))
    assert envspec("diff", "specs/demo.toml", "--fail-on", "high").code == 0
    assert envspec("diff", "specs/demo.toml", "--fail-on", "medium").code == 1
    assert envspec("diff", "specs/demo.toml", "--fail-on", "high", "--exit-code").code == 1
    committed.lock(demo_pins)
    assert envspec("diff", "specs/demo.toml", "--fail-on", "medium").code == 0


def test_an_annotation_is_at_the_line_of_the_package(committed: Project, envspec: Envspec) -> None:
    evil(committed)
    told = envspec("diff", "specs/demo.toml", "--format", "github")
    (line,) = [line for line in told.out.splitlines() if "SAME VERSION" in line]
    found = re.fullmatch(r"::error file=locks/demo/envspec\.lock,line=(\d+),title=fsspec [^:]+::SAME VERSION.*", line)
    assert found
    lock = (committed.folder / "locks/demo/envspec.lock").read_text().splitlines()
    assert lock[int(found[1]) - 1 : int(found[1]) + 1] == ["[[pip]]", 'name = "fsspec"']


def test_no_foreign_word_becomes_a_command() -> None:
    flaw = Fact("high", "x", "a\n::set-output name=fresh::true\r%0A::error::b", package="a,line=9::warning")
    found = Review("demo", "a", "b", (), (), (), (), (), (), (), flaws=(flaw,))
    text = workflow_commands(annotate(found, AnnotatedFiles()), PurePosixPath("a:b,c"))
    assert text.count("\n") == 1 and "\r" not in text
    assert text.startswith("::error file=a%3Ab%2Cc,line=1,title=a%2Cline=9%3A%3Awarning::a")
    assert "%250A" in text


LIB, NEWER = wheel("lib", "2.5"), wheel("lib", "2.6")
OTHER = wheel("lib", "2.5", tag="cp312-none-any")


@pytest.fixture
def published(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """The user's PyPI, and a project in git whose lock has lib 2.5."""
    without_settings(monkeypatch, tmp_path / "home")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    project.spec(TWO.replace('"app", ', ""))
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
def test_a_bump_that_its_index_publishes(published: Index, project: Project, envspec: Envspec) -> None:
    project.lock(lambda target: (pin_of(NEWER),))
    found = told(envspec, code=0)
    assert found["verified"] == {
        "complete": True,
        "pins": {"asked": 1, "proved": 1, "refuted": 0, "facts": 0},
        "unasked": [],
        "unproving": [],
    }
    for form in ("text", "markdown", "html"):
        shown = envspec("diff", "specs/demo.toml", "--verify", "--format", form).out
        assert "1 of 1 changed file is as its index publishes it" in shown


@pytest.mark.slow
def test_another_file_that_the_index_holds_is_low(published: Index, project: Project, envspec: Envspec) -> None:
    published.add(OTHER)
    project.lock(lambda target: (pin_of(OTHER),))
    assert envspec("diff", "specs/demo.toml", "--fail-on", "high").code == 1
    assert told(envspec, code=0)["risk"] == "low"


@pytest.mark.slow
def test_another_file_that_it_does_not_hold_is_refuted(published: Index, project: Project, envspec: Envspec) -> None:
    project.lock(lambda target: (pin_of(OTHER),))
    found = told(envspec, code=1)
    assert [(one["risk"], one["code"], one["package"]) for one in found["flaws"]] == [("high", "not-published", "lib")]
    assert found["verified"]["pins"] == {"asked": 1, "proved": 0, "refuted": 1, "facts": 0}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("reason", ["broken on arrival", ""])
def test_a_yanked_release_is_told(published: Index, project: Project, envspec: Envspec, reason: str) -> None:
    """As medium, in every form; once, where an audit says it too."""
    published.add(NEWER, yanked=reason or "\n")
    project.lock(lambda target: (pin_of(NEWER),))
    found = told(envspec, code=0)
    (package,) = found["packages"]
    (fact,) = (fact for fact in package["changes"][0]["facts"] if fact["code"] == "yanked")
    assert (package["risk"], fact["risk"]) == ("medium", "medium") and reason in fact["message"]
    for form in ("text", "markdown", "html", "github"):
        said = envspec("diff", "specs/demo.toml", "--verify", "--format", form).out
        assert "its publisher yanked it" in said and reason in said
    both = envspec("diff", "specs/demo.toml", "--verify", "--audit", "--json").out
    assert both.count('"yanked"') == 1


def test_a_new_version_that_nobody_published_is_raised(published: Index, project: Project, envspec: Envspec) -> None:
    forged = replace(pin_of(NEWER), artifact=Artifact(NEWER.file, "e" * 64))
    project.lock(lambda target: (forged,))
    assert envspec("diff", "specs/demo.toml", "--fail-on", "medium").code == 0, "a bump like any other"
    found = told(envspec, code=1)
    assert (found["risk"], [one["code"] for one in found["flaws"]]) == ("high", ["other-hash"])
    ran = envspec("diff", "specs/demo.toml", "--verify", "--format", "github")
    assert "::error file=locks/demo/envspec.lock,line=" in ran.out and "NOT WHAT ITS INDEX PUBLISHES" in ran.out


def test_offline_it_could_not_be_asked(published: Index, project: Project, envspec: Envspec) -> None:
    project.lock(lambda target: (pin_of(OTHER),))
    found = told(envspec, "--offline", code=3)
    assert found["verified"]["unasked"] == [{"reason": "--offline forbids asking", "packages": ["lib 2.5"]}]
    assert found["flaws"] == [] and found["risk"] == "high", "what can't be asked isn't lowered either"
    assert published.asked == []


def test_an_index_that_fails_could_not_be_asked(published: Index, project: Project, envspec: Envspec) -> None:
    project.lock(lambda target: (replace(pin_of(NEWER), artifact=Artifact(NEWER.file, "e" * 64)),))
    published.fail("/lib/", status(503))
    found = told(envspec, code=3)
    assert not found["verified"]["complete"] and found["flaws"] == []
    ran = envspec("diff", "specs/demo.toml", "--verify")
    assert ran.code == 3 and "couldn't be asked: lib 2.6" in ran.err and "COULDN'T BE ASKED: lib 2.6" in ran.out


def test_only_what_changed_is_asked(published: Index, project: Project, envspec: Envspec) -> None:
    git(project, "commit", "-q", "--allow-empty", "-m", "more")
    assert told(envspec, code=0)["verified"]["pins"]["asked"] == 0
    assert published.asked == []


def test_two_files_have_no_indexes(published: Index, project: Project, envspec: Envspec) -> None:
    lock = str(project.lock_path)
    ran = envspec("diff", lock, lock, "--verify")
    assert ran.code == 2 and "two files have none" in ran.err


@pytest.mark.slow
def test_one_run_writes_every_format(published: Index, project: Project, envspec: Envspec) -> None:
    project.lock(lambda target: (pin_of(OTHER),))
    also = ("--also", "json", "out.json", "--also", "html", "out.html", "--also", "github", "out.txt")
    ran = envspec("diff", "specs/demo.toml", "--verify", "--format", "markdown", *also)
    assert ran.code == 0 and "<summary>Indexes</summary>" in ran.out
    valid((project.folder / "out.json").read_text(), "diff")
    assert (project.folder / "out.html").read_text().startswith("<!doctype html>")
    assert (project.folder / "out.txt").read_text().startswith("::error file=")
    assert [one.path for one in published.asked].count("/simple/lib/") == 1, "one page, asked once"


PATH = "specs/demo.toml"
MERGED = """\
[env]
name = "demo"
python = "3.12"
[pip]
dependencies = [
  "lib{lib}",
  #
  #
  #
{other}
]
[targets.a]
platform = "linux-64"
"""


@pytest.mark.slow
@pytest.mark.parametrize("conflict", [False, True], ids=["clean", "conflict"])
def test_lock_says_so_and_diff_rates_it(
    project: Project, envspec: Envspec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, conflict: bool
) -> None:
    """One side upgrades; the other asks for a package that the newer release doesn't go with."""
    without_settings(monkeypatch, tmp_path / "home")
    project.lock_path.unlink()
    with Index() as published:
        for version in ("1.0", "1.1", "1.2"):
            published.add(wheel("lib", version))
        published.add(wheel("other", "1.0", "lib<1.2"))
        monkeypatch.setenv("UV_DEFAULT_INDEX", published.url)
        project.spec(MERGED.format(lib="==1.0", other=""))
        assert envspec("lock", PATH).code == 0
        project.spec(MERGED.format(lib="", other=""))
        assert envspec("lock", PATH).code == 0
        in_git(project, monkeypatch)
        git(project, "switch", "-qc", "topic")
        project.spec(MERGED.format(lib="", other='  "other",'))
        assert envspec("lock", PATH, *(["-P", "lib"] if conflict else [])).code == 0
        git(project, "add", "-A")
        git(project, "commit", "-qm", "other")
        git(project, "switch", "-q", "main")
        assert envspec("lock", PATH, "-U").code == 0
        git(project, "commit", "-qam", "upgrade")
        git(project, "switch", "-q", "topic")
        merged = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "merge", "-q", "main"],
            cwd=project.folder, check=False, capture_output=True,
        )  # fmt: skip
        assert (b"conflict in locks/demo/envspec.lock" in merged.stdout) is conflict
        told = envspec("lock", PATH)
    assert told.code == 0 and "lib goes back from 1.2 to 1." in told.err
    lost = [one for one in json.loads(envspec("diff", PATH, "--json").out)["spec"] if one["code"] == "merge-lost"]
    assert [one["risk"] for one in lost] == ["high"]


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
