"""`envspec install` when things go wrong under it: killed processes, wrong files, other writers, damaged records."""

import functools
import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.conda_archives import Archive, Channel, borrowed_python, data_package, python_module
from support.index import Index, hanging, other_bytes, passing, status, truncated, until
from support.installs import (
    PYTHON,
    SPEC,
    SUBDIR,
    Install,
    install as install,
    pip_pin,
    prefix as prefix,
    serve_lock,
    tree,
    write_lock,
)
from support.machine import Machine
from support.matrix import first_by_day
from support.packages import wheel
from support.serving import serving
from support.waiting import wait_until

pytestmark = pytest.mark.e2e

APP, APP2, LIB = wheel("app", "1.0"), wheel("app", "2.0"), wheel("lib", "1.0")
ALPHA = python_module("alpha", "1.0")
SITE = f"lib/python{PYTHON}/site-packages"


def big(version: str, files: int = 1500) -> Archive:
    """A package that takes a while to link."""
    contents = {f"share/big/{n % 40}/{n}.txt": f"{version} {n}\n".encode() for n in range(files)}
    return Archive("big", version, files={**contents, f"share/only-{version}.txt": b"x"})


@pytest.fixture
def channel(tmp_path: Path) -> Channel:
    return Channel(tmp_path / "own").add(borrowed_python(SUBDIR), ALPHA)


def start(machine: Machine, prefix: Path) -> subprocess.Popen[str]:
    return machine.start("install", SPEC, "--prefix", str(prefix))


def kill(process: subprocess.Popen[str]) -> None:
    """kill -9 of envspec alone, as the system's memory killer does; its children are left to themselves."""
    process.kill()
    process.communicate()


def works(prefix: Path, code: str = "import app") -> bool:
    return subprocess.run([str(prefix / "bin/python"), "-c", code], capture_output=True, check=False).returncode == 0


# killed


