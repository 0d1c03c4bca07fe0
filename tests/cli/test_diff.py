"""`envspec diff` as it is called: against git, on two files, in every format."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from cli_project import Envspec, Project, changed, demo_pins
from diff_git import committed as committed, git
from support.documents import valid

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


def test_nothing_changed(committed: Project, envspec: Envspec) -> None:
    git(committed, "add", ".")
    git(committed, "commit", "-q", "-m", "newer")
    told = envspec("diff", "specs/demo.toml", "--exit-code")
    assert (told.code, told.out.splitlines()[1:]) == (0, ["no difference"])
    assert document(envspec("diff", "specs/demo.toml", "--json").out)["risk"] is None


def test_exit_code_on_request(committed: Project, envspec: Envspec) -> None:
    assert envspec("diff", "specs/demo.toml").code == 0
    assert envspec("diff", "specs/demo.toml", "--exit-code").code == 1
    assert envspec("diff", "specs/demo.toml", "--exit-code", "--json").code == 1


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
    assert told.code == 2 and "HEAD:locks/demo/envspec.lock:50: [[pip]]: version must be a version" in told.err


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
