"""An exported Dockerfile, built by buildah and started: torch for CPUs, JupyterLab and sshd, a package from source.

`support.oci` says what stands in for the images and the index that can't be had here.
"""

import contextlib
import hashlib
import http.client
import json
import os
import re
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.oci import Builder, entry, envspec, lock_spec, opened_builder, skip_without, torch_mirror
from support.ports import free_ports
from support.sif import torch_wheel

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.network, pytest.mark.e2e]

SPEC = r"""[env]
name = "served"
description = 'Says "hello", costs $5 and has a \ and a `tick`'
python = "3.11"

[pip]
dependencies = ["torch==2.13.0", "numpy", "jupyterlab", "docopt==0.6.2", "six==1.16.0"]
allow-source = ["docopt"]

[targets.cpu]
platform = "linux-64"

[image]
base = "localhost/base:bookworm"
python = "base"
services = ["jupyter", "ssh"]
apt = ["less"]
env = { GREETING = "it's \"$HOME\" `id` \\n ${x} #", HF_HOME = "/workspace/hf" }

[smoke]
steps = 20
"""
GREETING = 'it\'s "$HOME" `id` \\n ${x} #'
PATH = "/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TOKEN = "e2e-token"
"""Of this test alone, for a server on loopback."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The spec, locked with real indexes and exported."""
    skip_without("ssh", "ssh-keygen")
    torch_wheel()
    folder = tmp_path_factory.mktemp("project")
    lock_spec(folder, "served", SPEC)
    envspec(folder, "export", "specs/served.toml", "--format", "dockerfile", "-o", "recipe")
    return folder


