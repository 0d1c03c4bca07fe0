"""The gate: PyTorch's wheel index as a small HTTP server on loopback, for the time of one resolution.

uv is given the gate as its first index. The gate knows the torch family alone and says 404 to every other name, so
that no other package of the PyTorch index (old copies of idna, packaging, …) can shadow PyPI's; with uv's
`first-index` strategy a name that the gate does know is never taken from anywhere else, whether the spec asks for it
or something else pulls it in.

Pages come from the facts that ship with envspec (`envspec.gpu.wheels`), joined with a mirror's pages where the user
configured one and the facts are not enough.

In the same way it shows uv what conda installs (`envspec.resolve.provided`), under `provided-0`, `provided-1`, …
"""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote, urlsplit

from envspec.errors import EnvspecError
from envspec.gpu import released, wheels
from envspec.resolve.provided import Provided, stub_metadata, stub_page

FAMILY = ("torch", "torchvision", "torchaudio")
"""The names that come from the PyTorch index, and triton where PyPI doesn't have it. nvidia-* wheels always
come from PyPI."""

_WITH_TRITON = "+triton"
_PROVIDED = "provided-"

_JSON = "application/vnd.pypi.simple.v1+json"

Page = list[dict[str, object]]
"""The `files` of a PEP 691 page."""

LivePages = Callable[[str, str], Page]
"""(variant, project) → files of the live index or its mirror, with absolute URLs."""


@dataclass(frozen=True)
class Gate:
    """A running gate. `url(variant)` is the index to give to uv, with or without triton; `owns(url)` recognises a file
    served by it."""

    base: str
    provided: Sequence[Provided] = ()
    failures: list[EnvspecError] = field(default_factory=list, compare=False)
    """What went wrong behind the gate, for which uv only sees a status."""

    @property
    def host(self) -> str:
        return str(urlsplit(self.base).hostname)

    def provided_url(self, provided: Provided) -> str:
        """The index that has what conda installs, and nothing else."""
        return f"{self.base}/{_PROVIDED}{self.provided.index(provided)}"

    def is_provided(self, url: str) -> bool:
        return url.startswith(f"{self.base}/{_PROVIDED}")

    def url(self, variant: str, *, triton: bool = False) -> str:
        return f"{self.base}/{variant}{_WITH_TRITON * triton}"

    def owns(self, url: str) -> bool:
        return url.startswith(self.base + "/")

    def variant_of(self, url: str) -> str:
        return url[len(self.base) + 1 :].split("/", 1)[0].removesuffix(_WITH_TRITON)


def facts_page(variant: str, project: str, accept: Callable[[wheels.WheelFile], bool]) -> Page:
    """The files of a project in the shipped facts of a variant, as PEP 691 rows with links relative to the page."""
    rows: Page = []
    for wheel in wheels.load(variant).files(project) if variant in wheels.variants() else ():
        if not accept(wheel):
            continue
        row: dict[str, object] = {
            "filename": wheel.file,
            "url": f"../files/{quote(wheel.file)}",
            "hashes": {"sha256": wheel.sha256},
            "core-metadata": True,
        }
        if wheel.requires_python:
            row["requires-python"] = wheel.requires_python
        if wheel.size is not None:
            row["size"] = wheel.size
        date = released.date(project, wheel.version)
        if date:
            # uv takes nothing without a date when the spec has `exclude-newer`
            row["upload-time"] = date
        rows.append(row)
    return rows


