"""Digests against a real registry on loopback (`docker-registry`), with images that `buildah` pushes.

Logins and tokens are tried on a double in tests/resolve/test_image_digests.py: no token server can be had here.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel

from envspec.errors import IndexFailure
from envspec.resolve.fetch import Fetcher
from envspec.resolve.registry import Registries

pytestmark = pytest.mark.e2e

for tool in ("docker-registry", "buildah"):
    if shutil.which(tool) is None:
        pytest.skip(f"no {tool}", allow_module_level=True)

CONFIG = """\
version: 0.1
log: {{level: error}}
storage:
  filesystem: {{rootdirectory: {folder}}}
http:
  addr: {host}
"""


@dataclass
class Hub:
    """A registry with nothing in it, and a buildah with a store of its own."""

    host: str
    folder: Path

    def buildah(self, *arguments: str) -> str:
        places = ("--root", str(self.folder / "store"), "--runroot", str(self.folder / "run"))
        command = ["buildah", *places, "--storage-driver", "vfs", *arguments]
        # buildah looks for its policy in the home folder first
        env = {**os.environ, "HOME": str(self.folder), "REGISTRY_AUTH_FILE": str(self.folder / "auth.json")}
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def push(self, name: str, *, form: str = "oci") -> str:
        """Push an image of its own kind of manifest; gives the digest that buildah tells."""
        container = self.buildah("from", "scratch")
        self.buildah("config", "--label", f"name={name}", container)
        image = self.buildah("commit", "--quiet", "--format", form, container)
        self.buildah("rm", container)
        told = self.folder / "digest"
        options = ("--quiet", "--tls-verify=false", "--format", "v2s2" if form == "docker" else form)
        self.buildah("push", *options, "--digestfile", str(told), image, f"docker://{self.host}/{name}")
        return told.read_text(encoding="utf-8").strip()

    def push_index(self, name: str, *images: str) -> str:
        """Push an image index of images that are there already; gives its digest."""
        self.buildah("manifest", "create", name)
        for image in images:
            self.buildah("manifest", "add", "--tls-verify=false", name, f"docker://{self.host}/{image}")
        told = self.folder / "digest"
        options = ("--quiet", "--tls-verify=false", "--all", "--digestfile", str(told))
        self.buildah("manifest", "push", *options, name, f"docker://{self.host}/{name}")
        return told.read_text(encoding="utf-8").strip()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    (folder / ".config" / "containers").mkdir(parents=True)
    policy = '{"default": [{"type": "insecureAcceptAnything"}]}'
    (folder / ".config" / "containers" / "policy.json").write_text(policy, encoding="utf-8")
    (folder / "auth.json").write_text("{}", encoding="utf-8")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{found.getsockname()[1]}"
    config = folder / "config.yml"
    config.write_text(CONFIG.format(folder=folder / "registry", host=host), encoding="utf-8")
    with subprocess.Popen(["docker-registry", "serve", str(config)], stderr=subprocess.PIPE, text=True) as process:
        try:
            address, port = host.split(":")
            for _ in range(200):
                if process.poll() is not None:
                    pytest.fail(f"docker-registry ended: {process.stderr.read() if process.stderr else ''}")
                with socket.socket() as asking:
                    if asking.connect_ex((address, int(port))) == 0:
                        break
                time.sleep(0.1)
            else:
                pytest.fail("docker-registry doesn't listen")
            yield Hub(host, folder)
        finally:
            process.terminate()


def digest(name: str) -> str:
    return Registries(Fetcher(credentials={}, env={}).pool, {}, {"HOME": "nowhere"}).digest(name)


@pytest.mark.parametrize("form", ["oci", "docker"])
def test_the_digest_is_the_one_that_was_pushed(hub: Hub, form: str) -> None:
    pushed = hub.push(f"team/{form}:1", form=form)
    assert pushed.startswith("sha256:") and digest(f"{hub.host}/team/{form}:1") == pushed


def test_an_index_goes_before_its_images(hub: Hub) -> None:
    one, two = hub.push("one:1"), hub.push("two:1")
    pushed = hub.push_index("both:1", "one:1", "two:1")
    assert pushed not in (one, two) and digest(f"{hub.host}/both:1") == pushed


def test_what_is_not_there(hub: Hub) -> None:
    hub.push("there:1")
    for name in ("there:2", "missing:1"):
        with pytest.raises(IndexFailure, match=f"manifests/{name[-1]} is not there"):
            digest(f"{hub.host}/{name}")


def test_a_lock_pins_what_the_registry_has(hub: Hub, machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0"))
    pushed = hub.push("team/base:12")
    machine.spec(cpu("alpha") + f"[image]\nbase = '{hub.host}/team/base:12'\n")
    image = machine.locked().image(f"{hub.host}/team/base:12")
    assert image is not None and image.digest == pushed
    moved = hub.push("team/base:12", form="docker")
    machine.locked("--upgrade-images")
    image = machine.lock().image(f"{hub.host}/team/base:12")
    assert image is not None and image.digest == moved != pushed
    # what the lock says can be pulled
    hub.buildah("pull", "--tls-verify=false", f"docker://{hub.host}/team/base@{moved}")
