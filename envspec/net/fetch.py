"""Fetches from indexes over HTTP: whole small files, byte ranges, streams, all within `envspec.net.limits`. Retries
transient failures, and reports the rest. Files of this machine (`file://`) are read likewise."""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import subprocess
import threading
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import unquote, urljoin, urlsplit

from msgspec import Struct, field

from envspec.base import programs
from envspec.base.errors import IndexFailure
from envspec.base.places import home_of, refuse_link_out
from envspec.base.plain_files import open_plain
from envspec.base.progress import Progress
from envspec.base.redact import redact
from envspec.base.storage import MORE_FILES
from envspec.configuration.settings import Credentials, split_credentials
from envspec.net import limits
from envspec.net.body import Pace, TooLarge, TooMuch, pieces, read_whole, too_slow
from envspec.net.transport import (
    REDIRECTS,
    Deadline,
    Patience,
    PeerTooSlow,
    deadline,
    is_loopback,
    proxy_for,
    retries,
    through,
    timed_pools,
)

if TYPE_CHECKING:
    import urllib3
    from urllib3.response import BaseHTTPResponse

# Passwords from the user's keyring, read as uv reads them with `keyring-provider = "subprocess"`: with the program
# `keyring`, for a user that the index's URL names without a password.

_SECONDS = 60
"""Seconds to wait: the user may have to unlock the keyring by hand."""


class Keyring:
    """The user's keyring. It is asked once a host and run."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Credentials | None] = {}

    def complete(self, url: str, user: str) -> Credentials | None:
        """Look up a user's login for a URL. None if the keyring has none."""
        host = urlsplit(url).netloc
        with self._lock:
            if (host, user) not in self._known:
                password = self._ask(url, user) or self._ask(host, user)
                self._known[host, user] = Credentials(user, password).mask() if password else None
            return self._known[host, user]

    def _ask(self, service: str, user: str) -> str | None:
        program = programs.find_program("keyring", self._env)
        if program is None:
            return None
        try:
            ran = programs.run([program, "get", service, user], self._env, seconds=_SECONDS)
            return ran.stdout.decode().rstrip("\r\n") if ran.returncode == 0 else None
        except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
            return None


def tls_context(env: Mapping[str, str]) -> ssl.SSLContext:
    """Make the context of TLS connections, with the user's own bundle or else the system's. Equal certificates share
    one."""
    bundle = env.get("SSL_CERT_FILE") or env.get("REQUESTS_CA_BUNDLE") or env.get("PIP_CERT")
    own = bundle if bundle and Path(bundle).is_file() else None
    default = ssl.get_default_verify_paths()
    files = (own,) if own else (default.cafile, default.capath)
    return _context(own, tuple((file, _stamp(file)) for file in files))


@lru_cache(4)
def _context(bundle: str | None, _state: object) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=bundle)
    except ssl.SSLError as error:
        if error.reason is None:  # OpenSSL had no memory even for a reason
            raise MemoryError(str(error)) from None
        raise


def _stamp(file: str | None) -> tuple[int, int] | None:
    """Return a mark that changes with a file or folder; None without a path."""
    if file is None:
        return None
    status = Path(file).stat()
    return status.st_mtime_ns, status.st_size


_RETRIES = 3
_LENGTH = re.compile(r"[0-9]{1,18}")
_CONNECT_SECONDS = 10.0
_READ_SECONDS = 30.0
"""uv's own default."""
_PAGE = "index.html"
NOT_THERE = "report this to whoever runs the index: it lists a file that it doesn't have"
_HINT = "check the address and the network, then run the same command again: it keeps what it has fetched"


def read_timeout(env: Mapping[str, str]) -> float:
    """Give the seconds without bytes after which a read counts as hung: the user's setting for uv, else pip's if that
    is longer, else 30."""
    configured = env.get("UV_HTTP_TIMEOUT") or env.get("UV_REQUEST_TIMEOUT") or env.get("HTTP_TIMEOUT")
    for text, least in ((configured, 0.0), (env.get("PIP_DEFAULT_TIMEOUT"), _READ_SECONDS)):
        if text and text.replace(".", "", 1).isdecimal():
            return max(least, float(text))
    return _READ_SECONDS


