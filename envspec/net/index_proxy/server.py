"""The server: routes to pages, METADATA and files, on an address that stays the same from run to run.

The address matters: uv's cache has an index's URL in its keys. A number of the user's own, kept in envspec's cache,
decides address and port. While another run holds the address, a run takes the next free one of a few, and uv keeps its
pages apart.

Whoever may read uv's cache knows the address, and the proxy fetches with the user's logins. So it answers its own run
alone: each has a login of its own, which uv gets in the indexes' URLs, leaves out of its cache's keys and doesn't keep.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import socketserver
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from envspec.base.errors import EnvspecError
from envspec.base.redact import redact
from envspec.base.storage import storage_error
from envspec.configuration.settings import Credentials
from envspec.facts import wheels
from envspec.facts.corrections import NO_CORRECTIONS, Corrections
from envspec.facts.wheels import FAMILY
from envspec.net.fetch import local_path
from envspec.net.file_store import BY_INDEX, WantedFile
from envspec.net.index_proxy.address import VARIANT, WHEEL, FileAddress, parse
from envspec.net.index_proxy.pages import Describe, Pages, Upstream, belongs, facts_digest, facts_page
from envspec.net.index_proxy.shown import Glibc, by_number, proxied_row
from envspec.net.simple_page import LivePages
from envspec.packages.requirement import canonical_name, extras_in

Provided = tuple[tuple[str, str, tuple[str, ...]], ...]
"""PyPI name (normalised), version (PEP 440) and the requirements of the extras of each package that conda installs or a
base has, sorted."""


def stub_page(name: str, version: str, lines: Sequence[str] = ()) -> list[dict[str, object]]:
    """Make the `files` of a provided package's page (PEP 691)."""
    text = stub_metadata(name, version, lines)
    return [
        {
            "filename": f"{name.replace('-', '_')}-{version}-py3-none-any.whl",
            "url": f"../files/{name}.whl",
            # nobody downloads it, but uv would in order to learn its hash
            "hashes": {"sha256": hashlib.sha256(text).hexdigest()},
            "core-metadata": True,
            # long before every `exclude-newer`
            "upload-time": "2000-01-01T00:00:00Z",
        }
    ]


def stub_metadata(name: str, version: str, lines: Sequence[str] = ()) -> bytes:
    more = [f"Provides-Extra: {extra}" for extra in extras_in(lines)] + [f"Requires-Dist: {line}" for line in lines]
    return "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *more, ""]).encode()


def correct_metadata(metadata: bytes, corrections: Corrections) -> bytes:
    """Add to METADATA, as the proxy writes it (a line a field, in UTF-8), the lines that it lacks."""
    if not corrections.rows:
        return metadata
    head, _, rest = metadata.decode().partition("\n\n")
    fields = [line.partition(": ")[::2] for line in head.split("\n")]
    named = dict(fields)
    published = [value for field, value in fields if field == "Requires-Dist"]
    package, version = canonical_name(named.get("Name", "")), named.get("Version", "")
    more = [
        *corrections.missing_requirements(package, version, published),
        *corrections.bounds(package, version, published),
    ]
    lines = [head, *(f"Requires-Dist: {line}" for line in more)]
    return ("\n".join(lines) + "\n\n" + rest).encode() if more else metadata


_WITH_TRITON = "+triton"
_FACTS = "."
_GLIBC = "!"
_CORRECTED = "~"
_PROVIDED = "provided-"
_JSON = "application/vnd.pypi.simple.v1+json"
_FAILED = 424
"""The status for a failure behind the proxy: the fetcher has retried already, and uv doesn't retry this status."""
_PLACES = 4
"""Addresses to try before an ephemeral one."""


