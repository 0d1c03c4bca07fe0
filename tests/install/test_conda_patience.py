"""Conda packages from peers without end: given up by name, by the limits and the user's own time for the channel."""

import asyncio
import time
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from support.serving import Quiet, serving

from envspec.base.errors import IndexFailure
from envspec.base.progress import Progress
from envspec.install.conda_cache import CondaCache
from envspec.net import limits
from envspec.net.fetch import origin_of
from envspec.net.transport import Patience

pytestmark = pytest.mark.e2e


class _Server(Quiet):
    closing: Event

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"x")
        self.wfile.flush()
        if "silent" in self.path:
            self.closing.wait(60)
        while not self.closing.wait(0 if "endless" in self.path else 0.05):
            self.wfile.write(bytes(1 << 16) if "endless" in self.path else b"x")


@pytest.fixture
def channel() -> Iterator[str]:
    closing = Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Server", (_Server,), {"closing": closing}))
    server.daemon_threads = True
    with serving(server) as url:
        yield f"{url}/own/noarch"
        closing.set()


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("peer", "told"),
    [
        ("silent", "the index 'own' sent nothing for 1 s"),
        ("slow", "is too slow"),
        ("endless", "is larger than the 100000 bytes"),
    ],
)
def test_a_peer_without_end(
    channel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, peer: str, told: str
) -> None:
    from rattler.networking import Client

    first = 9 if peer == "silent" else 0.5
    monkeypatch.setattr(limits, "LIMITS", replace(limits.LIMITS, first_seconds=first, bytes_per_second=1000))
    record: Any = SimpleNamespace(url=f"{channel}/{peer}-1.0-0.conda", size=100_000, sha256=b"")
    own = {origin_of(channel): Patience("own", 1)} if peer == "silent" else {}
    cache = CondaCache(tmp_path, tmp_path, Client(), Progress(), own)
    counted: Any = SimpleNamespace(came=lambda length: None)
    begun = time.monotonic()
    with pytest.raises(IndexFailure) as caught:
        asyncio.run(cache._download(record, tmp_path / "archive", counted))
    assert told in caught.value.message and channel in caught.value.message
    assert time.monotonic() - begun < 20
