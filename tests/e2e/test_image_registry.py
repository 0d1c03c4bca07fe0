"""`envspec image` against a real registry on loopback (`docker-registry`): a base from there, a push, a pull by
buildah."""

import json
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest
from support.base_image import members, system, write_base, write_index
from support.hub import Hub, serving_hub
from support.index import Index
from support.installs import PYTHON, SPEC, brought_in, pip_pin, write_lock
from support.machine import Machine
from support.packages import Dist, wheel
from support.serving import serving

from envspec.export.images import CODE_SERVER
from envspec.net.fetch import Fetcher
from envspec.net.registry import Registries

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@dataclass
class Cutting:
    """after   the bytes of one PATCH after which its connection ends; one cut each, in turn
    always  the last of them counts for every further PATCH, too
    holds   in place of a cut, nothing more goes through until `over`, and `held` is set
    """

    after: list[int]
    always: bool = False
    holds: bool = False
    host: str = ""
    cuts: int = 0
    held: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def due(self, sent: int) -> bool:
        if not self.after or sent <= self.after[0]:
            return False
        if len(self.after) > 1 or not self.always:
            self.after.pop(0)
        self.cuts += 1
        return True


@contextmanager
def cutting(server: str, after: list[int], *, always: bool = False, holds: bool = False) -> Iterator[Cutting]:
    """Pass on to a server (`host:port`) until the block ends."""
    way = Cutting(after, always, holds)
    host, port = server.split(":")

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError), socket.create_connection((host, int(port))) as onward:
                answers = threading.Thread(target=_pass, args=(onward, self.request), daemon=True)
                answers.start()
                with suppress(OSError):
                    _pass_on(self.request, onward, way)
                _end(self.request, onward)
                answers.join()

    with serving(Server(("127.0.0.1", 0), Handler)) as url:
        way.host = url.removeprefix("http://")
        yield way


class Server(ThreadingTCPServer):
    daemon_threads = True


