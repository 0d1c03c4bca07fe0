"""Addresses of hosts, each looked up once: a connection opened for each of fifty files asks the resolver fifty times at
once, and small resolvers drop some of that. Measured, each dropped question costs 5 s."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

_SECONDS = 300.0
"""How long an answer counts. An answer of the system's resolver says nothing of its age."""


def _ask(host: str) -> tuple[str, ...]:
    import socket

    from urllib3.util.connection import allowed_gai_family

    found = socket.getaddrinfo(host, None, allowed_gai_family(), socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for _, _, _, _, address in found))


@dataclass
class HostNames:
    """Addresses by host's name. Who asks for a name that is being looked up waits for that answer, or shares its error.

    ask    gives a host's addresses, in the order in which they are to be tried; raises what getaddrinfo raises
    clock  seconds
    """

    ask: Callable[[str], tuple[str, ...]] = _ask
    clock: Callable[[], float] = time.monotonic
    _answers: dict[str, tuple[float, Future[tuple[str, ...]]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def addresses(self, host: str) -> tuple[str, ...]:
        """Give a host's addresses. Raises what `ask` raises, which isn't kept: the next question is asked anew."""
        with self._lock:
            begun, answer = self._answers.get(host, (0.0, None))
            mine = answer is None or self.clock() - begun > _SECONDS
            if answer is None or mine:
                answer = Future()
                self._answers[host] = (self.clock(), answer)
        if mine:
            try:
                answer.set_result(self.ask(host))
            except BaseException as error:
                self.forget(host)
                answer.set_exception(error)
                raise
        return answer.result()

    def forget(self, host: str) -> None:
        """Ask for this host anew the next time: none of its addresses answers any more."""
        with self._lock:
            self._answers.pop(host, None)


HOSTS = HostNames()
"""What this process knows."""
