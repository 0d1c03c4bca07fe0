"""Peers that always send something, or nothing at all, at every place below HTTP where a client waits: each is given up
within the limit. SECURITY.md: pages, METADATA or files without end."""

import asyncio
import collections
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from support.base_image import system, write_base
from support.installs import PYTHON, SPEC, pip_pin, write_lock
from support.machine import Machine
from support.packages import wheel

from envspec.artifacts.conda_channels import CondaConfig
from envspec.artifacts.metadata import MetadataCache, MetadataReader
from envspec.base.errors import EnvspecError, IndexFailure
from envspec.base.progress import Progress
from envspec.carried import fetch_variants
from envspec.carried.fetch_variants import Refused, Web
from envspec.install.conda_cache import CondaCache
from envspec.net import limits, registry, repository
from envspec.net.fetch import Fetcher
from envspec.net.file_store import FileStore, WantedFile
from envspec.net.registry import Registries, image_address
from envspec.net.remote_file import open_remote
from envspec.net.repository import Repository
from envspec.net.transport import HostNames, PeerTooSlow, deadline, timed_pools
from envspec.resolve.conda import setup
from envspec.resolve.uv.answer import FoundFile
from envspec.review.audit import osv
from envspec.spec.model import CondaTable, Spec, Target

WHOLE = 2.0
SMALL = limits.Limits(whole_seconds=WHOLE, first_seconds=1.0, bytes_per_second=1_000_000)
MARGIN = 5.0
"""Seconds beside the limit: what a busy machine takes."""

Send = Callable[[bytes], None]


def drip(send: Send, first: bytes, unit: bytes = b"x") -> None:
    send(first)
    while True:
        send(unit)
        time.sleep(0.02)


OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
AT_ONCE = b"HTTP/1.1 503 Later\r\nContent-Length: 0\r\nRetry-After: 1\r\n\r\n"
ELSEWHERE = b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"


def late(send: Send, answer: bytes, seconds: float = 0.8) -> None:
    time.sleep(seconds)
    send(answer)


def closes(send: Send, answer: bytes) -> None:
    late(send, answer)
    raise ConnectionError