def _retries(env: Mapping[str, str]) -> int:
    configured = env.get("UV_HTTP_RETRIES", "")
    return int(configured) if configured.isdecimal() else _RETRIES


def give_up_seconds(env: Mapping[str, str], longest: float = 0) -> float:
    """Give the seconds after which a Fetcher gives up on a request, all tries and pauses included.
    `longest` is the longest time-out that an index has of its own."""
    # the deadline of all tries together; a last look-up of a name, and what this machine takes itself
    return limits.LIMITS.whole_seconds + max(read_timeout(env), longest) + _CONNECT_SECONDS + 5


class Reply(Struct, frozen=True):
    """An answer: status, body, and the whole file's length in bytes and ETag if the server gives them.
    `url` is where it came from, behind all redirects."""

    status: int
    body: bytes
    total: int | None
    etag: str | None = None
    url: str = ""


class Fetcher:
    """A pool of connections with the user's proxies, certificates and credentials.

    `credentials` maps an origin ("https://host:port") to its login; ~/.netrc fills in the rest, and `keyring` the
    password of a user without one. `own` are the origins that the user's settings name: netrc's `default` goes to them
    and to where their pages have their files, and netrc's logins go over plain http to them and this machine alone.
    `patience` is for indexes with a time-out of their own, by origin.
    `has_folders` says that the spec names a folder as an index: then no link is followed out of a repository.
    Credentials go only to the exact origin that they are for, and a redirect to another host drops them.
    """

    def __init__(
        self,
        *,
        credentials: Mapping[str, Credentials],
        env: Mapping[str, str],
        read_seconds: float = _READ_SECONDS,
        offline: bool = False,
        keyring: Keyring | None = None,
        bounds: limits.Limits | None = None,
        patience: Mapping[str, Patience] | None = None,
        own: Collection[str] = (),
    ) -> None:
        self.limits = bounds or limits.LIMITS
        self._credentials = credentials
        self._env = env
        self._read_seconds = read_seconds
        self.retries = _retries(env)
        self._netrc = _netrc(env)
        self._patience = dict(patience or {})
        self._own = set(own)
        self._pools: dict[tuple[str | None, float], urllib3.PoolManager] = {}
        self._making = threading.Lock()
        self._keyring = keyring
        self.offline = offline
        self.has_folders = False
        self.progress = Progress()  # of downloads of whole files
        self.token: Callable[[str], str | None] = lambda url: None  # the header where servers hand out tokens

    def local_path(self, url: str) -> Path | None:
        """Give the file of this machine that a `file://` URL names; None for any other URL. Raises InputError."""
        path = local_path(url)
        if path is not None and self.has_folders:
            refuse_link_out(path / _PAGE if path.is_dir() else path)
        return path

    def learn_hosts(self, page: str, files: Iterable[str]) -> None:
        """Wait for a page's files as long as for the page itself, where the user gave that index a time-out. A host
        with the files of many indexes gets the longest time-out. A host that a page of the user's own index names is
        the user's own too."""
        page_origin = origin_of(split_credentials(page)[0])
        if page_origin in self._own:
            files = tuple(files)
            self._own.update(origin_of(split_credentials(url)[0]) for url in files)
        own = self._patience.get(page_origin)
        if own is None:
            return
        for origin in {origin_of(split_credentials(url)[0]) for url in files}:
            known = self._patience.get(origin)
            if known is None or known.seconds < own.seconds:
                self._patience[origin] = own

    def get(self, url: str, *, headers: Mapping[str, str] | None = None, limit: int | None = None) -> Reply:
        """GET a file of at most `limit` bytes, by default the limit of a page. A 404 is an answer; other errors raise
        IndexFailure with the URL, credentials removed."""
        return self._ask(url, headers or {}, self.limits.page_bytes if limit is None else limit)

    def range(self, url: str, start: int | None, length: int) -> Reply:
        """GET `length` bytes from `start`, or the last `length` bytes if `start` is None.

        A server that ignores ranges answers 200: the body is then the whole file if that is no larger than the range,
        else empty.
        """
        span = f"bytes=-{length}" if start is None else f"bytes={start}-{start + length - 1}"
        return self._ask(url, {"Range": span}, length, cut=True)

    @contextmanager
    def stream(
        self, url: str, most: int | None = None, *, start: int = 0, known: str | None = None
    ) -> Iterator[Stream]:
        """Open a file of at most `most` bytes as a stream, for files too large for memory.

        With `start`, the stream has the file from there on, unless the server sends it whole again: `Stream.start`
        says. `known` is the ETag of what the caller has: `Stream.unchanged` says that the server has nothing else.
        Raises IndexFailure, also while the caller reads: BrokenOff where the connection broke off.
        """
        bare, own = split_credentials(url)
        if (path := self.local_path(bare)) is not None:
            with _open(path, bare) as file:
                yield self._local_stream(bare, file, most, start, known)
            return
        span = {"Range": f"bytes={start}-"} if start else {}
        span |= {"If-None-Match": known} if known else {}
        with deadline(self.limits.whole_seconds) as whole:
            response = self._request(bare, {**span, **self._authorization(bare, own)}, self._retry(bare, whole), whole)
            yield from self._give_stream(bare, response, most, start, known, whole)

    def _give_stream(
        self, bare: str, response: BaseHTTPResponse, most: int | None, start: int, known: str | None, whole: Deadline
    ) -> Iterator[Stream]:
        try:
            self._judge(bare, response.status)
            bound = self.limits.file_bytes if most is None else most
            if start and response.status == 416:
                yield Stream(bare, bound, iter(()), start)
                return
            etag = response.headers.get("ETag")
            if known and response.status == 304:
                yield Stream(bare, bound, iter(()), etag=known, unchanged=True)
                return
            content_range = str(response.headers.get("Content-Range", ""))
            resumed = bool(start) and response.status == 206 and content_range.startswith(f"bytes {start}-")
            if response.status != 200 and not resumed:
                raise IndexFailure(f"{bare} doesn't exist (HTTP {response.status})", hint=NOT_THERE)
            if (_total(response) or 0) > bound:
                raise _larger(bare, bound)
            with self.progress.fetching(_file_of(bare), _total(response)) as on_bytes:
                body = pieces(response, Pace(bare, self.limits, whole, came=on_bytes))
                yield Stream(bare, bound, body, start if resumed else 0, etag=etag)
        finally:
            # what is left of it on the wire would be taken for the next answer
            response.close()

    def digest(self, url: str) -> tuple[str, int]:
        """Read a whole file without keeping it; returns its sha256 and its length in bytes. Raises IndexFailure."""
        with self.stream(url) as stream:
            while stream.read(1 << 20):
                pass
            return stream.sha256, stream.length

    def _ask(self, url: str, headers: Mapping[str, str], limit: int, *, cut: bool = False) -> Reply:
        bare, own = split_credentials(url)
        if (path := self.local_path(bare)) is not None:
            return _local_reply(path, bare, headers, limit)
        sent = {**headers, **self._authorization(bare, own)}
        with deadline(self.limits.whole_seconds) as whole:
            return self._answer(bare, sent, limit, whole, cut=cut)

    def _answer(self, bare: str, sent: Mapping[str, str], limit: int, whole: Deadline, *, cut: bool) -> Reply:
        from urllib3.exceptions import HTTPError, ProtocolError, ReadTimeoutError

        retries = self._retry(bare, whole)
        body, too_much = b"", False
        try:
            while True:
                response = self._request(bare, sent, retries, whole)
                # a page is a step of something else, a whole wheel is a download
                progress = self.progress if limit > self.limits.page_bytes else Progress()
                try:
                    with progress.fetching(_file_of(bare), _total(response)) as on_bytes:
                        body = read_whole(response, limit, Pace(bare, self.limits, whole, whole=True, came=on_bytes))
                    break
                except TooMuch:
                    too_much = True
                    break
                except (ProtocolError, ReadTimeoutError) as error:
                    # urllib3 retries requests alone; a body that breaks off takes from the same number of tries
                    retries = (response.retries or retries).increment("GET", bare, error=error)
                    retries.sleep()
            response.release_conn()
        except HTTPError as error:
            raise self._unread(bare, error) from None
        if too_much and not cut:
            raise _too_large(bare, limit)
        self._judge(bare, response.status)
        return Reply(
            response.status, body, _total(response), response.headers.get("ETag"), _follow_redirects(bare, response)
        )

    def _local_stream(self, bare: str, file: BinaryIO, most: int | None, start: int, known: str | None) -> Stream:
        state, bound = os.fstat(file.fileno()), self.limits.file_bytes if most is None else most
        etag = _local_etag(state)
        if known == etag:
            return Stream(bare, bound, iter(()), etag=etag, unchanged=True)
        if state.st_size > bound:
            raise _larger(bare, bound)
        file.seek(start)
        return Stream(bare, bound, iter(lambda: file.read(1 << 20), b""), start, etag=etag)

    def _retry(self, bare: str, whole: Deadline) -> urllib3.Retry:
        return retries(self.retries, bare, lambda: whole.left)

    def _unread(self, bare: str, error: Exception) -> IndexFailure:
        """Return the error about a request that urllib3 gave up."""
        from urllib3.exceptions import ReadTimeoutError

        own = self._patience.get(origin_of(bare))
        if own is not None and isinstance(getattr(error, "reason", error), ReadTimeoutError):
            return own.gave_up(bare)
        reason = reason_of(error)
        if "too many redirects" in reason:
            return IndexFailure(
                f"{bare} redirects {REDIRECTS} times and gives no file",
                hint="check the address, and tell who runs it: its redirects go in a circle",
            )
        return IndexFailure(f"{bare} can't be read: {reason}", hint=MORE_FILES if "open files" in reason else _HINT)

    def _request(
        self, bare: str, headers: Mapping[str, str], retries: urllib3.Retry, whole: Deadline
    ) -> BaseHTTPResponse:
        """Send one GET and leave its body unread. Raises IndexFailure."""
        from urllib3.exceptions import HTTPError

        if self.offline and not is_loopback(bare):
            raise IndexFailure(
                f"{bare} isn't in the cache, and --offline forbids fetching it", hint="run without --offline once"
            )
        sent = {"Accept-Encoding": "identity", **headers}
        own = self._patience.get(origin_of(bare))
        more: dict[str, Any] = {}
        if own is not None:
            import urllib3

            more["timeout"] = urllib3.Timeout(connect=_CONNECT_SECONDS, read=own.seconds)
        try:
            with whole.holds():
                pool = self.pool(bare)
                return pool.request("GET", bare, headers=sent, retries=retries, preload_content=False, **more)
        except PeerTooSlow as slow:
            raise own.gave_up(bare) if own and not whole.cut else too_slow(bare, slow.seconds, 0) from None
        except HTTPError as error:
            # where a redirect leads may be no address: the error's frames alone have the answer, whose connection ends
            # with them
            traceback.clear_frames(error.__traceback__)
            if whole.cut:
                raise too_slow(bare, self.limits.whole_seconds, 0) from None
            raise self._unread(bare, error) from None
        except ValueError as error:
            # urllib3 joins where a redirect leads with urljoin, and lets its error through
            traceback.clear_frames(error.__traceback__)
            hint = "check the address, and tell who runs it"
            raise IndexFailure(f"{bare} redirects to something that isn't an address", hint=hint) from None

    def _judge(self, bare: str, status: int) -> None:
        """Raise IndexFailure for an error status."""
        if status in (401, 403):
            hint = "put them in ~/.netrc, or set UV_INDEX_<NAME>_USERNAME and UV_INDEX_<NAME>_PASSWORD"
            raise IndexFailure(f"{bare} needs credentials (HTTP {status})", hint=hint)
        if status == 407:
            hint = "give them in the proxy's address: http://USER:PASSWORD@HOST:PORT"
            raise IndexFailure(f"the proxy on the way to {bare} needs credentials (HTTP 407)", hint=hint)
        if status not in (200, 206, 304, 404, 405, 416):
            raise IndexFailure(f"{bare} answered HTTP {status} after {self.retries} retries", hint=_HINT)

    def pool(self, url: str, head: float = 0) -> urllib3.PoolManager:
        """Choose the connections for a URL: through the user's proxy and with the user's certificates. `head` is the
        limit on an answer's head in seconds, if it is more than `first_seconds`."""
        proxy, own = proxy_for(url, self._env), self._patience.get(origin_of(url))
        # the user's own word, where it is more than any index may take
        head = max(self.limits.first_seconds, head, own.seconds if own else 0)
        with self._making:
            return self._pool_for(proxy, head)

    def _pool_for(self, proxy: str | None, head: float) -> urllib3.PoolManager:
        import urllib3

        if (proxy, head) not in self._pools:
            options: dict[str, Any] = {
                # uv asks for some fifty things at once through the index proxy; a connection that found no room in the
                # pool would be made anew each time
                "maxsize": 50,
                "timeout": urllib3.Timeout(connect=_CONNECT_SECONDS, read=self._read_seconds),
                "ssl_context": tls_context(self._env),
            }
            pool = through(proxy, options) if proxy else urllib3.PoolManager(**options)
            pool.pool_classes_by_scheme = timed_pools(head)
            self._pools[proxy, head] = pool
        return self._pools[proxy, head]

    def _authorization(self, url: str, own: Credentials | None) -> dict[str, str]:
        if token := self.token(url):
            return {"authorization": token}
        login = self.login(url, own)
        return {"authorization": login.basic} if login else {}

    def login(self, url: str, own: Credentials | None = None) -> Credentials | None:
        """Return the login for a URL that has none in it: `own` or the user's; None where there is neither."""
        parts = urlsplit(url)
        credentials = own or self._credentials.get(origin_of(url))
        if credentials is None and self._netrc is not None and parts.hostname:
            named, is_own = self._netrc.hosts.get(parts.hostname), origin_of(url) in self._own
            entry = named or (self._netrc.hosts.get("default") if is_own else None)
            if entry and (parts.scheme == "https" or is_own or is_loopback(url)):
                credentials = Credentials(entry[0] or "", entry[2] or "")
        if credentials is not None and not credentials.password and self._keyring is not None:
            credentials = self._keyring.complete(url, credentials.username) or credentials
        return credentials


