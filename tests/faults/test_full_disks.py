"""Whatever fails while a file is written is told as that: a disk that fills up at any byte, no inodes, a limit on the
size of files, a folder that is read-only. Never as a file that someone tampered with."""

import errno
import os
import re
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.index import Index
from support.installs import PYTHON, SUBDIR, pip_pin, write_lock
from support.machine import Machine, Ran, cpu
from support.packages import Dist, sdist, wheel

from envspec.base.storage import storage_error
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


def test_a_disk_that_says_so_when_a_file_is_closed(
    tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network's file system takes all of a write, and tells of a quota as a descriptor goes: `close(2)`."""
    index.add(BIG)
    store = FileStore(tmp_path, Fetcher(credentials={}, env={"UV_HTTP_RETRIES": "0"}))
    closed = os.close

    def close(descriptor: int) -> None:
        own = os.path.samestat(os.fstat(descriptor), part.stat()) if part.exists() else False
        closed(descriptor)
        if own:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    part = tmp_path / f"{BIG.sha256}.part"
    monkeypatch.setattr(os, "close", close)
    with pytest.raises(OSError, match="quota"):
        store.fetch(index.file_url(BIG), WantedFile(BIG.file, BIG.sha256, len(BIG.content)))


def test_no_room_for_more_files_is_told_as_that(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", "size=8M,nr_inodes=3"):
        (tmp_path / "disk" / "a").touch()
        (tmp_path / "disk" / "b").touch()
        with pytest.raises(OSError, match="No space left") as full:
            (tmp_path / "disk" / "c").touch()
        told = storage_error(full.value, tmp_path / "disk" / "c", option="-o")
        assert "no room for more files" in (told.hint or "")
    with tmpfs(tmp_path / "small", "size=4k"):
        with pytest.raises(OSError, match="No space left") as full:
            (tmp_path / "small" / "a").write_bytes(bytes(1 << 20))
        assert (
            storage_error(full.value, tmp_path / "small" / "a", option="-o").hint == "free some space, then run again"
        )


@pytest.mark.parametrize("left", [16, 120, 300])
@pytest.mark.parametrize("place", ["cache", "prefix"])
@pytest.mark.by_day(1)
def test_install_on_a_full_disk(tmp_path: Path, index: Index, place: str, left: int) -> None:
    machine = machine_with(tmp_path / "machine", index, BIG)
    folder = machine.cache if place == "cache" else machine.base / "disk"
    with tmpfs(folder, f"size={left}k"):
        prefix = machine.base / "disk" / "made"
        ran = machine.envspec("install", "specs/demo.toml", "--prefix", str(prefix), seconds=120)
        told_as_it_is(ran, "No space left")


@pytest.mark.parametrize("inodes", [2, 4, 6, 9, 14])
@pytest.mark.parametrize("place", ["cache", "prefix"])
@pytest.mark.by_day(1)
def test_install_without_inodes(tmp_path: Path, index: Index, place: str, inodes: int) -> None:
    machine = machine_with(tmp_path / "machine", index, BIG)
    folder = machine.cache if place == "cache" else machine.base / "disk"
    with tmpfs(folder, f"size=8M,nr_inodes={inodes}"):
        prefix = machine.base / "disk" / "made"
        ran = machine.envspec("install", "specs/demo.toml", "--prefix", str(prefix), seconds=120)
        if ran.status:
            told_as_it_is(ran, "No space left")
            assert "more files" in ran.hint or "free some space" in ran.hint


@pytest.mark.by_day(1)
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


def test_a_source_that_is_unpacked_under_a_limit(tmp_path: Path, index: Index) -> None:
    source = sdist("src", "1.0", static=False, files={"data.txt": "a" * 900_000})
    index.add(source)
    machine = Machine(tmp_path / "machine", index.url)
    machine.spec(cpu("src", extra="allow-source = ['src']"))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, hard))
    try:
        ran = machine.envspec("lock", "specs/demo.toml", seconds=120)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    told_as_it_is(ran, "File too large")


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


@pytest.fixture
def packages(index: Index) -> Index:
    return index.add(wheel("alpha", "1.0"), wheel("alpha", "2.0"))


def fill(folder: Path) -> None:
    """Use up every byte of a filesystem."""
    with (folder / "filler").open("wb", buffering=0) as file:
        for block in (b"\0" * 4096, b"\0"):
            try:
                while True:
                    file.write(block)
            except OSError:
                continue


@pytest.mark.slow
def test_full_filesystem_of_the_locks(machine: Machine, packages: Index) -> None:
    with tmpfs(machine.locks, "size=64k"):
        machine.locked(spec=cpu("alpha<2"))
        before = machine.files()
        fill(machine.locks)
        ran = machine.envspec("lock", machine.spec(cpu("alpha")), "--upgrade", status=3)
        assert "No space left on device" in ran.error and ran.error.startswith("error: ") and "locks/demo" in ran.error
        assert ran.hint == "hint: free some space, then run the command again; nothing was changed"
        (machine.locks / "filler").unlink()
        assert machine.files() == before
        assert machine.envspec("lock", "specs/demo.toml", "--upgrade").status == 0
        assert machine.versions("cpu") == {"alpha": "2.0"}
        assert sorted(machine.files()) == ["demo/cpu/requirements.txt", "demo/envspec.lock"]


