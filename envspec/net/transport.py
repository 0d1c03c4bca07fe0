"""urllib3's connections, with what it lacks: deadlines that hold whatever a peer sends, and one look-up of a host's
name for all of them."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from envspec.base.errors import IndexFailure, InputError
from envspec.base.redact import redact
from envspec.configuration.settings import split_credentials

if TYPE_CHECKING:
    import urllib3

_SECONDS = 300.0
"""Seconds for which an answer counts. An answer of the system's resolver says nothing of its age."""


def _ask(host: str) -> tuple[str, ...]:
    from urllib3.util.connection import allowed_gai_family

    answers = socket.getaddrinfo(host, None, allowed_gai_family(), socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for _, _, _, _, address in answers))


class HostNames(Struct):
    """Addresses by host's name. Callers who ask for the same name at once share one look-up, or its error.

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
"""The names that this process has looked up."""


class PeerTooSlow(Exception):
    """A peer took too long for the head of its answer, or a deadline passed before it came: after so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Deadline:
    """A moment at which a peer is given up, whatever it sends till then.

    It counts within a handshake, a head, the length of a chunk, a trailer and a body, and for all tries and redirects
    together. urllib3's time-out begins anew with every byte.

    ends  the moment, of `time.monotonic`
    cut   it has passed, and the connection was cut
    """

    def __init__(self, seconds: float) -> None:
        self.begun = time.monotonic()
        self.ends = self.begun + seconds
        self.cut = False
        self._peer: socket.socket | None = None
        self._lock = threading.Lock()

    @property
    def left(self) -> float:
        """The seconds until it ends."""
        return self.ends - time.monotonic()

    @property
    def passed(self) -> float:
        """The seconds since it began."""
        return time.monotonic() - self.begun

    def guard(self, peer: Any) -> None:
        """Cut this connection when the time has come, in place of the one that was named before. Raises PeerTooSlow if
        it has."""
        # a copy: a socket is taken over by TLS, and a connection lets go of its own while the answer is read
        self.release()
        with self._lock:
            if self.cut or self.left <= 0:
                raise PeerTooSlow(self.passed)
            self._peer = socket.socket(fileno=os.dup(peer.fileno()))

    def release(self) -> None:
        """Let go of the connection."""
        with self._lock:
            before, self._peer = self._peer, None
        if before is not None:
            before.close()

    def give_up(self) -> None:
        with self._lock:
            self.cut = True
            if self._peer is not None:
                with suppress(OSError):
                    self._peer.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def holds(self) -> Iterator[None]:
        """Let it count for the connections that this thread makes and takes."""
        before, _OF_THREAD.deadline = _of_thread(), self
        try:
            yield
        finally:
            _OF_THREAD.deadline = before


_OF_THREAD = threading.local()


def _of_thread() -> Deadline | None:
    return getattr(_OF_THREAD, "deadline", None)


class _Watch:
    """One thread that gives up on all that takes too long. A timer for each answer would be a thread for each, and who
    starts a thread waits until Python gives that one its turn."""

    _LOOK = 1.0
    """Seconds between two looks: a deadline that comes meanwhile may end before all that are known."""

    def __init__(self) -> None:
        self._deadlines: set[Deadline] = set()
        self._lock = threading.Lock()
        self._watching = False

    @contextmanager
    def over(self, deadline: Deadline) -> Iterator[Deadline]:
        with self._lock:
            self._deadlines.add(deadline)
            starts, self._watching = not self._watching, True
        if starts:
            threading.Thread(target=self._watch, daemon=True).start()
        try:
            yield deadline
        finally:
            with self._lock:
                self._deadlines.discard(deadline)
            deadline.release()

    def _watch(self) -> None:
        while True:
            with self._lock:
                if not self._deadlines:
                    self._watching = False
                    return
                passed = [limit for limit in self._deadlines if limit.left <= 0]
                self._deadlines.difference_update(passed)
                pause = min((limit.left for limit in self._deadlines), default=self._LOOK)
            for limit in passed:
                limit.give_up()
            time.sleep(max(0.01, min(pause, self._LOOK)))


_WATCH = _Watch()


def deadline(seconds: float) -> AbstractContextManager[Deadline]:
    """Watch over a deadline in so many seconds, or at the end of the thread's own, if that comes first: tries and
    redirects that are requests of their own then share one."""
    made, whole = Deadline(seconds), _of_thread()
    if whole is not None and whole.ends < made.ends:
        made.begun, made.ends = whole.begun, whole.ends
    return _WATCH.over(made)


