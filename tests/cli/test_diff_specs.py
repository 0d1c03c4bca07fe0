"""`envspec diff SPEC`: what changed in the spec alone, which no lock holds, in every format and beside `--verify`."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_project import TWO, Envspec, Project, served, without_settings
from diff_git import git, in_git
from msgspec.structs import replace
from support.documents import valid
from support.index import Index
from support.packages import wheel

from envspec.lock.model import Pin

pytest_plugins = ["cli_fixtures"]

LIB, NEWER = wheel("lib", "1.0"), wheel("lib", "1.2")
OTHER = wheel("lib", "1.0", tag="cp312-none-any")
INDEX = 'indexes = {{ internal = "{}" }}\nsources = {{ lib = "internal" }}\n'
FORMATS = ("text", "markdown", "html", "github", "gitlab")


def spec(pip: str = "", tables: str = "") -> str:
    asked = '[pip]\ndependencies = ["app", "lib"]\n'
    return TWO.replace(asked, '[pip]\ndependencies = ["lib"]\n' + pip + tables)


def pin(dist: Any = LIB) -> Pin:
    return replace(served(dist, index="internal"), licence="MIT")


def document(envspec: Envspec, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = valid(envspec("diff", "specs/demo.toml", "--json", *arguments).out, "diff")
    return found


@pytest.fixture
def indexed(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Index, Index]]:
    """A project in git whose lib is of the index internal, and another server that has the same and more."""
    without_settings(monkeypatch, tmp_path / "home")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with Index() as ours, Index() as theirs:
        ours.add(LIB)
        theirs.add(LIB, NEWER, OTHER)
        project.spec(spec(INDEX.format(ours.url)))
        project.lock(lambda target: (pin(),))
        in_git(project, monkeypatch)
        yield ours, theirs


@pytest.mark.slow
def test_an_index_that_moves_is_high_in_every_format(
    indexed: tuple[Index, Index], project: Project, envspec: Envspec
) -> None:
    ours, theirs = indexed
    project.spec(spec(INDEX.format(theirs.url)))
    assert envspec("check").code == 1, "its lock names another address"
    project.lock(lambda target: (pin(),))
    assert envspec("check").code == 0
    for form in FORMATS:
        told = envspec("diff", "specs/demo.toml", "--format", form).out
        assert all(one.url.split("//")[1].split("/")[0].split(":")[1] in told for one in indexed), form
        assert "no difference" not in told
    found = document(envspec)
    assert (found["changed"], found["risk"]) == (True, "high")
    assert [(one["risk"], one["code"]) for one in found["spec"]] == [("high", "index-address-changed")]
    assert f"{ours.url.rstrip('/')} -> {theirs.url.rstrip('/')}" in found["spec"][0]["message"].replace("/ ", " ")
    assert envspec("diff", "specs/demo.toml", "--fail-on", "medium").code == 1
    assert envspec("diff", "specs/demo.toml", "--format", "github").out.startswith("::error ")


def test_a_server_that_came_with_the_change_proves_nothing(
    indexed: tuple[Index, Index], project: Project, envspec: Envspec
) -> None:
    theirs = indexed[1]
    project.spec(spec(INDEX.format(theirs.url)))
    project.lock(lambda target: (pin(NEWER),))
    found = document(envspec, "--verify")["verified"]
    assert found["pins"] == {"asked": 1, "proved": 0, "refuted": 0, "facts": 0}
    (own,) = found["unproving"]
    assert own["packages"] == ["lib 1.2"] and theirs.url.rstrip("/") in own["server"] and "internal" in own["server"]
    told = " ".join(envspec("diff", "specs/demo.toml", "--verify").out.split())
    assert "PROVES NOTHING: internal" in told and "0 of 1 changed file are as their index publishes them" in told


def test_it_lowers_no_risk_either(indexed: tuple[Index, Index], project: Project, envspec: Envspec) -> None:
    """Of another file of the same version: that its index has both is worth nothing where it is the change's own."""
    project.spec(spec(INDEX.format(indexed[1].url)))
    project.lock(lambda target: (pin(OTHER),))
    (row,) = document(envspec, "--verify")["packages"]
    assert row["risk"] == "high" and row["changes"][0]["facts"][0]["code"] == "file-changed"