@dataclass(frozen=True)
class IndexProxy:
    """A running proxy. `index(upstream)` and `url(variant)` give the indexes for uv; `owns(url)` recognises a file of
    the shipped facts, and `file(url)` gives the index's file behind a URL."""

    base: str
    provided: Sequence[Provided] = ()
    pages: Pages | None = None
    roots: dict[str, Upstream] = field(default_factory=dict, compare=False)
    torch: dict[str, Corrections] = field(default_factory=dict, compare=False)
    """The corrections of the roots of PyTorch's variants that have some."""
    glibcs: dict[str, Glibc] = field(default_factory=dict, compare=False)
    """The glibcs for whose targets the wheels of these roots are shown by number."""
    login: Credentials = field(default_factory=lambda: Credentials("", ""), compare=False, repr=False)
    """Without it there is no answer."""
    failures: list[EnvspecError] = field(default_factory=list, compare=False)
    """Failures behind the proxy, of which uv only sees a status."""
    live: Collection[str] = ()
    """PyTorch's variants of which an index is asked besides the facts."""

    @property
    def host(self) -> str:
        return str(urlsplit(self.base).hostname)

    def with_login(self, url: str) -> str:
        """Give an index's URL as uv needs it to be answered. Nothing but uv's own input may hold it."""
        return self.login.within(url) if url.startswith(f"{self.base}/") else url

    def index(self, upstream: Upstream) -> str:
        """Give the proxy's URL for an index."""
        self.roots[upstream.root] = upstream
        return f"{self.base}/{upstream.root}"

    def provided_url(self, provided: Provided) -> str:
        """Give the index of the packages that conda installs."""
        return f"{self.base}/{_PROVIDED}{self.provided.index(provided)}"

    def is_provided(self, url: str) -> bool:
        return url.startswith(f"{self.base}/{_PROVIDED}")

    def url(
        self,
        variant: str,
        *,
        triton: bool = False,
        corrections: Corrections = NO_CORRECTIONS,
        glibc: Glibc | None = None,
    ) -> str:
        """Give the proxy's URL for a variant of the PyTorch index. `glibc` is a target's that uv has no name for."""
        root = f"{variant}{_WITH_TRITON * triton}"
        if glibc:
            root = f"{root}{_GLIBC}{glibc[0]}"
        if self.lasts(variant):
            root = f"{root}{_FACTS}{facts_digest(variant)}"
        if corrections.digest:
            root = f"{root}{_CORRECTED}{corrections.digest}"
            self.torch[root] = corrections
        if glibc:
            self.glibcs[root] = glibc
        return f"{self.base}/{root}"

    def lasts(self, variant: str) -> bool:
        """Return whether the pages at a variant's URL stay the same, so that uv may keep them."""
        return variant in wheels.variants() and variant not in self.live

    def corrections(self, root: str) -> Corrections:
        """Give the corrections of METADATA below a root."""
        upstream = self.roots.get(root)
        return upstream.corrections if upstream else self.torch.get(root, NO_CORRECTIONS)

    def owns(self, url: str) -> bool:
        return url.startswith(self.base + "/") and self.file(url) is None

    def is_of_other_index(self, url: str) -> bool:
        """Return whether a file is served from an index that isn't PyTorch's."""
        return url.startswith(f"{self.base}/") and url[len(self.base) + 1 :].split("/", 1)[0] in self.roots

    def variant_of(self, url: str) -> str:
        return _variant(url[len(self.base) + 1 :].split("/", 1)[0])

    def file(self, url: str) -> FileAddress | None:
        """Find the index's file behind a URL of the proxy. None for any other URL."""
        return parse(_below_root(url[len(self.base) + 1 :])) if url.startswith(self.base + "/") else None

    def plain(self, text: str) -> str:
        """Rewrite a message of uv's with the indexes' own addresses."""

        def own(match: re.Match[str]) -> str:
            address = parse(_below_root(match[1]))
            return match[0] if address is None else address.url

        def page(match: re.Match[str]) -> str:
            upstream, below = self.roots.get(match[1]), match[2] or ""
            url = upstream.of(below.strip("/")).url if upstream else ""
            return redact(url.rstrip("/")) + below if url else match[0]

        text = re.sub(re.escape(self.base) + r"/([^\s`()]+)", own, text)
        text = re.sub(re.escape(self.base) + r"/([^\s/`()]+)(/[^\s/`()]*)?", page, text)
        return text.replace(self.base, "the index proxy")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # one segment a reply: header and body apart would each wait 40 ms for the other's acknowledgement
    wbufsize = -1
    disable_nagle_algorithm = True
    proxy: IndexProxy
    live: Mapping[str, LivePages]
    metadata: Describe | None

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: uv's own messages suffice."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        authorization = self.headers.get("Authorization") or ""
        if not secrets.compare_digest(authorization.encode("latin-1"), self.proxy.login.basic.encode()):
            return self._reply(401, b"", "text/plain")
        try:
            self._route(self.path.lstrip("/"))
        except EnvspecError as error:
            self.proxy.failures.append(error)
            self._reply(_FAILED, str(error).encode(), "text/plain")

    def _route(self, path: str) -> None:
        parts = [unquote(part) for part in path.partition("?")[0].strip("/").split("/")]
        address = parse(_below_root(path))
        if address is not None:
            return self._file(address, parts[0])
        upstream = self.proxy.roots.get(parts[0])
        if upstream is not None:
            return self._index(upstream, parts)
        if parts[0].startswith(_PROVIDED):
            return self._serve_stub(parts)
        self._torch(parts)

    def _index(self, upstream: Upstream, parts: Sequence[str]) -> None:
        pages = self.proxy.pages
        if len(parts) != 2 or pages is None:
            return self._reply(404, b"no such page", "text/plain")
        upstream = upstream.of(parts[1])
        shown = pages.show(upstream, parts[1], self.headers.get("If-None-Match"))
        lasts = shown.lasts and not upstream.local
        self._reply(shown.status, shown.body, _JSON, etag=shown.etag, age=600 if lasts else 0)

    def _file(self, address: FileAddress, root: str) -> None:
        upstream = self.proxy.roots.get(root)
        known = upstream is not None or _variant(root) in self.live
        if not known or (local_path(address.url) is not None and not (upstream and upstream.local)):
            return self._reply(404, b"no file of this run's indexes", "text/plain")
        # uv puts .metadata behind the path, before what a query may follow
        wants_metadata = urlsplit(self.path).path.endswith(".metadata")
        if wants_metadata and self.metadata is not None:
            published = self.metadata(_without_suffix(address), upstream.stated if upstream else ())
            metadata = correct_metadata(published, self.proxy.corrections(root))
            # a file without a hash on its page may be another one tomorrow
            age = 365 * 86400 if address.sha256 else 0
            return self._reply(200, metadata, "text/plain", age=age)
        pages = self.proxy.pages
        if address.kind not in (WHEEL, VARIANT) or pages is None:
            return self._reply(404, b"a source that isn't built here", "text/plain")
        try:
            expected = WantedFile(address.file, address.sha256, address.size, BY_INDEX)
            path = pages.files.fetch(address.url, expected)
            file = path.open("rb")
        except OSError as error:
            raise storage_error(error, pages.files.folder, option="ENVSPEC_CACHE_DIR") from None
        with file:
            self._head(200, "application/octet-stream", os.fstat(file.fileno()).st_size, age=365 * 86400)
            if self.command != "HEAD":
                shutil.copyfileobj(file, self.wfile, 1 << 20)

    def _torch(self, parts: Sequence[str]) -> None:
        variant = _variant(parts[0])
        served = (*FAMILY, "triton") if _WITH_TRITON in parts[0] else FAMILY
        if variant not in wheels.variants() and variant not in self.live:
            self._reply(404, b"no such variant", "text/plain")
        elif len(parts) == 2 and parts[1] in served:
            self._page(variant, parts[1], self.proxy.glibcs.get(parts[0]))
        elif len(parts) == 3 and parts[1] == "files" and parts[2].endswith(".whl.metadata"):
            self._metadata(variant, parts[2].removesuffix(".metadata"), self.proxy.corrections(parts[0]))
        else:
            self._reply(404, b"not in the PyTorch index", "text/plain")

    def _page(self, variant: str, project: str, glibc: Glibc | None) -> None:
        files = facts_page(variant, project, belongs(variant))
        live = self.live.get(variant)
        if live:
            known = {row["filename"] for row in files}
            files += [proxied_row(row) for row in live(variant, project) if row["filename"] not in known]
        if not files:
            return self._reply(404, b"not in the PyTorch index", "text/plain")
        page = {"meta": {"api-version": "1.1"}, "name": project, "files": by_number(files, glibc)}
        self._reply(200, json.dumps(page).encode(), _JSON, age=600 if self.proxy.lasts(variant) else 0)

    def _metadata(self, variant: str, file: str, corrections: Corrections) -> None:
        wheel = wheels.load(variant).file(file) if variant in wheels.variants() else None
        if wheel is None:
            return self._reply(404, b"no such wheel", "text/plain")
        metadata = correct_metadata(wheels.metadata_text(wheel), corrections)
        self._reply(200, metadata, "text/plain", age=365 * 86400 if self.proxy.lasts(variant) else 0)

    def _serve_stub(self, parts: Sequence[str]) -> None:
        number = parts[0].removeprefix(_PROVIDED)
        provided = self.proxy.provided
        of_number = provided[int(number)] if number.isdecimal() and int(number) < len(provided) else ()
        known = {name: (name, version, lines) for name, version, lines in of_number}
        name = parts[-1].removesuffix(".whl.metadata")
        if name not in known:
            self._reply(404, b"conda doesn't install it", "text/plain")
        elif len(parts) == 3 and parts[1] == "files":
            self._reply(200, stub_metadata(*known[name]), "text/plain")
        else:
            page = {"meta": {"api-version": "1.1"}, "name": name, "files": stub_page(*known[name])}
            self._reply(200, json.dumps(page).encode(), _JSON)

    def _reply(self, status: int, body: bytes, kind: str, *, etag: str | None = None, age: int = 0) -> None:
        self._head(status, kind, len(body), etag=etag, age=age)
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: int, kind: str, length: int, *, etag: str | None = None, age: int = 0) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="envspec"')
        self.send_header("Cache-Control", f"max-age={age}" if age else "no-store")
        if etag:
            self.send_header("ETag", etag)
        self.end_headers()


