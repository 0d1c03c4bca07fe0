"""A simple index on loopback (PEP 503, PEP 691, PEP 658, PEP 700), and the ways in which indexes go wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from html import escape
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace
from packaging.utils import canonicalize_name

from support.packages import Dist
from support.serving import Quiet, Serving

JSON = "application/vnd.pypi.simple.v1+json"


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    method: str
    path: str
    authorization: str | None
    range: str | None


class Answer(Struct, frozen=True):
    status: int
    body: bytes
    kind: str = "application/octet-stream"
    headers: tuple[tuple[str, str], ...] = ()


Fault = Callable[["_Handler", Answer], Answer | None]
"""Changes an answer; None when it dealt with the connection itself."""


def status(code: int) -> Fault:
    return lambda handler, answer: Answer(code, b"no luck", "text/plain")


def passing(code: int, times: int) -> Fault:
    """The status for the first so many requests, then the real answer."""
    left = [times]

    def fault(handler: _Handler, answer: Answer) -> Answer:
        left[0] -= 1
        return Answer(code, b"later", "text/plain") if left[0] >= 0 else answer

    return fault


def truncated(handler: _Handler, answer: Answer) -> None:
    """Promises the whole body and sends half of it."""
    handler.send_head(answer)
    handler.wfile.write(answer.body[: len(answer.body) // 2])
    handler.wfile.flush()
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def hanging(handler: _Handler, answer: Answer) -> None:
    """Says nothing until the index closes."""
    handler.index.closing.wait(120)
    handler.close_connection = True


def slow(seconds: float) -> Fault:
    def fault(handler: _Handler, answer: Answer) -> Answer:
        handler.index.closing.wait(seconds)
        return answer

    return fault


def until(event: threading.Event) -> Fault:
    """The real answer, once the test says so."""

    def fault(handler: _Handler, answer: Answer) -> Answer:
        while not event.is_set() and not handler.index.closing.wait(0.01):
            pass
        return answer

    return fault


def dripping(handler: _Handler, answer: Answer) -> None:
    """The head as usual, the body a byte at a time."""
    handler.close_connection = True
    handler.send_head(answer)
    for byte in answer.body:
        if handler.index.closing.wait(0.02):
            return
        handler.wfile.write(bytes([byte]))
        handler.wfile.flush()


def circle(handler: _Handler, answer: Answer) -> Answer:
    """Leads on to itself."""
    return Answer(302, b"", "text/plain", (("Location", handler.path),))


def endless(handler: _Handler, answer: Answer) -> None:
    """A body without a length that never ends."""
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
    while not handler.index.closing.is_set():
        handler.wfile.write(b" " * 65536)


def lying_range(handler: _Handler, answer: Answer) -> None:
    """Whatever is asked for, there is more behind it."""
    first, _, last = (handler.headers.get("Range") or "bytes=0-65535").removeprefix("bytes=").partition("-")
    count = int(last) - int(first) + 1
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes {first}-{last}/{1 << 50}")
    handler.send_header("Content-Length", str(count))
    handler.end_headers()
    handler.wfile.write(bytes(count))


def html_error(handler: _Handler, answer: Answer) -> Answer:
    """What a captive portal does: a friendly page, 200."""
    return Answer(200, b"<!DOCTYPE html><html><body><h1>Please log in</h1></body></html>", "text/html")


def other_bytes(handler: _Handler, answer: Answer) -> Answer:
    """The right length, the wrong content."""
    return replace(answer, body=answer.body[:-1] + bytes([answer.body[-1] ^ 1])) if answer.status == 200 else answer


def reset(handler: _Handler, answer: Answer) -> None:
    """RST instead of an answer."""
    handler.close_connection = True
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()


@dataclass(frozen=True)
class _Listed:
    dist: Dist
    uploaded: str | None
    yanked: str | None


@dataclass
class Index:
    """A running index once entered (`with Index() as index`).

    form         "json" or "html"
    sidecars     METADATA beside wheels (PEP 658); "silent" serves it without saying so on the page,
                 "hashed" says its hash there
    sizes        sizes on the pages (JSON only)
    ranges       byte ranges honoured
    head         HEAD answered
    credentials  (user, password) that every request must bring
    prefix       below which its pages are
    tls          speak HTTPS with this server's context
    hash         the algorithm whose hashes are on the pages; "" for none
    folder       what is served below files/ beside its own, as a channel
    """

    form: str = "json"
    sidecars: bool | str = True
    sizes: bool = True
    ranges: bool = True
    head: bool = True
    credentials: tuple[str, str] | None = None
    prefix: str = "/simple"
    tls: ssl.SSLContext | None = None
    hash: str = "sha256"
    folder: Path | None = None
    asked: list[Asked] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._listed: dict[str, dict[str, _Listed]] = {}
        self._faults: list[tuple[re.Pattern[str], Fault]] = []
        self._hashes: dict[str, str] = {}
        self._attested: dict[str, bytes] = {}

    def __enter__(self) -> Index:
        handler = type("Handler", (_Handler,), {"index": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        self._serving = Serving(self._server)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._serving.stop()

    @property
    def origin(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"{self.origin}{self.prefix}"

    @property
    def _up(self) -> str:
        """From a page to the folder that holds `files/`."""
        return "../" * (self.prefix.count("/") + 1)

    def url_with(self, user: str, password: str) -> str:
        return self.url.replace("http://", f"http://{user}:{password}@")

    def file_url(self, dist: Dist) -> str:
        return f"{self.origin}/files/{dist.file}"

    def add(self, *dists: Dist, uploaded: str | None = None, yanked: str | None = None) -> Index:
        for dist in dists:
            self._listed.setdefault(canonicalize_name(dist.name), {})[dist.file] = _Listed(dist, uploaded, yanked)
        return self

    def remove(self, *dists: Dist) -> None:
        for dist in dists:
            del self._listed[canonicalize_name(dist.name)][dist.file]

    def lie_about(self, dist: Dist, sha256: str) -> None:
        """Print another hash on the page than the file's own; for an empty one neither hash nor size."""
        self._hashes[dist.file] = sha256

    def attest(self, dist: Dist, provenance: bytes) -> None:
        """Serve attestations of a file (PEP 740), and name their place on its page."""
        self._attested[dist.file] = provenance

    def fail(self, path: str, fault: Fault) -> None:
        """Every request whose path matches the pattern meets the fault."""
        self._faults.append((re.compile(path), fault))

    def heal(self) -> None:
        self._faults.clear()

    def paths(self, pattern: str = "") -> list[str]:
        """The paths asked for that match a pattern, in order."""
        return [asked.path for asked in list(self.asked) if re.search(pattern, asked.path)]

    def wait_for(self, pattern: str, seconds: float = 20) -> None:
        """Until some request for a matching path has come in."""
        end = time.monotonic() + seconds
        while not self.paths(pattern):
            assert time.monotonic() < end, f"nobody asked for {pattern}"
            time.sleep(0.005)

    def fault_for(self, path: str) -> Fault | None:
        return next((fault for pattern, fault in self._faults if pattern.search(path)), None)

    def answer(self, path: str) -> Answer:
        parts = [unquote(part) for part in path.split("?")[0].strip("/").split("/")]
        if f"/{'/'.join(parts[:-1])}" == self.prefix and parts[-1] in self._listed:
            return self._page(parts[-1], self._listed[parts[-1]].values())
        if len(parts) == 2 and parts[0] == "files":
            return self._file(parts[1])
        if parts[0] == "files" and self.folder and (file := self.folder.joinpath(*parts[1:])).is_file():
            return Answer(200, file.read_bytes())
        if len(parts) == 2 and parts[0] == "integrity" and parts[1] in self._attested:
            return Answer(200, self._attested[parts[1]], "application/vnd.pypi.integrity.v1+json")
        return Answer(404, b"no such thing", "text/plain")

    def hashes(self, dist: Dist) -> dict[str, str]:
        """What the page says of a file: none where `hash` is empty, or the file was lied about with nothing."""
        sha256 = self._hashes.get(dist.file, dist.sha256)
        said = sha256 if self.hash in ("", "sha256") else hashlib.new(self.hash, dist.content).hexdigest()
        return {self.hash: said} if self.hash and said else {}

    def _page(self, project: str, listed: Iterable[_Listed]) -> Answer:
        announce = self.sidecars in (True, "hashed")
        if self.form == "json":
            rows = []
            for one in listed:
                row: dict[str, object] = {
                    "filename": one.dist.file,
                    "url": f"{self._up}files/{one.dist.file}",
                    "hashes": (hashes := self.hashes(one.dist)),
                }
                if self.sizes and hashes:
                    row["size"] = len(one.dist.content)
                if one.dist.requires_python:
                    row["requires-python"] = one.dist.requires_python
                if one.dist.metadata is not None and announce:
                    digest = hashlib.sha256(one.dist.metadata).hexdigest()
                    row["core-metadata"] = {"sha256": digest} if self.sidecars == "hashed" else True
                if one.dist.file in self._attested:
                    row["provenance"] = f"{self.origin}/integrity/{one.dist.file}"
                if one.uploaded:
                    row["upload-time"] = one.uploaded
                if one.yanked:
                    row["yanked"] = one.yanked
                rows.append(row)
            versions = sorted({one.dist.version for one in listed})
            page = {"meta": {"api-version": "1.1"}, "name": project, "versions": versions, "files": rows}
            return Answer(200, json.dumps(page).encode(), JSON)
        anchors = []
        for one in listed:
            fragment = "".join(f"#{name}={said}" for name, said in self.hashes(one.dist).items())
            attributes = f'href="{self._up}files/{one.dist.file}{fragment}"'
            if one.dist.requires_python:
                attributes += f' data-requires-python="{escape(one.dist.requires_python)}"'
            if one.dist.metadata is not None and announce:
                attributes += ' data-core-metadata="true"'
            if one.yanked:
                attributes += f' data-yanked="{escape(one.yanked)}"'
            anchors.append(f"<a {attributes}>{one.dist.file}</a><br>")
        return Answer(200, f"<!DOCTYPE html><html><body>{''.join(anchors)}</body></html>".encode(), "text/html")

    def _file(self, name: str) -> Answer:
        for project in self._listed.values():
            for one in project.values():
                if one.dist.file == name:
                    return Answer(200, one.dist.content)
                if one.dist.file + ".metadata" == name and self.sidecars and one.dist.metadata is not None:
                    return Answer(200, one.dist.metadata)
        return Answer(404, b"no such file", "text/plain")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in the middle is what some tests are about."""


class _Handler(Quiet):
    protocol_version = "HTTP/1.1"
    index: Index

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        index = self.index
        authorization = self.headers.get("Authorization")
        index.asked.append(Asked(self.command, self.path, authorization, self.headers.get("Range")))
        answer: Answer | None = index.answer(self.path)
        if (
            index.credentials
            and authorization != "Basic " + base64.b64encode(":".join(index.credentials).encode()).decode()
        ):
            answer = Answer(401, b"who are you?", "text/plain", (("WWW-Authenticate", 'Basic realm="test"'),))
        elif self.command == "HEAD" and not index.head:
            answer = Answer(405, b"", "text/plain")
        else:
            fault = index.fault_for(self.path)
            if fault is not None and answer is not None:
                answer = fault(self, answer)
        if answer is None:
            return
        answer = self._ranged(answer)
        self.send_head(answer)
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def send_head(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        if self.index.ranges:
            self.send_header("Accept-Ranges", "bytes")
        for key, value in answer.headers:
            self.send_header(key, value)
        self.end_headers()

    def _ranged(self, answer: Answer) -> Answer:
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if not asked or not self.index.ranges or answer.status != 200 or not self.path.startswith("/files/"):
            return answer
        total = len(answer.body)
        if asked[1]:
            start, end = int(asked[1]), min(int(asked[2] or total - 1), total - 1)
        else:
            start, end = max(0, total - int(asked[2])), total - 1
        span = ("Content-Range", f"bytes {start}-{end}/{total}")
        return Answer(206, answer.body[start : end + 1], answer.kind, (span,))