@pytest.mark.slow
def test_killed_while_pip_packages_come(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    """kill -9 in the middle of a download: uv ends with envspec, and the next run finishes."""
    index.add(APP, LIB)
    index.fail(f"/files/{LIB.file}", hanging)
    write_lock(machine, [pip_pin(APP), pip_pin(LIB)])
    process = start(machine, prefix)
    index.wait_for(f"/files/{LIB.file}")
    kill(process)
    index.heal()
    begun = time.monotonic()
    assert install().out.splitlines()[-1] == f"installed {prefix}: here, 2 packages"
    assert time.monotonic() - begun < 15
    assert works(prefix, "import app, lib")
    assert "nothing to do" in install().out


@pytest.mark.slow
def test_killed_during_an_update(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    serve_lock(machine, index, APP, LIB)
    install()
    lib = (prefix / SITE / "lib.py").stat().st_mtime_ns
    index.add(APP2)
    index.fail(f"/files/{APP2.file}", hanging)
    write_lock(machine, [pip_pin(APP2), pip_pin(LIB)])
    process = start(machine, prefix)
    index.wait_for(f"/files/{APP2.file}")
    kill(process)
    index.heal()
    install()
    assert works(prefix, "import app; assert app.version == '2.0'")
    assert (prefix / SITE / "lib.py").stat().st_mtime_ns == lib
    assert "nothing to do" in install().out


@pytest.mark.slow
@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop(
    signal_number: signal.Signals, machine: Machine, index: Index, prefix: Path, install: Install
) -> None:
    index.add(APP)
    index.fail("/files/", hanging)
    write_lock(machine, [pip_pin(APP)])
    process = start(machine, prefix)
    index.wait_for("/files/")
    os.kill(process.pid, signal_number)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "run the same command again" in told and "nothing was changed" not in told
    index.heal()
    install()
    assert works(prefix)


@pytest.mark.nightly
@pytest.mark.slow
def test_killed_while_conda_links(
    machine: Machine, index: Index, channel: Channel, prefix: Path, install: Install
) -> None:
    """kill -9 at many moments of an installation and of an update: whatever is left, the next run makes it whole."""
    one, two = big("1.0"), big("2.0")
    channel.add(one, two)
    index.add(APP)
    others = [channel.pin(borrowed_python(SUBDIR)), channel.pin(ALPHA), pip_pin(APP)]
    moments = 0
    for archive, gone in ((one, two), (two, one)):
        write_lock(machine, [channel.pin(archive), *others], channels=[channel.url])
        for files in (1, 300, 900, 1400):
            process = start(machine, prefix)
            folder = prefix / "share" / "big"
            text = archive.version

            def so_far(text: str = text, files: int = files, folder: Path = folder) -> bool:
                path = folder / str((files - 1) % 40) / f"{files - 1}.txt"
                with suppress(OSError):
                    return path.read_text().startswith(text)
                return False

            while process.poll() is None and not so_far():
                time.sleep(0.0005)
            moments += process.poll() is None
            kill(process)
        install()
        found = {path.read_text().split()[0] for path in (prefix / "share/big").rglob("*.txt")}
        assert found == {archive.version}
        assert len(list((prefix / "share/big").rglob("*.txt"))) == 1500
        assert (prefix / f"share/only-{archive.version}.txt").exists()
        assert not (prefix / f"share/only-{gone.version}.txt").exists()
        assert works(prefix, "import alpha, app")
        assert "nothing to do" in install().out
    assert moments > 0, "every run was done before it could be killed"


@pytest.mark.slow
def test_told_to_stop_while_conda_links(machine: Machine, channel: Channel, prefix: Path, install: Install) -> None:
    archive = big("1.0", 4000)
    channel.add(archive)
    write_lock(machine, [channel.pin(archive)], channels=[channel.url])
    process = start(machine, prefix)
    wait_until((prefix / "share" / "big").is_dir)
    process.terminate()
    _, told = process.communicate(timeout=30)
    assert (process.returncode, "run the same command again" in told) == (130, True), told
    install()
    assert len(list((prefix / "share/big").rglob("*.txt"))) == 4000


@pytest.mark.slow
def test_two_at_once(machine: Machine, index: Index, prefix: Path) -> None:
    index.add(APP)
    go_on = threading.Event()
    index.fail("/files/", until(go_on))
    write_lock(machine, [pip_pin(APP)])
    first = start(machine, prefix)
    index.wait_for("/files/")
    second = start(machine, prefix)
    assert second.stderr is not None
    assert second.stderr.readline().startswith(f"waiting: another envspec is working on {prefix}")
    go_on.set()
    out, _ = second.communicate(timeout=60)
    first_out, _ = first.communicate(timeout=60)
    assert (first.returncode, second.returncode) == (0, 0)
    assert "installed" in first_out and "nothing to do" in out


# wrong files


@pytest.mark.slow
@pytest.mark.parametrize("fault", first_by_day(1, [other_bytes, truncated, status(404), status(403), status(500)]))
def test_a_file_that_doesnt_come_right(
    fault: Callable[..., object], machine: Machine, index: Index, prefix: Path, install: Install
) -> None:
    """Nothing of it is installed, it is told, and once the index is well again the next run finishes."""
    index.add(APP, LIB)
    index.fail(f"/files/{LIB.file}$", fault)  # type: ignore[arg-type]
    write_lock(machine, [pip_pin(APP), pip_pin(LIB)])
    ran = install(status=3)
    assert "lib" in ran.error and ran.hint
    assert not (prefix / SITE / "lib.py").exists()
    index.heal()
    install()
    assert works(prefix, "import app, lib")


@pytest.mark.slow
def test_an_index_that_stumbles(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    index.add(APP)
    index.fail("/files/", passing(503, 1))
    write_lock(machine, [pip_pin(APP)])
    install()
    assert works(prefix)


@pytest.mark.slow
def test_an_index_without_the_file(machine: Machine, index: Index, install: Install) -> None:
    index.add(APP2)
    write_lock(machine, [pip_pin(APP)])
    assert f'the index "pypi" lists no {APP.file}' in install(status=3).error


@pytest.mark.slow
def test_another_file_under_the_locked_name(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    """Told by the index's page; and, where the page is true, by the bytes that come."""
    write_lock(machine, [pip_pin(APP)])
    index.add(wheel("app", "1.0", padding=9))
    assert f'the index "pypi" has a different {APP.file}: its sha256' in install(status=3).error
    index.add(APP)
    index.fail(f"/files/{APP.file}$", other_bytes)
    told = install(status=3).error
    assert "the content has sha256 " in told and f"but the lock says {APP.sha256}" in told
    assert not (prefix / SITE / "app.py").exists()


@pytest.mark.slow
def test_a_changed_file_in_a_channel_folder(machine: Machine, channel: Channel, prefix: Path, install: Install) -> None:
    tool = data_package("tool", "1.0")
    pin = channel.add(tool).pin(tool)
    write_lock(machine, [pin], channels=[channel.url])
    path = channel.path(tool)
    right = path.read_bytes()
    path.write_bytes(data_package("tool", "1.0", "evil").content())
    for _ in range(2):
        assert f"{path} has the sha256" in install(status=3).error
    assert not (prefix / "share/tool.txt").exists()
    path.unlink()
    assert "No such file" in install(status=3).error
    path.write_bytes(right)
    install()
    assert (prefix / "share/tool.txt").read_text() == "tool 1.0\n"


@pytest.fixture
def served(channel: Channel) -> Iterator[tuple[str, list[str]]]:
    """The channel over HTTP: its URL, and the paths that were asked for."""
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            super().do_GET()

        def log_message(self, format: str, *args: object) -> None:
            """Silent."""

    handler = functools.partial(Handler, directory=str(channel.folder.parent))
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)) as url:
        yield f"{url}/{channel.folder.name}", asked


@pytest.mark.slow
def test_a_refused_conda_file_stays_refused(
    machine: Machine, channel: Channel, served: tuple[str, list[str]], prefix: Path, install: Install
) -> None:
    """py-rattler's cache holds a good file of that name, refuses the other one, and then takes the good one for it."""
    url, _ = served
    tool = data_package("tool", "1.0")
    pin = channel.add(tool).pin(tool)
    other = machine.folder / "other"
    write_lock(machine, [pin], channels=[url])
    assert machine.envspec("install", SPEC, "--prefix", str(other)).status == 0
    assert pin.artifact is not None
    wrong = replace(pin, artifact=replace(pin.artifact, sha256="1" * 64))
    write_lock(machine, [wrong], channels=[url])
    for _ in range(3):
        ran = install(status=3)
        assert "but the lock has" in ran.error and "don't install" in ran.hint
        assert not (prefix / "share").exists()
    write_lock(machine, [pin], channels=[url])
    install()
    assert (prefix / "share/tool.txt").read_text() == "tool 1.0\n"


@pytest.mark.slow
def test_a_damaged_cache(
    machine: Machine, channel: Channel, served: tuple[str, list[str]], prefix: Path, install: Install
) -> None:
    """What lies unpacked in the cache is hashed before it's linked; a file that isn't right is fetched again."""
    url, asked = served
    tool = data_package("tool", "1.0")
    write_lock(machine, [channel.add(tool).pin(tool)], channels=[url])
    other = machine.folder / "other"
    assert machine.envspec("install", SPEC, "--prefix", str(other)).status == 0
    cached = machine.cache / "conda/packages/tool-1.0-0/share/tool.txt"
    cached.unlink()
    cached.write_text("tool 6.6\n")
    asked.clear()
    install()
    assert (prefix / "share/tool.txt").read_text() == "tool 1.0\n"
    assert asked == ["/own/noarch/tool-1.0-0.tar.bz2"]


@pytest.mark.slow
def test_a_channel_that_is_down(machine: Machine, channel: Channel, install: Install) -> None:
    tool = data_package("tool", "1.0")
    write_lock(machine, [channel.add(tool).pin(tool)], channels=["http://127.0.0.1:9/own"])
    ran = install(status=3)
    assert "tool-1.0-0.tar.bz2" in ran.error and "run the same command again" in ran.hint


# what others left


@pytest.mark.slow
def test_what_a_killed_installer_left(
    machine: Machine, index: Index, channel: Channel, prefix: Path, install: Install
) -> None:
    """Half a dist-info, half a record, files without either."""
    tool = data_package("tool", "1.0")
    channel.add(tool)
    index.add(APP)
    pins = [channel.pin(borrowed_python(SUBDIR)), channel.pin(tool), pip_pin(APP)]
    write_lock(machine, pins, channels=[channel.url])
    install()
    (prefix / SITE / "app-1.0.dist-info/RECORD").unlink()
    (prefix / SITE / "app.py").write_text("half")
    record = prefix / "conda-meta/tool-1.0-0.json"
    record.write_text(record.read_text()[:100])
    (prefix / "share/tool.txt").unlink()
    install()
    assert works(prefix, "import app; assert app.version == '1.0'")
    assert (prefix / "share/tool.txt").read_text() == "tool 1.0\n"
    assert "nothing to do" in install().out


@pytest.mark.slow
def test_a_state_that_was_never_completed(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    """Killed after the last file and before the last word: everything is there, and the next run says so."""
    serve_lock(machine, index, APP)
    install()
    state = prefix / "etc/envspec/install.json"
    state.write_text(state.read_text().replace('"complete": true', '"complete": false'))
    before = tree(prefix)
    assert install().out == f"installed {prefix}: here, 1 package\n"
    after = tree(prefix)
    assert {p for p in after if before.get(p) != after[p] and not p.startswith("etc/envspec/")} == set()


@pytest.mark.slow
def test_a_damaged_state(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    serve_lock(machine, index, APP)
    install()
    (prefix / "etc/envspec/install.json").write_text("{")
    ran = install(status=2)
    assert "install.json" in ran.error and f"remove {prefix}" in ran.hint


def test_a_place_that_cant_be_written(machine: Machine, index: Index) -> None:
    serve_lock(machine, index, APP)
    (machine.folder / "file").touch()
    ran = machine.envspec("install", SPEC, "--prefix", "file/env")
    assert ran.status == 3 and ran.error.endswith("/file: this is a file; a folder is needed")
    assert ran.hint == "hint: move it away, or give --prefix another place"


@pytest.mark.slow
def test_a_full_disk(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    """A limit on the size of files stands in for it: what uv couldn't write isn't taken for installed."""
    large = wheel("app", "1.0", padding=3 << 20)
    serve_lock(machine, index, large)
    limited = ["sh", "-c", 'ulimit -f 2048; trap "" XFSZ; exec "$@"', "sh"]
    ran = subprocess.run(
        [*limited, sys.executable, "-m", "envspec", "install", SPEC, "--prefix", str(prefix)],
        cwd=machine.folder, env=machine.environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 3, ran.stderr
    assert "Traceback" not in ran.stderr and "error: " in ran.stderr
    install()
    assert works(prefix)
