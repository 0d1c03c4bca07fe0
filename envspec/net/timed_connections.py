"""urllib3's connections, with what it lacks: a bound on the time for an answer's head, and one look-up of a host's name
for all of them."""

from __future__ import annotations

from contextlib import suppress
from http.client import HTTPException
from typing import Any

from envspec.net.host_names import HOSTS, HostNames


class HeadTooSlow(Exception):
    """A peer took too long for the head of its answer."""


def timed_pools(seconds: float, hosts: HostNames = HOSTS) -> dict[str, Any]:
    """Make urllib3's pools, with connections that raise HeadTooSlow for a peer that takes longer for an answer's head.
    urllib3's own time-out begins anew with every byte."""
    import socket
    import threading

    from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
    from urllib3.connection import HTTPConnection, HTTPSConnection
    from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError

    class Timed(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            name = self._dns_host
            try:
                addresses = hosts.addresses(name)
            except socket.gaierror as error:
                raise NameResolutionError(self.host, self, error) from error
            except UnicodeError:
                # no name at all, which urllib3 has words for
                return super()._new_conn()
            try:
                for address in addresses[:-1]:
                    with suppress(NewConnectionError, ConnectTimeoutError):
                        return self._connected(address)
                return self._connected(addresses[-1])
            except Exception:
                hosts.forget(name)
                raise
            finally:
                self._dns_host = name

        def _connected(self, address: str) -> socket.socket:
            self._dns_host = address
            return super()._new_conn()

        def getresponse(self) -> Any:
            cut = threading.Event()
            # the socket, for the connection lets go of it while it reads
            peer = self.sock

            def give_up() -> None:
                cut.set()
                with suppress(OSError):
                    peer.shutdown(socket.SHUT_RDWR)

            timer = threading.Timer(seconds, give_up)
            timer.daemon = True
            timer.start()
            try:
                answer = super().getresponse()
            except (OSError, HTTPException):
                if cut.is_set():
                    raise HeadTooSlow from None
                raise
            finally:
                timer.cancel()
            if cut.is_set():
                # a head that was cut reads as one that ended
                raise HeadTooSlow
            return answer

    class TimedTls(Timed, HTTPSConnection):
        pass

    class Pool(HTTPConnectionPool):
        ConnectionCls = Timed

    class TlsPool(HTTPSConnectionPool):
        ConnectionCls = TimedTls

    return {"http": Pool, "https": TlsPool}
