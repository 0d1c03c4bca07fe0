"""No room, no rights, damaged files: exit 3 or 2, and what was there stays as it was."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel

pytestmark = pytest.mark.e2e


@pytest.fixture
def packages(index: Index) -> Index:
    return index.add(wheel("alpha", "1.0"), wheel("alpha", "2.0"))


@contextmanager
def small_filesystem(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a small tmpfs is not permitted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


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
    with small_filesystem(machine.locks, "64k"):
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
    with small_filesystem(machine.cache, "64k"):
        fill(machine.cache)
        ran = machine.envspec("lock", "specs/demo.toml")
        assert ran.status == 3 and "No space left on device" in ran.error
        assert "ENVSPEC_CACHE_DIR" in ran.hint
    assert machine.envspec("lock", "specs/demo.toml").status == 0


def test_read_only_filesystem(machine: Machine, packages: Index) -> None:
    with small_filesystem(machine.locks, "256k"):
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
        (lambda text: text.replace(b"lock-version = 3", b"lock-version = 99"), "schema 99"),
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


def test_damaged_caches_are_made_again(machine: Machine, packages: Index) -> None:
    before = machine.locked(spec=cpu("alpha"))
    for path in machine.cache.rglob("*.json"):
        path.write_bytes(path.read_bytes()[:10])
    for path in machine.cache.glob("uv-default-index*"):
        path.write_bytes(b"")
    assert machine.locked("--upgrade") == before
