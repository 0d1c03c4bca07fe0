"""Images from exported Dockerfiles, by buildah: no container engine, `--isolation chroot` builds and runs.

The base is Debian by debootstrap, kept in the user's cache; the image of uv is a stand-in with the real program; the
PyTorch index is a mirror on loopback with the wheel that pip is configured to find.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from msgspec import Struct
from uv import find_uv_bin

from envspec.export.images import UV
from support.debian import debian_tree, kept
from support.serving import QuietFiles, serving
from support.sif import torch_wheel

BASE = "localhost/base:bookworm"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_SETTINGS = "uv.toml"


class Builder(Struct):
    """buildah with its own storage, for the Dockerfile of a recipe's target."""

    storage: Path
    context: Path
    target: str
    arguments: tuple[str, ...]

    def __call__(self, *arguments: str, timeout: float = 1200) -> str:
        env = {**os.environ, "TMPDIR": str(kept() / "tmp"), "STORAGE_DRIVER": "overlay"}
        command = [*self._buildah, *arguments]
        ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=timeout)
        assert ran.returncode == 0, f"{' '.join(command)[:2000]}\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
        return ran.stdout

    @property
    def _buildah(self) -> list[str]:
        return ["buildah", "--root", str(self.storage / "root"), "--runroot", str(self.storage / "run")]

    def build(self, tag: str, *arguments: str) -> str:
        """Build the exported Dockerfile; gives what buildah said of the steps."""
        return self(
            "bud", "--isolation", "chroot", "--format", "docker", "--layers", *self.arguments, *arguments, "-t", tag,
            "-f", str(self.context / self.target / "Dockerfile"), str(self.context),
        )  # fmt: skip

    def with_pythons(self, mirror: str) -> None:
        """Have uv fetch builds of Python from a mirror while images are built."""
        settings = self.storage / _SETTINGS
        settings.write_text(f'{settings.read_text()}python-install-mirror = "{mirror}"\n')

    def ready_base(self, recipe: str, name: str = "ready") -> Path:
        """Build the base of which `envspec image --base-recipe` printed the recipe, on `BASE`; gives it as a layout."""
        folder = self.storage / name
        folder.mkdir()
        lines = [f"FROM {BASE}" if line.startswith("FROM ") else line for line in recipe.splitlines()]
        (folder / "Dockerfile").write_text("\n".join(lines) + "\n", encoding="utf-8")
        self("bud", "--isolation", "chroot", "-t", f"localhost/{name}", "-f", str(folder / "Dockerfile"), str(folder))
        self("push", "-q", f"localhost/{name}", f"oci:{folder / 'layout'}:base")
        return folder / "layout"

    def command(self, container: str, *command: str, **env: str) -> list[str]:
        given = [f"--env={name}={value}" for name, value in env.items()]
        return [*self._buildah, "run", "--isolation", "chroot", *given, container, "--", *command]

    def run(self, container: str, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(container, *command, **env), capture_output=True, text=True, check=False, timeout=900
        )


ENVSPEC = (sys.executable, "-m", "envspec")


def envspec(folder: Path, *arguments: str, program: Sequence[str] = ENVSPEC, **more: str) -> str:
    """Run envspec in a folder; gives what it prints. `more` are environment variables."""
    env = {**os.environ, **more}
    ran = subprocess.run([*program, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def lock_spec(folder: Path, name: str, text: str) -> None:
    """Write a spec into a folder and lock it."""
    (folder / "specs").mkdir(parents=True)
    (folder / "specs" / f"{name}.toml").write_text(text)
    envspec(folder, "lock", f"specs/{name}.toml")


def entry(*command: str) -> tuple[str, ...]:
    """A command as the image's own entry point starts it."""
    return ("/usr/bin/tini", "-s", "--", "/opt/envspec/entrypoint.sh", *command)


def skip_without(*tools: str) -> None:
    """Skip, by its name, where a tool isn't there; building needs root, too."""
    for tool in ("buildah", "debootstrap", *tools):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is missing")
    if os.geteuid() != 0:
        pytest.skip("debootstrap and chroot need root")


@contextmanager
def torch_mirror(folder: Path) -> Iterator[str]:
    """A PyTorch index on loopback, with one wheel."""
    wheel = torch_wheel()
    (folder / "torch").mkdir()
    (folder / "torch" / wheel.name).symlink_to(wheel)
    link = wheel.name.replace("+", "%2B")
    (folder / "torch" / "index.html").write_text(f'<!DOCTYPE html><a href="{link}">{wheel.name}</a>')

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietFiles, directory=str(folder)))) as url:
        yield url


@contextmanager
def opened_builder(storage: Path, recipe: Path, target: str, mirror: str) -> Iterator[Builder]:
    """A builder of a recipe's target that has the base as `BASE` and the image of uv."""
    (kept() / "tmp").mkdir(parents=True, exist_ok=True)
    settings = storage / _SETTINGS
    # What stands between here and the index may have a certificate of its own.
    settings.write_text("system-certs = true\n")
    image = f"localhost/{UV}"
    arguments = (
        f"--build-arg=BASE_IMAGE={BASE}",
        f"--build-arg=UV_IMAGE={image}",
        f"--build-arg=PYTORCH_INDEX={mirror}",
        f"--secret=id=uv,src={settings}",
    )
    made = Builder(storage, recipe, target, arguments)
    base = made("from", "scratch").strip()
    tree = Path(made("mount", base).strip())
    subprocess.run(["cp", "-a", f"{debian_tree()}/.", str(tree)], check=True)
    shutil.copy(CERTIFICATES, tree / "etc/ssl/certs/ca-certificates.crt")
    # As Debian's own images have it: nobody needs each file of an image on the disk at once.
    (tree / "etc/dpkg/dpkg.cfg.d/unsafe-io").write_text("force-unsafe-io\n")
    made("umount", base)
    made("commit", "-q", "--rm", base, BASE)
    uv = made("from", "scratch").strip()
    made("copy", "-q", uv, find_uv_bin(), "/uv")
    made("commit", "-q", "--rm", uv, image)
    try:
        yield made
    finally:
        made("umount", "--all")
        made("rm", "--all")
        made("rmi", "--all", "--force")
