"""The cache of unpacked conda packages: rattler takes what envspec put there for its own."""

import functools
import http.server
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.conda_archives import Channel, borrowed_python, data_package
from support.hostile_archives import Forged, Member
from support.installs import PYTHON, SPEC, SUBDIR, write_lock
from support.machine import Machine
from support.serving import serving

pytestmark = pytest.mark.e2e

TOOL = data_package("tool", "1.0")


class _Asked(http.server.SimpleHTTPRequestHandler):
    paths: list[str]

    def do_GET(self) -> None:
        self.paths.append(self.path)
        super().do_GET()

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def channel(tmp_path: Path) -> Channel:
    return Channel(tmp_path / "own").add(TOOL, borrowed_python(SUBDIR))


@pytest.fixture
def served(channel: Channel) -> Iterator[tuple[str, list[str]]]:
    """The channel as the root of a server, and the paths that it's asked for."""
    asked: list[str] = []
    handler = type("Handler", (_Asked,), {"paths": asked})
    rooted = functools.partial(handler, directory=channel.folder)
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), rooted)) as url:
        yield url, asked


@pytest.mark.slow
def test_a_channel_at_the_root_of_a_server(machine: Machine, served: tuple[str, list[str]]) -> None:
    """It has no name but its host and port: the lock reads back, is fresh, and installs; each file is fetched once."""
    url, asked = served
    lock = machine.locked(
        spec=f"[env]\npython = '{PYTHON}'\n[conda]\nchannels = ['{url}']\ndependencies = ['tool']\n"
        f"[targets.here]\nplatform = '{SUBDIR}'\nglibc = '2.17'\n"
    )
    name = url.removeprefix("http://").replace(":", "-")
    assert {pin.index for pin in lock.targets[0].pins} == {f"{name}/noarch", f"{name}/{SUBDIR}"}
    assert machine.envspec("check", SPEC).status == 0
    machine.envspec("install", SPEC, "--prefix", str(machine.folder / "env"), status=0)
    assert (machine.folder / "env/share/tool.txt").read_text() == "tool 1.0\n"
    assert [path for path in asked if path.endswith(TOOL.file)] == [f"/noarch/{TOOL.file}"]
    assert machine.envspec("install", SPEC, "--prefix", str(machine.folder / "other"), "--offline").status == 0


@pytest.mark.slow
def test_what_is_damaged_in_the_cache_comes_again(machine: Machine, channel: Channel) -> None:
    """Flipped file lists too, which nobody would call hostile."""
    write_lock(machine, [channel.pin(TOOL)], channels=[channel.url])
    assert machine.envspec("install", SPEC, "--prefix", str(machine.folder / "env")).status == 0
    entry = machine.cache / "conda/packages/tool-1.0-0"
    for number, (name, text) in enumerate(
        [("info/paths.json", "{"), ("share/tool.txt", "x"), ("info/paths.json", None)]
    ):
        # the environment before has the same file
        path = entry / name
        path.unlink()
        if text is not None:
            path.write_text(text)
        prefix = machine.folder / f"env{number}"
        machine.envspec("install", SPEC, "--prefix", str(prefix), status=0)
        assert (prefix / "share/tool.txt").read_text() == "tool 1.0\n"


def test_a_refused_package_isnt_kept(machine: Machine, channel: Channel) -> None:
    hostile = Forged("esc", "1.0", members=[Member("share/a", b"x")], listed={"../evil": "hardlink"})
    channel.add(hostile)
    write_lock(machine, [channel.pin(TOOL), channel.pin(hostile)], channels=[channel.url])
    for _ in range(2):
        ran = machine.envspec("install", SPEC, "--prefix", str(machine.folder / "env"))
        assert ran.status == 3 and "'../evil'" in ran.error
    assert sorted(os.listdir(machine.cache / "conda/packages")) == [".cache.lock", "tool-1.0-0", "tool-1.0-0.lock"]
    assert os.listdir(machine.cache / "conda/scratch") == []
