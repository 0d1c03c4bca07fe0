"""`envspec cache fill --mirror`: a folder of plain files that a plain web server serves. What was locked from the real
indexes is installed, locked anew and put into images from it alone."""

import hashlib
import json
import sys
from collections.abc import Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.base_image import system, write_base
from support.conda_archives import Channel, data_package
from support.documents import valid
from support.index import Index
from support.installs import write_lock
from support.machine import Machine, cpu
from support.packages import wheel
from support.serving import QuietFiles, serving
from support.site import place_policy
from test_image_python import BUILD, FILES, archive

from envspec.lock.model import LockedPython
from envspec.lock.store import LockFolder

pytestmark = pytest.mark.e2e

SPEC = "specs/demo.toml"
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
FILE = f"cpython-{PYTHON}.5+{BUILD}-x86_64-unknown-linux-gnu-install_only_stripped.tar.gz"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and where it is served."""
    (tmp_path / "mirror").mkdir()
    handler = partial(QuietFiles, directory=str(tmp_path / "mirror"))
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as url:
        yield tmp_path / "mirror", url


@pytest.mark.slow
def test_a_plain_web_server_is_the_mirror_of_what_is_locked(
    machine: Machine, index: Index, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mirror, url = served
    content = archive(FILES, {"python/bin/python3": "python3.12"})
    builds = tmp_path / "builds" / BUILD
    builds.mkdir(parents=True)
    (builds / FILE).write_bytes(content)
    with Index() as internal:
        index.add(wheel("alpha", "1.0", "beta"), wheel("beta", "1.0"), uploaded="2020-01-01T00:00:00Z")
        internal.add(wheel("acme", "1.0+cu1", "alpha"))
        extra = f"indexes = {{ own = '{internal.url}' }}\nsources = {{ acme = 'own' }}\n"
        machine.locked(spec=cpu("alpha", "acme", extra=extra, python=PYTHON))
        build = LockedPython("linux-64", f"{PYTHON}.5", BUILD, FILE, hashlib.sha256(content).hexdigest(), len(content))
        LockFolder(machine.locks, "demo").write(replace(machine.lock(), pythons=(build,)))
        machine.configure(f'python = "{builds.parent.as_uri()}"')
        machine.variables["UV_PYTHON_DOWNLOADS"] = "automatic"
        ran = machine.envspec("cache", "fill", SPEC, "--mirror", str(mirror), "--json", status=0)
    document = valid(ran.out, "cache")
    assert document["filled"]["mirrors"] == ["own", "pypi", "python"] and document["filled"]["files"] == 4
    names = {path.relative_to(mirror).as_posix() for path in mirror.rglob("*") if path.is_file()}
    assert names >= {"pypi/beta/beta-1.0-py3-none-any.whl", "own/acme/index.html", f"python/{BUILD}/{FILE}"}
    machine.default = ""
    lines = [f'{key} = "{url}/{key}"' for key in document["filled"]["mirrors"]]
    machine.configure("\n".join(lines))
    env = {"ENVSPEC_CACHE_DIR": str(tmp_path / "cache"), "UV_CACHE_DIR": str(tmp_path / "uv")}
    index.asked.clear()
    machine.envspec("install", SPEC, "--prefix", "p", env={**env, "UV_PYTHON_DOWNLOADS": "never"}, status=0)
    write_base(machine.folder / "base", system())
    machine.envspec("image", SPEC, "--base", "./base", "-o", "out", env=env, status=0)
    place_policy(monkeypatch, tmp_path, '[releases]\nminimum-age = "7 days"\n[releases.except]\nacme = "ours"\n')
    machine.envspec("lock", SPEC, "--upgrade", env=env, status=0)
    (tmp_path / "etc/envspec/policy.toml").unlink()
    assert machine.versions("cpu") == {"acme": "1.0+cu1", "alpha": "1.0", "beta": "1.0"} and not index.asked
    # with another lock what is there stays, what rotted comes anew, and what is left out is told
    index.add(wheel("beta", "2.0"))
    machine.default = index.url
    machine.locked("--upgrade-package", "beta", spec=cpu("beta", python=PYTHON))
    private = mirror / "private.key"
    private.write_text("mine")
    private.chmod(0o600)
    fill, never = ("cache", "fill", SPEC, "--mirror", str(mirror)), {"UV_PYTHON_DOWNLOADS": "never"}
    machine.envspec(*fill, env=never, status=0)
    (mirror / "pypi/beta/beta-2.0-py3-none-any.whl").write_bytes(b"rotted")
    ran = machine.envspec(*fill, env=never, status=0)
    assert private.stat().st_mode & 0o777 == 0o600, "what isn't the mirror's stays closed"
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in (mirror / "pypi").rglob("*"))
    assert "isn't put there: the cache has no " in ran.err and "UV_PYTHON_DOWNLOADS" in ran.err
    assert 'pypi = "URL/pypi"' in ran.err and (mirror / "pypi/beta/beta-2.0-py3-none-any.whl").stat().st_size > 6
    page = (mirror / "pypi/beta/index.html").read_text()
    assert "beta-1.0-py3-none-any.whl" in page and "beta-2.0-py3-none-any.whl" in page


@pytest.mark.slow
def test_a_channel_of_the_mirror_has_repodata(machine: Machine, served: tuple[Path, str], tmp_path: Path) -> None:
    pytest.importorskip("rattler")
    mirror, url = served
    tool = data_package("tool", "1.0", "as published")
    channel = Channel(tmp_path / "acme").add(tool)
    write_lock(machine, [channel.pin(tool)], channels=[channel.url])
    ran = machine.envspec("cache", "fill", SPEC, "--mirror", str(mirror), "--json", status=0)
    assert valid(ran.out, "cache")["filled"]["mirrors"] == ["acme"]
    machine.configure(f'acme = "{url}/acme"')
    sha256 = [pin.artifact.sha256 for pin in machine.lock().targets[0].pins if pin.artifact]
    channel.path(tool).unlink()
    env = {"ENVSPEC_CACHE_DIR": str(tmp_path / "cache")}
    machine.envspec("install", SPEC, "--prefix", "p", env=env, status=0)
    (repodata,) = (mirror / "acme").glob("*/repodata.json")
    listed = json.loads(repodata.read_text())
    assert [one["sha256"] for one in {**listed["packages"], **listed["packages.conda"]}.values()] == sha256
    assert (machine.folder / "p/share/tool.txt").read_text() == "as published"


@pytest.mark.slow
def test_a_flat_index_has_its_pages(machine: Machine, served: tuple[Path, str], tmp_path: Path) -> None:
    mirror, url = served
    flat = tmp_path / "flat"
    flat.mkdir()
    made = wheel("alpha", "1.0")
    (flat / made.file).write_bytes(made.content)
    (flat / "torch-2.8.html").write_text(f'<a href="{made.file}">{made.file}</a>')
    page = (flat / "torch-2.8.html").as_uri()
    machine.locked(
        spec=cpu(
            "alpha", extra=f"find-links = {{ wheels = '{page}' }}\nsources = {{ alpha = 'wheels' }}\n", python=PYTHON
        )
    )
    machine.envspec("cache", "fill", SPEC, "--mirror", str(mirror), status=0)
    (flat / made.file).unlink()
    machine.configure(f'wheels = "{url}/wheels"')
    env = {"ENVSPEC_CACHE_DIR": str(tmp_path / "cache"), "UV_CACHE_DIR": str(tmp_path / "uv")}
    machine.envspec("install", SPEC, "--prefix", "p", env=env, status=0)
