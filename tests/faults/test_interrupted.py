"""`envspec lock` ended from outside at any moment: old files whole, nothing stray, the next run fine."""

import hashlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.at_event import signal_at
from support.index import Index, hanging, slow, until
from support.machine import Machine, cpu
from support.matrix import first_by_day
from support.packages import sdist, source_files, wheel

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to see processes"),
]


@pytest.fixture
def slow_index(index: Index) -> Index:
    names = [f"pkg{number}" for number in range(8)]
    for number, name in enumerate(names):
        needs = names[number + 1 : number + 2]
        index.add(wheel(name, "1.0", *needs), wheel(name, "2.0", *needs))
    return index


def in_session(leader: int) -> list[str]:
    """The commands of all processes that still run in the session that `leader` opened."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(command)
    return found


def gone(leader: int, seconds: float = 5) -> bool:
    """Whether no process of a session is left, within a time."""
    end = time.monotonic() + seconds
    while in_session(leader):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def scratch(machine: Machine) -> list[Path]:
    folder = machine.cache / "scratch"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def ended(process: subprocess.Popen[str], number: signal.Signals) -> tuple[str, str]:
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert "Traceback" not in err, err
    return out, err


@pytest.mark.slow
def test_ctrl_c(machine: Machine, slow_index: Index) -> None:
    machine.locked(spec=cpu("pkg0<2"))
    before = machine.files()
    machine.spec(cpu("pkg0"))
    slow_index.fail("/simple/pkg5", hanging)
    process = machine.start("lock", "specs/demo.toml", "--upgrade", env={"UV_CACHE_DIR": str(machine.base / "fresh")})
    slow_index.asked.clear()
    slow_index.wait_for("/simple/pkg5")
    started = time.monotonic()
    out, err = ended(process, signal.SIGINT)
    assert time.monotonic() - started < 5
    assert (process.returncode, out, err.strip()) == (130, "", "interrupted: nothing was changed")
    assert gone(process.pid), in_session(process.pid)
    assert machine.files() == before
    assert scratch(machine) == []
    slow_index.heal()
    assert machine.envspec("lock", "specs/demo.toml", "--upgrade").status == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", first_by_day(1, [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]))
def test_with_several_solves_at_once(machine: Machine, slow_index: Index, number: signal.Signals) -> None:
    targets = "".join(f"[targets.t{n}]\nplatform = 'linux-64'\nglibc = '2.{n}'\n" for n in (28, 31, 34, 35))
    machine.locked(spec=cpu("pkg0", targets=targets))
    before = machine.files()
    slow_index.fail("/simple/pkg3", hanging)
    machine.spec(cpu("pkg0", "pkg1", targets=targets))
    process = machine.start("lock", "specs/demo.toml", "-P", "pkg0", env={"UV_CACHE_DIR": str(machine.base / "fresh")})
    slow_index.asked.clear()
    slow_index.wait_for("/simple/pkg3")
    ended(process, number)
    assert process.returncode == 130
    assert gone(process.pid), in_session(process.pid)
    assert machine.files() == before
    assert scratch(machine) == []


@pytest.mark.slow
def test_while_metadata_hangs(machine: Machine, slow_index: Index) -> None:
    """Reading metadata happens in threads that nobody can interrupt; the process ends all the same."""
    slow_index.sidecars = False
    big = wheel("big", "1.0", padding=2 << 20)
    slow_index.add(big)
    machine.locked(spec=cpu("big"))
    slow_index.fail("^/files/big", hanging)
    env = {"ENVSPEC_CACHE_DIR": str(machine.base / "other")}
    process = machine.start("lock", "specs/demo.toml", "--upgrade", env=env)
    slow_index.asked.clear()
    slow_index.wait_for("^/files/big")
    started = time.monotonic()
    ended(process, signal.SIGINT)
    assert time.monotonic() - started < 5
    assert process.returncode == 130
    assert list((machine.base / "other" / "scratch").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 2])
def test_while_a_build_runs(machine: Machine, index: Index, tmp_path: Path, limit: int) -> None:
    """The backend is a grandchild: it has to end too, at its first start (what it requires) or its second (the
    metadata). uv waits for both."""
    started = tmp_path / "started"
    backend = f"""
import os, time
with open({str(started)!r}, "a") as file:
    file.write("x")
if os.path.getsize({str(started)!r}) >= {limit}:
    time.sleep(600)