def timed_pools(seconds: float, hosts: HostNames = HOSTS) -> dict[str, Any]:
    """Make urllib3's pools, with connections that raise PeerTooSlow for a peer that takes so many seconds for an
    answer's head, or longer than the deadline of the thread that asks."""
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
                        return self._connect(address)
                return self._connect(addresses[-1])
            except Exception:
                hosts.forget(name)
                raise
            finally:
                self._dns_host = name

        def _connect(self, address: str) -> socket.socket:
            self._dns_host = address
            whole = _of_thread()
            if whole and whole.left <= 0:
                # a name may have any number of addresses
                raise PeerTooSlow(whole.passed)
            peer = super()._new_conn()
            try:
                if whole:
                    whole.guard(peer)
            except PeerTooSlow:
                peer.close()
                raise
            return peer

        def request(self, *arguments: Any, **named: Any) -> None:
            # a connection that is used again: a peer may read nothing of a long body
            if self.sock is not None and (whole := _of_thread()):
                whole.guard(self.sock)
            super().request(*arguments, **named)

        def getresponse(self) -> Any:
            whole = _of_thread()
            with deadline(seconds) as head:
                limits = [limit for limit in (head, whole) if limit is not None]
                for limit in limits:
                    limit.guard(self.sock)
                try:
                    answer = super().getresponse()
                except (OSError, HTTPException):
                    if cut := [limit.passed for limit in limits if limit.cut]:
                        raise PeerTooSlow(max(cut)) from None
                    raise
                if cut := [limit.passed for limit in limits if limit.cut]:
                    # a head that was cut reads as one that ended
                    answer.close()
                    raise PeerTooSlow(max(cut))
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
        """Make the failure of an index that sent nothing for this time."""
        return IndexFailure(
            f"{url} is given up: the index {self.name!r} sent nothing for {self.seconds:g} s",
            hint=f"[timeouts] {self.name} in envspec's configuration says how long to wait",
        )


def retries(
    count: int, url: str, left: Callable[[], float], sleep: Callable[[float], None] = time.sleep
) -> urllib3.Retry:
    """Make urllib3's rule for `count` more tries, each after a growing pause, or after the pause that the server asks
    for (`Retry-After`, RFC 9110 §10.2.3, in seconds or as a date).

    `left` gives the seconds that the request still has. A server that asks to wait for more is given up at once: the
    request then raises IndexFailure. `url` is for the message, without credentials.
    """
    import urllib3
    from urllib3.exceptions import InvalidHeader

    class Retries(urllib3.Retry):
        def sleep_for_retry(self, response: urllib3.response.BaseHTTPResponse) -> bool:
            try:
                pause = self.get_retry_after(response)
            except (InvalidHeader, ValueError, OverflowError):
                # no time: as if nothing had been said
                return False
            if not pause:
                return False
            if pause > (seconds := max(0.0, left())):
                wants = f"it answers HTTP {response.status} and asks to wait {pause:.0f} s (Retry-After)"
                hint = f"run the same command again later: envspec waits {seconds:.0f} s at most"
                raise IndexFailure(f"{url} is given up: {wants}", hint=hint)
            sleep(pause)
            return True

    return Retries(
        # urllib3 counts redirects into it, and being led on is no failure
        total=count + REDIRECTS, connect=count, read=count, status=count, other=count, redirect=REDIRECTS,
        backoff_factor=0.3, status_forcelist=_PASSING, raise_on_status=False,
        respect_retry_after_header=True,
    )  # fmt: skip


# The user's web proxies, as curl's variables name them: `http_proxy`, `https_proxy`, `all_proxy`, `no_proxy`.


def proxy_for(url: str, env: Mapping[str, str]) -> str | None:
    """Choose the proxy for a URL, with its credentials; None for a direct connection, which this machine itself always
    gets.

    Raises InputError for a proxy that isn't HTTP.
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
    """Make connections through a proxy, with the login in its address."""
    import urllib3
    from urllib3.util import make_headers

    bare, login = split_credentials(proxy)
    headers = make_headers(proxy_basic_auth=f"{login.username}:{login.password}") if login else None
    return urllib3.ProxyManager(bare, proxy_headers=headers, **options)


def is_loopback(url: str) -> bool:
    """Return whether a URL's host is this machine itself."""
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
    """Return whether `NO_PROXY` names the host or a domain above it."""
    domains = [entry.strip().lstrip(".").lower() for entry in no_proxy.split(",")]
    return "*" in domains or any(domain and f".{host.lower()}".endswith(f".{domain}") for domain in domains)