def _below_root(path: str) -> str:
    return path.partition("/")[2]


def _variant(root: str) -> str:
    return root.partition(_CORRECTED)[0].partition(_FACTS)[0].partition(_GLIBC)[0].removesuffix(_WITH_TRITON)


def _without_suffix(address: FileAddress) -> FileAddress:
    """Turn the address of METADATA into that of its file."""
    if address.stand_in:
        return replace(address, stand_in=address.stand_in.removesuffix(".metadata"))
    head, mark, query = address.url.partition("?")
    return replace(address, url=head.removesuffix(".metadata") + mark + query)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # uv opens some fifty connections at once; one that finds no room here would try again only after seconds
    request_queue_size = 256

    def server_bind(self) -> None:
        """Bind without HTTPServer's look-up of the host's name, which may ask a network and isn't needed."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing: uv drops connections that it no longer needs."""


_LOOPBACK = "127.0.0.1"
_FIRST_PORT, _PORTS = 20000, 10000
"""Ports below the ephemeral ones (Linux from 32768, others from 49152)."""


def _number(folder: Path | None) -> str:
    """Read this user's number, made at the first run. If it can't be kept, every run has a new one."""
    fresh = secrets.token_hex(16)
    if folder is None:
        return fresh
    path = folder / "index-proxy"
    with suppress(OSError, UnicodeDecodeError):
        known = path.read_text(encoding="ascii").strip()
        if len(known) == len(fresh):
            return known
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f"index-proxy.{secrets.token_hex(4)}.partial"
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(fresh)
        partial.replace(path)
    return fresh