"""
    body = source_files("alpha", "1.0")["backend.py"]
    index.add(sdist("alpha", "1.0", static=False, files={"backend.py": backend + body}))
    machine.spec(cpu("alpha", extra="allow-source = ['alpha']"))
    process = machine.start("lock", "specs/demo.toml")
    end = time.monotonic() + 30
    while not started.exists() or started.stat().st_size < limit:
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)
    ended(process, signal.SIGINT)
    assert process.returncode == 130
    assert gone(process.pid), in_session(process.pid)
    assert scratch(machine) == []


def moments(count: int) -> list[float]:
    """Delays in seconds, of a fixed choice that CI can repeat."""
    chosen = random.Random(7)
    return [chosen.uniform(0.05, 1.2) for _ in range(count)]


def survive(machine: Machine, index: Index, delays: list[float], number: signal.Signals) -> None:
    """End a run after each delay; whatever is on disk then, the lock is one of the two whole ones."""
    index.fail("/simple/", slow(0.03))
    machine.locked(spec=cpu("pkg0<2"))
    texts = {machine.lock_path().read_bytes()}
    machine.locked("--upgrade", spec=cpu("pkg0"))
    texts.add(machine.lock_path().read_bytes())
    for turn, delay in enumerate(delays):
        machine.spec(cpu("pkg0<2" if turn % 2 else "pkg0"))
        process = machine.start("lock", "specs/demo.toml", "--upgrade")
        try:
            process.wait(timeout=delay)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        err = process.communicate(timeout=20)[1]
        assert "Traceback" not in err, err
        # -SIGINT: before Python could take the signal, or after all was done
        assert process.returncode in (0, 130, -signal.SIGKILL, -signal.SIGINT), err
        assert machine.lock_path().read_bytes() in texts
        machine.lock()
    assert machine.envspec("lock", machine.spec(cpu("pkg0")), "--upgrade").status == 0
    assert machine.versions("cpu")["pkg0"] == "2.0"
    assert sorted(machine.files()) == ["demo/cpu/requirements.txt", "demo/envspec.lock"]
    assert scratch(machine) == []
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 0 and "is fresh" in ran.out


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_at_some_moments(machine: Machine, slow_index: Index, number: signal.Signals) -> None:
    survive(machine, slow_index, moments(5), number)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_at_many_moments(machine: Machine, slow_index: Index, number: signal.Signals) -> None:
    survive(machine, slow_index, moments(60), number)


_DIES_AT = """
import os, signal, sys
left = [int(sys.argv.pop(1))]
def dying(name):
    real = getattr(os, name)
    def call(*arguments, **options):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    setattr(os, name, call)
for name in ("rename", "replace", "link", "unlink", "mkdir", "rmdir", "fsync"):
    dying(name)
