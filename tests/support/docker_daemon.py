"""A real Docker with buildx and compose, of Debian trixie's packages: its daemon has a tree, a view of the mounts and
processes of its own, and ends with the test. No registry can be reached: images come in by `import_tree`.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.debian import debian_tree

_PACKAGES = "ca-certificates,iptables,docker.io,docker-cli,docker-buildx,docker-compose"
_STARTS = """
set -eu
mount --bind "$1" "$1"
cd "$1"
for one in proc sys dev; do mount --rbind /$one $one; done
mount --bind /etc/resolv.conf etc/resolv.conf
mkdir -p "./$2"
mount --bind "$2" "./$2"
mkdir -p before
pivot_root . before
umount -l /before
iptables-save >"$2/docker/rules"
dockerd --data-root "$2/docker/data" --exec-root "$2/docker/exec" --pidfile "$2/docker/pid" --log-level error \\
    --host "unix://$2/docker/socket" &
trap 'kill "$!"' TERM
wait || :
wait || :
{
    printf '*filter\\n:FORWARD ACCEPT\\nCOMMIT\\n*nat\\nCOMMIT\\n'
    cat "$2/docker/rules"
} | iptables-restore
"""


@dataclass
class Docker:
    """`folder` is seen by the daemon under the same path."""

    folder: Path
    process: int

    def inside(self, *command: str) -> list[str]:
        """A command where the daemon lives."""
        within = ["nsenter", f"--target={self.process}", "--mount", "--pid", "--wdns=/"]
        return [*within, "env", f"DOCKER_HOST=unix://{self.folder}/docker/socket", *command]

    def run(self, line: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a line of sh in a folder."""
        command = self.inside(*(f"{name}={value}" for name, value in env.items()), "sh", "-c", f'cd "$0" && {line}')
        return subprocess.run(
            [*command, str(folder)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1500
        )

    def import_tree(self, name: str, tree: Path) -> None:
        """Make an image of a tree."""
        packs = ["tar", "--create", "-C", str(tree), "."]
        with subprocess.Popen(packs, stdout=subprocess.PIPE) as packed:
            done = subprocess.run(self.inside("docker", "import", "-", name), stdin=packed.stdout, capture_output=True)
        assert (packed.returncode, done.returncode) == (0, 0), done.stderr


@contextmanager
def docker_daemon(folder: Path) -> Iterator[Docker]:
    """Start it. It sees a folder, and has its own files in `docker` there. Skips, by the tool it lacks."""
    for tool in ("debootstrap", "nsenter", "unshare", "ip"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is missing")
    if os.geteuid() != 0:
        pytest.skip("a Docker daemon needs root")
    if Path("/sys/class/net/docker0").exists():
        pytest.skip("another Docker daemon has the bridge docker0")
    tree = debian_tree("trixie-docker", "trixie", _PACKAGES)
    own_files = folder / "docker"
    own_files.mkdir()
    before = links()
    own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", _STARTS, "sh"]
    with (own_files / "log").open("wb") as log:
        daemon = subprocess.Popen([*own, str(tree), str(folder)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        end = time.monotonic() + 60
        while not (own_files / "socket").exists():
            assert daemon.poll() is None and time.monotonic() < end, (own_files / "log").read_text()[-3000:]
            time.sleep(0.2)
        (first,) = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()
        yield Docker(folder, int(first))
        os.kill(int(first), 15)
        daemon.wait(timeout=60)
    finally:
        daemon.kill()
        daemon.wait()
        for link in links() - before:
            subprocess.run(["ip", "link", "delete", link], capture_output=True)
        shutil.rmtree(own_files, ignore_errors=True)


def links() -> set[str]:
    """The bridges that Docker made, by its names for them."""
    return {one.name for one in Path("/sys/class/net").iterdir() if one.name.startswith(("docker", "br-"))}
