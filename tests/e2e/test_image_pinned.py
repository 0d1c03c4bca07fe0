"""An image whose Python and whose Debian packages are pinned, built by buildah: from stand-ins on loopback.

The build of Python is an archive that starts the base's own, since the real ones can't be had here. The archive of
snapshots sends on to the Debian mirror of this machine, whose answers are those of another day.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.debian import debian_mirror
from support.oci import Builder, envspec, lock_spec, opened_builder, skip_without
from support.python_stand_in import stand_in
from support.serving import Quiet, serving

from envspec.lock.model import LockedPython
from envspec.lock.store import LockFolder

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.network, pytest.mark.e2e]

SPEC = """[env]
name = "pinned"
python = "3.11"
[pip]
dependencies = ["six==1.16.0"]
[targets.cpu]
platform = "linux-64"
[image]
snapshot = "2026-11-01"
"""
VERSION, RELEASE = "3.11.99", "20990107"
FILE = f"cpython-{VERSION}+{RELEASE}-x86_64-unknown-linux-gnu-install_only_stripped.tar.gz"
PYTHON = f"/opt/python/cpython-{VERSION}-linux-x86_64-gnu/bin/python3.11"


@contextmanager
def served(content: bytes) -> Iterator[tuple[str, list[str]]]:
    """An address that has the build, and Debian as of a day; and the paths that it is asked for."""
    asked: list[str] = []
    mirror = debian_mirror()

    class Handler(Quiet):
        def do_GET(self) -> None:
            asked.append(self.path)
            of_day = re.fullmatch(r"/snap/(debian(?:-security)?)/20261101T000000Z/(.*)", self.path)
            if of_day:
                self.send_response(302)
                self.send_header("Location", f"{mirror.rstrip('/').removesuffix('debian')}{of_day[1]}/{of_day[2]}")
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif self.path == f"/{RELEASE}/{FILE.replace('+', '%2B')}":
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            else:
                self.send_error(404)

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        yield url, asked


def exported(folder: Path, sha256: str) -> Path:
    lock_spec(folder, "pinned", SPEC)
    locks = LockFolder(folder / "locks", "pinned")
    locks.write(replace(locks.load(), pythons=(LockedPython("linux-64", VERSION, RELEASE, FILE, sha256),)))
    envspec(folder, "export", "specs/pinned.toml", "--format", "dockerfile", "-o", "recipe")
    return folder / "recipe"


def with_sites(builder: Builder, address: str) -> Builder:
    builder.with_pythons(address)
    mirrors = builder.storage / "apt-mirrors"
    mirrors.write_text(f"debian-snapshot={address}/snap")
    return replace(builder, arguments=(*builder.arguments, f"--secret=id=apt-mirrors,src={mirrors}"))


def test_python_comes_by_its_hash_and_debian_of_its_day(tmp_path: Path) -> None:
    skip_without()
    content = stand_in("3.11", "/usr/bin/python3.11")
    digest = hashlib.sha256(content).hexdigest()
    recipe = exported(tmp_path / "right", digest)
    (tmp_path / "buildah").mkdir()
    with served(content) as (address, asked), opened_builder(tmp_path / "buildah", recipe, "cpu", "") as plain:
        builder = with_sites(plain, address)
        builder.build("localhost/pinned")
        container = builder("from", "localhost/pinned").strip()
        root = Path(builder("mount", container).strip())
        assert (root / "opt/env/bin/python").readlink() == Path(PYTHON)
        assert (root / PYTHON.lstrip("/")).parents[1].joinpath("BUILD").read_text().strip() == RELEASE
        sources = "".join(path.read_text() for path in (root / "etc/apt").rglob("*.[ls][io]*") if path.is_file())
        assert "127.0.0.1" not in sources and not (root / "var/lib/apt/site").exists(), "the image keeps its own"
        builder("umount", container)
        ran = builder.run(container, "/opt/env/bin/python", "-c", "import six, sys; print(sys.version)")
        assert ran.returncode == 0 and ran.stdout.startswith("3.11."), ran.stderr
        assert sum(path.endswith("stripped.tar.gz") for path in asked) == 1
        assert any(path.startswith("/snap/debian/20261101T000000Z/dists/") for path in asked)

        wrong = exported(tmp_path / "wrong", "0" * 64)
        with pytest.raises(AssertionError, match="Hash mismatch"):
            replace(builder, context=wrong).build("localhost/wrong")
