"""Whose a folder is, and what envspec writes down in it; what runs on this machine."""

import json
import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from envspec.base.errors import InputError, ToolError
from envspec.install.host import InstallHost, refuse_unfit, this_host
from envspec.install.interpreter import find_interpreter
from envspec.install.prefix import PrefixState, checked_prefix, claim, digest_of, write_file, write_state
from envspec.lock.model import Artifact, Lock, LockedTarget, Pin, SpecInputs, TargetInputs

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
PIN = Pin("pip", "app", "1.0", "pypi", Artifact("app-1.0-py3-none-any.whl", "a" * 64))
TARGET = LockedTarget("cpu", TargetInputs("linux-64", "3.12", "2.28"), (PIN,))


def state(prefix: Path) -> PrefixState:
    return PrefixState("demo", "cpu", str(prefix), digest_of(TARGET), True, {"app": "sha256:x"})


def test_a_new_folder_is_free(tmp_path: Path) -> None:
    assert claim(tmp_path / "none", "demo") is None
    assert claim(tmp_path, "demo") is None
    (tmp_path / "lost+found").mkdir()
    assert claim(tmp_path, "demo") is None


def test_its_own_environment(tmp_path: Path) -> None:
    write_state(tmp_path, state(tmp_path))
    assert claim(tmp_path, "demo") == state(tmp_path)


def test_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match=r"isn't empty.*thesis\.tex"):
        claim(tmp_path, "demo")


def test_another_specs_environment_is_refused(tmp_path: Path) -> None:
    write_state(tmp_path, state(tmp_path))
    with pytest.raises(InputError, match="another spec, demo"):
        claim(tmp_path, "other")


def test_a_moved_environment_is_refused(tmp_path: Path) -> None:
    write_state(tmp_path / "old", state(tmp_path / "old"))
    (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(InputError, match=f"was made at {tmp_path / 'old'}"):
        claim(tmp_path / "new", "demo")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 1, "spec": 1}', '{"format": 1, "pip": 3}', "\0"])
def test_a_damaged_state_is_told(content: str, tmp_path: Path) -> None:
    write_state(tmp_path, state(tmp_path))
    path = tmp_path / "etc/envspec/install.json"
    path.write_text(content)
    with pytest.raises(InputError) as raised:
        claim(tmp_path, "demo")
    assert raised.value.place is not None and raised.value.place.file == str(path)


def test_a_newer_state_is_told(tmp_path: Path) -> None:
    write_state(tmp_path, state(tmp_path))
    path = tmp_path / "etc/envspec/install.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 2, "more": 1}))
    with pytest.raises(InputError, match="newer envspec"):
        claim(tmp_path, "demo")


@pytest.mark.parametrize("name", ["a:b", "a\nb", "a\x1bb"])
def test_prefixes_that_path_cant_hold(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be a prefix"):
        checked_prefix(tmp_path / name)


def test_a_file_is_no_prefix(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        checked_prefix(tmp_path / "file")


def test_a_relative_prefix_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert checked_prefix(Path("a/../b")) == tmp_path / "b"


def test_the_digest_is_of_what_is_installed() -> None:
    other = replace(PIN, artifact=Artifact("app-1.0-py3-none-any.whl", "b" * 64))
    assert digest_of(TARGET) == digest_of(replace(TARGET, name="x", driver_floor="535", architectures=("sm_90",)))
    assert digest_of(TARGET) != digest_of(replace(TARGET, pins=(other,)))
    assert digest_of(TARGET) != digest_of(replace(TARGET, pins=()))
    assert digest_of(TARGET) != digest_of(replace(TARGET, inputs=replace(TARGET.inputs, python="3.13")))


def test_an_unchanged_file_isnt_written(tmp_path: Path) -> None:
    write_file(tmp_path, Path("deep/file"), "x\n")
    before = (tmp_path / "deep" / "file").stat().st_mtime_ns
    write_file(tmp_path, Path("deep/file"), "x\n")
    assert (tmp_path / "deep" / "file").stat().st_mtime_ns == before
    write_file(tmp_path, Path("deep/file"), "y\n")
    assert os.listdir(tmp_path / "deep") == ["file"] and (tmp_path / "deep" / "file").read_text() == "y\n"


def lock(*targets: LockedTarget) -> Lock:
    return Lock("demo", SpecInputs(), targets)


def test_a_target_for_another_platform(tmp_path: Path) -> None:
    arm = replace(TARGET, name="arm", inputs=replace(TARGET.inputs, platform="linux-aarch64"))
    both = lock(arm, TARGET)
    refuse_unfit(InstallHost("linux-64", "2.28"), both, TARGET)
    with pytest.raises(InputError, match="arm is for linux-aarch64, and this machine is linux-64") as raised:
        refuse_unfit(InstallHost("linux-64", "2.36"), both, arm)
    assert raised.value.hint == "the targets that fit: cpu"


@pytest.mark.parametrize(
    ("glibc", "fits"), [("2.28", True), ("2.4", False), ("2.27", False), ("3.0", True), (None, False)]
)
def test_the_machines_glibc(glibc: str | None, fits: bool) -> None:
    host = InstallHost("linux-64", glibc)
    if fits:
        refuse_unfit(host, lock(TARGET), TARGET)
    else:
        with pytest.raises(InputError, match=r"locked for glibc 2\.28"):
            refuse_unfit(host, lock(TARGET), TARGET)


def test_this_machine_is_one() -> None:
    assert "-" in this_host().platform


def test_this_interpreter_is_found(tmp_path: Path) -> None:
    found = find_interpreter(PYTHON, {"PATH": "", "HOME": str(tmp_path)})
    assert found.is_relative_to(sys.base_prefix)


def test_no_interpreter_is_told(tmp_path: Path) -> None:
    """Programs that only claim the name are passed over: one that fails, and one that says nonsense."""
    for folder, text in (("one", "exit 127"), ("two", "echo Python 3.99")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "python3.99").write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / folder / "python3.99").chmod(0o755)
    path = os.pathsep.join([str(tmp_path / "one"), str(tmp_path / "two"), os.defpath])
    with pytest.raises(ToolError, match=r"no CPython 3\.99") as raised:
        find_interpreter("3.99", {"PATH": path, "HOME": str(tmp_path)})
    assert "uv python install 3.99" in (raised.value.hint or "")


def test_the_managed_pythons_are_found(tmp_path: Path) -> None:
    """uv's and pyenv's folders, by a program that answers as such a Python would."""
    for number, folder in enumerate([".local/share/uv/python/cpython-3.98.1-linux", ".pyenv/versions/3.97.2"]):
        version = f"3.{98 - number}"
        program = tmp_path / folder / "bin" / f"python{version}"
        program.parent.mkdir(parents=True)
        program.write_text(
            f'#!/bin/sh\necho \'["cpython", "{version}", "{tmp_path / folder}", true, false, "{version}.1"]\'\n'
        )
        program.chmod(0o755)
        assert find_interpreter(version, {"PATH": "", "HOME": str(tmp_path)}) == program


def test_a_run_that_was_killed_before_its_first_note(tmp_path: Path) -> None:
    """Its prefix has the folder of the notes and what they are staged in; the next run takes it for empty."""
    staging = tmp_path / "etc" / "envspec" / f".envspec-{'0' * 16}"
    staging.mkdir(parents=True)
    assert claim(tmp_path, "demo") is None
    (tmp_path / "etc" / "envspec" / "mine").write_text("")
    with pytest.raises(InputError, match="isn't empty"):
        claim(tmp_path, "demo")