class BrokenOff(IndexFailure):
    """A connection broke off in the middle of a file."""


class Stream(Struct):
    """The body of an answer, in pieces, with the sha256 and the length of the part read so far.

    start      where in the file it begins
    etag       the file's ETag if the server gives one
    unchanged  the server has what the caller knows, and sends nothing
    """

    _url: str
    _most: int
    _pieces: Iterator[bytes]
    start: int = 0
    etag: str | None = None
    unchanged: bool = False
    _left: bytes = b""
    _hasher: Any = field(default_factory=hashlib.sha256)
    length: int = 0

    @property
    def sha256(self) -> str:
        return str(self._hasher.hexdigest())

    def read(self, size: int) -> bytes:
        """Read the next bytes, at most `size`; none at the end. Raises IndexFailure."""
        from urllib3.exceptions import HTTPError

        try:
            held = self._left
            while len(held) < size and (more := next(self._pieces, b"")):
                held += more
        except HTTPError as error:
            raise BrokenOff(f"{self._url} can't be read: {reason_of(error)}", hint=_HINT) from None
        piece, self._left = held[:size], held[size:]
        self._hasher.update(piece)
        self.length += len(piece)
        if self.start + self.length > self._most:
            raise _larger(self._url, self._most)
        return piece


def local_path(url: str) -> Path | None:
    """Give the file or folder of this machine that a `file://` URL names; None for any other URL."""
    if not url.startswith("file://"):
        return None
    host, slash, path = url.removeprefix("file://").partition("/")
    return Path(unquote(slash + path)) if host in ("", "localhost") and slash else None


