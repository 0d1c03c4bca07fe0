"""urllib3's connections, with what it lacks: a bound on the time for an answer's head, and one look-up of a host's name
for all of them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from envspec.base.errors import IndexFailure, InputError
from envspec.base.redact import redact
from envspec.base.settings import split_credentials

if TYPE_CHECKING:
    import urllib3

_SECONDS = 300.0
"""How long an answer counts. An answer of the system's resolver says nothing of its age."""


def _ask(host: str) -> tuple[str, ...]:
    from urllib3.util.connection import allowed_gai_family

    found = socket.getaddrinfo(host, None, allowed_gai_family(), socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for _, _, _, _, address in found))


class HostNames(Struct):
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


class HeadTooSlow(Exception):
    """A peer took too long for the head of its answer."""


class _Watch:
    """One thread that gives up all that takes longer than some seconds. A timer for each answer would be a thread for
    each, and who starts a thread waits until Python gives that one its turn."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # what began first ends first
        self._begun: dict[object, tuple[float, Callable[[], None]]] = {}
        self._lock = threading.Lock()
        self._watching = False

    def begin(self, give_up: Callable[[], None]) -> object:
        watched = object()
        with self._lock:
            self._begun[watched] = (time.monotonic() + self._seconds, give_up)
            starts, self._watching = not self._watching, True
        if starts:
            threading.Thread(target=self._watch, daemon=True).start()
        return watched

    def end(self, watched: object) -> None:
        with self._lock:
            self._begun.pop(watched, None)

    def _watch(self) -> None:
        while True:
            with self._lock:
                watched, (ends, give_up) = next(iter(self._begun.items()), (None, (0.0, None)))
                if give_up is None:
                    self._watching = False
                    return
                left = ends - time.monotonic()
                if left <= 0:
                    del self._begun[watched]
            if left > 0:
                time.sleep(left)
            else:
                give_up()


def timed_pools(seconds: float, hosts: HostNames = HOSTS) -> dict[str, Any]:
    """Make urllib3's pools, with connections that raise HeadTooSlow for a peer that takes longer for an answer's head.
    urllib3's own time-out begins anew with every byte."""
    from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
    from urllib3.connection import HTTPConnection, HTTPSConnection
    from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError

    watch = _Watch(seconds)

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
                        return self._connect(address)
                return self._connect(addresses[-1])
            except Exception:
                hosts.forget(name)
                raise
            finally:
                self._dns_host = name

        def _connect(self, address: str) -> socket.socket:
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

            watched = watch.begin(give_up)
            try:
                answer = super().getresponse()
            except (OSError, HTTPException):
                if cut.is_set():
                    raise HeadTooSlow from None
                raise
            finally:
                watch.end(watched)
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


# Time-outs: for an index that the user gave a time of its own, and for a server that asks to be asked later.

REDIRECTS = 5
"""So often may a server lead on."""
_PASSING = (408, 425, 429, 500, 502, 503, 504)
"""Statuses that may be gone at the next try."""


class Patience(Struct, frozen=True):
    """Seconds to wait for bytes of an index, by `[timeouts]` of the user's configuration, and its name there."""

    name: str
    seconds: float

    def gave_up(self, url: str) -> IndexFailure:
        """The message about an index that sent nothing for so long."""
        return IndexFailure(
            f"{url} is given up: the index {self.name!r} sent nothing for {self.seconds:g} s",
            hint=f"[timeouts] {self.name} in envspec's configuration says how long to wait",
        )


def retries(count: int, url: str, longest: float, sleep: Callable[[float], None] = time.sleep) -> urllib3.Retry:
    """So many more tries, each after a growing pause, or after the one that the server asks for (`Retry-After`, RFC
    9110 §10.2.3, in seconds or as a date).

    A server may have one request wait for `longest` seconds in all. One that asks for more is given up at once: the
    request then raises IndexFailure. `url` is for the message, without credentials.
    """
    import urllib3
    from urllib3.exceptions import InvalidHeader

    left = longest

    class Retries(urllib3.Retry):
        # urllib3 makes a new one for each try, so what all share stands outside
        def sleep_for_retry(self, response: urllib3.response.BaseHTTPResponse) -> bool:
            nonlocal left
            try:
                asked = self.get_retry_after(response)
            except (InvalidHeader, ValueError, OverflowError):
                # no time: as if nothing had been said
                return False
            if not asked:
                return False
            if asked > left:
                wants = f"it answers HTTP {response.status} and asks to wait {asked:.0f} s (Retry-After)"
                hint = f"run the same command again later: envspec waits {longest:.0f} s at most"
                raise IndexFailure(f"{url} is given up: {wants}", hint=hint)
            left -= asked
            sleep(asked)
            return True

    return Retries(
        # urllib3 counts redirects into it, and being led on is no failure
        total=count + REDIRECTS, connect=count, read=count, status=count, other=count, redirect=REDIRECTS,
        backoff_factor=0.3, status_forcelist=_PASSING, raise_on_status=False,
        respect_retry_after_header=True,
    )  # fmt: skip


# The user's web proxies, as curl's variables name them: `http_proxy`, `https_proxy`, `all_proxy`, `no_proxy`.


def proxy_for(url: str, env: Mapping[str, str]) -> str | None:
    """The proxy to ask for a URL, credentials and all; None to ask directly, as this machine itself always is.

    Raises InputError for one that speaks no HTTP.
    """
    parts = urlsplit(url)
    if is_loopback(url) or _is_direct(parts.hostname or "", env.get("no_proxy") or env.get("NO_PROXY") or ""):
        return None
    for name in (f"{parts.scheme}_proxy", "all_proxy"):
        for variable in (name, name.upper()):
            if proxy := env.get(variable):
                return _address(proxy, variable)
    return None


def through(proxy: str, options: Mapping[str, Any]) -> urllib3.ProxyManager:
    """Connections through a proxy, with the login that its address has."""
    import urllib3
    from urllib3.util import make_headers

    bare, login = split_credentials(proxy)
    headers = make_headers(proxy_basic_auth=f"{login.username}:{login.password}") if login else None
    return urllib3.ProxyManager(bare, proxy_headers=headers, **options)


def is_loopback(url: str) -> bool:
    """Whether a URL's host is this machine itself."""
    return urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")


def _address(proxy: str, variable: str) -> str:
    # curl takes a host and a port for an HTTP proxy
    whole = proxy if "://" in proxy else f"http://{proxy}"
    try:
        parts = urlsplit(whole)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if not fine:
        shown = redact(whole).rpartition("@")[2]
        raise InputError(f"{variable} is {shown!r}, which is no HTTP proxy", hint=f"{variable}=http://HOST:PORT")
    return whole


def _is_direct(host: str, no_proxy: str) -> bool:
    """Whether `NO_PROXY` names the host or a domain above it."""
    domains = [entry.strip().lstrip(".").lower() for entry in no_proxy.split(",")]
    return "*" in domains or any(domain and f".{host.lower()}".endswith(f".{domain}") for domain in domains)