def _pass(source: socket.socket, to: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(1 << 16):
            to.sendall(piece)
    _end(source, to)


def _pass_on(client: socket.socket, onward: socket.socket, way: Cutting) -> None:
    sent, in_patch = 0, False
    while piece := client.recv(1 << 16):
        if piece.startswith((b"PATCH ", b"POST ", b"PUT ", b"HEAD ", b"GET ")):
            sent, in_patch = 0, piece.startswith(b"PATCH ")
        sent += len(piece)
        onward.sendall(piece)
        if in_patch and way.due(sent):
            if way.holds:
                way.held.set()
                way.over.wait(120)
            return


def _end(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


for tool in ("docker-registry", "buildah"):
    if shutil.which(tool) is None:
        pytest.skip(f"no {tool}", allow_module_level=True)

LIB, LIB2 = wheel("lib", "1.0"), wheel("lib", "2.0")


@cache
def cublas() -> Dist:
    return wheel("nvidia-cublas-cu12", "12.0", padding=40 << 20)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with serving_hub(tmp_path_factory.mktemp("hub")) as started:
        yield started


@pytest.fixture(scope="module")
def base(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a small base in the registry, with its digest."""
    tree = tmp_path_factory.mktemp("tree")
    for path, text in system(PYTHON).items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    hub.push_tree("team/base:1", tree)
    name = f"{hub.host}/team/base"
    digest = Registries(Fetcher(credentials={}, env={}).pool, {}, {"HOME": "nowhere"}).digest(f"{name}:1")
    return f"{name}@{digest}"


def push(machine: Machine, base: str, name: str) -> tuple[int, int, int, str]:
    """Push the demo spec's image; gives how many blobs were sent, mounted and there already, and the image's digest."""
    ran = machine.envspec("image", SPEC, "--base", base, "-o", name, status=0)
    told = re.search(r": (\d+) blobs sent \(.*\), (\d+) mounted, (\d+) there already\ndigest (sha256:\S+)", ran.out)
    assert told is not None, ran.out
    return int(told[1]), int(told[2]), int(told[3]), told[4]


def test_only_what_the_registry_lacks_is_sent(hub: Hub, base: str, machine: Machine, index: Index) -> None:
    index.add(LIB, LIB2, cublas())
    write_lock(machine, brought_in(LIB, by=cublas()), platform="linux-64")
    name = f"{hub.host}/team/demo"
    sent, mounted, there, digest = push(machine, base, f"{name}:1")
    assert (sent, mounted, there) == (6, 1, 0), "five layers and the configuration; the base's layer is taken over"
    assert push(machine, base, f"{name}:again") == (0, 0, 7, digest)
    write_lock(machine, brought_in(LIB2, by=cublas()), platform="linux-64")
    sent, mounted, there, moved = push(machine, base, f"{name}:2")
    assert (sent, there) == (2, 5) and moved != digest, "the layer of the package that moved, and the configuration"
    machine.envspec("image", SPEC, "--base", base, "--verify", f"{name}:2", status=0)
    ran = machine.envspec("image", SPEC, "--base", base, "--verify", f"{name}:1")
    assert ran.status == 1 and "envspec.lock.digest" in ran.out
    # what was pushed is what a layout has
    assert machine.envspec("image", SPEC, "--base", base, "-o", "out").status == 0
    (top,) = json.loads((machine.folder / "out" / "index.json").read_bytes())["manifests"]
    assert top["digest"] == moved


@pytest.mark.nightly
def test_a_push_that_breaks_off_goes_on(hub: Hub, machine: Machine, index: Index) -> None:
    """In the middle of pieces, by a way to the registry that breaks off: what buildah pulls is whole."""
    index.add(LIB, cublas())
    write_lock(machine, [pip_pin(LIB), pip_pin(cublas())], platform="linux-64")
    write_base(machine.folder / "base", system(PYTHON))
    with cutting(hub.host, [4 << 20, 1 << 20, 7 << 20]) as way:
        sent, _, _, digest = push(machine, "./base", f"{way.host}/team/cut:1")
    assert way.cuts == 3 and sent == 7, "five layers, the base's and the configuration"
    hub.buildah("pull", "--quiet", "--tls-verify=false", f"docker://{hub.host}/team/cut@{digest}")


@pytest.mark.nightly
def test_a_push_that_is_given_up_or_killed_is_finished_by_the_next(hub: Hub, machine: Machine, index: Index) -> None:
    index.add(LIB, cublas())
    write_lock(machine, [pip_pin(LIB), pip_pin(cublas())], platform="linux-64")
    write_base(machine.folder / "base", system(PYTHON))
    with cutting(hub.host, [1 << 20], always=True) as way:
        ran = machine.envspec("image", SPEC, "--base", "./base", "-o", f"{way.host}/team/again:1")
    assert ran.status == 3 and "breaks off again and again" in ran.error and "the same command again" in ran.hint
    with cutting(hub.host, [1 << 20], holds=True) as way:
        process = machine.start("image", SPEC, "--base", "./base", "-o", f"{way.host}/team/again:1")
        assert way.held.wait(60), process.poll()
        process.kill()
        process.wait(30)
        way.over.set()
    gone = machine.envspec("image", SPEC, "--base", "./base", "--verify", f"{hub.host}/team/again:1")
    assert gone.status == 3 and "team/again" in gone.error, "a name never leads to half an image"
    sent, _, there, digest = push(machine, "./base", f"{hub.host}/team/again:1")
    assert (sent, there) == (4, 3), "the base's layer, the user and Python came before what broke off"
    hub.buildah("pull", "--quiet", "--tls-verify=false", f"docker://{hub.host}/team/again@{digest}")


def test_two_platforms_are_pushed_as_one_index(hub: Hub, machine: Machine, index: Index) -> None:
    layouts = {one: write_base(machine.base / one, system(PYTHON), machine=one) for one in ("amd64", "arm64")}
    write_index(machine.folder / "base", layouts)
    index.add(LIB)
    spec = f"[env]\npython = '{PYTHON}'\n[pip]\ndependencies = ['lib']\n[image]\npython = 'base'\n"
    machine.locked(spec=spec + "[targets.one]\nplatform = 'linux-64'\n[targets.two]\nplatform = 'linux-aarch64'\n")
    name = f"{hub.host}/team/both:1"
    sent, _, _, digest = push(machine, "./base", name)
    assert sent == 3 + 2 * 3, "both have the base, the user and `rest`; Python's frame names each platform's build"
    assert Registries(Fetcher(credentials={}, env={}).pool, {}, {"HOME": "nowhere"}).digest(name) == digest
    assert machine.envspec("image", SPEC, "--base", "./base", "--verify", name).status == 0
    for arch in layouts:
        image = hub.buildah("pull", "--quiet", "--tls-verify=false", "--arch", arch, f"docker://{name}")
        assert json.loads(hub.buildah("inspect", "--type", "image", image))["OCIv1"]["architecture"] == arch


def test_a_program_of_another_image_is_a_layer(hub: Hub, base: str, machine: Machine, index: Index) -> None:
    """The registry stands in for Docker Hub, and has a stand-in for code-server."""
    tree = machine.base / "tree"
    (tree / "usr/lib/code-server/bin").mkdir(parents=True)
    (tree / "usr/lib/code-server/bin/code-server").write_text("#!/bin/sh\n")
    (tree / "usr/lib/code-server/bin/code-server").chmod(0o755)
    (tree / "etc").mkdir()
    (tree / "etc/passwd").write_text("another's")
    hub.push_tree(CODE_SERVER, tree)
    (machine.home / ".config/envspec/config.toml").write_text(f'[mirrors]\n"docker.io" = "http://{hub.host}"\n')
    index.add(LIB)
    machine.locked(
        spec=f"[env]\npython = '{PYTHON}'\n[pip]\ndependencies = ['lib']\n"
        "[image]\npython = 'base'\nservices = ['code-server']\n[targets.here]\nplatform = 'linux-64'\n"
    )
    machine.envspec("image", SPEC, "--base", base, "-o", "out", status=0)
    found = members(machine.folder / "out", "code-server")
    assert found["usr/lib/code-server/bin/code-server"].mode == 0o755
    assert not any(name.startswith("etc") for name in found)
    assert machine.envspec("image", SPEC, "--base", base, "--verify", "out").status == 0


@pytest.mark.nightly
def test_buildah_pulls_what_was_pushed(hub: Hub, base: str, machine: Machine, index: Index) -> None:
    index.add(LIB, cublas())
    write_lock(machine, [pip_pin(LIB), pip_pin(cublas())], platform="linux-64")
    push(machine, base, f"{hub.host}/team/pulled:1")
    hub.buildah("pull", "--tls-verify=false", f"docker://{hub.host}/team/pulled:1")
    container = hub.buildah("from", "--pull-never", f"{hub.host}/team/pulled:1")
    tree = Path(hub.buildah("mount", container))
    assert (tree / f"opt/env/lib/python{PYTHON}/site-packages/lib.py").read_text() == "version = '1.0'\n"
    assert "dev:x:1000" in (tree / "etc/passwd").read_text()
    hub.buildah("rm", container)
