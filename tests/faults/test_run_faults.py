"""`envspec run` when makers are killed, many come at once, and environments are removed under it."""

import shutil
import subprocess
import threading
import time

import pytest
from support.index import Index, hanging, until
from support.installs import serve_lock
from support.machine import Machine
from support.packages import wheel
from support.waiting import wait_until

from envspec.base.documents import read_json

pytestmark = pytest.mark.e2e

APP, LIB = wheel("app", "1.0"), wheel("lib", "1.0")
RUN = ("run", "--", "python", "-c", "import app, lib; print(app.version, lib.version)")


@pytest.fixture
def locked(machine: Machine, index: Index) -> Machine:
    serve_lock(machine, index, APP, LIB)
    return machine


@pytest.mark.slow
def test_a_maker_that_is_killed_leaves_nothing_that_counts_as_ready(locked: Machine, index: Index) -> None:
    """kill -9 while the last package is fetched; the next run finishes, and runs only then."""
    index.fail(f"/files/{LIB.file}", hanging)
    maker = locked.start(*RUN)
    index.wait_for(f"/files/{LIB.file}")
    maker.kill()
    out, _ = maker.communicate()
    assert out == ""
    (prefix,) = sorted(locked.environments.iterdir())
    assert not read_json((prefix / "etc/envspec/install.json").read_bytes())["complete"]
    index.heal()
    found = locked.envspec(*RUN, spawn=True)
    assert (found.status, found.out) == (0, "1.0 1.0\n"), found.err
    assert sorted(locked.environments.iterdir()) == [prefix]


@pytest.mark.nightly
def test_killed_at_many_moments(locked: Machine) -> None:
    """Whenever the maker dies, a run that comes after it sees a whole environment or makes one."""
    for moment in range(8):
        maker = locked.start(*RUN)
        time.sleep(0.15 * moment)
        maker.kill()
        maker.communicate()
        found = locked.envspec(*RUN, spawn=True)
        assert (found.status, found.out) == (0, "1.0 1.0\n"), found.err
        for prefix in sorted(locked.environments.iterdir()):
            shutil.rmtree(prefix)


def listen(process: subprocess.Popen[str], told: list[str]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        told.append(line)


@pytest.mark.slow
def test_five_at_once(locked: Machine, index: Index) -> None:
    """One makes it, the others wait and say so; each file is fetched once."""
    go_on = threading.Event()
    index.fail("/files/", until(go_on))
    started = [locked.start(*RUN) for _ in range(5)]
    told: list[str] = []
    readers = [threading.Thread(target=listen, args=(process, told)) for process in started]
    for reader in readers:
        reader.start()
    wait_until(lambda: sum(line.startswith("waiting:") for line in told) == 4, 60)
    go_on.set()
    for reader in readers:
        reader.join(90)
    assert [process.wait(10) for process in started] == [0] * 5, told
    assert [process.stdout.read() for process in started if process.stdout] == ["1.0 1.0\n"] * 5
    (prefix,) = sorted(locked.environments.iterdir())
    assert sum(f"waiting: another envspec is working on {prefix}" in line for line in told) == 4
    assert sum(one.path == f"/files/{APP.file}" for one in index.asked) == 1
    assert sum("installed" in line for line in told) == 1


@pytest.mark.slow
def test_an_environment_that_somebody_removed_is_made_again(locked: Machine) -> None:
    assert locked.envspec(*RUN, spawn=True).status == 0
    (prefix,) = sorted(locked.environments.iterdir())
    for gone in (prefix, prefix / "bin" / "activate"):
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
        found = locked.envspec(*RUN, spawn=True)
        assert (found.status, found.out) == (0, "1.0 1.0\n"), found.err


@pytest.mark.nightly
def test_pruned_while_others_start(locked: Machine) -> None:
    """Each run finds its environment whole: what prune took away in between is made again."""
    assert locked.envspec(*RUN, spawn=True).status == 0
    stop = threading.Event()
    told: list[str] = []

    def prune() -> None:
        while not stop.is_set():
            with locked.start("cache", "clean", "environments") as process:
                told.append(process.communicate()[0])

    pruning = threading.Thread(target=prune)
    pruning.start()
    try:
        for _ in range(8):
            with locked.start(*RUN) as process:
                out, err = process.communicate(timeout=60)
            assert (process.returncode, out) == (0, "1.0 1.0\n"), err
    finally:
        stop.set()
        pruning.join()
    assert told
