"""The Python that an image brings where its base has none: a build by its hash, from a mirror on loopback."""

import gzip
import hashlib
import io
import shutil
import tarfile
from collections.abc import Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.base_image import documents, members, system, text, write_base
from support.index import Index
from support.installs import SPEC, serve_lock
from support.machine import Machine
from support.packages import wheel
from support.serving import QuietFiles, serving
from support.site import place_site

from envspec.lock.model import LockedPython
from envspec.lock.store import LockFolder

pytestmark = pytest.mark.e2e

LIB = wheel("lib", "1.0")
VERSION, BUILD = "3.12.5", "20990101"
FILE = f"cpython-{VERSION}+{BUILD}-x86_64-unknown-linux-gnu-install_only_stripped.tar.gz"
HOME = f"opt/python/cpython-{VERSION}-linux-x86_64-gnu"
SYSCONFIG = "lib/python3.12/_sysconfigdata__linux_x86_64-linux-gnu.py"
FILES = {
    "python/bin/python3.12": b"\x7fELF",
    "python/bin/pip3": b"#!/install/bin/python3.12\n",
    "python/lib/python3.12/os.py": b"at = '/install/x'\n",
    "python/lib/python3.12/__pycache__/os.cpython-312.pyc": b"with a time",
    f"python/{SYSCONFIG}": b"vars = {'CC': 'clang', 'prefix': '/install'}\n",
    "python/include/python3.12/Python.h": b"",
}


