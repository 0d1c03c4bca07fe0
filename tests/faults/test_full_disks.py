"""Whatever fails while a file is written is told as that: a disk that fills up at any byte, no inodes, a limit on the
size of files, a folder that is read-only. Never as a file that someone tampered with."""

import os
import re
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.index import Index
from support.installs import PYTHON, SUBDIR, pip_pin, write_lock
from support.machine import Machine, Ran, cpu
from support.packages import Dist, sdist, wheel

from envspec.lock.model import Pin
from envspec.net.fetch import Fetcher
from envspec.net.file_store import FileStore, WantedFile

pytestmark = pytest.mark.e2e

BIG = wheel("alpha", "1.0", padding=400_000)
ACCUSING = re.compile(r"sha256|hostile|tamper|don't (use|install)|damaged|isn't what|report this|publish|\d bytes, but")


@contextmanager
def tmpfs(folder: Path, options: str) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"{options},mode=700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a small tmpfs is not permitted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def told_as_it_is(ran: Ran, words: str) -> None:
    assert ran.status == 3 and re.search(words, ran.err), ran
    assert not ACCUSING.search(ran.error + ran.hint), ran
    assert ran.hint, ran


def machine_with(base: Path, index: Index, *dists: Dist, pins: tuple[Pin, ...] = ()) -> Machine:
    index.add(*dists)
    machine = Machine(base, index.url)
    write_lock(machine, {"cpu": [*(pip_pin(dist) for dist in dists), *pins]}, python=PYTHON, platform=SUBDIR)
    return machine


@pytest.mark.parametrize("size", range(12, 420, 68))
def test_a_store_on_a_disk_that_fills_up(tmp_path: Path, index: Index, size: int) -> None:
    """The system takes what fits of a write and says how much: `write(2)`."""
    index.add(BIG)
    store = FileStore(tmp_path / "disk", Fetcher(credentials={}, env={"UV_HTTP_RETRIES": "0"}))
    wanted = WantedFile(BIG.file, BIG.sha256, len(BIG.content))
    with tmpfs(store.folder, f"size={size}k"):
        for _ in range(2):  # the second goes on with what the first has left
            with pytest.raises(OSError, match="No space left"):
                store.fetch(index.file_url(BIG), wanted)
        with pytest.raises(OSError, match="No space left"):
            store.fetch_unknown(index.file_url(BIG), BIG.file)
        subprocess.run(["mount", "-o", "remount,size=2M", str(store.folder)], check=True)
        assert store.fetch(index.file_url(BIG), wanted).read_bytes() == BIG.content
        assert store.fetch_unknown(index.file_url(BIG), BIG.file).sha256 == BIG.sha256


def test_a_digest_is_of_what_lies_on_disk(tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes everything and keeps something else."""
    index.add(BIG)
    store = FileStore(tmp_path, Fetcher(credentials={}, env={"UV_HTTP_RETRIES": "0"}))
    monkeypatch.setattr(
        "envspec.net.file_store._write", lambda out, piece: out.write(piece.replace(b"alpha", b"alphb"))
    )
    assert store.fetch_unknown(index.file_url(BIG), BIG.file.replace(".whl", ".bin")).sha256 != BIG.sha256


@pytest.mark.parametrize("left", [16, 120, 300])
@pytest.mark.parametrize("place", ["cache", "prefix"])
@pytest.mark.by_day(2)
def test_install_on_a_full_disk(tmp_path: Path, index: Index, place: str, left: int) -> None:
    machine = machine_with(tmp_path / "machine", index, BIG)
    folder = machine.cache if place == "cache" else machine.base / "disk"
    with tmpfs(folder, f"size={left}k"):
        prefix = machine.base / "disk" / "made"
        ran = machine.envspec("install", "specs/demo.toml", "--prefix", str(prefix), seconds=120)
        told_as_it_is(ran, "No space left")


@pytest.mark.parametrize("inodes", [2, 4, 6, 9, 14])
@pytest.mark.parametrize("place", ["cache", "prefix"])
@pytest.mark.by_day(2)
def test_install_without_inodes(tmp_path: Path, index: Index, place: str, inodes: int) -> None:
    machine = machine_with(tmp_path / "machine", index, BIG)
    folder = machine.cache if place == "cache" else machine.base / "disk"
    with tmpfs(folder, f"size=8M,nr_inodes={inodes}"):
        prefix = machine.base / "disk" / "made"
        ran = machine.envspec("install", "specs/demo.toml", "--prefix", str(prefix), seconds=120)
        if ran.status:
            told_as_it_is(ran, "No space left")
            assert "more files" in ran.hint or "free some space" in ran.hint


@pytest.mark.parametrize("limit", [50_000, 200_000, 390_000])
def test_a_limit_on_the_size_of_files(tmp_path: Path, index: Index, limit: int) -> None:
    machine = machine_with(tmp_path / "machine", index, BIG)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        ran = machine.envspec("install", "specs/demo.toml", "--prefix", "made", seconds=120)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    told_as_it_is(ran, "File too large")
    assert "ulimit -f" in ran.hint


@pytest.mark.parametrize("left", [40, 90])
def test_a_source_that_is_unpacked_on_a_full_disk(tmp_path: Path, index: Index, left: int) -> None:
    """What `lock` unpacks to ask its build: the disk is at fault, not the source."""
    source = sdist("src", "1.0", static=False, files={"data.txt": "a" * 300_000})
    index.add(source)
    machine = Machine(tmp_path / "machine", index.url)
    machine.spec(cpu("src", extra="allow-source = ['src']"))
    with tmpfs(machine.cache, f"size={left}k"):
        told_as_it_is(machine.envspec("lock", "specs/demo.toml", seconds=120), "No space left")


COMMANDS = """
check
tree specs/demo.toml
why specs/demo.toml alpha
diff locks/demo/envspec.lock locks/demo/envspec.lock
verify specs/demo.toml
export specs/demo.toml --format all -o out
doctor specs/demo.toml
report specs/demo.toml -o report.html
lock specs/demo.toml --upgrade
install specs/demo.toml --prefix made
bundle specs/demo.toml -o bundle.tar
run specs/demo.toml -- true
cache size
outdated specs/demo.toml
add specs/demo.toml alpha<2
"""


@pytest.mark.parametrize("line", COMMANDS.strip().splitlines(), ids=lambda line: line.split()[0])
@pytest.mark.by_day(4)
def test_a_read_only_home(tmp_path: Path, index: Index, line: str) -> None:
    """As on a compute node: what needs no cache works, and the rest names the variable that moves it."""
    machine = machine_with(tmp_path / "machine", index, wheel("alpha", "1.0"))
    with tmpfs(machine.home, "size=1M"):
        machine.configure("")
        subprocess.run(["mount", "-o", "remount,ro", str(machine.home)], check=True)
        ran = machine.envspec(*line.split(), seconds=120)
        assert ran.status in (0, 1, 3) and "Traceback" not in ran.err and not ACCUSING.search(ran.error + ran.hint), ran
        if ran.status == 3:
            assert "Read-only file system" in ran.error and "ENVSPEC_" in ran.hint, ran
            moved = {
                "ENVSPEC_CACHE_DIR": str(tmp_path / "cache"),
                "UV_CACHE_DIR": str(tmp_path / "uv"),
                "ENVSPEC_ENVIRONMENTS_DIR": str(tmp_path / "data"),
            }
            assert machine.envspec(*line.split(), env=moved, seconds=120, spawn=True).status == 0
