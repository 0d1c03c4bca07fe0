"""One repository of a registry, to read or to write: its manifests, and its blobs as streams.

Source: OCI's distribution-spec. A blob is uploaded in pieces. A broken upload resumes, or begins anew at a registry
that forgot it (docker-registry 2.8 drops an upload with a broken piece); a blob that the repository has, or that it can
take over from another one of the same registry, isn't sent at all.
"""

from __future__ import annotations

import hashlib
import re
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from msgspec import Struct

from envspec.base.errors import IndexFailure
from envspec.net.body import Pace, TooMuch, read_whole, too_slow
from envspec.net.fetch import Fetcher, reason_of
from envspec.net.file_store import BY_INDEX, FileStore, WantedFile
from envspec.net.limits import LIMITS
from envspec.net.registry import MANIFEST_TYPES, ImageAddress, Registries, needs_login, resolve_location, shown_address
from envspec.net.transport import Deadline, PeerTooSlow, deadline, is_loopback

if TYPE_CHECKING:
    from urllib3.response import BaseHTTPResponse

_CHUNK = 16 << 20
"""Bytes of one piece of an upload, which are held in memory."""
_TRIES = 5
_PAUSE = 1.0
_CONNECT_SECONDS = 10.0
_READ_SECONDS = 300.0
_TOKEN_SECONDS = 45.0
"""A token is asked for anew after so long: the distribution specification promises 60."""
_DOCUMENT = 4 << 20
_ERROR = 1 << 16
_BLOB = "blob"
_AGAIN = "check the network, then run the same command again: blobs that are there aren't sent again"

OnBytes = Callable[[int], None]


