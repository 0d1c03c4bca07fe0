"""An image registry on loopback, as far as manifests go, and the ways in which registries go wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from support.serving import Quiet, Serving

INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
TOKEN = "a-token-for-this-test"


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    method: str
    path: str
    authorization: str | None
    accept: str


@dataclass
class Registry:
    """A running registry once entered (`with Registry() as registry`).

    login      (user, password) that the token or every request needs
    challenge  "bearer": sends whoever has no token to `realm`; "basic", or another scheme; "" asks for nothing
    realm      where tokens are given; its own by default
    anonymous  gives tokens to whoever asks
    refresh    the identity token that is changed for one
    token_moved  where tokens are said to be given by POST
    head       HEAD answered
    header     the Docker-Content-Digest sent; True is the right one, False none
    status     what every manifest is answered with
    kind       the type that manifests are sent with, in place of their own
    moved      where every manifest is said to be
    cut        promises a whole body and sends half of it
    wait       seconds before each answer
    """

    login: tuple[str, str] | None = None
    challenge: str = ""
    realm: str | None = None
    anonymous: bool = True
    refresh: str = ""
    token_moved: str | None = None
    head: bool = True
    header: bool | str = True
    status: int = 200
    kind: str | None = None
    moved: str | None = None
    cut: bool = False
    wait: float = 0
    token_body: bytes | None = None
    asked: list[Asked] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._manifests: dict[tuple[str, str], tuple[bytes, str]] = {}

    def __enter__(self) -> Registry:
        handler = type("Handler", (_Handler,), {"registry": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._serving = Serving(self._server)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._serving.stop()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def origin(self) -> str:
        return f"http://{self.host}"

    def push(self, path: str, tag: str, content: str = "", kind: str = INDEX) -> str:
        """Put a manifest under a name; gives its digest."""
        body = json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": [], "annotations": {"is": content}})
        self._manifests[path, tag] = (body.encode(), kind)
        return f"sha256:{hashlib.sha256(body.encode()).hexdigest()}"

    def manifest(self, path: str, tag: str) -> tuple[bytes, str] | None:
        return self._manifests.get((path, tag))

    def basic(self) -> str | None:
        return "Basic " + base64.b64encode(":".join(self.login).encode()).decode() if self.login else None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in the middle is what some tests are about."""


class _Handler(Quiet):
    protocol_version = "HTTP/1.1"
    registry: Registry

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        registry = self.registry
        authorization = self.headers.get("Authorization")
        registry.asked.append(Asked(self.command, self.path, authorization, self.headers.get("Accept", "")))
        registry.closing.wait(registry.wait)
        if self.path.startswith("/token"):
            self.token(authorization)
        elif not self.admitted(authorization):
            self.send(401, b"who are you?", "text/plain", {"WWW-Authenticate": self.challenge()})
        elif self.command == "HEAD" and not registry.head:
            self.send(405, b"", "text/plain")
        elif registry.moved:
            self.send(307, b"", "text/plain", {"Location": registry.moved.replace("{path}", self.path)})
        else:
            self.manifest()

    def do_POST(self) -> None:
        registry = self.registry
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        registry.asked.append(Asked("POST", self.path, self.headers.get("Authorization"), ""))
        if registry.token_moved:
            self.send(307, b"", "text/plain", {"Location": registry.token_moved})
            return
        wanted = {"grant_type": ["refresh_token"], "service": ["the service"], "client_id": ["envspec"]}
        right = form.pop("refresh_token") == [registry.refresh] and form.pop("scope")[0].endswith(":pull")
        if right and form == wanted:
            self.send(200, json.dumps({"access_token": TOKEN}).encode(), "application/json")
        else:
            self.send(401, b"no", "text/plain")

    def admitted(self, authorization: str | None) -> bool:
        if self.registry.challenge == "bearer":
            return authorization == f"Bearer {TOKEN}"
        return not self.registry.challenge or (authorization is not None and authorization == self.registry.basic())

    def challenge(self) -> str:
        registry = self.registry
        if registry.challenge != "bearer":
            return f'{registry.challenge.title()} realm="test"'
        return f'Bearer realm="{registry.realm or registry.origin + "/token"}",service="the service",scope="other:x:*"'

    def token(self, authorization: str | None) -> None:
        registry = self.registry
        query = parse_qs(urlsplit(self.path).query)
        known = authorization == registry.basic() if authorization else registry.anonymous
        if not known or query.get("service") != ["the service"] or not query["scope"][0].endswith(":pull"):
            self.send(401, b"no", "text/plain")
        else:
            self.send(200, registry.token_body or json.dumps({"token": TOKEN}).encode(), "application/json")

    def manifest(self) -> None:
        registry = self.registry
        path, _, tag = self.path.removeprefix("/v2/").rpartition("/manifests/")
        found = registry.manifest(path, tag)
        if found is None or registry.status != 200:
            self.send(registry.status if found else 404, b'{"errors": []}', "application/json")
            return
        body, kind = found
        headers = {}
        if registry.header:
            right = f"sha256:{hashlib.sha256(body).hexdigest()}"
            headers["Docker-Content-Digest"] = right if registry.header is True else registry.header
        self.send(200, body, registry.kind or kind, headers)

    def send(self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if self.registry.cut else body)
            self.close_connection = self.registry.cut
