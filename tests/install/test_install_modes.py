"""Modes of what envspec writes, whatever the umask, and what a killed run leaves."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.conda_archives import Channel, borrowed_python
from support.hostile_archives import Forged, Member
from support.index import Index
from support.installs import SPEC, SUBDIR, pip_pin, serve_lock, write_lock
from support.machine import Machine
from support.packages import wheel

from envspec.install.prefix import sweep


@pytest.fixture
def umask_000() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def world_writable(folder: Path) -> list[str]:
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if not path.is_symlink() and stat.S_IMODE(path.lstat().st_mode) & stat.S_IWOTH
    ]


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("conda", [False, True], ids=["venv", "conda"])
def test_umask_000_lets_nobody_else_write(
    machine: Machine, index: Index, tmp_path: Path, conda: bool, umask_000: None
) -> None:
    """An environment, the caches, a bundle; also where archives bring such modes of their own."""
    machine.configure("")
    (machine.home / ".cache").mkdir(exist_ok=True)
    for path in [machine.base, *machine.base.rglob("*")]:
        # what the test made is as a careful user's
        path.chmod(0o755 if path.is_dir() else 0o644)
    app, channel = wheel("app", "1.0"), Channel(tmp_path / "own")
    index.add(app)
    open_modes = [Member("share/open", b"x", mode=0o666), Member("bin/open", b"#!/bin/sh\n", mode=0o777)]
    packages = [borrowed_python(SUBDIR), Forged("tool", "1.0", members=open_modes)] if conda else []
    channel.add(*packages)
    write_lock(machine, [pip_pin(app), *map(channel.pin, packages)], channels=[channel.url])
    machine.lock_path().parent.chmod(0o755)
    before = set(world_writable(machine.base))
    prefix = machine.folder / "env"
    machine.envspec("install", SPEC, "--prefix", str(prefix), spawn=True, status=0)
    machine.envspec("bundle", SPEC, "-o", str(machine.folder / "demo.tar"), spawn=True, status=0)
    assert (prefix / "etc/envspec/install.json").is_file() and (machine.folder / "demo.tar").is_file()
    opened = {path for path in world_writable(machine.base) if path not in before}
    # uv opens the empty files that it locks its own cache by to all who share it, whatever the umask
    assert opened <= {path for path in opened if path.startswith("home/.cache/uv/") and path.endswith(".lock")}
    assert all((machine.base / path).stat().st_size == 0 for path in opened)
    if conda:
        assert os.access(prefix / "bin/open", os.X_OK)


@pytest.mark.e2e
@pytest.mark.slow
def test_umask_027_and_002_are_kept(machine: Machine, index: Index) -> None:
    """What a user closes stays closed, and a group that shares its folders goes on sharing them."""
    app = wheel("app", "1.0")
    serve_lock(machine, index, app)
    for mask, mode in ((0o027, 0o640), (0o002, 0o664)):
        before = os.umask(mask)
        try:
            prefix = machine.folder / f"env{mask:o}"
            assert machine.envspec("install", SPEC, "--prefix", str(prefix)).status == 0
        finally:
            os.umask(before)
        assert stat.S_IMODE((prefix / "etc/envspec/install.json").stat().st_mode) == mode


@pytest.mark.slow
@pytest.mark.e2e
def test_what_a_killed_run_had_begun_to_write_is_swept(machine: Machine, index: Index) -> None:
    app = wheel("app", "1.0")
    serve_lock(machine, index, app)
    prefix = machine.folder / "env"
    assert machine.envspec("install", SPEC, "--prefix", str(prefix)).status == 0
    left = [prefix / place / ".envspec-0123456789abcdef" for place in ("etc/envspec", "bin")]
    kept = [
        prefix / "etc/envspec/.envspec-mine/held",
        prefix / "etc/envspec/install.json",
        prefix / "bin/.envspec-0123456789ABCDEF/held",
    ]
    for path in (*(folder / name for folder in left for name in ("held", "0")), kept[0], kept[2]):
        path.parent.mkdir(exist_ok=True)
        path.write_text("half")
    assert "nothing to do" in machine.envspec("install", SPEC, "--prefix", str(prefix)).out
    assert [path.exists() for path in left] == [False, False]
    assert [path.exists() for path in kept] == [True, True, True]


@pytest.mark.e2e
def test_sweeping_nothing(tmp_path: Path) -> None:
    sweep(tmp_path / "none", [Path("bin/activate")])
