"""Registries that lie: of digests, sizes and types, without end, in a circle, or of where a login belongs.

Each is asked by `base read`, with a login of Docker's for it, and refused by its address or the image's name within
seconds. What another host is asked has no login, but for the realm that a registry names: so GitLab and Docker have it,
and a registry can ask for the login itself."""

import base64
import hashlib
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.base_image import system, write_base
from support.installs import PYTHON
from support.machine import Machine
from support.serving import Quiet, serving

from envspec.image.manifest import CONFIG, INDEX, MANIFEST

pytestmark = pytest.mark.e2e

LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
LOGIN = base64.b64encode(b"bob:s3cret-word").decode()
Answer = tuple[int, Mapping[str, str], bytes | Iterator[bytes]]


@dataclass
class Liar:
    """A registry of one image, whose answers `lie` changes; and another host, `elsewhere`, that answers alike."""

    manifest: dict[str, Any]
    blobs: dict[str, bytes]
    lie: Callable[["Liar", str], Answer | None] = lambda liar, path: None
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    host: str = ""
    elsewhere: str = ""

    def document(self, value: Mapping[str, Any], kind: str = MANIFEST) -> str:
        """Add a document; give its digest."""
        body = json.dumps({"mediaType": kind, **value}).encode()
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        self.blobs[digest] = body
        return digest

    def answer(self, host: str, path: str) -> Answer:
        if (lied := self.lie(self, path)) is not None:
            return lied
        content = self.blobs.get(path.rpartition("/")[2])
        if content is None:
            return 404, {}, b"{}"
        kind = json.loads(content).get("mediaType", "") if "/manifests/" in path else "application/octet-stream"
        return 200, {"Content-Type": kind}, content


