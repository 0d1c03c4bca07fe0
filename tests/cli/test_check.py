"""`envspec check`: what it says of each state of a lock, and with `--imports` of what sources import."""

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_project import SPEC, Envspec, Project, changed, demo_pins, without
from support.documents import valid
from support.golden import golden
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel

from envspec.base.open_folder import OpenFolder

pytest_plugins = ["cli_fixtures"]

FRESH = "specs/demo.toml: fresh (3 targets, 8 packages)\n"


def edit(project: Project, old: str, new: str) -> None:
    text = SPEC.replace(old, new)
    assert text != SPEC
    project.spec(text)


def test_fresh(project: Project, envspec: Envspec) -> None:
    before = project.files()
    assert envspec("check") == (0, FRESH, "")
    assert envspec("check", "specs/demo.toml", "specs/demo.toml") == (0, FRESH, "")
    assert project.files() == before


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('"app>=1"', '"app>=2"', "app>=1 became app>=2  [requirement-changed]"),
        ('"app>=1", ', "", "app>=1 was removed  [requirement-removed]"),
        ('"3.12"', '"3.11"', "Python changed from 3.12 to 3.11  [python-changed]"),
        ('cuda = "12.8"', 'cuda = "12.9"', "cu128-hopper: CUDA changed from 12.8 to 12.9  [cuda-changed]"),
        ("[targets.cpu]", "[targets.laptop]", "target laptop is not locked yet  [target-added]"),
        ("[pip]", '[pip]\nallow-source = ["app"]', "allow-source: app was added  [allow-source-changed]"),
    ],
)
def test_stale(project: Project, envspec: Envspec, old: str, new: str, line: str) -> None:
    edit(project, old, new)
    told = envspec("check")
    assert told.code == 1
    assert told.out.splitlines()[:2] == ["specs/demo.toml: stale", f"  {line}"]
    assert told.err == "hint: envspec lock specs/demo.toml\n"


def test_no_lock(project: Project, envspec: Envspec) -> None:
    project.spec(name="other")
    told = envspec("check")
    assert told.code == 1
    assert told.out == FRESH + "specs/other.toml: stale\n  there is no lock yet  [lock-missing]\n"
    assert told.err == "hint: envspec lock specs/other.toml\n"


@pytest.mark.parametrize(
    ("damage", "message", "hint"),
    [
        (lambda text: text + "\n", "the lock is not as envspec writes it", "run `envspec lock`"),
        (lambda text: text[:2000], "the lock is not TOML", "restore it from git"),
        (lambda text: "", "the lock is empty", "restore it from git"),
        (
            lambda text: text.replace("[env]", "<<<<<<< ours\n[env]"),
            "locks/demo/envspec.lock:5: the lock holds a merge conflict",
            "git doesn't keep the sides any more",
        ),
    ],
    ids=["edited", "cut", "empty", "conflict"],
)
def test_damaged_lock(
    project: Project, envspec: Envspec, damage: Callable[[str], str], message: str, hint: str
) -> None:
    project.lock_path.write_text(damage(project.lock_path.read_text()))
    before = project.files()
    told = envspec("check")
    assert told.code == 1
    assert message in told.out and "[lock-damaged]" in told.out and "locks/demo/envspec.lock" in told.out
    assert told.err.startswith(f"hint: {hint}")
    assert project.files() == before


def test_drifted(project: Project, envspec: Envspec) -> None:
    folder = project.lock_path.parent
    (folder / "cpu" / "requirements.txt").unlink()
    edited = folder / "cu126-volta" / "requirements.txt"
    edited.write_text(edited.read_text().replace("app==1.4", "app==1.5"))
    (folder / "old").mkdir()
    (folder / "old" / "requirements.txt").write_text(edited.read_text())
    (folder / "mine").mkdir()
    (folder / "mine" / "requirements.txt").write_text("numpy\n")
    told = envspec("check")
    assert told.code == 1
    assert told.out == (
        "specs/demo.toml: drifted\n"
        "  locks/demo/cpu/requirements.txt is missing  [rendered-missing]\n"
        "  locks/demo/cu126-volta/requirements.txt differs from what the lock gives, first at line 7: "
        '"app==1.5 \\"  [rendered-edited]\n'
        "  locks/demo/old/requirements.txt belongs to no target of the lock  [rendered-extra]\n"
    )
    assert told.err == "hint: envspec lock specs/demo.toml\n"


