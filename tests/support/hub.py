"""A real image registry on loopback (Debian's docker-registry), and a buildah with a store of its own."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_CONFIG = """\
version: 0.1
log: {{level: error}}
storage:
  filesystem: {{rootdirectory: {folder}}}
http:
  addr: {host}
"""
_AUTH = """\
auth:
  htpasswd: {{realm: here, path: {path}}}
"""
_POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}'


@dataclass
class Hub:
    """A registry with nothing in it at first. `folder` holds what buildah keeps."""

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

    def inspect(self, name: str) -> str:
        """buildah's document of an image of the registry."""
        self.buildah("pull", "--quiet", "--tls-verify=false", f"docker://{self.host}/{name}")
        return self.buildah("inspect", "--type", "image", f"{self.host}/{name}")

    def push(self, name: str, *, form: str = "oci") -> str:
        """Push an empty image with its own kind of manifest; gives the digest that buildah tells."""
        container = self.buildah("from", "scratch")
        self.buildah("config", "--label", f"name={name}", container)
        image = self.buildah("commit", "--quiet", "--format", form, "--rm", container)
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

    def push_tree(self, name: str, tree: Path, more: Mapping[Path, str] | None = None) -> None:
        """Push an image whose files are those of a tree, and `more`: file here -> folder there."""
        container = self.buildah("from", "scratch")
        self.buildah("copy", "--quiet", container, str(tree), "/")
        for file, place in (more or {}).items():
            if file.is_file():
                self.buildah("copy", "--quiet", container, str(file), place)
        image = self.buildah("commit", "--quiet", "--rm", container)
        self.buildah("push", "--quiet", "--tls-verify=false", image, f"docker://{self.host}/{name}")


@contextmanager
def serving_hub(folder: Path, *, users: str = "") -> Iterator[Hub]:
    """A registry that serves until the block ends: everyone, or these `users`, as htpasswd writes them."""
    (folder / ".config" / "containers").mkdir(parents=True)
    (folder / ".config" / "containers" / "policy.json").write_text(_POLICY, encoding="utf-8")
    (folder / "auth.json").write_text("{}", encoding="utf-8")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    config = folder / "registry.yml"
    text = _CONFIG.format(folder=folder / "registry", host=f"127.0.0.1:{port}")
    if users:
        (folder / "users").write_text(users, encoding="utf-8")
        text += _AUTH.format(path=folder / "users")
    config.write_text(text, encoding="utf-8")
    log = folder / "registry.log"
    # a pipe that nobody reads would fill, and the registry wait for ever
    with (
        log.open("w") as said,
        subprocess.Popen(["docker-registry", "serve", str(config)], stdout=said, stderr=said) as process,
    ):
        try:
            _wait(process, port, log)
            yield Hub(f"127.0.0.1:{port}", folder)
        finally:
            process.terminate()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(200):
        assert process.poll() is None, log.read_text()
        with socket.socket() as asking:
            if asking.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("docker-registry doesn't listen")
