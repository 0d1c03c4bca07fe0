"""A build of CPython as python-build-standalone publishes them, made of this machine's own Python: of the same form,
and it works at any path. The real ones can't be reached here."""

import gzip
import io
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from msgspec.structs import replace

from envspec.facts.python_builds import TRIPLES
from envspec.lock.model import Lock, LockedPython
from envspec.lock.store import LockFolder
from envspec.net.file_store import sha256_of
from support.installs import PYTHON, SUBDIR
from support.machine import Machine
from support.once import once
from support.serving import QuietFiles, serving

BUILD = "20990101"
"""Of a day after any table of builds, so that none says that there is no such one."""
VERSION = ".".join(map(str, sys.version_info[:3]))
FILE = f"cpython-{VERSION}+{BUILD}-{TRIPLES[SUBDIR]}-install_only_stripped.tar.gz"
_LEFT_OUT = {"test", "idlelib", "tkinter", "lib2to3", "ensurepip", "__pycache__", "site-packages"}


def standalone_build(factory: pytest.TempPathFactory) -> Path:
    """The archive of the build, made once a test run. Skips where this machine's Python works at its own path alone."""
    return once(factory, "python-build", lambda folder: make_build(folder / FILE)) / FILE


def make_build(path: Path) -> None:
    """Write the archive of the build. Skips as `standalone_build`."""
    if sys.base_prefix == "/usr":
        pytest.skip("Debian's own Python works below /usr alone")
    base = Path(sys.base_prefix)
    with gzip.open(path, "wb", compresslevel=0) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        _add(tar, f"bin/python{PYTHON}", (base / "bin" / f"python{PYTHON}").read_bytes(), 0o755)
        for path in sorted(base.glob(f"lib/libpython{PYTHON}.so*")):
            _add(tar, f"lib/{path.name}", path.read_bytes(), 0o755)
        tar.add(base / "include" / f"python{PYTHON}", f"python/include/python{PYTHON}")
        standard = base / "lib" / f"python{PYTHON}"
        tar.add(standard, f"python/lib/python{PYTHON}", filter=partial(_standard, f"python/lib/python{PYTHON}/"))
        # what a real build has as a package, and no lock names
        _add(tar, f"lib/python{PYTHON}/site-packages/pip/__init__.py", b"", 0o644)
        _add(tar, "bin/pip3", b"#!/install/bin/python3\n", 0o755)


def _standard(root: str, member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    first = member.name.removeprefix(root).partition("/")[0]
    return None if first in _LEFT_OUT or first.startswith("config-") else member


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    own = sysconfig.get_config_var("LIBDIR").encode()
    if name.startswith(("bin/python", "lib/libpython")):
        # where the loader looks for libpython, which is shorter than what it stands in the place of
        content = content.replace(own + b"\0", b"$ORIGIN/../lib".ljust(len(own), b"\0") + b"\0")
    info = tarfile.TarInfo(f"python/{name}")
    info.size, info.mode = len(content), mode
    tar.addfile(info, io.BytesIO(content))


@contextmanager
def served(build: Path, folder: Path) -> Iterator[str]:
    """The address of a mirror that has the build in a new folder."""
    (folder / BUILD).mkdir(parents=True)
    (folder / BUILD / FILE).symlink_to(build)
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietFiles, directory=str(folder)))) as url:
        yield url


def locked_build(build: Path) -> LockedPython:
    """The build as a lock names it."""
    return LockedPython(SUBDIR, VERSION, BUILD, FILE, sha256_of(build), build.stat().st_size)


def lock_build(machine: Machine, lock: Lock, build: Path) -> None:
    """Write the lock with the build."""
    LockFolder(machine.locks, lock.name).write(replace(lock, pythons=(locked_build(build),)))
