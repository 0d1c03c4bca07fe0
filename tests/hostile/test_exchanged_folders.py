"""A folder or a file that becomes a link while envspec writes: whenever that happens, nothing changes behind the link.

The exchange is made before each call of the system, one after the other, as the fastest of racers would.
"""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support.matrix import first_by_day
from support.victim import files_below

from envspec.base import atomic
from envspec.base.errors import EnvspecError
from envspec.base.open_folder import Location, open_folder

CALLS = ("open", "stat", "mkdir", "rmdir", "unlink", "replace", "listdir", "fsync", "fstat")


@contextmanager
def before_call(number: int, act: Callable[[], None]) -> Iterator[list[str]]:
    """Do something before the call of this number (from 1); gives the names of all calls that were made."""
    made: list[str] = []
    real = {name: getattr(os, name) for name in CALLS}

    def wrapped(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            made.append(name)
            if len(made) == number:
                for each, original in real.items():
                    setattr(os, each, original)
                act()
            return real[name](*arguments, **options)

        return call

    for name in CALLS:
        setattr(os, name, wrapped(name))
    try:
        yield made
    finally:
        for name, original in real.items():
            setattr(os, name, original)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    (folder / "a").mkdir(parents=True)
    for name in ("file", "old", "a/file", "0", "held"):
        (folder / name).write_text("the user's own\n")
    return folder


def write(root: Path) -> None:
    with Location(root, "locks/demo").open(make=True) as folder:
        atomic.replace_files(folder, {"file": b"new\n", "a/file": b"new\n", "b/c/file": b"new\n", "a/old": None})


def append(root: Path) -> None:
    with Location(root, "locks/demo").open() as folder, folder.enter("a") as place, place.append("file") as file:
        file.write(b"more\n")


def write_one(root: Path) -> None:
    atomic.write_text(Location(root, "locks/demo/a"), "file", "new\n")


@pytest.mark.parametrize("work", [write, append, write_one])
@pytest.mark.parametrize(
    "path", first_by_day(2, ["locks", "locks/demo", "locks/demo/a", "locks/demo/file", "locks/demo/a/file", "staging"])
)
def test_exchanged_before_each_call(tmp_path: Path, victim: Path, path: str, work: Callable[[Path], None]) -> None:
    before = files_below(victim)
    for number in range(1, 400):
        root = tmp_path / "root"
        place = root / "locks" / "demo"
        (place / "a").mkdir(parents=True)
        for name in ("file", "a/file", "a/old"):
            (place / name).write_text("old\n")

        def exchange(root: Path = root, place: Path = place) -> None:
            found = next(iter(place.glob(".envspec-*")), None) if path == "staging" else root / path
            if found is not None and not found.is_symlink():
                is_file = found.is_file()
                found.rename(root / "moved")
                found.symlink_to(victim / found.name if is_file else victim)

        with before_call(number, exchange) as made, suppress(EnvspecError, OSError):
            work(root)
        assert files_below(victim) == before, f"call {number}, {made[-1]}"
        shutil.rmtree(root)
        if len(made) < number:
            assert number > 5, "fewer calls prove nothing"
            return
    pytest.fail("the write takes more calls than this test knows")


@pytest.mark.slow
def test_a_racer(tmp_path: Path, victim: Path) -> None:
    """The same without a plan: another thread exchanges the folder for a link and back, as fast as it can."""
    before = files_below(victim)
    root = tmp_path / "root"
    target = root / "locks" / "demo" / "a"
    target.mkdir(parents=True)
    stop = threading.Event()

    def race() -> None:
        while not stop.is_set():
            with suppress(OSError):
                target.rename(root / "aside")
                target.symlink_to(victim)
                target.unlink()
                (root / "aside").rename(target)

    racer = threading.Thread(target=race)
    racer.start()
    ended = {"written": 0, "refused": 0}
    try:
        for turn in range(300):
            try:
                with Location(root, "locks/demo").open() as folder:
                    atomic.replace_files(folder, {"a/file": str(turn).encode(), "a/old": None})
                ended["written"] += 1
            except (EnvspecError, OSError):
                ended["refused"] += 1
    finally:
        stop.set()
        racer.join()
    assert files_below(victim) == before
    assert sum(ended.values()) == 300


@pytest.mark.parametrize("by_descriptor", [True, False], ids=["by descriptor", "by path"])
@pytest.mark.parametrize("path", ["a", "a/file", "a/b"])
def test_a_link_that_was_there_before(tmp_path: Path, victim: Path, path: str, by_descriptor: bool) -> None:
    """The narrower promise of systems without descriptors of folders: links that are there are refused."""
    before = files_below(victim)
    root = tmp_path / "root"
    (root / path).parent.mkdir(parents=True)
    (root / path).symlink_to(victim / "file" if path == "a/file" else victim)
    with open_folder(root, by_descriptor=by_descriptor) as folder:
        with pytest.raises(EnvspecError, match="this is a symbolic link"):
            atomic.replace_files(folder, {f"{path}/file" if path != "a/file" else path: b"new\n"})
        with pytest.raises(EnvspecError, match="this is a symbolic link"):
            folder.read_at(f"{path}/file" if path != "a/file" else path)
    assert files_below(victim) == before