def _open(path: Path, bare: str) -> BinaryIO:
    """Open a file of this machine. Raises IndexFailure, NotPlain."""
    try:
        return open_plain(path, links_out=True)
    except OSError as error:
        raise IndexFailure(f"{bare} can't be read: {error.strerror}", hint="check the folder that it lies in") from None


def _local_reply(path: Path, bare: str, headers: Mapping[str, str], limit: int) -> Reply:
    """Answer as a server of files would: of a folder there is its page, as pip and uv read it. Raises
    IndexFailure."""
    if os.path.isdir(path):
        bare, path = f"{bare.rstrip('/')}/", path / _PAGE
    if not os.path.lexists(path):
        return Reply(404, b"", None, url=bare)
    with _open(path, bare) as file:
        state = os.fstat(file.fileno())
        etag, total = _local_etag(state), state.st_size
        if headers.get("If-None-Match") == etag:
            return Reply(304, b"", None, etag, bare)
        if (span := headers.get("Range")) is not None:
            first, _, last = span.removeprefix("bytes=").partition("-")
            begin = int(first) if first else max(total - int(last), 0)
            file.seek(begin)
            return Reply(206, file.read(int(last) - begin + 1 if first else -1), total, etag, bare)
        if total > limit:
            raise _too_large(bare, limit)
        return Reply(200, file.read(limit), total, etag, bare)


