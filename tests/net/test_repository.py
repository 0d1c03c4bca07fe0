"""Pushing to a double of a registry that breaks off, asks for tokens or answers wrongly; a real one is in tests/e2e."""

import hashlib
import io
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer

import pytest
from support.serving import Quiet, serving

from envspec.base.errors import IndexFailure
from envspec.net import repository
from envspec.net.fetch import Fetcher
from envspec.net.limits import Limits
from envspec.net.registry import Registries, image_address
from envspec.net.repository import Repository

DATA = bytes(range(256)) * 200
DIGEST = f"sha256:{hashlib.sha256(DATA).hexdigest()}"


@dataclass
class Double:
    """break_at    the pieces, by their number, of which half comes and no answer goes
    keeps          what came of them is kept
    forgets        the pieces after which the upload is gone, as docker-registry takes one away whose piece broke off
    fails          requests, by their number, that get no answer, though they are done
    token          who has no token is sent for one
    status         what pieces are answered with
    waits          seconds before each answer
    creeps         of each piece two bytes are taken, and the answer is that it failed
    deaf           seconds before a piece is read, on a connection that served before
    """

    break_at: set[int] = field(default_factory=set)
    keeps: bool = True
    forgets: set[int] = field(default_factory=set)
    fails: set[int] = field(default_factory=set)
    gone: bool = False
    token: bool = False
    storage: str = ""
    status: int = 202
    waits: float = 0
    creeps: bool = False
    deaf: float = 0
    asked: list[str] = field(default_factory=list)
    scopes: list[str] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)
    held: bytearray = field(default_factory=bytearray)
    pieces: int = 0
    host: str = ""


