"""A channel whose redirects go in a circle is given up by its name."""

from collections.abc import Iterator
from http.server import ThreadingHTTPServer

import pytest
from support.machine import Machine
from support.serving import Quiet, serving

pytestmark = pytest.mark.e2e


class _Circle(Quiet):
    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("Location", self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET


@pytest.fixture
def channel() -> Iterator[str]:
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), _Circle)) as url:
        yield f"{url}/mine"


def test_redirects_in_a_circle(machine: Machine, channel: str) -> None:
    pytest.importorskip("rattler")
    machine.spec(
        f"[env]\npython = '3.12'\n[conda]\nchannels = ['{channel}']\ndependencies = ['tool']\n"
        "[targets.cpu]\nplatform = 'linux-64'\n"
    )
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 3 and f"cpu: {channel}/" in ran.error, ran.err
    assert ran.error.endswith(" redirects again and again, and gives no file") and "in a circle" in ran.hint, ran.err
