"""What stands between a site and its indexes: a web proxy and a certificate authority of its own, both on loopback."""

from __future__ import annotations

import base64
import shutil
import ssl
import subprocess
import urllib.request
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

import pytest

from support.index import Index
from support.serving import Quiet, Serving


class WebProxy:
    """A web proxy once entered. Whatever host it is asked for, it asks the index; `login` is what it wants first."""

    def __init__(self, index: Index, login: tuple[str, str] | None = None) -> None:
        self.index, self.login = index, login
        self.asked: list[str] = []

    def __enter__(self) -> WebProxy:
        handler = type("Handler", (_Handler,), {"proxy": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._serving = Serving(self._server)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._serving.stop()

    @property
    def url(self) -> str:
        login = f"{self.login[0]}:{self.login[1]}@" if self.login else ""
        return f"http://{login}127.0.0.1:{self._server.server_address[1]}"


class _Handler(Quiet):
    proxy: WebProxy

    def do_GET(self) -> None:
        wanted = self.proxy.login and "Basic " + base64.b64encode(":".join(self.proxy.login).encode()).decode()
        self.proxy.asked.append(self.path)
        if wanted and self.headers.get("Proxy-Authorization") != wanted:
            self.send_error(407)
            return
        parts = urlsplit(self.path)
        kept = {name: value for name in ("Accept", "Range", "Authorization") if (value := self.headers.get(name))}
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            reply = opener.open(urllib.request.Request(f"{self.proxy.index.origin}{parts.path}", headers=kept))
        except urllib.error.HTTPError as error:
            reply = error
        with reply:
            body = reply.read()
            self.send_response(reply.status)
            for name in ("Content-Type", "Content-Range"):
                if reply.headers.get(name):
                    self.send_header(name, reply.headers[name])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)


def certified(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's certificate for 127.0.0.1 that nobody but its own file vouches for, and that file."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here")
    key, certificate = folder / "key.pem", folder / "site-ca.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=site"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate
