"""The commands that heads of exported files print for Docker, as they stand, by Docker itself: builds and their
services, without a word changed. No registry can be reached, so what Dockerfiles name lies in the daemon: a
`debian:trixie-slim` that knows this machine's certificates, and uv. The lock's build of Python is one that lies there.
"""

import http.client
import os
import pty
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace
from support.debian import debian_tree
from support.docker_daemon import Docker, docker_daemon
from support.oci import CERTIFICATES, envspec, lock_spec
from support.python_build import BUILD, FILE, locked_build, standalone_build
from uv import find_uv_bin

from envspec.export.images import UV
from envspec.lock.read import load
from envspec.lock.store import LockFolder

sys.path.append(str(Path(__file__).parents[1] / "export"))
from test_heads import Printed, heads

pytestmark = [
    pytest.mark.nightly, pytest.mark.slow, pytest.mark.network, pytest.mark.e2e, pytest.mark.xdist_group("docker"),
]  # fmt: skip

HOW_TOS = Path(__file__).resolve().parents[2] / "docs" / "how-to"
SPEC = f"""\
[env]
name = "served"
python = "{sys.version_info.major}.{sys.version_info.minor}"

[pip]
dependencies = ["jupyterlab", "tensorboard"]

[targets.cpu]
platform = "linux-64"

[image]
services = ["jupyter", "ssh", "tensorboard"]
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    lock_spec(folder, "served", SPEC)
    lock = load(folder / "locks" / "served" / "envspec.lock")
    build = locked_build(standalone_build(tmp_path_factory))
    LockFolder(folder / "locks", "served").write(replace(lock, pythons=(build,)))
    envspec(folder, "export", "specs/served.toml", "--format", "all", "-o", "recipes/served")
    (folder / "recipes" / "served" / "train.py").write_text("import numpy; print('trained with', numpy.__name__)\n")
    return folder


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The trees of the images that recipes name."""
    folder = tmp_path_factory.mktemp("images")
    subprocess.run(["cp", "-a", debian_tree(), folder / "debian"], check=True)
    files = {
        "debian/etc/ssl/certs/ca-certificates.crt": CERTIFICATES.read_bytes(),
        "debian/etc/uv/uv.toml": b'system-certs = true\npython-install-mirror = "file:///mirror"\n',
        f"debian/mirror/{BUILD}/{FILE}": standalone_build(tmp_path_factory).read_bytes(),
        "uv/uv": Path(find_uv_bin()).read_bytes(),
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "uv" / "uv").chmod(0o755)
    return {"debian:trixie-slim": folder / "debian", UV: folder / "uv"}


@pytest.fixture(scope="module")
def docker(project: Path, images: dict[str, Path]) -> Iterator[Docker]:
    with docker_daemon(project) as made:
        for name, tree in images.items():
            made.import_tree(name, tree)
        yield made


def printed(project: Path, *words: str) -> Printed:
    """The line of a head that has these words."""
    (found,) = (one for one in heads(project / "recipes") if set(words) <= {*one.words})
    return found


def told(docker: Docker, one: Printed, **env: str) -> str:
    ran = docker.run(one.line, one.folder, **env)
    assert ran.returncode == 0, f"{one.line}\n{ran.stdout[-3000:]}{ran.stderr[-5000:]}"
    return ran.stdout + ran.stderr


def test_a_dockerfiles_head_builds_and_serves_without_keys(docker: Docker, project: Path) -> None:
    told(docker, printed(project, "docker", "buildx", "-t"))
    run = printed(project, "docker", "run", "-it")
    ports = [word.split(":")[-1] for word in run.words if word.startswith("127.0.0.1:")]
    assert ports == ["8888", "2222", "6006"]
    seen, terminal = pty.openpty()
    words = docker.inside("sh", "-c", f'cd "$0" && {run.line}', str(run.folder))
    with subprocess.Popen(words, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True) as started:
        os.close(terminal)
        out: list[bytes] = []
        reads = threading.Thread(target=lambda: out.extend(iter(partial(read, seen), b"")), daemon=True)
        reads.start()
        try:
            wait_for_services(started, lambda: b"".join(out).decode())
            os.write(seen, b"\3")
            with suppress(subprocess.TimeoutExpired):
                started.wait(60)
            assert started.returncode == 130, b"".join(out).decode()
        finally:
            started.kill()
        reads.join(30)
    os.close(seen)
    said = b"".join(out).decode()
    assert "give public keys by AUTHORIZED_KEYS" in said and re.search(r"8888/\S*token=\w+", said), said


def read(terminal: int) -> bytes:
    """What a terminal shows; nothing once its other side is closed."""
    try:
        return os.read(terminal, 10_000)
    except OSError:
        return b""


def wait_for_services(started: subprocess.Popen[bytes], out: Callable[[], str]) -> None:
    end = time.monotonic() + 120
    while not (answers(8888) and answers(6006)):
        assert started.poll() is None and time.monotonic() < end, out()
        time.sleep(0.5)


def answers(port: int) -> bool:
    """Whether a server answers, with whatever status: TensorBoard's pages are below a secret path."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status > 0
    except OSError:
        return False
    finally:
        connection.close()


def test_a_compose_files_head_builds_and_trains(docker: Docker, project: Path) -> None:
    told(docker, printed(project, "docker", "buildx", "bake", "cpu"))
    told(docker, printed(project, "docker", "compose", "--profile", "all", "build"))
    folder = project / "recipes" / "served"
    trains = printed(project, "docker", "compose", "run")
    assert "trained with numpy" in told(docker, trains, ENVSPEC_WORKSPACE=str(folder))
    assert yaml.safe_load((folder / "compose.yaml").read_text())["services"].keys() == {"cpu"}


def test_a_how_tos_line_of_compose_serves(docker: Docker, project: Path, tmp_path: Path) -> None:
    line = "docker compose up --build cpu"
    assert line in (HOW_TOS / "team-image.md").read_text("utf-8")
    folder, log = project / "recipes" / "served", tmp_path / "log"
    with log.open("wb") as out:
        words = docker.inside("sh", "-c", f'cd "$0" && {line}', str(folder))
        started = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        wait_for_services(started, log.read_text)
        assert docker.run("docker compose --profile all down --timeout 20 --volumes", folder).returncode == 0
        started.wait(60)
        assert "give public keys by AUTHORIZED_KEYS" in log.read_text()
    finally:
        started.kill()
        started.wait()


@pytest.mark.skipif(shutil.which("enroot") is None, reason="enroot isn't installed")
def test_a_pyxis_jobs_head_imports_the_image(docker: Docker, project: Path) -> None:
    """By NVIDIA's enroot on PATH, which finds the image in Docker."""
    imports = printed(project, "enroot", "import")
    env = {**os.environ, "DOCKER_HOST": f"unix://{docker.folder}/docker/socket"}
    subprocess.run(["sh", "-c", imports.line], cwd=imports.folder, env=env, check=True, timeout=600)
    (image,) = (word for word in imports.words if word.endswith(".sqsh"))
    listed = subprocess.run(["unsquashfs", "-l", imports.folder / image], capture_output=True, text=True, check=True)
    assert "squashfs-root/opt/envspec/target.json" in listed.stdout
