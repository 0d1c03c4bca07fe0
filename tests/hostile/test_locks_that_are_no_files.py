"""A pipe, a device, a socket, a folder or a link in place of a lock: refused by name at once, with exit code 2."""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from support.victim import Hostile, hostile

pytestmark = pytest.mark.e2e


def device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("making a device takes root")


def bound(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


ODD: dict[str, Callable[[Path], None]] = {
    "a named pipe": os.mkfifo,
    "a device": device,
    "a socket": bound,
    "a folder": os.mkdir,
    "a symbolic link": lambda path: path.symlink_to("/dev/zero"),
}
COMMANDS = {
    "check": ("check",),
    "lock": ("lock", "specs/demo.toml"),
    "upgrade": ("lock", "specs/demo.toml", "--upgrade"),
    "install": ("install", "specs/demo.toml", "--prefix", "env"),
    "export": ("export", "specs/demo.toml", "-f", "requirements"),
    "bundle": ("bundle", "specs/demo.toml", "-o", "x.tar"),
    "tree": ("tree", "specs/demo.toml"),
    "diff": ("diff", "specs/demo.toml", "--from", "HEAD"),
    "report": ("report", "specs/demo.toml", "-o", "x.html"),
    "smoke": ("smoke", "specs/demo.toml"),
}


@pytest.fixture
def repository(tmp_path: Path) -> Hostile:
    return hostile(tmp_path)


@pytest.mark.parametrize("kind", ODD)
def test_as_the_lock(repository: Hostile, kind: str) -> None:
    repository.lock.unlink()
    ODD[kind](repository.lock)
    for arguments in COMMANDS.values():
        ran = repository.refused("locks/demo/envspec.lock", *arguments)
        assert f"this is {kind}" in ran.error, ran.err


def test_a_lock_that_is_too_large_to_be_one(repository: Hostile) -> None:
    """A pull request's: 200 MiB of comments took minutes to read, and of empty lines gigabytes."""
    with repository.lock.open("ab") as file:
        file.write(b"#\n" * (9 << 20))
    for command in ("check", "diff", "export"):
        ran = repository.machine.envspec(*COMMANDS[command])
        assert ran.status in (1, 2) and "locks/demo/envspec.lock: larger than 16 MiB" in ran.out + ran.err, ran.err


@pytest.mark.parametrize("kind", [kind for kind in ODD if kind != "a folder"])
def test_as_a_rendered_file(repository: Hostile, kind: str) -> None:
    file = repository.lock.parent / "cpu" / "requirements.txt"
    file.unlink()
    ODD[kind](file)
    for command in ("check", "lock"):
        ran = repository.refused("locks/demo/cpu/requirements.txt", *COMMANDS[command])
        assert f"this is {kind}" in ran.error, ran.err


@pytest.mark.parametrize("kind", ["a named pipe", "a device", "a socket"])
def test_as_a_file_that_is_asked_for(repository: Hostile, kind: str) -> None:
    place = repository.folder / "out.html"
    ODD[kind](place)
    before = place.lstat()
    repository.refused("out.html", "report", "specs/demo.toml", "-o", "out.html")
    assert os.path.samestat(before, place.lstat())


def test_the_null_device_stays(repository: Hostile, tmp_path: Path) -> None:
    """For root, a rename over it would be the end of /dev/null; tried on one of our own."""
    null = tmp_path / "null"
    device(null)
    repository.refused("null", "report", "specs/demo.toml", "-o", str(null))
    assert stat.S_ISCHR(null.lstat().st_mode)