def test_the_same_server_still_proves(indexed: tuple[Index, Index], project: Project, envspec: Envspec) -> None:
    indexed[0].add(NEWER)
    project.lock(lambda target: (pin(NEWER),))
    found = document(envspec, "--verify")["verified"]
    assert (found["pins"]["proved"], found["unproving"]) == (1, [])


def test_images_waivers_and_jobs_are_changes(indexed: tuple[Index, Index], project: Project, envspec: Envspec) -> None:
    line = INDEX.format(indexed[0].url)
    assert document(envspec)["changed"] is False
    project.spec(spec(line, '[image]\nservices = ["ssh"]\n[audit]\nignore = { CVE-2024-47081 = "not reached" }\n'))
    found = document(envspec)
    assert (found["changed"], found["risk"]) == (True, "medium")
    assert [(one["risk"], one["code"]) for one in found["spec"]] == [
        ("medium", "image-key-changed"),
        ("medium", "waiver-added"),
    ]


@pytest.mark.slow
def test_a_rendered_file_edited_by_hand_is_a_high_row_with_its_line_and_the_command(
    indexed: tuple[Index, Index], project: Project, envspec: Envspec
) -> None:
    folder = project.folder / "locks" / "demo"
    file = min(folder.glob("*/requirements.txt"))
    lines = file.read_text("utf-8").splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.startswith("lib==1.0"))
    lines[at] = lines[at].replace("lib==1.0", "lib==0.9")
    file.write_text("".join(lines), encoding="utf-8")
    found = document(envspec)
    assert (found["changed"], found["risk"]) == (True, "high")
    (fact,) = found["spec"]
    assert (fact["risk"], fact["code"]) == ("high", "rendered-edited")
    assert f"first at line {at + 1}" in fact["message"] and "`envspec lock specs/demo.toml`" in fact["message"]
    for form in FORMATS:
        told = " ".join(envspec("diff", "specs/demo.toml", "--format", form).out.split())
        assert "requirements.txt" in told and f"line {at + 1}" in told and "no difference" not in told, form
    assert envspec("diff", "specs/demo.toml", "--exit-code").code == 1
    assert envspec("diff", "specs/demo.toml", "--fail-on", "high").code == 1
    project.lock(lambda target: (pin(),))
    assert document(envspec)["changed"] is False


def test_a_spec_that_was_elsewhere_or_broken_says_what_is_not_compared(
    indexed: tuple[Index, Index], project: Project, envspec: Envspec
) -> None:
    line = INDEX.format(indexed[0].url)
    project.spec("[env]\nbroken")
    git(project, "commit", "-qam", "broken")
    project.spec(spec(line))
    (fact,) = document(envspec)["spec"]
    assert (fact["risk"], fact["code"]) == ("medium", "spec-unread") and "can't be read" in fact["message"]
    git(project, "rm", "-q", "--cached", "specs/demo.toml")
    git(project, "commit", "-qm", "gone")
    (fact,) = document(envspec)["spec"]
    assert fact["code"] == "spec-unread" and "doesn't exist at HEAD" in fact["message"]


def test_flat_pages_are_told_once_and_with_their_hosts(
    indexed: tuple[Index, Index], project: Project, envspec: Envspec
) -> None:
    def line(host: str) -> str:
        return f'{INDEX.format(indexed[0].url)}find-links = {{ extra = "https://{host}.example.org/wheels/" }}\n'

    project.spec(spec(line("a")))
    project.lock(lambda target: (pin(),))
    (came,) = document(envspec)["spec"]
    assert (came["risk"], came["code"]) == ("medium", "index-added") and "a.example.org" in came["message"]
    git(project, "commit", "-qam", "a page")
    project.spec(spec(line("b")))
    project.lock(lambda target: (pin(),))
    (moved,) = document(envspec)["spec"]
    assert (moved["risk"], moved["code"]) == ("high", "index-address-changed")
    assert json.dumps(moved).count("example.org") == 2