STALLS: dict[str, Callable[[Send], None]] = {
    "nothing": lambda send: time.sleep(60),
    "status": lambda send: drip(send, b"HTTP/1.1 200 "),
    "version": lambda send: drip(send, b"HTTP/1.1", b" "),
    "header": lambda send: drip(send, OK + b"X-Long: "),
    "headers": lambda send: drip(send, OK, b"X: y\r\n"),
    "continue": lambda send: drip(send, b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "early hints": lambda send: drip(send, b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"),
    "body": lambda send: drip(send, OK + b"Content-Length: 1000000\r\n\r\n"),
    "body without length": lambda send: drip(send, OK + b"Connection: close\r\n\r\n"),
    "packed body": lambda send: drip(send, OK + b"Content-Encoding: gzip\r\n\r\n" + b"\x1f\x8b\x08\0\0\0\0\0\0\xff"),
    "chunk's length": lambda send: drip(send, CHUNKED, b"0"),
    "chunk's extension": lambda send: drip(send, CHUNKED + b"1;"),
    "chunk": lambda send: drip(send, CHUNKED + b"fffff\r\n"),
    "chunks": lambda send: drip(send, CHUNKED, b"1\r\nx\r\n"),
    "end of a chunk": lambda send: drip(send, CHUNKED + b"1\r\nx", b""),
    "trailer": lambda send: drip(send, CHUNKED + b"2\r\n{}\r\n0\r\nX: "),
    "trailers": lambda send: drip(send, CHUNKED + b"2\r\n{}\r\n0\r\n", b"X: y\r\n"),
    "tries": lambda send: late(send, AT_ONCE),
    "redirects": lambda send: late(send, ELSEWHERE),
    "closed": lambda send: closes(send, b""),
    "cut off": lambda send: closes(send, OK + b"Content-Length: 9\r\n\r\nx"),
}
HANDSHAKES: dict[str, Callable[[Send], None]] = {
    "nothing": lambda send: time.sleep(60),
    "record": lambda send: drip(send, b"\x16\x03\x03\x40\x00"),
    "records": lambda send: drip(send, b"", b"\x16\x03\x03\x00\x01\x02"),
    "alerts": lambda send: drip(send, b"", b"\x15\x03\x03\x00\x02\x01\x5a"),
}


def peer(stall: Callable[[Send], None], *, reads: bool = True) -> AbstractContextManager[str]:
    """Answer each request so; gives the host and port."""

    def answer(connection: socket.socket, send: Send) -> None:
        while connection.recv(1 << 16) or not reads:
            stall(send)

    return serving(answer)


@contextmanager
def serving(answers: Callable[[socket.socket, Send], None]) -> Iterator[str]:
    """Answer each connection so; gives the host and port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = threading.Event()

        def answer(connection: socket.socket) -> None:
            def send(data: bytes) -> None:
                if ended.is_set():
                    raise OSError
                connection.sendall(data)

            with connection, suppress(OSError):
                answers(connection, send)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            ended.set()
            # a thread that hasn't yet begun to wait would take the connections of the next server with this descriptor
            server.shutdown(socket.SHUT_RDWR)
            accepting.join()


def fetcher(folder: Path) -> Fetcher:
    env = {"HOME": str(folder), "UV_HTTP_RETRIES": "9", "NO_PROXY": "*"}
    return Fetcher(credentials={}, env=env, read_seconds=limits.LIMITS.whole_seconds * 3 / 4)


def page(folder: Path, url: str) -> object:
    return fetcher(folder).get(f"{url}/simple/x/")


def metadata(folder: Path, url: str) -> object:
    return fetcher(folder).range(f"{url}/x-1-py3-none-any.whl", None, 1 << 16)


def file(folder: Path, url: str) -> object:
    return fetcher(folder).digest(f"{url}/x-1-py3-none-any.whl")


def image(folder: Path, url: str) -> object:
    made = fetcher(folder)
    return Registries(made.pool, {}, {"HOME": str(folder)}).digest(f"{url.partition('://')[2]}/x:y")


def reached(folder: Path, url: str) -> Repository:
    made = fetcher(folder)
    registries = Registries(made.pool, {}, {"HOME": str(folder)})
    return Repository(registries, made, image_address(f"{url.partition('://')[2]}/x:y"))


def base(folder: Path, url: str) -> object:
    return reached(folder, url).manifest("1")


def push(folder: Path, url: str) -> object:
    return reached(folder, url).mount(f"sha256:{'0' * 64}", "x/z")


def advisories(folder: Path, url: str) -> object:
    return osv._post(f"{url}/v1/querybatch", {}, fetcher(folder))


def channel(folder: Path, url: str) -> object:
    conda = CondaTable((f"{url}/mine",))
    spec = Spec("demo.toml", "demo", "3.12", (Target("t", "linux-64"),), conda=conda)
    env = {"HOME": str(folder), "ENVSPEC_CACHE_DIR": f"{folder}/{url.rpartition(':')[2]}"}
    resolver = setup.conda_resolver(spec, env, offline=False, progress=Progress())
    return setup.records_of(resolver, [pip_pin(wheel("tool", "1.0"))], ["linux-64"], url)


def package(folder: Path, url: str) -> object:
    record: Any = SimpleNamespace(url=f"{url}/noarch/x-1.0-0.conda", size=100_000, sha256=b"")
    cache = CondaCache(folder, folder, setup.conda_client(CondaConfig(), {}), Progress())
    counted: Any = SimpleNamespace(came=lambda length: None)
    return asyncio.run(cache._download(record, folder / url.rpartition(":")[2], counted))


ASKING = {asks.__name__: asks for asks in (page, metadata, file, image, base, push, advisories, channel, package)}
REGISTRY = (image, base, push)
"""Loopback alone is asked without TLS."""


def given_up(ask: Callable[[Path, str], object], folder: Path, stall: Callable[[Send], None], scheme: str) -> float:
    """Give the seconds until a peer is given up. What it sent must not be taken for an answer."""
    with peer(stall, reads=scheme == "http") as place:
        begun = time.monotonic()
        with pytest.raises(EnvspecError) as caught:
            ask(folder, f"{scheme}://{place}")
        assert isinstance(caught.value, IndexFailure) and place in caught.value.message
        return time.monotonic() - begun


def limited(monkeypatch: pytest.MonkeyPatch, bounds: limits.Limits) -> None:
    for module in (limits, registry, repository, osv, setup):
        monkeypatch.setattr(module, "LIMITS", bounds)


def loaded(folder: Path, name: str) -> None:
    """Load what a process loads once."""
    with peer(lambda send: send(OK + b"Content-Length: 2\r\n\r\n{}")) as place:
        with suppress(EnvspecError, AttributeError):
            ASKING[name](folder, f"http://{place}")
        fetcher(folder).get(f"http://{place}/")


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKING)
def test_who_stalls_is_given_up_within_the_limit(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once: each in a thread of its own, as wheels are fetched."""
    limited(monkeypatch, SMALL)
    cases = [("http", stall) for stall in STALLS.values()]
    if ASKING[name] not in REGISTRY:
        cases += [("https", stall) for stall in HANDSHAKES.values()]
    loaded(tmp_path, name)
    with ThreadPoolExecutor(len(cases)) as pool:
        took = [pool.submit(given_up, ASKING[name], tmp_path, stall, scheme) for scheme, stall in cases]
        seconds = dict(zip((*STALLS, *HANDSHAKES), (one.result() for one in took), strict=False))
    assert max(seconds.values()) < WHOLE + MARGIN, seconds


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKING)
def test_tries_and_redirects_share_one_limit(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is answered just within the limit on a head, again and again."""
    bounds = limits.Limits(whole_seconds=4.0, first_seconds=4.0, bytes_per_second=1_000_000)
    limited(monkeypatch, bounds)
    loaded(tmp_path, name)
    stalls = [partial(late, answer=answer, seconds=2.8) for answer in (AT_ONCE, ELSEWHERE, AT_ONCE + ELSEWHERE)]
    with ThreadPoolExecutor(len(stalls)) as pool:
        took = [pool.submit(given_up, ASKING[name], tmp_path, stall, "http") for stall in stalls]
        seconds = [each.result() for each in took]
    assert max(seconds) < bounds.whole_seconds + MARGIN, seconds


def variant_page(folder: Path, url: str) -> object:
    return fetch_variants.patiently(fetch_variants.files_of, Web([]), f"{url}/simple/x/")


def variant_file(folder: Path, url: str) -> object:
    return fetch_variants.patiently(fetch_variants.fetch, Web([]), f"{url}/x.whl", str(folder / "part"), "", 0)


@pytest.mark.slow
# what is given up within a handshake is closed by Python's collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("ask", [variant_page, variant_file])
def test_the_carried_program_gives_up_as_well(
    ask: Callable[[Path, str], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the standard library alone."""
    for name, value in {"WHOLE": 0.4, "FIRST": 0.4, "RATE": 1_000_000, "WAITS": (0.1,) * 20}.items():
        monkeypatch.setattr(fetch_variants, name, value)
    cases = [*(("http", stall) for stall in STALLS.values()), *(("https", stall) for stall in HANDSHAKES.values())]
    for (scheme, stall), name in zip(cases, (*STALLS, *HANDSHAKES), strict=True):
        begun = time.monotonic()
        with peer(stall, reads=scheme == "http") as place, pytest.raises((Refused, OSError, HTTPException, ValueError)):
            ask(tmp_path, f"{scheme}://{place}")
        assert time.monotonic() - begun < 0.4 + MARGIN, name


@pytest.mark.slow
def test_a_registry_that_says_nothing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts the connection. `base read`, `image` on it and into it, and `lock` end, and say after what time."""
    limited(monkeypatch, SMALL)
    write_base(machine.folder / "base", system(PYTHON))
    write_lock(machine, [pip_pin(wheel("tool", "1.0"))], platform="linux-64")
    with peer(STALLS["nothing"]) as place:
        for words in (
            ("base", "read", f"{place}/x/y:1"),
            ("base", "read", f"{place}/x/y@sha256:{'0' * 64}"),
            ("image", SPEC, "--base", f"{place}/x/y@sha256:{'0' * 64}", "-o", "out"),
        ):
            begun = time.monotonic()
            ran = machine.envspec(*words, seconds=60)
            assert ran.status == 3 and f"http://{place}/v2/x/y/" in ran.error, ran.err
            assert "is too slow: 0 bytes came in 1 s" in ran.error, ran.error
            assert time.monotonic() - begun < WHOLE + MARGIN


@pytest.mark.parametrize("carried", [False, True])
def test_a_steady_peer_outlasts_the_limit_of_a_page_where_it_sends_a_file(
    carried: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = bytes(400_000)

    def steady(send: Send) -> None:
        send(OK + b"Content-Length: 400000\r\n\r\n")
        for at in range(0, len(body), 20_000):
            send(body[at : at + 20_000])
            time.sleep(0.06)
        raise OSError

    limited(monkeypatch, limits.Limits(whole_seconds=0.4, first_seconds=0.4, bytes_per_second=1_000))
    for name, value in {"WHOLE": 0.4, "FIRST": 0.4, "RATE": 1_000}.items():
        monkeypatch.setattr(fetch_variants, name, value)
    with peer(steady) as place:
        if carried:
            with pytest.raises(Refused, match="other bytes"):
                variant_file(tmp_path, f"http://{place}")
            assert (tmp_path / "part").read_bytes() == body
            return
        assert fetcher(tmp_path).digest(f"http://{place}/x.whl")[1] == len(body)


def ranges(content: bytes, seconds: float) -> Callable[[socket.socket, Send], None]:
    """Answer each request for a range of a file, each after so long."""

    def answer(connection: socket.socket, send: Send) -> None:
        while request := connection.recv(1 << 16).decode():
            begin, _, end = request.partition("bytes=")[2].partition("\r\n")[0].partition("-")
            first = int(begin) if begin else max(0, len(content) - int(end))
            last = min(int(end) + 1, len(content)) if begin else len(content)
            time.sleep(seconds)
            head = f"HTTP/1.1 206 Part\r\nContent-Range: bytes {first}-{last - 1}/{len(content)}\r\n"
            send(f"{head}Content-Length: {last - first}\r\n\r\n".encode() + content[first:last])

    return answer


@pytest.mark.slow
def test_the_parts_of_a_wheel_share_one_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was answered within the limit: METADATA took as many of them as the wheel has parts."""
    random = Random(1)
    fat = {f"x/{number}.bin": random.randbytes(200_000) for number in range(16)}
    one = wheel("x", "1", files=fat)
    loaded(tmp_path, "page")
    limited(monkeypatch, limits.Limits(whole_seconds=2.0, first_seconds=2.0, bytes_per_second=10_000_000))
    made = fetcher(tmp_path)
    with serving(ranges(one.content, 1.2)) as place:
        url = f"http://{place}/{one.file}"
        remote, begun = open_remote(made, url, 1 << 24), time.monotonic()
        with pytest.raises(IndexFailure, match="is too slow"):
            collections.deque(remote.seek(begin) + len(remote.read(10)) for begin in range(0, 3_000_000, 150_000))
        assert time.monotonic() - begun < 2.0 + MARGIN
        reader = MetadataReader(MetadataCache(tmp_path / "cache"), made)
        begun = time.monotonic()
        with pytest.raises(IndexFailure, match="is too slow: 0 bytes came in 2 s"):
            reader.read(FoundFile(url, one.file, one.sha256, None), sidecar=True)
        assert time.monotonic() - begun < 2.0 + MARGIN


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", ["fetch", "fetch_unknown"])
def test_the_tries_of_a_file_share_one_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    limited(monkeypatch, limits.Limits(whole_seconds=2.0, first_seconds=2.0, bytes_per_second=1_000_000))
    store = FileStore(tmp_path / "files", fetcher(tmp_path))
    one = wheel("x", "1")
    with peer(lambda send: closes(send, OK + b"Content-Length: 9\r\n\r\nx")) as place:
        begun = time.monotonic()
        wanted = WantedFile(one.file, one.sha256, None)
        with pytest.raises(IndexFailure):
            getattr(store, name)(f"http://{place}/{one.file}", wanted if name == "fetch" else one.file)
        assert time.monotonic() - begun < 2.0 + MARGIN


def test_the_addresses_of_a_host_share_one_limit(tmp_path: Path) -> None:
    """A name with hundreds of addresses, none of which answers: each took the time-out of a connection."""
    import urllib3

    with socket.socket() as full, ExitStack() as held:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):  # what is accepted by nobody leaves no room
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        pool = urllib3.PoolManager(timeout=urllib3.Timeout(connect=0.3, read=1))
        pool.pool_classes_by_scheme = timed_pools(1.0, HostNames(lambda host: ("127.0.0.1",) * 60))
        begun = time.monotonic()
        with deadline(1.0) as whole, whole.holds(), pytest.raises(PeerTooSlow):
            pool.request("GET", f"http://many.example:{full.getsockname()[1]}/", retries=False)
        assert time.monotonic() - begun < 1.0 + MARGIN


def test_a_deadline_that_is_over_cuts_nothing_later() -> None:
    one, other = socket.socketpair()
    with one, other:
        with deadline(0.2) as short:
            short.guard(one)
        time.sleep(0.5)
        assert not short.cut and other.send(b"x") == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nothing", "body"])
def test_a_git_server_that_stalls(name: str, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """uv starts git, which has no limit of its own."""
    limited(monkeypatch, SMALL)
    with peer(STALLS[name]) as place:
        machine.spec(
            '[env]\nname = "demo"\npython = "3.12"\n[targets.cpu]\nplatform = "linux-64"\n'
            f'[pip]\ndependencies = ["tool @ git+http://{place}/tool.git@{"0" * 40}"]\nallow-source = ["tool"]\n'
        )
        begun = time.monotonic()
        ran = machine.envspec("lock", "specs/demo.toml", seconds=60)
        assert ran.status == 3 and "tool" in ran.error, ran.err
        assert time.monotonic() - begun < 3 * WHOLE + MARGIN
