"""Programs in a ready environment: their variables, and the memo of where it is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TextIO

import pytest
from msgspec.structs import replace
from support.machine import ROOT

from envspec.install import prefix as records
from envspec.install.environments import memo
from envspec.install.environments.in_use import RECORDS, STATE, Ready, hold, keep_free, program
from envspec.install.environments.shells import shell_of

WHERE = (
    "ENVSPEC_CONFIG",
    "ENVSPEC_DEFAULT_TARGET",
    "ENVSPEC_ENVIRONMENTS_DIR",
    "HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
)
VENV = Ready("/envs/x", "demo", "cpu", "", False, False, {"ENVSPEC_TARGET": "cpu"}, {"HF_HOME": "/data"})


def test_variables_of_a_virtual_environment() -> None:
    before = {"PATH": "/usr/bin", "PYTHONHOME": "/old", "CONDA_PREFIX": "/conda", "ENVSPEC_TARGET": "other", "A": "1"}
    assert VENV.environment(before) == {
        "PATH": f"/envs/x/bin{os.pathsep}/usr/bin",
        "VIRTUAL_ENV": "/envs/x",
        "ENVSPEC_TARGET": "cpu",
        "HF_HOME": "/data",
        "A": "1",
    }


def test_pythonpath_is_kept_only_where_that_is_asked() -> None:
    before = {"PYTHONPATH": "/site"}
    assert "PYTHONPATH" not in VENV.environment(before)
    assert VENV.environment({**before, "ENVSPEC_KEEP_PYTHONPATH": "1"})["PYTHONPATH"] == "/site"


def test_variables_of_a_conda_environment() -> None:
    found = replace(VENV, conda=True).environment({"VIRTUAL_ENV": "/old"})
    assert found["CONDA_PREFIX"] == "/envs/x" and found["CONDA_DEFAULT_ENV"] == "demo"
    assert "VIRTUAL_ENV" not in found


def test_the_callers_own_value_of_a_spec_variable_stays() -> None:
    assert VENV.environment({"HF_HOME": "/mine"})["HF_HOME"] == "/mine"


def test_scripts_of_packages_are_run_by_a_shell() -> None:
    words = replace(VENV, scripts=True).command(("a b", "$c"), {"PATH": "/bin:/usr/bin"})
    assert words[1:] == ("-c", '. "$0" && exec "$@"', "/envs/x/bin/activate", "a b", "$c")
    assert VENV.command(("a", "b"), {}) == ("a", "b")


def test_a_program_is_found_as_exec_finds_it(tmp_path: Path) -> None:
    file = tmp_path / "tool"
    file.write_text("")
    assert program("tool", {"PATH": str(tmp_path)}) is None
    file.chmod(0o755)
    assert program("tool", {"PATH": f"/nowhere:{tmp_path}"}) == str(file)
    assert program(str(file), {}) == str(file)
    assert program(f"{tmp_path}/none", {}) is None


def test_the_shell_is_the_users_where_it_can_be_started(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("")
    assert shell_of({"SHELL": sys.executable}) == sys.executable
    for odd in ("bash", str(tmp_path / "missing" / "zsh"), str(tmp_path / "text")):
        assert shell_of({"SHELL": odd}) == "/bin/sh"


def test_records_have_one_place() -> None:
    assert records.FOLDER.as_posix() == RECORDS
    assert records.STATE_PATH.as_posix() == STATE


# the memo


@pytest.fixture
def ready(tmp_path: Path) -> Ready:
    made = tmp_path / "env"
    (made / "bin").mkdir(parents=True)
    (made / RECORDS).mkdir(parents=True)
    (made / STATE).write_text("{}")
    for name in ("activate", "python"):
        (made / "bin" / name).write_text("")
    return replace(VENV, prefix=str(made))


def remembered(tmp_path: Path, ready: Ready) -> tuple[str, Path]:
    spec = tmp_path / "spec.toml"
    spec.write_text("a")
    memo.remember(str(tmp_path), "key", ready, memo.Sources.of([str(spec), "/nowhere/policy.toml"]))
    return str(tmp_path), spec


def test_what_was_found_is_found_again(tmp_path: Path, ready: Ready) -> None:
    cache, _ = remembered(tmp_path, ready)
    assert memo.recall(cache, "key") == ready
    assert memo.recall(cache, "other") is None


def test_a_changed_file_makes_it_void(tmp_path: Path, ready: Ready) -> None:
    cache, spec = remembered(tmp_path, ready)
    spec.write_text("b")
    assert memo.recall(cache, "key") is None
    spec.write_text("a")
    assert memo.recall(cache, "key") == ready
    spec.unlink()
    assert memo.recall(cache, "key") is None


def test_a_file_that_wasnt_there_makes_it_void(tmp_path: Path, ready: Ready) -> None:
    policy = tmp_path / "policy.toml"
    memo.remember(str(tmp_path), "key", ready, memo.Sources.of([str(policy)]))
    assert memo.recall(str(tmp_path), "key") == ready
    policy.write_text("")
    assert memo.recall(str(tmp_path), "key") is None


def test_a_changed_project_makes_it_void(tmp_path: Path, ready: Ready) -> None:
    project = tmp_path / "project"
    (project / "src" / "__pycache__").mkdir(parents=True)
    (project / "src" / "a.py").write_text("1")
    memo.remember(str(tmp_path), "key", ready, memo.Sources.of([], [str(project)]))
    (project / "src" / "__pycache__" / "a.pyc").write_text("x")
    assert memo.recall(str(tmp_path), "key") == ready
    (project / "src" / "b.py").write_text("1")
    assert memo.recall(str(tmp_path), "key") is None


def test_an_environment_that_is_gone_or_lost_its_python(tmp_path: Path, ready: Ready) -> None:
    cache, _ = remembered(tmp_path, ready)
    python = Path(ready.prefix) / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3.12")
    assert memo.recall(cache, "key") is None
    python.unlink()
    assert memo.recall(cache, "key") == ready
    python.symlink_to(sys.executable)
    assert memo.recall(cache, "key") == ready
    (Path(ready.prefix) / "bin" / "activate").unlink()
    assert memo.recall(cache, "key") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": [], "trees": {}, "ready": {}}', "[" * 100_000])
def test_a_damaged_memo_is_none(tmp_path: Path, ready: Ready, text: str) -> None:
    cache, _ = remembered(tmp_path, ready)
    (tmp_path / memo.FOLDER / "key.json").write_text(text)
    assert memo.recall(cache, "key") is None


def test_a_memo_that_others_may_write_to_is_none(tmp_path: Path, ready: Ready) -> None:
    """It would have this user run the programs of whoever wrote it."""
    cache, _ = remembered(tmp_path, ready)
    path = tmp_path / memo.FOLDER / "key.json"
    assert path.stat().st_mode & 0o077 == 0, "the spec's variables may hold secrets"
    path.chmod(0o666)
    assert memo.recall(cache, "key") is None
    path.chmod(0o600)
    Path(ready.prefix).chmod(0o777)
    assert memo.recall(cache, "key") is None


def test_the_question_names_the_machine_and_what_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = memo.key_of("/a.toml", None, None, {})
    assert asked == memo.key_of("/a.toml", None, None, {"IRRELEVANT": "1"})
    others = [
        memo.key_of("/b.toml", None, None, {}),
        memo.key_of("/a.toml", "/locks", None, {}),
        memo.key_of("/a.toml", None, "cpu", {}),
        memo.key_of("/a.toml", None, None, {"CUDA_VISIBLE_DEVICES": ""}),
        *(memo.key_of("/a.toml", None, None, {name: "1"}) for name in (*WHERE, "SLURM_JOB_ID")),
    ]
    monkeypatch.setattr(memo, "_machine", lambda: ["another"])
    others.append(memo.key_of("/a.toml", None, None, {}))
    assert len({asked, *others}) == 6 + len(WHERE) + 1
    assert memo.key_of("/a", None, None, {"SLURM_JOB_ID": "1"}) == memo.key_of("/a", None, None, {"SLURM_JOB_ID": "2"})


def test_the_driver_of_this_machine_is_part_of_the_question(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def opened(path: str, **how: str) -> TextIO:
        return (tmp_path / path.replace("/", "_")).open(**how)  # type: ignore[call-overload, no-any-return]

    (tmp_path / "_proc_driver_nvidia_version").write_text("NVRM version: 550.54.15")
    monkeypatch.setattr(memo, "open", opened, raising=False)
    assert "NVRM version: 550.54.15" in memo._machine()


# who runs in it


def test_what_is_being_removed_takes_no_program(ready: Ready) -> None:
    with keep_free(Path(ready.prefix)) as free:
        assert free
        assert not hold(ready.prefix), "it is about to be removed"
    assert not hold(str(Path(ready.prefix) / "gone"))


def test_a_program_holds_its_environment(ready: Ready) -> None:
    """And whatever it starts, which inherits what holds it."""
    script = "import sys; from envspec.install.environments.in_use import hold"
    words = [
        sys.executable,
        "-c",
        f"{script}\nwhile not hold(sys.argv[1]): pass\nimport os; os.execv('/bin/cat', ['cat'])",
        ready.prefix,
    ]
    with subprocess.Popen(words, stdin=subprocess.PIPE, cwd=ROOT):
        deadline = time.monotonic() + 20
        while (free := is_free(ready.prefix)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not free
    assert is_free(ready.prefix)


def is_free(prefix: str) -> bool:
    with keep_free(Path(prefix)) as free:
        return free


def test_only_plain_files_and_folders_have_one(tmp_path: Path) -> None:
    before = memo.digest_of(str(tmp_path))
    assert before and memo.digest_of(str(tmp_path / "none")) is None
    os.mkfifo(tmp_path / "pipe")
    assert memo.digest_of(str(tmp_path / "pipe")) is None
    assert memo.digest_of(str(tmp_path)) != before


def test_a_file_without_end_isnt_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.touch()
    os.truncate(path, 1 << 34)
    first = memo.digest_of(str(path))
    os.truncate(path, 1 << 35)
    assert first and memo.digest_of(str(path)) != first