def test_a_bad_spec_does_not_hide_the_others(project: Project, envspec: Envspec) -> None:
    project.spec("[env]\npyhton = '3.12'\n", name="bad")
    project.spec(name="unlocked")
    told = envspec("check")
    assert told.code == 2
    assert told.out.splitlines() == [
        FRESH.strip(),
        "specs/unlocked.toml: stale",
        "  there is no lock yet  [lock-missing]",
    ]
    assert "error: specs/bad.toml:2:1: unknown key 'pyhton'" in told.err
    assert "hint: did you mean 'python'?" in told.err
    assert told.err.endswith("hint: envspec lock specs/unlocked.toml\n")


def test_missing_spec(project: Project, envspec: Envspec) -> None:
    told = envspec("check", "specs/dmo.toml", "specs/demo.toml")
    assert (told.code, told.out) == (2, FRESH)
    assert told.err == (
        "error: specs/dmo.toml: can't be read: no such file or directory\nhint: did you mean specs/demo.toml?\n"
    )


def test_no_spec_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, envspec: Envspec) -> None:
    monkeypatch.chdir(tmp_path)
    told = envspec("check")
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith("error: there is no spec in specs/\nhint: ")


def test_locks_elsewhere(project: Project, envspec: Envspec, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    told = envspec("check", "--locks-dir", str(elsewhere))
    assert told.code == 1
    assert told.err == f"hint: envspec lock specs/demo.toml --locks-dir {elsewhere}\n"
    (project.folder / "locks").rename(elsewhere)
    assert envspec("check", "--locks-dir", str(elsewhere)).code == 0


def test_unreadable_lock(project: Project, envspec: Envspec, monkeypatch: pytest.MonkeyPatch) -> None:
    project.spec(name="other")
    read = OpenFolder.read

    def broken(folder: OpenFolder, name: str) -> bytes | None:
        if name == "envspec.lock" and folder.path.name == "demo":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(folder.path / name))
        return read(folder, name)

    monkeypatch.setattr(OpenFolder, "read", broken)
    told = envspec("check")
    assert told.code == 3
    assert told.out.startswith("specs/other.toml: stale\n")
    assert "error: locks/demo/envspec.lock: the lock can't be read: Input/output error" in told.err


def test_a_lock_that_is_a_folder(project: Project, envspec: Envspec) -> None:
    project.lock_path.unlink()
    project.lock_path.mkdir()
    told = envspec("check")
    assert told.code == 2
    assert told.err.startswith("error: locks/demo/envspec.lock: this is a folder, not a lock\nhint: ")


