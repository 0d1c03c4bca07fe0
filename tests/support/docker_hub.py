"""Docker Hub under its own names, on loopback: a proxy that has its certificate and hands what is asked of it to a
registry here. All else that is asked of the proxy goes where it is for.
"""

import selectors
import socket
import socketserver
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from support.oci import CERTIFICATES
from support.serving import serving

NAMES = ("index.docker.io", "registry-1.docker.io")


@contextmanager
def as_docker_hub(registry: str, folder: Path) -> Iterator[dict[str, str]]:
    """Give the variables with which programs see a registry (HOST:PORT) as Docker Hub. `folder` is new."""
    folder.mkdir()
    names = ",".join(f"DNS:{name}" for name in NAMES)
    own = ["-keyout", str(folder / "key"), "-out", str(folder / "certificate"), "-days", "2", "-subj", "/CN=here"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *own, "-addext", f"subjectAltName={names}"],
        check=True,
        capture_output=True,
    )
    known = folder / "known.pem"
    known.write_bytes(CERTIFICATES.read_bytes() + (folder / "certificate").read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate", folder / "key")

    class Proxy(socketserver.StreamRequestHandler):
        rbufsize = 0  # what follows the request's head is the other side's

        def handle(self) -> None:
            host, _, port = self.rfile.readline().decode().split()[1].rpartition(":")
            while self.rfile.readline().strip():
                pass
            here = host in NAMES
            place = registry.split(":") if here else (host, port)
            with closing(socket.create_connection((place[0], int(place[1])))) as there:
                self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
                client = context.wrap_socket(self.connection, server_side=True) if here else self.connection
                with suppress(OSError):
                    carry(client, there)
                client.close()

    with serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Proxy)) as url:
        yield {"HTTPS_PROXY": url, "SSL_CERT_FILE": str(known)}


def carry(one: socket.socket, other: socket.socket) -> None:
    """Hand on what each says, until one ends."""
    with selectors.DefaultSelector() as selector:
        selector.register(one, selectors.EVENT_READ, other)
        selector.register(other, selectors.EVENT_READ, one)
        while True:
            pending = isinstance(one, ssl.SSLSocket) and one.pending()
            for source, sink in (
                [(one, other)] if pending else [(key.fileobj, key.data) for key, _ in selector.select(300)]
            ):
                content = source.recv(1 << 16)  # type: ignore[union-attr] # a socket, as it was registered
                if not content:
                    return
                sink.sendall(content)