@pytest.mark.slow
def test_who_signs_a_lock_is_compared(
    indexed: tuple[Index, Index], project: Project, envspec: Envspec, tmp_path: Path
) -> None:
    keys = [tmp_path / name for name in ("one", "two")]
    for key in keys:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)

    def sign(*by: Path) -> list[tuple[str, str]]:
        (project.lock_path.parent / "envspec.lock.sig").unlink(missing_ok=True)
        for key in by:
            assert envspec("sign", "specs/demo.toml", "--key", str(key)).code == 0
        return [(one["risk"], one["code"]) for one in document(envspec)["spec"]]

    assert sign(keys[0]) == [("low", "signer-added")]
    git(project, "add", "-A")
    git(project, "commit", "-qm", "signed")
    assert sign(keys[0]) == []
    assert sign(keys[1]) == sign() == [("medium", "signers-changed")]


@pytest.mark.slow
def test_who_may_sign_by_the_repositorys_own_list_is_compared(
    indexed: tuple[Index, Index], project: Project, envspec: Envspec, tmp_path: Path
) -> None:
    public = []
    for name in ("one", "two"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
        public.append((tmp_path / f"{name}.pub").read_text())
    signers = project.folder / ".allowed_signers"

    def told(*lines: str) -> list[tuple[str, str]]:
        signers.write_text("# who signs\n" + "".join(lines))
        return [(one["risk"], one["code"]) for one in document(envspec)["spec"]]

    first, second = (f"{who}@example.org {key}" for who, key in zip(("ada", "eve"), public, strict=True))
    assert told(first) == [], "of a lock that nobody signed it says nothing"
    assert envspec("sign", "specs/demo.toml", "--key", str(tmp_path / "one")).code == 0
    git(project, "add", "-A")
    git(project, "commit", "-qm", "signed")
    assert told(first) == []
    assert told(first, second) == [("medium", "signers-allowed")]
    (fact,) = document(envspec)["spec"]
    printed = subprocess.run(
        ["ssh-keygen", "-lf", str(tmp_path / "two.pub")], check=True, capture_output=True, text=True
    ).stdout
    assert "eve@example.org" in fact["message"] and printed.split()[1] in fact["message"], "as ssh-keygen calls it"
    assert told(second) == [("medium", "signers-allowed"), ("low", "signers-refused")]
    assert told(first.replace(" ssh-", ' valid-before="20990101" ssh-')) == [
        ("medium", "signers-allowed"), ("low", "signers-refused"),
    ]  # fmt: skip
    signers.unlink()
    assert [one["code"] for one in document(envspec)["spec"]] == ["signers-allowed"]
    signers.symlink_to("/etc/passwd")
    (fact,) = document(envspec)["spec"]
    assert fact["risk"] == "medium" and "can't be read" in fact["message"]


def test_a_changed_pin_that_is_yanked_is_told_by_verify(
    indexed: tuple[Index, Index], project: Project, envspec: Envspec
) -> None:
    indexed[0].add(NEWER, yanked="breaks everything")
    project.lock(lambda target: (pin(NEWER),))
    (row,) = document(envspec, "--verify")["packages"]
    facts = [(one["risk"], one["code"], one["message"]) for one in row["changes"][0]["facts"]]
    assert ("medium", "yanked", "its publisher yanked it: breaks everything") in facts
    assert row["risk"] == "medium"
    for form in ("text", "markdown", "html", "github"):
        assert "yanked it" in " ".join(envspec("diff", "specs/demo.toml", "--verify", "--format", form).out.split())
