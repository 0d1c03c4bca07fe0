"""A test's server, in a thread of its own until the block ends: at once, with no wait for its next look."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socketserver import TCPServer


@contextmanager
def serving(server: TCPServer) -> Iterator[str]:
    """Its address, without a path. The server is closed afterwards."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": POLL}, daemon=True)
    thread.start()
    try:
        yield f"http://{server.server_address[0]!s}:{server.server_address[1]}"
    finally:
        with suppress(OSError):
            # wakes it up; on some systems it looks up by itself alone
            server.socket.shutdown(socket.SHUT_RDWR)
        server.shutdown()
        server.server_close()
        thread.join()


POLL = 0.1
"""Seconds between two looks at whether it should end, where nothing wakes it."""
