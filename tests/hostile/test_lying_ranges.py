"""A server of wheels lies about parts of them: RECORD and the list of entries are read by ranges, which prove no hash.
What it says decides nothing but the order of installation; each lie is a value, told or left, and costs no more than a
wheel's own list may."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.index import Answer, Fault, Index, _Handler, circle, dripping
from support.machine import Machine, cpu
from support.packages import wheel

from envspec.artifacts.wheel_reader import Question, Unread, WheelReader, WheelSays, WheelStore
from envspec.net.fetch import Fetcher
from envspec.net.file_store import FileStore
from envspec.net.limits import Limits
from envspec.resolve.uv.answer import FoundFile

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
APP = wheel("app", "1.0", padding=1 << 20, files={"shared.py": b"app = 1\n"})
LIB = wheel("lib", "1.0", files={"shared.py": b"lib = 1\n"})
OTHER = wheel("app", "1.0", padding=1 << 20, files={"shared.py": b"one = 1\n"})
LONGER = wheel("app", "1.0", padding=1 << 20, files={"shared.py": b"other = 1\n"})
SMALL = replace(Limits(), directory_bytes=1 << 20, first_seconds=0.5, whole_seconds=2.0, bytes_per_second=1000)


def answering(change: Callable[[Answer, int, int], Answer]) -> Fault:
    """A fault that is told the first and last byte of what was asked for."""

    def fault(handler: _Handler, answer: Answer) -> Answer:
        first, _, last = (handler.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")
        size = len(APP.content)
        start = int(first) if first else size - int(last)
        return change(answer, start, min(int(last), size - 1) if first and last else size - 1)

    return fault


def part(content: bytes, start: int, end: int, said: str | None = None) -> Answer:
    span = said or f"bytes {start}-{end}/{len(APP.content)}"
    return Answer(206, content[start : end + 1], headers=(("Content-Range", span),))


def endless(handler: _Handler, answer: Answer) -> None:
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-9/99999999999\r\n\r\n")
    while not handler.index.closing.is_set():
        handler.wfile.write(bytes(65536))


def leads_to(where: str) -> Fault:
    return lambda handler, answer: Answer(302, b"", "text/plain", (("Location", where),))


def other_content(first: bytes, then: bytes) -> Fault:
    """The last bytes are of one wheel, all others of another."""
    return answering(lambda _, start, end: part(first if end == len(APP.content) - 1 else then, start, end))


LIES: dict[str, Fault] = {
    "half of it": answering(lambda _, start, end: part(APP.content, start, (start + end) // 2)),
    "twice as much": answering(lambda _, start, end: replace(part(APP.content, start, end), body=bytes(1 << 20))),
    "nothing": answering(lambda _, start, end: replace(part(APP.content, start, end), body=b"")),
    "from elsewhere": answering(lambda _, start, end: part(APP.content, 0, end - start)),
    "a file without end": answering(lambda _, start, end: part(APP.content, start, end, f"bytes 0-9/{1 << 60}")),
    "a file of less than nothing": answering(lambda _, start, end: part(APP.content, start, end, "bytes 9-1/-5")),
    "numbers without end": answering(lambda _, start, end: part(APP.content, start, end, f"bytes 0-1/{'9' * 5000}")),
    "another wheel's list": other_content(LONGER.content, APP.content),
    "another wheel's entries": other_content(APP.content, bytes(len(APP.content))),
    "an endless answer": endless,
    "a byte at a time": dripping,
    "a circle": circle,
    "a file of this machine": leads_to("file:///etc/passwd"),
    "no address": leads_to("http://[::bad/"),
}  # fmt: skip
HARMLESS = ("a file without end", "a file of less than nothing", "numbers without end", "another wheel's entries")
"""What is read lies in the last bytes, which these leave as they are."""
QUESTIONS: frozenset[Question] = frozenset({"paths", "numpy"})


def asked(index: Index, folder: Path) -> WheelSays | Unread:
    fetcher = Fetcher(credentials={}, env={"HOME": str(folder), "UV_HTTP_RETRIES": "0"}, bounds=SMALL)
    reader = WheelReader(WheelStore(folder), FileStore(folder / "artifacts", fetcher))
    return reader.ask(FoundFile(index.file_url(APP), APP.file, APP.sha256), index.url, QUESTIONS)


@pytest.mark.parametrize("lie", LIES)
def test_a_wheel_is_asked(index: Index, tmp_path: Path, lie: str) -> None:
    index.add(APP)
    truth = asked(index, tmp_path / "true")
    index.fail("^/files/.*whl$", LIES[lie])
    began = time.monotonic()
    says = asked(index, tmp_path / "lied")
    assert time.monotonic() - began < 10
    if isinstance(says, Unread):
        assert says.reason and "root:" not in says.reason and not [*(tmp_path / "lied").rglob("*.json")]
    else:
        assert says == truth and lie in HARMLESS


@pytest.mark.slow
@pytest.mark.parametrize("lie", ["another wheel", "an endless answer", "half of it", "a file of this machine"])
def test_lock_and_install(index: Index, machine: Machine, lie: str) -> None:
    """The wheel that is installed is the one of the page's hash, whatever its parts were said to be."""
    index.add(APP, LIB)
    by_range = answering(lambda _, start, end: part(OTHER.content, start, end))
    fault = LIES.get(lie, by_range)
    index.fail(
        "^/files/app.*whl$", lambda handler, answer: fault(handler, answer) if handler.headers.get("Range") else answer
    )
    path = machine.spec(cpu("app", "lib", python=PYTHON))
    ran = machine.envspec("lock", path)
    assert index.paths("^/files/app.*whl$") and "Traceback" not in ran.err and "root:" not in ran.err
    if lie in LIES:
        assert ran.status == 3 and "can't be read" in ran.err and not machine.lock_path().exists(), ran.err
        index.heal()
    machine.locked()
    assert machine.envspec("check", path).status == 0
    installed = machine.envspec("install", path, "--target", "cpu", "--prefix", "env")
    assert installed.status == 0, installed.err
    (shared,) = (machine.folder / "env").rglob("site-packages/shared.py")
    assert shared.read_bytes() in (b"app = 1\n", b"lib = 1\n")
    (own,) = (machine.folder / "env").rglob("site-packages/app.py")
    assert own.read_text() == "version = '1.0'\n"
