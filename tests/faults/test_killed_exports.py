"""`envspec export -o` killed at any moment: each file is the old one or the new one, `check` names what isn't new, and
the next run leaves neither a mix nor a temporary file."""

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from posixpath import relpath

import pytest
from support.installs import pip_pin, write_lock
from support.machine import ROOT, Machine
from support.packages import wheel

from envspec.export.plan import SUMS, digest, read_sums, sums_text

pytestmark = pytest.mark.e2e

EXPORT = ("export", "specs/demo.toml", "--format", "all", "-o", "recipes/demo")
MORE = {"old": '[image]\nservices = ["ssh"]\n', "new": '[image]\nenv = { WHO = "new" }\n'}
"""Recipes differ by the service and the variable."""


@pytest.fixture
def exported(machine: Machine) -> Machine:
    """A project whose recipes are those of `old`; beside it, as it should be after, those of `new`."""
    write_lock(machine, {"cpu": [pip_pin(wheel("alpha", "1.0"))]}, python="3.12", platform="linux-64")
    spec = machine.folder / "specs" / "demo.toml"
    text = spec.read_text()
    for name in ("new", "old"):
        spec.write_text(text + MORE[name])
        assert machine.envspec(*EXPORT).status == 0
        shutil.copytree(machine.folder, machine.base / name)
        shutil.rmtree(machine.folder / "recipes") if name == "new" else None
    return machine


def recipes(folder: Path) -> dict[str, bytes]:
    top = folder / "recipes"
    return {path.relative_to(top).as_posix(): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def carry_an_earlier_file(recipes: Path) -> None:
    """Add a carried file to those of all specs, as an envspec that still had it would have left it."""
    shared, name, text = recipes / "_shared", "services/telnet.sh", "#!/bin/sh\n"
    (shared / name).write_text(text)
    sums = shared / SUMS
    sums.write_text(sums_text({*read_sums(sums.read_text()), (name, digest(text))}))


def assert_each_is_whole(found: dict[str, bytes], old: dict[str, bytes], new: dict[str, bytes]) -> None:
    for path, content in found.items():
        if "/.envspec-" not in path:
            assert content in (old.get(path), new.get(path)), path
    assert {path for path in old if path in new} <= set(found)


@pytest.fixture
def dying(exported: Machine) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "support.dying", *EXPORT]
    env = {**exported.environment(), "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    with subprocess.Popen(
        command, cwd=exported.folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.communicate()


@pytest.mark.nightly
def test_at_every_step_of_the_write(exported: Machine, dying: subprocess.Popen[str]) -> None:
    carry_an_earlier_file(exported.base / "old" / "recipes")
    old, new = recipes(exported.base / "old"), recipes(exported.base / "new")
    assert set(old) - set(new) == {"_shared/services/telnet.sh"} and set(old) > set(new)
    shutil.copy(exported.base / "new" / "specs" / "demo.toml", exported.folder / "specs" / "demo.toml")
    assert dying.stdin and dying.stdout
    mixed = 0
    for step in range(1, 500):
        shutil.rmtree(exported.folder / "recipes")
        shutil.copytree(exported.base / "old" / "recipes", exported.folder / "recipes")
        dying.stdin.write(f"{step}\n")
        dying.stdin.flush()
        ended = dying.stdout.readline().strip()
        found = recipes(exported.folder)
        if ended == "done 0":
            assert found == new
            assert step > 25, "fewer steps prove nothing"
            break
        assert ended == "killed"
        assert_each_is_whole(found, old, new)
        if found.keys() & new.keys() and any(found.get(path) == new[path] != old[path] for path in new if path in old):
            mixed += 1
            if mixed % 5 == 1:
                check = exported.envspec("check", "--json")
                whole = {path for path in found if "/.envspec-" not in path}
                wrong = [path for path in {*whole, *new} if found.get(path) != new.get(path)]
                assert check.status == (1 if wrong else 0)
                assert all(f'"{relpath(path, "demo")}"' in check.out for path in wrong), check.out
        if step % 3 == 0 or mixed:
            assert exported.envspec(*EXPORT).status == 0
            assert recipes(exported.folder) == new, step
            assert not list(exported.folder.rglob(".envspec-*"))
    else:
        pytest.fail("the write takes more steps than this test knows")
    assert mixed > 5


@pytest.mark.nightly
def test_thirty_times_by_kill_9(exported: Machine) -> None:
    """The moment is drawn from the time in which the files are written, which a staging folder tells."""
    chosen = random.Random(7)
    states = {name: recipes(exported.base / name) for name in MORE}
    spec = exported.folder / "specs" / "demo.toml"
    ended = {"killed": 0, "with leftovers": 0, "mixed": 0}
    for turn in range(30):
        name = ("new", "old")[turn % 2]
        shutil.copy(exported.base / name / "specs" / "demo.toml", spec)
        with exported.start(*EXPORT) as process:
            # development containers lie at the project's root, so everything is staged there
            while process.poll() is None and not list(exported.folder.glob(".envspec-*")):
                time.sleep(0.0005)
            time.sleep(chosen.uniform(0, 0.06))
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=60)
        found = recipes(exported.folder)
        assert_each_is_whole(found, states["old"], states["new"])
        leftovers = list(exported.folder.glob(".envspec-*"))
        ended["killed"] += process.returncode == -signal.SIGKILL
        ended["with leftovers"] += bool(leftovers)
        whole = {path: content for path, content in found.items() if "/.envspec-" not in path}
        ended["mixed"] += whole not in states.values()
        if turn % 3 == 2:
            assert exported.envspec(*EXPORT).status == 0
            assert recipes(exported.folder) == states[name], "no mix stays"
            assert not list(exported.folder.rglob(".envspec-*")), "no temporary file stays"
    assert exported.envspec(*EXPORT).status == 0
    assert recipes(exported.folder) == states[name]
    assert not list(exported.folder.rglob(".envspec-*"))
    assert ended["killed"] > 10 and ended["with leftovers"], ended
    print(ended)  # noqa: T201 - docs/security.md has these figures


@pytest.mark.slow
def test_two_at_once(exported: Machine) -> None:
    """Exports of two versions of a spec at once: one after the other, and the files are of one of them."""
    where = str(exported.folder / "recipes" / "demo")
    commands, states = [], []
    for name in MORE:
        command = ("export", str(exported.base / name / "specs" / "demo.toml"), "--format", "all", "-o")
        shutil.rmtree(exported.folder / "recipes")
        assert exported.envspec(*command, where).status == 0
        commands.append((*command, where))
        states.append(recipes(exported.folder))
    running = [exported.start(*command) for command in commands]
    for process in running:
        assert process.communicate(timeout=60) and process.returncode == 0
    assert recipes(exported.folder) in states
    assert not list(exported.folder.rglob(".envspec-*"))