def _local_etag(state: os.stat_result) -> str:
    return f'"{state.st_ino:x}-{state.st_mtime_ns:x}-{state.st_size:x}"'


def _too_large(url: str, limit: int) -> TooLarge:
    return TooLarge(
        f"{url} is larger than {_size(limit)}, the limit for such a file",
        hint="check which server answers at this address",
    )


def _file_of(url: str) -> str:
    """Give the name of a URL's file."""
    return unquote(urlsplit(url).path.rpartition("/")[2])


def _larger(url: str, most: int) -> IndexFailure:
    return IndexFailure(
        f"{url} is larger than the {most} bytes that it may have", hint="check what serves this address"
    )


def _netrc(env: Mapping[str, str]) -> netrc | None:
    path = Path(env.get("NETRC") or home_of(env) / ".netrc")
    try:
        logins = netrc(str(path))
    except (OSError, NetrcParseError, UnicodeDecodeError):
        return None
    for login, _, password in logins.hosts.values():
        Credentials(login or "", password or "").mask()
    return logins


def _follow_redirects(url: str, response: urllib3.response.BaseHTTPResponse) -> str:
    """Follow an answer's redirects: a location may be relative to the one before."""
    for redirect in response.retries.history if response.retries else ():
        url = urljoin(url, redirect.redirect_location or "")
    return url


def origin_of(url: str) -> str:
    """Return `scheme://host:port` of a URL without credentials."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count} bytes"


def _total(response: Any) -> int | None:
    span = response.headers.get("Content-Range", "")
    text = span.rpartition("/")[2] if "/" in span else response.headers.get("Content-Length", "")
    return int(text) if _LENGTH.fullmatch(text) else None


def reason_of(error: Exception) -> str:
    """Return the text of the innermost cause of urllib3's error: the outer ones name the pool, not the failure."""
    cause: BaseException = error
    while True:
        inner = getattr(cause, "reason", None) or cause.__cause__
        if not isinstance(inner, BaseException):
            break
        cause = inner
    text = str(cause)
    return redact(text.partition(": ")[2] if "object at 0x" in text else text)