@pytest.fixture
def double() -> Iterator[Double]:
    state = Double()

    class Handler(Quiet):
        protocol_version = "HTTP/1.1"

        def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
            if len(state.asked) in state.fails:
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def do(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            time.sleep(state.deaf if self.command == "PATCH" else 0)
            body = self.rfile.read(length)
            state.asked.append(f"{self.command} {self.path.partition('?')[0]}")
            time.sleep(state.waits)
            if self.path.startswith("/token"):
                state.scopes += re.findall(r"scope=([^&]+)", self.path)
                self.answer(200, json.dumps({"token": "given"}).encode())
            elif state.token and self.headers.get("Authorization") != "Bearer given":
                self.answer(401, WWW_Authenticate=f'Bearer realm="http://{state.host}/token",service="s"')
            elif self.path.startswith("/v2/a/b/blobs/uploads/one") and state.gone:
                self.answer(404, b'{"errors": [{"code": "BLOB_UPLOAD_UNKNOWN"}]}')
            elif self.command == "POST":
                state.gone, state.held = False, bytearray()
                mounted = any(digest.replace(":", "%3A") in self.path for digest in state.elsewhere)
                self.answer(201 if mounted else 202, Location=f"{state.storage}/v2/a/b/blobs/uploads/one?state=x")
            elif self.command == "PATCH":
                state.pieces += 1
                if state.pieces in state.break_at:
                    state.held += body[: len(body) // 2] if state.keeps else b""
                    self.close_connection = True
                    state.gone = state.pieces in state.forgets
                    return
                if state.creeps:
                    state.held += body[:2]
                    return self.answer(503)
                at = int(self.headers["Content-Range"].partition("-")[0])
                assert at == len(state.held), "a piece goes on where the registry is"
                state.held += body
                self.answer(state.status, b"no" if state.status != 202 else b"", Location="/v2/a/b/blobs/uploads/one")
            elif self.command == "PUT" and "/manifests/" in self.path:
                self.answer(201)
            elif self.command == "PUT" and "/uploads/" in self.path:
                digest = self.path.partition("digest=")[2].replace("%3A", ":")
                right = f"sha256:{hashlib.sha256(state.held).hexdigest()}" == digest
                state.blobs |= {digest: bytes(state.held)} if right else {}
                self.answer(201 if right else 400)
            elif "/uploads/" in self.path:
                self.answer(204, Range=f"0-{len(state.held) - 1}")
            else:
                self.answer(200 if self.path.rpartition("/")[2] in state.blobs else 404)

        do_GET = do_HEAD = do_POST = do_PATCH = do_PUT = do

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        state.host = url.removeprefix("http://")
        yield state


@pytest.fixture
def opened(double: Double, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setattr(repository, "_CHUNK", 10_000)
    monkeypatch.setattr(repository, "_PAUSE", 0)
    fetcher = Fetcher(credentials={}, env={"HOME": "nowhere"})
    registries = Registries(fetcher.pool, {}, {"HOME": "nowhere"})
    return Repository(registries, fetcher, image_address(f"{double.host}/a/b:1"), writes=True)


def upload(opened: Repository) -> list[int]:
    came: list[int] = []
    opened.upload(DIGEST, io.BytesIO(DATA), len(DATA), came.append)
    return came


def test_a_blob_goes_in_pieces(double: Double, opened: Repository) -> None:
    assert sum(upload(opened)) == len(DATA)
    assert double.blobs[DIGEST] == DATA and double.pieces == 6
    assert opened.has_blob(DIGEST)


@pytest.mark.parametrize("broken", [{1}, {3}, {2, 3, 4}, {6}])
def test_what_broke_off_goes_on_where_the_registry_is(broken: set[int], double: Double, opened: Repository) -> None:
    double.break_at = broken
    assert sum(upload(opened)) == len(DATA)
    assert double.blobs[DIGEST] == DATA


def test_who_breaks_off_again_and_again_is_given_up(double: Double, opened: Repository) -> None:
    double.break_at, double.keeps = set(range(100)), False
    with pytest.raises(IndexFailure, match="breaks off again and again") as caught:
        upload(opened)
    assert caught.value.hint and "run the same command again" in caught.value.hint


@pytest.mark.parametrize("broken", [{1}, {3}, {6}, {2, 6}])
def test_an_upload_that_the_registry_forgot_begins_anew(broken: set[int], double: Double, opened: Repository) -> None:
    double.break_at = double.forgets = broken
    assert sum(upload(opened)) == len(DATA), "what has to be sent again isn't counted twice"
    assert double.blobs[DIGEST] == DATA
    assert double.asked.count("POST /v2/a/b/blobs/uploads/") == 1 + len(broken)


def test_a_registry_that_always_forgets_is_given_up(double: Double, opened: Repository) -> None:
    double.break_at = double.forgets = set(range(100))
    with pytest.raises(IndexFailure, match="breaks off again and again"):
        upload(opened)


@pytest.mark.parametrize("number", [1, 2, 3, 9, 10])
def test_a_request_without_an_answer_is_made_again(number: int, double: Double, opened: Repository) -> None:
    """Whichever it is: a look for a blob, the begin of an upload, its end, a manifest."""
    assert not opened.has_blob("sha256:" + "0" * 64)
    double.asked.clear()
    double.fails = {number}
    assert not opened.has_blob(DIGEST)
    assert sum(upload(opened)) == len(DATA)
    assert double.blobs[DIGEST] == DATA
    opened.put_manifest("1", b"{}", "application/json")
    assert len(double.asked) > number, "it was the answer of one of these"


def test_a_registry_that_never_answered_is_told_at_once(double: Double, opened: Repository) -> None:
    double.fails = set(range(100))
    with pytest.raises(IndexFailure, match="can't be reached"):
        opened.has_blob(DIGEST)
    assert len(double.asked) == 1


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    "how",
    [{"waits": 0.7}, pytest.param({"creeps": True}, marks=pytest.mark.slow), {"creeps": True, "waits": 0.05}],
    ids=str,
)
def test_all_pieces_of_an_upload_share_one_limit(
    how: dict[str, float], double: Double, opened: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is answered within a limit of its own."""
    monkeypatch.setattr(repository, "LIMITS", Limits(whole_seconds=1.5, bytes_per_second=1_000_000))
    vars(double).update(how)
    begun = time.monotonic()
    with pytest.raises(IndexFailure, match=r"uploads/ is too slow: \d+ of 51200 bytes went in [1-3] s"):
        upload(opened)
    assert 1.4 < time.monotonic() - begun < 3.5


def test_a_registry_that_reads_nothing_of_a_piece_is_given_up(
    double: Double, opened: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 32 << 20
    monkeypatch.setattr(repository, "LIMITS", Limits(whole_seconds=0.5, bytes_per_second=100_000_000))
    monkeypatch.setattr(repository, "_CHUNK", size)
    double.deaf = 6
    begun = time.monotonic()
    with pytest.raises(IndexFailure, match=rf"uploads/ is too slow: 0 of {size} bytes went in 1 s"):
        opened.upload(DIGEST, io.BytesIO(bytes(size)), size)
    assert time.monotonic() - begun < 3.5


@pytest.mark.slow
def test_an_upload_lasts_as_long_as_its_bytes_go_on(
    double: Double, opened: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "LIMITS", Limits(whole_seconds=0.5, bytes_per_second=1_000))
    double.waits, double.break_at, double.forgets = 0.2, {6}, {6}
    assert sum(upload(opened)) == len(DATA) and double.blobs[DIGEST] == DATA


def test_a_refusal_is_told(double: Double, opened: Repository) -> None:
    double.status = 400
    with pytest.raises(IndexFailure, match=r"answers HTTP 400 for a/b: no"):
        upload(opened)


def test_a_token_is_for_pushing_and_for_the_other_repository(double: Double, opened: Repository) -> None:
    double.token = True
    double.elsewhere = {DIGEST}
    assert not opened.has_blob(DIGEST) and opened.mount(DIGEST, "team/base")
    told = [scope.replace("%3A", ":").replace("%2F", "/").replace("%2C", ",") for scope in double.scopes]
    assert told == ["repository:a/b:pull,push", "repository:a/b:pull,push", "repository:team/base:pull"]
    assert not any("PATCH" in one for one in double.asked)


def test_a_storage_host_that_asks_for_a_login_gets_none(double: Double, opened: Repository) -> None:
    came: list[str] = []

    class Storage(Quiet):
        def do(self) -> None:
            came.append(f"{self.command} {self.headers.get('Authorization')}")
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(401)
            self.send_header("WWW-Authenticate", f'Bearer realm="{double.storage}/token",service="s"')
            self.end_headers()

        do_GET = do_PATCH = do_PUT = do

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Storage)) as double.storage, pytest.raises(IndexFailure):
        upload(opened)
    assert came == ["PATCH None"]


def test_the_last_answer_of_a_registry_that_stays_unwell_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def unwell(*arguments: object, **named: object) -> object:
        asked.append(arguments)
        return repository._Answer(503, {}, b"")

    monkeypatch.setattr(repository, "_PAUSE", 0)
    monkeypatch.setattr(Repository, "_ask", unwell)
    answer = object.__new__(Repository)._ask_again("HEAD", "https://registry.example/v2/")
    assert answer.status == 503 and len(asked) == 5
