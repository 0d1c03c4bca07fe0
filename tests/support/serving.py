"""A test's server in a thread of its own. It ends at once, with no wait for its next look."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler
from socketserver import TCPServer

_POLL = 0.1
"""Seconds between two looks at whether it should end, where nothing wakes it."""


class Quiet(BaseHTTPRequestHandler):
    """A handler that logs nothing."""

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


class QuietFiles(Quiet, SimpleHTTPRequestHandler):
    """The same, of a folder's files."""


class Serving:
    """A server that serves until `stop`, which closes it."""

    def __init__(self, server: TCPServer) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": _POLL}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Its address, without a path."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def stop(self) -> None:
        with suppress(OSError):
            # wakes it up; on some systems it looks up by itself alone
            self._server.socket.shutdown(socket.SHUT_RDWR)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def serving(server: TCPServer) -> Iterator[str]:
    """A server's address, until the block ends."""
    started = Serving(server)
    try:
        yield started.url
    finally:
        started.stop()