from envspec.cli.main import main
main()
"""


@pytest.mark.nightly
@pytest.mark.slow
def test_killed_at_every_step_of_the_write(machine: Machine, slow_index: Index) -> None:
    """Whichever system call of the write is the last one, the lock is whole, what is rendered is the old or the new
    text, `check` names what isn't the lock's, and the next run brings it in line."""
    machine.locked(spec=cpu("pkg0<2"))
    old, old_files, versions = machine.lock(), machine.files(), [machine.versions("cpu")]
    machine.spec(cpu("pkg0"))
    new, new_files = machine.locked("--upgrade"), machine.files()
    versions.append(machine.versions("cpu"))
    mixed = 0
    for step in range(1, 200):
        machine.locked("--upgrade", spec=cpu("pkg0<2"))
        machine.spec(cpu("pkg0"))
        ran = subprocess.run(
            [sys.executable, "-c", _DIES_AT, str(step), "lock", "specs/demo.toml", "--upgrade"],
            cwd=machine.folder,
            env=machine.environment(),
            capture_output=True,
            text=True,
        )
        assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
        found = machine.files()
        lock = machine.lock()
        assert lock in (old, new)
        for path in old_files:
            assert found[path] in (old_files[path], new_files[path])
        check = machine.envspec("check", "specs/demo.toml")
        stale = [path for path in old_files if found[path] != (new_files if lock == new else old_files)[path]]
        assert check.status in (0, 1) and all(path.partition("/")[2] in check.out for path in stale), check.out
        mixed += bool(stale)
        machine.envspec("lock", "specs/demo.toml", status=0)
        assert machine.versions("cpu") in versions
        assert sorted(machine.files()) == sorted(new_files)
        machine.envspec("check", "specs/demo.toml", status=0)
        if ran.returncode == 0:
            break
    else:
        pytest.fail("the write takes more steps than this test knows")
    assert mixed and step > 15, "or this proves nothing"
    assert scratch(machine) == []


@pytest.mark.slow
def test_two_at_once(machine: Machine, slow_index: Index) -> None:
    go_on = threading.Event()
    slow_index.fail("/simple/pkg1", until(go_on))
    machine.spec(cpu("pkg0"))
    first = machine.start("lock", "specs/demo.toml")
    slow_index.wait_for("/simple/pkg1")
    second = machine.start("lock", "specs/demo.toml")
    assert second.stderr is not None
    assert second.stderr.readline().startswith("waiting: another envspec is locking demo")
    go_on.set()
    answers = [process.communicate(timeout=60) for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], answers
    assert answers[0][0].startswith("wrote locks/demo/envspec.lock")
    assert answers[1][0].startswith("locks/demo/envspec.lock is fresh")
    machine.lock()
    assert scratch(machine) == []


@pytest.mark.slow
def test_a_waiting_run_can_be_interrupted(machine: Machine, slow_index: Index) -> None:
    slow_index.fail("/simple/pkg1", hanging)
    machine.spec(cpu("pkg0"))
    first = machine.start("lock", "specs/demo.toml")
    slow_index.wait_for("/simple/pkg1")
    second = machine.start("lock", "specs/demo.toml")
    assert second.stderr is not None
    assert second.stderr.readline().startswith("waiting:")
    ended(second, signal.SIGINT)
    assert second.returncode == 130 and first.poll() is None
    ended(first, signal.SIGINT)
    assert first.returncode == 130
    assert not machine.locks.exists() or list(machine.locks.iterdir()) == []


def test_scratch_of_a_running_process_is_left_alone(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0"))
    host = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
    theirs = machine.cache / "scratch" / f"{os.getpid()}-{host}-abcd"
    dead = machine.cache / "scratch" / f"999999999-{host}-abcd"
    for folder in (theirs, dead):
        folder.mkdir(parents=True)
    machine.locked(spec=cpu("alpha"))
    assert scratch(machine) == [theirs]


AT_AN_IMPORT = """
import builtins, os, signal, sys
real, left = builtins.__import__, [int(sys.argv.pop(1))]
def read(*words, **more):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGINT)
    return real(*words, **more)
from envspec.__main__ import main
builtins.__import__ = read
main()
"""


@pytest.mark.parametrize("number", [1, 2, 3, 10, 40, 150, 400])
def test_while_the_modules_are_still_being_read(machine: Machine, number: int) -> None:
    """Python's traceback stood there: what is being read turns the exception into its own."""
    words = [sys.executable, "-c", AT_AN_IMPORT, str(number), "check", "specs/nowhere.toml"]
    ran = subprocess.run(words, cwd=machine.folder, env=machine.environment(), capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "interrupted: nothing was changed\n")


STARTED = "event.startswith('cpython.run_')"
"""Python's own start-up is done, and no line of envspec's has run."""
READING = "'envspec.cli.main' in sys.modules"


@pytest.mark.parametrize("program", ["envspec", "-m envspec"])
@pytest.mark.parametrize(("condition", "count"), [(STARTED, 1), (READING, 1), (READING, 30), (READING, 300)])
def test_from_the_first_moment_on(machine: Machine, program: str, condition: str, count: int) -> None:
    """Before the first line of envspec's runs, the signal is Python's own, which may show its start-up and no more."""
    beside = str(Path(sys.executable).with_name("envspec"))
    words = [beside] if program == "envspec" else [sys.executable, "-m", "envspec"]
    env = machine.environment(signal_at(machine.base / "hook", count, signal.SIGINT, condition))
    ran = subprocess.run([*words, "gpus"], cwd=machine.folder, env=env, capture_output=True, text=True)
    if condition == READING:
        assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "interrupted: nothing was changed\n")
    else:
        assert ran.returncode in (1, -signal.SIGINT), ran.stderr
        frames = [line for line in ran.stderr.splitlines() if line.startswith("  File ")]
        assert not any("/envspec/" in line for line in frames), ran.stderr