def test_json(project: Project, envspec: Envspec) -> None:
    edit(project, 'cuda = "12.8"', 'cuda = "12.9"')
    project.spec("[env]\n", name="bad")
    told = envspec("check", "--json")
    assert told.code == 2
    assert golden(Path(__file__).parent / "golden" / "check.json", told.out) == told.out


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    "arguments",
    [
        ["why", "specs/hpc-v2.7.toml", "openssh"],
        ["tree", "specs/hpc-v2.7.toml", "--depth", "1"],
        ["export", "specs/hpc-v2.7.toml", "-t", "cu126-ampere", "-f", "conda-env"],
        ["check", "specs/hpc-v2.7.toml"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_conda_packages_need_no_rattler_where_nothing_is_solved(
    envspec: Envspec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    root = Path(__file__).resolve().parents[2]
    for name in ("specs", "locks"):
        shutil.copytree(root / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "rattler", None)
    told = envspec(*arguments)
    assert told.code == 0 and told.out, told.err


@pytest.mark.slow
def test_a_closed_pipe_makes_no_lock_fresh(project: Project) -> None:
    edit(project, '"app>=1"', '"app>=2"')
    reading, writing = os.pipe()
    os.close(reading)
    code = "from envspec.cli.main import main; main()"
    root = Path(__file__).resolve().parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", code, "check"],
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (1, "hint: envspec lock specs/demo.toml\n")


def test_of_many_reasons_ten_are_listed(project: Project, envspec: Envspec) -> None:
    more = ", ".join(f'"more{number:02}"' for number in range(14))
    project.spec(SPEC.replace('"app>=1"', f'"app>=1", {more}'))
    lines = envspec("check").out.splitlines()
    assert lines[1:11] == [f"  more{number:02} was added  [requirement-added]" for number in range(10)]
    assert lines[11].startswith("  … and ") and lines[11].endswith(" more (--verbose lists them)") and len(lines) == 12
    every = envspec("check", "-v").out.splitlines()
    assert len(every) - 11 == int(lines[11].split()[2]) and "  more13 was added  [requirement-added]" in every
    assert len(json.loads(envspec("check", "--json").out)["specs"][0]["reasons"]) >= 14


def test_check_is_quiet(project: Project, envspec: Envspec) -> None:
    assert envspec("check", "-q") == (0, "", "")
    project.spec(SPEC.replace('"app>=1"', '"app>=2"'))
    assert envspec("check", "--quiet") == (1, "", "")


@pytest.mark.e2e
def test_wheels_bring_what_their_records_have(machine: Machine, index: Index) -> None:
    """beta brings a module of another name, which no name tells: the RECORD that `lock` read does."""
    index.add(wheel("alpha", "1.0", "beta"), wheel("beta", "1.0", files={"odd_name/__init__.py": b""}))
    machine.locked(spec=cpu("alpha"))
    root = machine.lock_path().parents[2]
    (root / "train.py").write_text("import alpha, odd_name, nltk\ntry:\n    import fast\nexcept ImportError: ...\n")
    (root / "requirements-eval.txt").write_text("nltk>=3\n")
    index.asked.clear()
    ran = machine.envspec("check", "--imports", "specs/demo.toml", status=1)
    assert "nltk is imported by 1 file (train.py), and no package of the lock brings it; " in ran.out
    assert "nltk is declared in requirements-eval.txt  [import-unlocked]" in ran.out
    assert "imported only in a try-block or a function, and no package of the lock brings it: fast" in ran.out
    assert "odd_name" not in ran.out and "alpha" not in ran.out and "envspec add specs/demo.toml nltk" in ran.err
    assert index.asked == []
    (root / "train.py").write_text("import alpha, odd_name\n")
    machine.envspec("check", "--imports", "specs/demo.toml", status=0)


def test_a_cuda_target_without_torch_is_a_finding(project: Project, envspec: Envspec) -> None:
    project.spec(SPEC.replace('"app>=1", "torch==2.9.*"', '"ping"'))
    pins = without(demo_pins("cpu"), "app", "lib", "speedup", "torch")
    project.lock(lambda target: changed(pins, "ping", direct=True))
    (project.folder / "train.py").write_text("import torch\n")
    assert envspec("check").code == 0
    ran = envspec("check", "--imports", "--json")
    assert ran.code == 1
    (spec,) = valid(ran.out, "check")["specs"]
    found = {one["code"]: one["targets"] for one in spec["reasons"]}
    assert found == {"import-unlocked": ["cpu"], "cuda-without-torch": ["cu126-volta", "cu128-hopper"]}
    ran = envspec("check", "--imports")
    assert "no file declares it  [cuda-without-torch]" in ran.out and "envspec add specs/demo.toml torch\n" in ran.err
    words = ("doctor", "specs/demo.toml", "--gpu", "H100", "--driver", "570.86.15")
    assert "train.py" not in envspec(*words).out
    ran = envspec(*words, "--imports")
    assert ran.code == 1 and "torch is imported by 1 file (train.py), and a CUDA target has none" in ran.out
    assert "--imports needs a SPEC" in envspec("doctor", "--imports").err


def test_sources_that_the_lock_suffices_for_are_fresh(project: Project, envspec: Envspec) -> None:
    (project.folder / "train.py").write_text("import app, torch, lib\n")
    assert envspec("check", "--imports").code == 0
    (project.folder / "train.py").write_text("import app, no_such_thing\n")
    ran = envspec("check", "--imports")
    assert ran.code == 1 and "specs/demo.toml: lacking\n" in ran.out and "no file declares it" in ran.out
    assert "that PyPI has a package of that name proves nothing" in ran.err