def archive(files: dict[str, bytes], links: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, data in files.items():
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(data), 0o755 if "/bin/" in path else 0o644
            tar.addfile(info, io.BytesIO(data))
        for path, to in links.items():
            info = tarfile.TarInfo(path)
            info.type, info.linkname = tarfile.SYMTYPE, to
            tar.addfile(info)
    return gzip.compress(buffer.getvalue(), mtime=0)


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[str]:
    """Where a folder of builds is served."""
    (tmp_path / "builds" / BUILD).mkdir(parents=True)
    handler = partial(QuietFiles, directory=str(tmp_path / "builds"))
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as url:
        yield url


def locked(machine: Machine, index: Index, mirror: str, tmp_path: Path, content: bytes, served: bytes = b"") -> None:
    """A lock that names this build, a mirror that serves it, and a base without Python."""
    (tmp_path / "builds" / BUILD / FILE).write_bytes(served or content)
    lock = serve_lock(machine, index, LIB, python="3.12", platform="linux-64")
    build = LockedPython("linux-64", VERSION, BUILD, FILE, hashlib.sha256(content).hexdigest(), len(content))
    LockFolder(machine.locks, "demo").write(replace(lock, pythons=(build,)))
    write_base(machine.folder / "base", system())
    machine.configure(f'python = "{mirror}"')
    machine.variables["UV_PYTHON_DOWNLOADS"] = "automatic"


def test_the_locks_build_is_a_layer(machine: Machine, index: Index, mirror: str, tmp_path: Path) -> None:
    locked(machine, index, mirror, tmp_path, archive(FILES, {"python/bin/python3": "python3.12"}))
    machine.envspec("image", SPEC, "--base", "./base", "-o", "out", status=0)
    layout: Path = machine.folder / "out"
    python = members(layout, "python")
    assert python["opt/env/bin/python"].linkname == f"/{HOME}/bin/python3.12"
    assert python[f"{HOME}/bin/python3"].linkname == "python3.12" and python[f"{HOME}/bin/python3.12"].mode == 0o755
    assert text(layout, "python", f"{HOME}/bin/pip3") == f"#!/{HOME}/bin/python3.12\n"
    said = text(layout, "python", f"{HOME}/{SYSCONFIG}")
    assert said == f"vars = {{'CC': 'cc', 'prefix': '/{HOME}'}}\n"
    assert text(layout, "python", f"{HOME}/lib/python3.12/os.py") == "at = '/install/x'\n", "code is left as it is"
    assert not any("__pycache__" in path for path in python)
    assert f"home = /{HOME}/bin\n" in text(layout, "python", "opt/env/pyvenv.cfg")
    assert documents(layout)[1]["rootfs"]["type"] == "layers"


@pytest.mark.parametrize(
    ("files", "links", "said"),
    [
        ({"other/bin/python3.12": b""}, {}, "isn't below python/"),
        ({}, {"python/lib/x": "../../../etc"}, "it's a link out of its folder"),
        ({}, {"python/lib/x": "/etc"}, "it's a link out of its folder"),
        ({"python/a\\b": b""}, {}, "backslash"),
    ],
)
def test_a_build_that_leads_out_is_refused(
    files: dict[str, bytes],
    links: dict[str, str],
    said: str,
    machine: Machine,
    index: Index,
    mirror: str,
    tmp_path: Path,
) -> None:
    locked(machine, index, mirror, tmp_path, archive(files, links))
    ran = machine.envspec("image", SPEC, "--base", "./base", "-o", "out.tar")
    assert ran.status == 3 and said in ran.err and not (machine.folder / "out.tar").exists(), ran.err


def test_a_build_with_another_hash_is_refused(machine: Machine, index: Index, mirror: str, tmp_path: Path) -> None:
    content = archive(FILES, {})
    locked(machine, index, mirror, tmp_path, content, content[:-1] + b"x")
    ran = machine.envspec("image", SPEC, "--base", "./base", "-o", "out.tar")
    assert ran.status == 3 and "sha256" in ran.err


def test_a_mirror_that_lacks_the_build_is_named_and_a_shared_cache_has_it(
    machine: Machine, index: Index, mirror: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    locked(machine, index, mirror, tmp_path, archive(FILES, {}))
    served = tmp_path / "builds" / BUILD / FILE
    place_site(monkeypatch, tmp_path, "config.toml", f'[cache]\nshared = "{tmp_path}/shared"\n')
    machine.envspec("cache", "fill", SPEC, status=0)
    served.unlink()
    machine.envspec("image", SPEC, "--base", "base", "-o", "x.tar", status=0)
    shutil.rmtree(tmp_path / "shared")
    ran = machine.envspec("image", SPEC, "--base", "base", "-o", "y.tar", status=3)
    assert f"{BUILD}/{FILE} doesn't exist (HTTP 404)" in ran.err.replace("%2B", "+")
    assert (
        ran.hint == f"hint: {mirror} has to serve {BUILD}/{FILE}, or `envspec cache fill` puts it into a shared cache"
    )


COMMANDS = {
    "install": ("install", SPEC, "--prefix", "env"),
    "run": ("run", SPEC, "--", "true"),
    "smoke": ("smoke", SPEC, "-o", "smoked"),
    "squashfs of install": ("install", SPEC, "--prefix", "/opt/env", "--squashfs", "x.sqfs"),
    "image": ("image", SPEC, "--base", "./base", "-o", "out"),
    "squashfs": ("image", SPEC, "--squashfs", "y.squashfs"),
    "bundle": ("bundle", SPEC, "-o", "b.tar"),
    "bundle with its base": ("bundle", SPEC, "--with-base", "--base", "./base", "-o", "c.tar"),
    "fill": ("cache", "fill", SPEC),
}
IN_IMAGES = {"squashfs of install", "image", "squashfs", "bundle with its base"}


@pytest.mark.slow
@pytest.mark.parametrize("said", ["variable", "uv.toml"])
def test_no_command_fetches_a_python_where_the_user_lets_none_be_fetched(
    machine: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str
) -> None:
    """What needs the lock's build says so, and takes it from the cache where it is; exported builds get the word."""
    content = archive(FILES, {})
    asked: list[str] = []

    class Counted(QuietFiles):
        def do_GET(self) -> None:
            asked.append(self.path)
            super().do_GET()

    (tmp_path / "builds" / BUILD).mkdir(parents=True)
    handler = partial(Counted, directory=str(tmp_path / "builds"))
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as url:
        locked(machine, index, url, tmp_path, content)
        place_site(monkeypatch, tmp_path, "config.toml", f'[cache]\nshared = "{tmp_path}/shared"\n')
        uv = machine.home / ".config" / "uv" / "uv.toml"
        uv.parent.mkdir(parents=True)
        uv.write_text("" if said == "variable" else 'python-downloads = "never"\n')
        machine.variables["UV_PYTHON_DOWNLOADS"] = "manual" if said == "variable" else ""
        for name, words in COMMANDS.items():
            ran = machine.envspec(*words)
            assert not asked, (name, asked)
            if name in IN_IMAGES:
                wanted = f"the cache has no {FILE}, and UV_PYTHON_DOWNLOADS"
                assert ran.status == 2 and wanted in ran.err, (name, ran.err)
            elif name == "fill":
                assert f"note: Python {VERSION} isn't put there: the cache has no {FILE}" in ran.err, ran.err
        told = machine.envspec("export", SPEC, "-f", "dockerfile", "-f", "apptainer", "-o", "recipes", status=0).err
        assert told.count('python-downloads = "never"') == 2, told
        machine.envspec("cache", "fill", SPEC, env={"UV_PYTHON_DOWNLOADS": "automatic"}, status=0)
        assert len(asked) == 1
        machine.envspec("image", SPEC, "--base", "./base", "-o", "out", status=0)
        assert len(asked) == 1
