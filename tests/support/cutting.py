"""A way to a server on loopback that breaks off in the middle of what is sent."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from socketserver import BaseRequestHandler, ThreadingTCPServer

from support.serving import serving


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