class Handler(Quiet):
    protocol_version = "HTTP/1.1"
    liar: Liar

    def do_GET(self) -> None:
        liar, host = self.liar, self.headers["Host"]
        liar.asked.append((host, self.path, self.headers.get("Authorization")))
        status, headers, body = liar.answer(host, self.path)
        length = {"Content-Length": str(len(body))} if isinstance(body, bytes) else {}
        self.send_response(status)
        for name, value in {**length, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        try:
            for piece in (body,) if isinstance(body, bytes) else body:
                self.wfile.write(piece)
        except OSError:
            pass
        self.close_connection = self.close_connection or not length or "Content-Length" in headers

    do_HEAD = do_POST = do_GET


@pytest.fixture
def liar(tmp_path: Path) -> Iterator[Liar]:
    header = {f"include/python{PYTHON}/patchlevel.h": f'#define PY_VERSION "{PYTHON}.4"\n', "bin/python3": "x"}
    folder = write_base(tmp_path / "base", system(more={**header, f"bin/python{PYTHON}": "an interpreter"}))
    blobs = {f"sha256:{path.name}": path.read_bytes() for path in (folder / "blobs/sha256").iterdir()}
    (top,) = json.loads((folder / "index.json").read_bytes())["manifests"]
    found = Liar(json.loads(blobs[top["digest"]]), blobs)
    handler = type("Own", (Handler,), {"liar": found})
    with serving(Server(("127.0.0.1", 0), handler)) as one, serving(Server(("127.0.0.1", 0), handler)) as other:
        found.host, found.elsewhere = one.removeprefix("http://"), other.removeprefix("http://")
        yield found


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever goes away in the middle of an endless answer is right."""


def read(machine: Machine, liar: Liar, name: str) -> Any:
    """`base read` of an image, with a login for its registry; whatever comes of it, the login went nowhere else."""
    config = machine.home / ".docker" / "config.json"
    config.parent.mkdir(exist_ok=True)
    config.write_text(json.dumps({"auths": {liar.host: {"auth": LOGIN}}}))
    before = set(machine.folder.rglob("*"))
    begun = time.monotonic()
    ran = machine.envspec("base", "read", f"{liar.host}/team/{name}", seconds=60)
    assert time.monotonic() - begun < 30, ran.err
    assert "Traceback" not in ran.err and "has a fault" not in ran.err and "s3cret-word" not in ran.out + ran.err
    assert set(machine.folder.rglob("*")) == before
    others = [one for one in liar.asked if one[0] != liar.host]
    assert all(login is None for _, _, login in others), others
    kept = [path for path in machine.base.rglob("*") if path.is_file() and path != config]
    assert not any(word in path.read_bytes() for path in kept for word in (LOGIN.encode(), b"s3cret-word"))
    return ran


def manifest_of(liar: Liar, **changes: Any) -> str:
    return liar.document({**liar.manifest, **changes})


def with_layer(liar: Liar, **changes: Any) -> str:
    return manifest_of(liar, layers=[{**liar.manifest["layers"][0], **changes}])


def with_config(liar: Liar, **changes: Any) -> str:
    return manifest_of(liar, config={**liar.manifest["config"], **changes})


def only(part: str, answer: Callable[[Liar], Answer]) -> Callable[[Liar, str], Answer | None]:
    """What is answered for a path that has a part in it; all else is answered honestly."""
    return lambda liar, path: answer(liar) if part in path else None


def endless(piece: bytes = b" " * 65_536) -> Iterator[bytes]:
    return itertools.repeat(piece)


def moved(place: str) -> Callable[[Liar], Answer]:
    return lambda liar: (307, {"Location": place.format(elsewhere=liar.elsewhere, host=liar.host)}, b"")


def challenge(text: str) -> Callable[[Liar], Answer]:
    return lambda liar: (401, {"WWW-Authenticate": text.format(elsewhere=liar.elsewhere, host=liar.host)}, b"")


def test_an_honest_one_is_read(machine: Machine, liar: Liar) -> None:
    """By its digest, from another host for its blobs, with the login that its own realm asks for."""
    name = manifest_of(liar)
    ran = read(machine, liar, f"base@{name}")
    assert ran.status == 0 and f'python = "{PYTHON}' in ran.out, ran.err

    def storage(liar: Liar, path: str) -> Answer | None:
        own = liar.asked[-1][0] == liar.host
        if own and liar.asked[-1][2] != f"Basic {LOGIN}":
            return 401, {"WWW-Authenticate": 'Basic realm="x"'}, b""
        return (307, {"Location": f"http://{liar.elsewhere}{path}"}, b"") if own and "/blobs/" in path else None

    liar.lie = storage
    machine.envspec("cache", "clear")
    ran = read(machine, liar, f"base@{name}")
    assert ran.status == 0, ran.err
    assert any(host == liar.elsewhere for host, _, _ in liar.asked)


OTHER = b'{"schemaVersion": 2, "mediaType": "' + MANIFEST.encode() + b'", "config": {}, "layers": []}'
LIES: Mapping[str, Callable[[Liar, str], Answer | None]] = {
    "a manifest of another digest": only("/manifests/", lambda liar: (200, {"Content-Type": MANIFEST}, OTHER)),
    "a manifest that is a page": only("/manifests/", lambda liar: (200, {"Content-Type": "text/html"}, b"<html>")),
    "a manifest without end": only("/manifests/", lambda liar: (200, {"Content-Type": MANIFEST}, endless())),
    "a manifest cut off": only(
        "/manifests/", lambda liar: (200, {"Content-Type": MANIFEST, "Content-Length": "9999"}, OTHER)
    ),
    "an empty manifest": only("/manifests/", lambda liar: (200, {"Content-Type": MANIFEST}, b"")),
    "a header without end": only("/manifests/", lambda liar: (200, {"Docker-Content-Digest": "x" * 70_000}, b"")),
    "a thousand headers": only("/manifests/", lambda liar: (200, {f"X-{n}": "x" for n in range(1000)}, b"")),
    "odd lengths": only("/manifests/", lambda liar: (200, {"Content-Length": "-1"}, OTHER)),
    "a coding that isn't one": only("/manifests/", lambda liar: (200, {"Content-Encoding": "gzip"}, OTHER)),
    "a blob of another digest": only("/blobs/", lambda liar: (200, {}, b"other bytes")),
    "a blob without end": only("/blobs/", lambda liar: (200, {}, endless())),
    "a blob cut off": only("/blobs/", lambda liar: (200, {"Content-Length": "99999"}, b"cut")),
    "no blobs": only("/blobs/", lambda liar: (404, {}, b"")),
    "blobs in a circle": only("/blobs/", moved("http://{host}/v2/team/base/blobs/x")),
    "manifests in a circle": only("/manifests/", moved("http://{host}/v2/team/base/manifests/1")),
    "a file of this machine": only("", moved("file:///etc/passwd")),
    "ftp": only("", moved("ftp://{elsewhere}/x")),
    "no address": only("", moved("http://[")),
    "no address for a blob": only("/blobs/", moved("http://[")),
    "a file of this machine for a blob": only("/blobs/", moved("file:///etc/passwd")),
    "a blob by plain http": only("/blobs/", moved("http://192.0.2.1/x")),
    "a login within a blob's redirect": only("/blobs/", moved("http://bob:s3cret-word@{elsewhere}/x")),
    "a login within a redirect": only("", moved("http://bob:s3cret-word@{elsewhere}/x")),
    "a login page": only("", moved("http://{elsewhere}/login")),
    "a status that isn't one": only("/manifests/", lambda liar: (299, {"Content-Type": MANIFEST}, OTHER)),
    "who are you, for ever": only("", challenge('Basic realm="x"')),
    "a token by a file": only("", challenge('Bearer realm="file:///etc/passwd#{host}",service="s"')),
    "a token by plain http": only("", challenge('Bearer realm="http://192.0.2.1/{host}",service="s"')),
    "a token without end": lambda liar, path: (
        (200, {}, endless(b'{"token": "x'))
        if "/token" in path
        else (401, {"WWW-Authenticate": f'Bearer realm="http://{liar.host}/token"'}, b"")
    ),
    "a token with a line's end": lambda liar, path: (
        (200, {}, b'{"token": "x\\r\\nHost: evil"}')
        if "/token" in path
        else (401, {"WWW-Authenticate": f'Bearer realm="http://{liar.host}/token"'}, b"")
    ),
    "a token that moves": lambda liar, path: (
        (307, {"Location": f"http://{liar.elsewhere}/token"}, b"")
        if "/token" in path and liar.asked[-1][0] == liar.host
        else (401, {"WWW-Authenticate": f'Bearer realm="http://{liar.host}/token"'}, b"")
    ),
    "a scheme that isn't one": only("", challenge("Negotiate abc")),
    "a token that is a number": lambda liar, path: (
        (200, {}, b'{"token": 1e999}')
        if "/token" in path
        else (401, {"WWW-Authenticate": f'Bearer realm="http://{liar.host}/token"'}, b"")
    ),
    "a host that looks like it": only("", moved("http://{host}@{elsewhere}/x")),
    "a place without a scheme": only("", moved("//{elsewhere}/x")),
    "a place with backslashes": only("", moved("http:\\\\{elsewhere}\\x")),
    "a place of another port": only("", moved("http://127.0.0.1:99999/x")),
    "a place that is empty": only("", moved("")),
    "not changed": only("", lambda liar: (304, {}, b"")),
    "a part of a manifest": only("/manifests/", lambda liar: (206, {"Content-Range": "bytes 0-9/999"}, OTHER)),
    "a part of a blob": only("/blobs/", lambda liar: (206, {"Content-Range": "bytes 5-9/10"}, b"parts")),
    "a header's digest of others": only(
        "/manifests/",
        lambda liar: (200, {"Content-Type": MANIFEST, "Docker-Content-Digest": "sha256:" + "1" * 64}, OTHER),
    ),
    "a challenge of many": only("", challenge('Bearer realm="' + "x" * 20_000 + '"')),
}


@pytest.mark.by_day(13)
@pytest.mark.parametrize("lie", LIES)
def test_an_answer_that_lies(machine: Machine, liar: Liar, lie: str) -> None:
    name = f"base@{manifest_of(liar)}"
    liar.lie = LIES[lie]
    ran = read(machine, liar, name)
    assert ran.status in (2, 3) and liar.host in ran.error, ran.err
    liar.lie = lambda liar, path: None
    assert read(machine, liar, name).status == 0, "nothing that lied was kept"


def chain(liar: Liar, length: int) -> str:
    """Indexes each of which leads to the next one, and the last to the image."""
    digest, kind = manifest_of(liar), MANIFEST
    for _ in range(length):
        row = {"mediaType": kind, "digest": digest, "size": len(liar.blobs[digest])}
        digest, kind = liar.document({"manifests": [row]}, INDEX), INDEX
    return digest


def circle(liar: Liar) -> str:
    """An index that names itself, by a digest that isn't its own: no digest is that of what holds it."""
    own = f"sha256:{'1' * 64}"
    row = {"mediaType": INDEX, "digest": own, "size": 300}
    digest = liar.document({"manifests": [row, row]}, INDEX)
    liar.blobs[own] = liar.blobs[digest]
    return digest


def wide(liar: Liar) -> str:
    rows = [{"mediaType": INDEX, "digest": f"sha256:{n:064x}", "size": 2} for n in range(20_000)]
    return liar.document({"manifests": rows}, INDEX)


DOCUMENTS: Mapping[str, Callable[[Liar], str]] = {
    "an index of itself": circle,
    "indexes of indexes": lambda liar: chain(liar, 200),
    "an index of thousands": wide,
    "an index of nothing": lambda liar: liar.document({"manifests": []}, INDEX),
    "an index called a manifest": lambda liar: liar.document({"manifests": []}, MANIFEST),
    "a manifest called an index": lambda liar: liar.document(liar.manifest | {"mediaType": INDEX}, INDEX),
    "no JSON object": lambda liar: liar.document({"config": 1, "layers": 2}),
    "deep JSON": lambda liar: manifest_of(liar, annotations=json.loads("[" * 900 + "]" * 900)) and deep(liar),
    "a layer of a negative size": lambda liar: with_layer(liar, size=-1),
    "a layer of a size without end": lambda liar: with_layer(liar, size=10**30),
    "a layer of another size": lambda liar: with_layer(liar, size=liar.manifest["layers"][0]["size"] + 1),
    "a layer of size 0": lambda liar: with_layer(liar, size=0),
    "a layer whose size is a text": lambda liar: with_layer(liar, size="9"),
    "a layer that leads out": lambda liar: with_layer(liar, digest="sha256:../../../../etc/passwd"),
    "a layer of another algorithm": lambda liar: with_layer(liar, digest=f"md5:{'0' * 32}"),
    "a foreign layer": lambda liar: with_layer(
        liar,
        mediaType="application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        urls=[f"http://{liar.elsewhere}/layer"],
    ),
    "a layer that is elsewhere": lambda liar: with_layer(
        liar, digest=f"sha256:{'2' * 64}", urls=[f"http://{liar.elsewhere}/layer"]
    ),
    "a layer that is a manifest": lambda liar: with_layer(liar, mediaType=MANIFEST),
    "a layer that is the configuration": lambda liar: manifest_of(
        liar, layers=[{**liar.manifest["config"], "mediaType": LAYER}]
    ),
    "layers without number": lambda liar: manifest_of(liar, layers=liar.manifest["layers"] * 5_000),
    "a huge configuration": lambda liar: with_config(liar, size=1 << 40),
    "a configuration of another size": lambda liar: with_config(liar, size=3),
    "a layer whose size is true": lambda liar: with_layer(liar, size=True),
    "a layer whose size is a half": lambda liar: with_layer(liar, size=0.5),
    "a layer in capitals": lambda liar: with_layer(liar, digest=liar.manifest["layers"][0]["digest"].upper()),
    "a layer of too short a digest": lambda liar: with_layer(liar, digest=liar.manifest["layers"][0]["digest"][:-1]),
    "a layer with an address for a digest": lambda liar: with_layer(liar, digest=f"sha256:{'0' * 64}?x=http://h/"),
    "a layer with a line's end in its digest": lambda liar: with_layer(
        liar, digest=liar.manifest["layers"][0]["digest"] + "\n"
    ),
    "a layer without a kind": lambda liar: with_layer(liar, mediaType=None),
    "no layers": lambda liar: manifest_of(liar, layers=[]),
    "layers that are nothing": lambda liar: manifest_of(liar, layers=None),
    "a manifest of the first kind": lambda liar: liar.document(
        {"schemaVersion": 1, "fsLayers": [{"blobSum": liar.manifest["layers"][0]["digest"]}], "history": []},
        "application/vnd.docker.distribution.manifest.v1+json",
    ),
    "an index that lies of a size": lambda liar: liar.document(
        {"manifests": [{"mediaType": MANIFEST, "digest": manifest_of(liar), "size": 1}]}, INDEX
    ),
    "an index of odd platforms": lambda liar: liar.document(
        {"manifests": [{"mediaType": MANIFEST, "digest": manifest_of(liar), "size": 9, "platform": [1]}]}, INDEX
    ),
    "an index of other machines": lambda liar: liar.document(
        {
            "manifests": [
                {
                    "mediaType": MANIFEST,
                    "digest": manifest_of(liar),
                    "size": 9,
                    "platform": {"os": "plan9", "architecture": "mips"},
                }
            ]
        },
        INDEX,
    ),
    "a configuration that is the layer": lambda liar: manifest_of(
        liar, config={**liar.manifest["layers"][0], "mediaType": CONFIG}
    ),
}


def deep(liar: Liar) -> str:
    body = b'{"mediaType": "%s", "config": ' % MANIFEST.encode() + b"[" * 100_000 + b"]" * 100_000 + b"}"
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    liar.blobs[digest] = body
    liar.lie = only("/manifests/", lambda liar: (200, {"Content-Type": MANIFEST}, body))
    return digest


@pytest.mark.by_day(9)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_that_lies(machine: Machine, liar: Liar, document: str) -> None:
    """Under its right digest: what it says is wrong."""
    ran = read(machine, liar, f"base@{DOCUMENTS[document](liar)}")
    assert ran.status in (2, 3) and liar.host in ran.error, ran.err
    assert len(liar.asked) < 250, "it isn't followed for ever"
    assert not any(host == liar.elsewhere for host, _, _ in liar.asked), "no address of a document's is asked"