def _listen(handler: type[BaseHTTPRequestHandler], number: str, *, lasting: bool) -> _Server:
    """Start a server on the number's own address. Linux has all of 127.0.0.0/8: no other server of this machine uses
    the address, so a client can be restricted to the proxy. Other systems use the usual loopback address."""
    digest = hashlib.sha256(number.encode()).digest()
    own = f"127.{digest[0] % 250 + 2}.{digest[1]}.{digest[2] % 250 + 2}" if sys.platform == "linux" else _LOOPBACK
    port = _FIRST_PORT + int.from_bytes(digest[3:5], "big") % _PORTS
    places = [(own, port + number) for number in range(_PLACES)] if lasting else []
    for place in [*places, (own, 0)]:
        with suppress(OSError):
            return _Server(place, handler)
    return _Server((_LOOPBACK, 0), handler)


@contextmanager
def open_proxy(
    live: Mapping[str, LivePages] | None = None,
    provided: Sequence[Provided] = (),
    *,
    pages: Pages | None = None,
    metadata: Describe | None = None,
    folder: Path | None = None,
    purpose: str = "",
) -> Iterator[IndexProxy]:
    """Serve the facts, the live pages of the given variants, the packages of conda and the indexes behind `pages`,
    until the block ends.

    `metadata` gives METADATA; `folder` keeps the user's number: without a folder, the address is a new one each time.
    Each `purpose` has an address of its own.
    """
    answers = {"live": live or {}, "metadata": staticmethod(metadata) if metadata else None}
    handler = type("Handler", (_Handler,), answers)
    server = _listen(handler, _number(folder) + purpose, lasting=folder is not None)
    base = f"http://{server.server_address[0]!s}:{server.server_address[1]}"
    login = Credentials("envspec", secrets.token_hex(16))
    login.mask()
    proxy = IndexProxy(base, provided, pages, live=tuple(live or ()), login=login)
    handler.proxy = proxy  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        with suppress(OSError):
            # wakes it up; on some systems it looks up by itself alone
            server.socket.shutdown(socket.SHUT_RDWR)
        server.shutdown()
        server.server_close()
        thread.join()