def belongs(variant: str) -> Callable[[wheels.WheelFile], bool]:
    """Which files of a variant's page really are of that variant.

    The pages also hold CPU wheels without a local version (macOS and aarch64, in every cuNNN folder up to torch 2.0):
    a CUDA target must not take those. triton has no local version and belongs to all; so does the `cpu` page to macOS.
    """

    def accept(wheel: wheels.WheelFile) -> bool:
        return variant == "cpu" or wheel.project == "triton" or wheel.version.endswith(f"+{variant}")

    return accept


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # one segment a reply: header and body apart would each wait 40 ms for the other's acknowledgement
    wbufsize = -1
    disable_nagle_algorithm = True
    live: Mapping[str, LivePages]
    provided: Sequence[Provided]
    failures: list[EnvspecError]

    def log_message(self, format: str, *args: object) -> None:
        """Silent: uv's own messages tell what matters."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = [unquote(part) for part in self.path.split("?")[0].strip("/").split("/")]
        if parts[0].startswith(_PROVIDED):
            return self._provided(parts)
        variant = parts[0].removesuffix(_WITH_TRITON)
        served = (*FAMILY, "triton") if parts[0] != variant else FAMILY
        if variant not in wheels.variants() and variant not in self.live:
            self._reply(404, b"no such variant", "text/plain")
        elif len(parts) == 2 and parts[1] in served:
            self._page(variant, parts[1])
        elif len(parts) == 3 and parts[1] == "files" and parts[2].endswith(".whl.metadata"):
            self._metadata(variant, parts[2].removesuffix(".metadata"))
        else:
            self._reply(404, b"not in the PyTorch index", "text/plain")

    def _page(self, variant: str, project: str) -> None:
        files = facts_page(variant, project, belongs(variant))
        live = self.live.get(variant)
        if live:
            known = {row["filename"] for row in files}
            try:
                files += [row for row in live(variant, project) if row["filename"] not in known]
            except EnvspecError as error:
                self.failures.append(error)
                return self._reply(502, str(error).encode(), "text/plain")
        if not files:
            return self._reply(404, b"not in the PyTorch index", "text/plain")
        page = {"meta": {"api-version": "1.1"}, "name": project, "files": files}
        self._reply(200, json.dumps(page).encode(), _JSON)

    def _metadata(self, variant: str, file: str) -> None:
        wheel = wheels.load(variant).file(file) if variant in wheels.variants() else None
        if wheel is None:
            return self._reply(404, b"no such wheel", "text/plain")
        self._reply(200, wheels.metadata_text(wheel), "text/plain")

    def _provided(self, parts: Sequence[str]) -> None:
        number = parts[0].removeprefix(_PROVIDED)
        versions = dict(self.provided[int(number)]) if number.isdigit() and int(number) < len(self.provided) else {}
        name = parts[-1].removesuffix(".whl.metadata")
        if name not in versions:
            self._reply(404, b"conda doesn't install it", "text/plain")
        elif len(parts) == 3 and parts[1] == "files":
            self._reply(200, stub_metadata(name, versions[name]), "text/plain")
        else:
            page = {"meta": {"api-version": "1.1"}, "name": name, "files": stub_page(name, versions[name])}
            self._reply(200, json.dumps(page).encode(), _JSON)

    def _reply(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        # the port is another one each time: what uv cached under it could never be found again
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # uv opens some fifty connections at once; one that finds no room here would try again only after seconds
    request_queue_size = 256

    def server_bind(self) -> None:
        """Without HTTPServer's look-up of the host's name: it may ask a network, and nothing needs the name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """Silent: uv drops connections that it has no more use for."""


_LOOPBACK = "127.0.0.1"
_APART = "127.0.0.2"
"""Linux has all of 127.0.0.0/8; where that is not so, the gate is at the usual address."""


def _listen(handler: type[BaseHTTPRequestHandler], host: str) -> _Server:
    try:
        return _Server((host, 0), handler)
    except OSError:
        return _Server((_LOOPBACK, 0), handler)


@contextmanager
def open_gate(
    live: Mapping[str, LivePages] | None = None, provided: Sequence[Provided] = (), *, apart: bool = False
) -> Iterator[Gate]:
    """Serve the facts (and the live pages of the variants given, and what conda provides) on an ephemeral loopback port
    until the block ends.

    `apart` takes an address of its own where there is one, so that a client can be let through to the gate alone.
    """
    failures: list[EnvspecError] = []
    handler = type("Handler", (_Handler,), {"live": live or {}, "provided": provided, "failures": failures})
    server = _listen(handler, _APART if apart else _LOOPBACK)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield Gate(f"http://{server.server_address[0]!s}:{server.server_address[1]}", provided, failures)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