@pytest.fixture(scope="module")
def builder(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    with (
        torch_mirror(tmp_path_factory.mktemp("mirror")) as mirror,
        opened_builder(tmp_path_factory.mktemp("buildah"), project / "recipe", "cpu", mirror) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def image(builder: Builder) -> str:
    builder.build("localhost/served")
    return "localhost/served"


@pytest.fixture
def container(builder: Builder, image: str) -> Iterator[str]:
    name = builder("from", image).strip()
    yield name
    builder("rm", name)


def test_it_runs_as_its_user_with_its_environment(builder: Builder, container: str) -> None:
    code = "import os, torch, docopt, sys; print(torch.__version__, os.getuid(), os.getcwd(), sys.prefix)\n"
    ran = builder.run(container, *entry("python", "-c", code + "print(os.environ['GREETING'])"))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["2.13.0+cpu 1000 /workspace /opt/env", GREETING]


def test_it_says_what_it_is(builder: Builder, image: str, project: Path) -> None:
    told = json.loads(builder("inspect", "--type", "image", image))["Docker"]["config"]
    labels = told["Labels"]
    assert (
        labels["envspec.spec"] == "served" and labels["envspec.target"] == "cpu" and "envspec.lock.digest" not in labels
    )
    assert (told["User"], told["WorkingDir"]) == ("1000:1000", "/workspace")
    assert set(told["ExposedPorts"]) == {"8888/tcp", "2222/tcp"}
    assert told["Healthcheck"]["Test"] == ["CMD", "/opt/envspec/healthcheck.sh"]


def test_the_static_checks_pass_inside(builder: Builder, container: str) -> None:
    ran = builder.run(container, *entry("smoke", "--quick", "--only", "static"))
    assert ran.returncode == 0 and " 0 failed" in ran.stderr, ran.stderr[-5000:]


def test_the_smoke_check_passes_inside(builder: Builder, container: str) -> None:
    ran = builder.run(container, *entry("smoke", "--quick"))
    assert ran.returncode == 0, ran.stderr[-5000:]


def test_nothing_of_the_build_is_left(builder: Builder, container: str) -> None:
    tree = Path(builder("mount", container).strip())
    assert list(tree.glob("etc/ssh/ssh_host_*")) == []
    assert not (tree / "etc/uv/uv.toml").exists() or (tree / "etc/uv/uv.toml").read_text() == ""
    assert [path for path in tree.glob("var/log/**/*") if path.is_file()] == []
    assert not (tree / "usr/bin/make").exists(), "the tools of the stage that compiles"
    assert sorted(path.name for path in (tree / "opt").iterdir()) == ["env", "envspec"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tree / "opt" / "envspec").rglob("*")} == {0o755}
    passwords = [line.split(":")[:2] for line in (tree / "etc/shadow").read_text().splitlines()]
    assert ["dev", "!"] in passwords


@dataclass
class Started:
    process: subprocess.Popen[str]
    jupyter: int
    ssh: int
    key: Path
    log: Path

    def get(self, path: str, **headers: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.jupyter, timeout=30)
        try:
            connection.request("GET", path, headers=headers)
            return connection.getresponse().status
        finally:
            connection.close()

    def login(self, user: str, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        known = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
        given = ["-F", "none", "-p", str(self.ssh), "-o", "BatchMode=yes", *known, *options, f"{user}@127.0.0.1"]
        return subprocess.run(["ssh", *given, command], capture_output=True, text=True, check=False, timeout=60)


def end_session(process: subprocess.Popen[str]) -> None:
    """End a process and what it started: buildah's own SIGTERM reaches nothing inside the container."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + 20
        for pid in living(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        while time.monotonic() < end:
            process.poll()
            if not living(process.pid):
                return
            time.sleep(0.1)
    raise AssertionError(f"still running: {living(process.pid)}")


def living(session: int) -> list[int]:
    """The processes of a session that haven't ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, of, *_ = path.read_text().rpartition(")")[2].split()
            if int(of) == session and state != "Z":
                found.append(int(path.parent.name))
    return found


@pytest.fixture
def started(builder: Builder, container: str, tmp_path: Path) -> Iterator[Started]:
    """The services together, as the image starts them."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    first, second = free_ports(2)
    made = Started(None, first, second, key, tmp_path / "log")  # type: ignore[arg-type]
    command = builder.command(
        container,
        *entry(),
        AUTHORIZED_KEYS=key.with_suffix(".pub").read_text(),
        JUPYTER_TOKEN=TOKEN,
        JUPYTER_PORT=str(made.jupyter),
        SSH_PORT=str(made.ssh),
        ENVSPEC_BIND="127.0.0.1",
        HF_TOKEN="not-for-sessions",
    )
    with made.log.open("w") as log:
        made.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True, start_new_session=True
        )
    try:
        end = time.monotonic() + 120
        while True:
            assert made.process.poll() is None and time.monotonic() < end, made.log.read_text()
            try:
                if made.get("/api") == 200:
                    break
            except OSError:
                time.sleep(0.2)
        yield made
    finally:
        end_session(made.process)


def test_the_services(builder: Builder, container: str, started: Started) -> None:
    assert started.get("/api/contents") == 403
    assert started.get("/api/contents", Authorization="token wrong") == 403
    assert started.get("/api/contents", Authorization=f"token {TOKEN}") == 200
    ports = {"JUPYTER_PORT": str(started.jupyter), "SSH_PORT": str(started.ssh), "ENVSPEC_BIND": "127.0.0.1"}
    assert builder.run(container, "/opt/envspec/healthcheck.sh", **ports).returncode == 0

    key = ("-i", str(started.key))
    ran = started.login("dev", "id -un; which python; env", *key)
    assert ran.returncode == 0, started.log.read_text()
    user, python, *env = ran.stdout.splitlines()
    assert (user, python) == ("dev", "/opt/env/bin/python")
    assert {"PYTHONNOUSERSITE=1", "PYTORCH_VERSION=2.13.0", "HF_HOME=/workspace/hf", "ENVSPEC_SPEC=served"} <= set(env)
    assert f"GREETING={GREETING}" in env
    assert [one for one in env if one.startswith("PATH=")] == [f"PATH={PATH}"]
    assert "not-for-sessions" not in ran.stdout and TOKEN not in ran.stdout
    assert started.login("dev", "bash -lc 'which python'", *key).stdout == "/opt/env/bin/python\n"

    assert started.login("root", "id", *key).returncode == 255
    passwords = ("-o", "PubkeyAuthentication=no", "-o", "PreferredAuthentications=password,keyboard-interactive")
    assert started.login("dev", "id", *passwords).returncode == 255
    assert started.log.read_text().count(TOKEN) == 0

    tree = Path(builder("mount", container).strip())
    keys = list(tree.rglob("ssh_host_*_key"))
    assert len(keys) == 1 and stat.S_IMODE(keys[0].parent.stat().st_mode) == 0o700


def files_of(tree: Path) -> dict[str, tuple[int, int, int, str]]:
    """Mode, owner and content of everything below a folder."""
    found = {}
    for place, folders, files in os.walk(tree):
        for name in folders + files:
            path = Path(place, name)
            state = path.lstat()
            content = ""
            if stat.S_ISLNK(state.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(state.st_mode):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(tree))] = (state.st_mode, state.st_uid, state.st_gid, content)
    return found


def test_two_builds_give_the_same_files(builder: Builder, image: str) -> None:
    builder.build("localhost/served-again", "--no-cache")
    trees = []
    for name in (image, "localhost/served-again"):
        made = builder("from", name).strip()
        trees.append(files_of(Path(builder("mount", made).strip())))
        builder("rm", made)
    first, second = trees
    assert len(first) > 10_000
    assert {path for path in {*first, *second} if first.get(path) != second.get(path)} == set()


def test_a_package_that_moves_makes_one_layer_new(builder: Builder, image: str, project: Path) -> None:
    spec = project / "specs" / "served.toml"
    try:
        spec.write_text(SPEC.replace("six==1.16.0", "six==1.17.0"))
        envspec(project, "lock", "specs/served.toml")
        envspec(project, "export", "specs/served.toml", "--format", "dockerfile", "-o", "recipe")
        said = builder.build("localhost/served-moved")
    finally:
        spec.write_text(SPEC)
    steps = re.split(r"^\[\d+/\d+\] ", said, flags=re.MULTILINE)[1:]
    layers = [step for step in steps if re.match(r"STEP \d+/\d+: (RUN|COPY|ADD)", step)]
    new = [step for step in layers if "Using cache" not in step]
    made = [step for step in new if "RUN" in step.partition("\n")[0]]
    # the layer of its own, and what is carried: the slice of the lock
    assert len(made) == 2 and "install rest rest" in made[0] and "carried carried" in made[1]
    assert any("/layers/torch" in step for step in layers if step not in new)