class _Answer(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes


class Repository:
    """A repository by its image's address. `writes` asks for the right to push, past any mirror."""

    def __init__(
        self, registries: Registries, fetcher: Fetcher, address: ImageAddress, *, writes: bool = False
    ) -> None:
        self._registries, self._fetcher, self.address = registries, fetcher, address
        self._endpoint = registries.endpoint(address, writing=writes)
        self._scopes = [f"repository:{self._endpoint.path}:{'pull,push' if writes else 'pull'}"]
        self._challenge: str | None = None
        self._header: tuple[float, str] | None = None
        self._answered = False

    @property
    def origin(self) -> str:
        return self._endpoint.origin

    @property
    def path(self) -> str:
        return self._endpoint.path

    def manifest(self, reference: str) -> tuple[bytes, str] | None:
        """Read a manifest by its tag or digest, with its media type; None where there is none. Raises IndexFailure."""
        accept = {"Accept": ", ".join(MANIFEST_TYPES)}
        answer = self._ask("GET", self._url(f"manifests/{reference}"), headers=accept, limit=_DOCUMENT)
        if answer.status == 404:
            return None
        self._judge(answer, (200,), f"manifests/{reference}")
        if ":" in reference and f"sha256:{hashlib.sha256(answer.body).hexdigest()}" != reference:
            message = f"{self._url(f'manifests/{reference}')} sends other bytes than its digest says"
            raise IndexFailure(message, hint="check whether a proxy on the way changes the answer")
        return answer.body, answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def blob(self, digest: str, size: int) -> bytes:
        """Read a small blob. Raises IndexFailure."""
        answer = self._ask("GET", self._url(f"blobs/{digest}"), limit=min(size, _DOCUMENT))
        self._judge(answer, (200,), f"blobs/{digest}")
        return answer.body

    def fetch(self, digest: str, size: int, folder: Path, on_bytes: OnBytes = lambda count: None) -> Path:
        """Fetch a blob into the cache of files, checked by its digest, unless it is there. Raises IndexFailure,
        OSError."""
        blob = WantedFile(_BLOB, digest.removeprefix("sha256:"), size, BY_INDEX)
        store = FileStore(folder, self._fetcher)
        if (path := store.find(blob)) is not None:
            return path
        if not self._fetcher.offline and self._challenge is None:
            # what a blob's redirect asks for is none of ours, so the way in is found out here
            self._ask("HEAD", self._url(f"blobs/{digest}"))
        own = urlsplit(self.origin)[:2]
        self._fetcher.token = lambda url: self._authorization() if urlsplit(url)[:2] == own else None
        return store.fetch(self._url(f"blobs/{digest}"), blob, on_bytes)

    def has_blob(self, digest: str) -> bool:
        """Return whether the repository has a blob. Raises IndexFailure."""
        answer = self._ask_again("HEAD", self._url(f"blobs/{digest}"))
        self._judge(answer, (200, 404), f"blobs/{digest}")
        return answer.status == 200

    def mount(self, digest: str, path: str) -> bool:
        """Take a blob over from another repository of the registry, and say whether that worked. Raises
        IndexFailure."""
        scope = f"repository:{path}:pull"
        if scope not in self._scopes:
            self._scopes.append(scope)
            self._header = None
        query = urlencode({"mount": digest, "from": path})
        answer = self._ask_again("POST", f"{self._url('blobs/uploads/')}?{query}", headers={"Content-Length": "0"})
        self._judge(answer, (201, 202), "blobs/uploads/")
        return answer.status == 201

    def upload(self, digest: str, file: IO[bytes], size: int, on_bytes: OnBytes = lambda count: None) -> None:
        """Send a blob of `size` bytes in pieces. All tries share one time limit, which each sent byte extends.
        `on_bytes` gets the number of bytes sent, negative for bytes that were lost. Raises IndexFailure, OSError."""
        sent = taken = 0
        with deadline(_seconds(_CHUNK)) as whole, whole.holds():
            latest = whole.ends

            def count(more: int) -> None:
                nonlocal sent, taken
                sent, taken = sent + more, taken + more
                whole.ends = latest + taken / LIMITS.bytes_per_second
                on_bytes(more)

            try:
                for _ in range(_TRIES):
                    sent = 0
                    try:
                        self._upload_once(digest, file, size, count)
                        return
                    except _Forgotten:
                        on_bytes(-sent)
                        time.sleep(_PAUSE)
            except IndexFailure:
                if whole.left > 0:
                    raise
                shown = shown_address(self._url("blobs/uploads/"))
                message = f"{shown} is too slow: {sent} of {size} bytes went in {whole.passed:.0f} s"
                raise IndexFailure(message, hint=_AGAIN) from None
        raise _give_up(self._url("blobs/uploads/"))

    def _upload_once(self, digest: str, file: IO[bytes], size: int, on_bytes: OnBytes) -> None:
        """Send a blob by one upload. Raises _Forgotten where the registry dropped that."""
        begun = self._ask_again("POST", self._url("blobs/uploads/"), headers={"Content-Length": "0"})
        self._judge(begun, (202,), "blobs/uploads/")
        place = self._location(begun)
        at = stalled = 0
        while at < size:
            file.seek(at)
            piece = file.read(_CHUNK)
            place, received = self._send_piece(place, piece, at)
            stalled = 0 if received > at else stalled + 1
            if stalled == _TRIES or not 0 <= received <= at + len(piece):
                raise _give_up(place)
            on_bytes(received - at)
            at = received
        ended = f"{place}{'&' if '?' in place else '?'}digest={quote(digest, safe='')}"
        try:
            answer = self._ask("PUT", ended, headers={"Content-Length": "0"})
        except _Broken:
            # the answer alone may be lost
            if not self.has_blob(digest):
                raise _Forgotten from None
            return
        self._judge_upload(answer, 201)

    def put_manifest(self, reference: str, content: bytes, media_type: str) -> None:
        """Write a manifest under a tag or its digest. Raises IndexFailure."""
        url = self._url(f"manifests/{reference}")
        answer = self._ask_again("PUT", url, headers={"Content-Type": media_type}, body=content)
        self._judge(answer, (201,), f"manifests/{reference}")

    def _send_piece(self, place: str, piece: bytes, at: int) -> tuple[str, int]:
        """Send one piece of an upload; give the upload's next address and how much the registry has. A broken upload
        resumes at the offset that the registry gives."""
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Range": f"{at}-{at + len(piece) - 1}",
            "Content-Length": str(len(piece)),
        }
        with deadline(_seconds(len(piece))) as whole, whole.holds():
            for left in reversed(range(_TRIES)):
                try:
                    answer = self._ask("PATCH", place, headers=headers, body=piece)
                    if answer.status < 500 and answer.status not in (408, 416, 429):
                        self._judge_upload(answer, 202)
                        return self._location(answer, place), at + len(piece)
                except _Broken:
                    pass
                if not left:
                    break
                time.sleep(_PAUSE)
                resumed = self._ask_for_offset(place)
                if resumed is not None:
                    return resumed
        raise _give_up(place)

    def _ask_for_offset(self, place: str) -> tuple[str, int] | None:
        """Ask how far an upload is; None where the registry doesn't say. Raises _Forgotten."""
        try:
            answer = self._ask("GET", place)
        except _Broken:
            return None
        if answer.status == 404:
            raise _Forgotten
        span = answer.headers.get("Range", "").removeprefix("bytes=").partition("-")[2]
        if answer.status != 204 or not re.fullmatch("[0-9]{1,18}", span):
            return None
        # "0-0" is said of one byte as of none: the piece is then sent whole
        received = int(span) + 1
        return self._location(answer, place), received if received > 1 else 0

    def _judge_upload(self, answer: _Answer, expected: int) -> None:
        if answer.status == 404:
            raise _Forgotten
        self._judge(answer, (expected,), "blobs/uploads/")

    def _location(self, answer: _Answer, before: str = "") -> str:
        where = answer.headers.get("Location", "")
        if not where and not before:
            raise IndexFailure(
                f"{self.origin} begins an upload and doesn't say where", hint="report this to who runs it"
            )
        return resolve_location(self._url("blobs/uploads/"), where) if where else before

    def _url(self, rest: str) -> str:
        return f"{self.origin}/v2/{self.path}/{rest}"

    def _authorization(self) -> str | None:
        """Give the header that lets in, as the registry asked for it; None where it asks for nothing."""
        if self._challenge is None:
            return None
        made, header = self._header or (0.0, "")
        if not header or time.monotonic() - made > _TOKEN_SECONDS:
            header = self._registries.authorization(self._challenge, self.address, self._endpoint, self._scopes)
            self._header = (time.monotonic(), header)
        return header

    def _ask_again(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> _Answer:
        """Send a repeatable request, and try again where a registry that answered before doesn't, all within one time
        limit. Raises IndexFailure."""
        with deadline(_seconds(len(body or b""))) as whole, whole.holds():
            for _ in range(_TRIES - 1):
                try:
                    answer = self._ask(method, url, headers=headers, body=body)
                    if answer.status < 500 and answer.status != 429:
                        return answer
                except _Broken:
                    if not self._answered:
                        raise
                time.sleep(_PAUSE)
            return self._ask(method, url, headers=headers, body=body)

    def _ask(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        limit: int = _ERROR,
    ) -> _Answer:
        """Send one request, once more where the registry wants a token. Raises IndexFailure, _Broken."""
        with deadline(_seconds(len(body or b""))) as whole, whole.holds():
            answer = self._send(method, url, headers or {}, body, limit)
            if answer.status == 401 and _same_origin(url, self.origin):
                self._challenge, self._header = answer.headers.get("WWW-Authenticate", ""), None
                answer = self._send(method, url, headers or {}, body, limit)
            return answer

    def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, limit: int) -> _Answer:
        import urllib3
        from urllib3.exceptions import HTTPError

        shown = shown_address(url)
        if self._fetcher.offline and not is_loopback(url):
            raise IndexFailure(f"{shown} isn't asked: --offline forbids it", hint="run without --offline")
        if urlsplit(url).scheme != "https" and not is_loopback(url):
            raise IndexFailure(
                f"{shown} isn't https, so envspec doesn't contact it", hint="set up a certificate for the registry"
            )
        own = self._authorization() if _same_origin(url, self.origin) else None
        sent = {"Accept-Encoding": "identity", **headers, **({"Authorization": own} if own else {})}
        # who ends an upload waits: a registry may hash a large blob before it answers
        pool = self._fetcher.pool(url, LIMITS.whole_seconds if method == "PUT" else 0)
        with deadline(_seconds(len(body or b""))) as whole:
            try:
                with whole.holds():
                    response: BaseHTTPResponse = pool.request(
                        method,
                        url,
                        body=body,
                        headers=sent,
                        # what is read may come from elsewhere, and urllib3 drops the token on the way there
                        redirect=method in ("GET", "HEAD"),
                        retries=urllib3.Retry(
                            total=3, connect=2, read=0, redirect=3, status=0, raise_on_redirect=False
                        ),
                        timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS),
                        preload_content=False,
                    )
            except PeerTooSlow as slow:
                raise too_slow(shown, slow.seconds, 0) from None
            except HTTPError as error:
                # the error's frames alone may have an answer, whose connection ends with them
                traceback.clear_frames(error.__traceback__)
                raise _Broken(f"{shown} can't be reached: {reason_of(error)}", hint="check the network") from None
            except ValueError as error:  # urllib3's, of a Location that can't be parsed
                traceback.clear_frames(error.__traceback__)
                raise IndexFailure(f"{shown} redirects to something that isn't an address") from None
            self._answered = True
            return _Answer(response.status, response.headers, _body(response, limit, shown, whole))

    def _judge(self, answer: _Answer, allowed: tuple[int, ...], what: str) -> None:
        if answer.status in allowed:
            return
        host = urlsplit(self.origin).netloc
        if answer.status in (401, 403):
            raise needs_login(host)
        if answer.status == 404:
            raise IndexFailure(f"{self._url(what)} doesn't exist", hint="check the image's name")
        text = " ".join(answer.body.decode("utf-8", "replace").split())[:300]
        raise IndexFailure(f"{host} answers HTTP {answer.status} for {self.path}{': ' if text else ''}{text}")


def _seconds(size: int) -> float:
    """Give the limit on a request, with the time that so many bytes of its own may take."""
    return LIMITS.whole_seconds + size / LIMITS.bytes_per_second


def _give_up(place: str) -> IndexFailure:
    return IndexFailure(
        f"{shown_address(place)} breaks off again and again",
        hint=_AGAIN,
    )


class _Broken(IndexFailure):
    """A request got no answer."""


class _Forgotten(Exception):
    """The registry knows nothing of an upload that it began."""


def _same_origin(url: str, origin: str) -> bool:
    return urlsplit(url)[:2] == urlsplit(origin)[:2]


def _body(response: Any, limit: int, shown: str, whole: Deadline) -> bytes:
    from urllib3.exceptions import HTTPError

    try:
        body = read_whole(response, limit, Pace(shown, LIMITS, whole, whole=True))
        response.release_conn()
        return body
    except TooMuch:
        raise IndexFailure(f"{shown} sends more than {limit} bytes, the limit for such an answer") from None
    except HTTPError as error:
        raise _Broken(f"{shown} breaks off: {reason_of(error)}", hint="check the network") from None