def test_full_filesystem_of_the_cache(machine: Machine, packages: Index) -> None:
    machine.spec(cpu("alpha"))
    with tmpfs(machine.cache, "size=64k"):
        fill(machine.cache)
        ran = machine.envspec("lock", "specs/demo.toml")
        assert ran.status == 3 and "No space left on device" in ran.error
        assert "ENVSPEC_CACHE_DIR" in ran.hint
    assert machine.envspec("lock", "specs/demo.toml").status == 0


@pytest.mark.slow
def test_read_only_filesystem(machine: Machine, packages: Index) -> None:
    with tmpfs(machine.locks, "size=256k"):
        machine.locked(spec=cpu("alpha<2"))
        before = machine.files()
        subprocess.run(["mount", "-o", "remount,ro", str(machine.locks)], check=True)
        ran = machine.envspec("lock", machine.spec(cpu("alpha")), "--upgrade")
        assert ran.status == 3 and "Read-only file system" in ran.error
        assert ran.hint == "hint: the filesystem is read-only: give --locks-dir a place that isn't"
        assert machine.files() == before
        fresh = machine.envspec("lock", machine.spec(cpu("alpha<2")))
        assert fresh.status == 0 and "is fresh" in fresh.out, "nothing has to be written, so nothing may fail"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_rights(machine: Machine, packages: Index) -> None:
    machine.locked(spec=cpu("alpha"))
    before = machine.files()
    folder = machine.locks / "demo"
    folder.chmod(0o555)
    try:
        ran = machine.envspec("lock", "specs/demo.toml", "--upgrade")
        assert ran.status in (0, 3) and machine.files() == before
    finally:
        folder.chmod(0o755)


def test_locks_is_a_file(machine: Machine, packages: Index) -> None:
    machine.spec(cpu("alpha"))
    machine.locks.write_text("in the way")
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 3 and ran.error.startswith("error: ")
    assert machine.locks.read_text() == "in the way"


def test_a_cache_that_is_a_file(machine: Machine, packages: Index) -> None:
    machine.spec(cpu("alpha"))
    machine.cache.parent.mkdir(parents=True)
    machine.cache.write_text("in the way")
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 3 and "ENVSPEC_CACHE_DIR" in ran.hint


def edited(text: bytes) -> bytes:
    return text.replace(b'version = "1.0"', b'version = "1.0.1"')


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: b"", "the lock is empty"),
        (lambda text: text[: text.index(b"sha256") + 12], "not TOML"),
        (lambda text: text.replace(b"lock-version = 5", b"lock-version = 99"), "schema 99"),
        (lambda text: b"<<<<<<< ours\n" + text + b"=======\n" + text + b">>>>>>> theirs\n", "merge conflict"),
        (lambda text: text.replace(b"\n", b"\r\n"), "Windows line ends"),
        (lambda text: b"\xff\xfe" + text, "not UTF-8"),
    ],
    ids=["empty", "cut in a value", "newer", "conflict", "crlf", "utf-16"],
)
@pytest.mark.parametrize("options", [(), pytest.param(("--upgrade",), marks=pytest.mark.slow)], ids=["lock", "upgrade"])
def test_a_damaged_lock_is_refused(
    machine: Machine, packages: Index, damage: Callable[[bytes], bytes], said: str, options: tuple[str, ...]
) -> None:
    machine.locked(spec=cpu("alpha<2"))
    path = machine.lock_path()
    path.write_bytes(damage(path.read_bytes()))
    before = machine.files()
    packages.asked.clear()
    ran = machine.envspec("lock", "specs/demo.toml", *options, status=2)
    assert ran.error.startswith("error: locks/demo/envspec.lock") and said in ran.error and ran.hint
    assert machine.files() == before and packages.asked == []
    path.unlink()
    assert machine.envspec("lock", "specs/demo.toml").status == 0


def test_edited_rendered_files_are_made_again(machine: Machine, packages: Index) -> None:
    machine.locked(spec=cpu("alpha"))
    before = machine.files()
    rendered = machine.locks / "demo" / "cpu" / "requirements.txt"
    rendered.write_text(rendered.read_text().replace("2.0", "9.9"))
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 0 and "rendered the files beside" in ran.err
    assert machine.files() == before


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (edited, "alpha-1.0-py3-none-any.whl is not alpha 1.0.1"),
        (lambda text: text[: text.index(b"[[pip]]")], "nothing provides it"),
        (lambda text: text[:-1], "wrote locks/demo/envspec.lock again"),
        (lambda text: text + b"\n# a remark\n", "wrote locks/demo/envspec.lock again"),
    ],
    ids=["edited", "cut between packages", "cut by a byte", "appended"],
)
def test_a_damaged_lock_that_reads_as_one_is_judged_and_made_right(
    machine: Machine, packages: Index, damage: Callable[[bytes], bytes], told: str
) -> None:
    machine.locked(spec=cpu("alpha<2"))
    before, path = machine.files(), machine.lock_path()
    path.write_bytes(damage(path.read_bytes()))
    assert machine.envspec("check").status != 0
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 0 and told in ran.err
    assert machine.files() == before


@pytest.mark.slow
def test_damaged_caches_are_made_again(machine: Machine, packages: Index) -> None:
    before = machine.locked(spec=cpu("alpha"))
    for path in machine.cache.rglob("*.json"):
        path.write_bytes(path.read_bytes()[:10])
    for path in machine.cache.glob("uv-default-index*"):
        path.write_bytes(b"")
    assert machine.locked("--upgrade") == before
