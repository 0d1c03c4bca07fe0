"""Peers that send without end, a byte at a time, or far more than they say: each is given up by name, within the limits
of `envspec.net.limits`, which are small here. The servers are real, on loopback."""

import gzip
import io
import time
import zipfile
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields, replace
from support.index import Answer, Index, endless, lying_range
from support.machine import Machine, cpu
from support.packages import Dist, wheel

from envspec.artifacts.metadata import MetadataCache, MetadataReader
from envspec.base.errors import IndexFailure
from envspec.net import limits
from envspec.net.body import Pace
from envspec.net.fetch import Fetcher
from envspec.net.remote_file import DamagedFile
from envspec.net.simple_page import parse_page
from envspec.resolve.uv.answer import FoundFile

SMALL = limits.Limits(
    page_bytes=1 << 20,
    page_rows=1000,
    metadata_bytes=1 << 16,
    directory_bytes=1 << 16,
    source_bytes=1 << 20,
    file_bytes=1 << 20,
    whole_seconds=2.0,
    first_seconds=0.5,
    bytes_per_second=1000,
)


@cache
def bomb(coding: str) -> bytes:
    """64 MiB in 64 KiB."""
    zeros = bytes(64 << 20)
    return gzip.compress(zeros) if coding == "gzip" else zlib.compress(zeros)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIMITS", SMALL)


def dripping(handler: Any, answer: Answer) -> None:
    """The head as usual, the body a byte at a time."""
    handler.close_connection = True
    handler.send_head(replace(answer, status=200, body=bytes(1 << 20)))
    handler.wfile.flush()
    while not handler.index.closing.wait(0.02):
        handler.wfile.write(b"x")
        handler.wfile.flush()


def dripping_head(handler: Any, answer: Answer) -> None:
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while not handler.index.closing.wait(0.02):
        handler.wfile.write(b"x")
        handler.wfile.flush()


def packed(body: bytes, coding: str) -> Any:
    return lambda handler, answer: Answer(200, body, "text/html", (("Content-Encoding", coding),))


def fetcher(folder: Path, bounds: limits.Limits = SMALL) -> Fetcher:
    return Fetcher(credentials={}, env={"HOME": str(folder), "UV_HTTP_RETRIES": "1"}, read_seconds=5, bounds=bounds)


@pytest.mark.parametrize("fault", [dripping, dripping_head])
def test_a_byte_at_a_time(index: Index, tmp_path: Path, fault: Any) -> None:
    index.fail("^/simple/slow", fault)
    begun = time.monotonic()
    with pytest.raises(IndexFailure, match=rf"^{index.origin}\S* is too slow: \d+ bytes came in \d+ s$"):
        fetcher(tmp_path).get(f"{index.url}/slow/")
    assert time.monotonic() - begun < 20


def test_a_byte_at_a_time_as_a_file(index: Index, tmp_path: Path) -> None:
    index.fail("^/files/", dripping)
    with pytest.raises(IndexFailure, match=r"slow\.whl is too slow"):
        fetcher(tmp_path).digest(f"{index.origin}/files/slow.whl")


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (endless, "is larger than 1 MiB"),
        ("gzip", "is larger than 1 MiB"),
        ("deflate", "is larger than 1 MiB"),
        (packed(b"\x1b\x00\x00", "br"), "has a content encoding that envspec didn't ask for: 'br'"),
        (packed(b"\x1b\x00\x00", "zstd"), "has a content encoding that envspec didn't ask for"),
        (packed(gzip.compress(b"x"), "gzip, gzip"), "has a content encoding that envspec didn't ask for"),
        (packed(b"no gzip at all", "gzip"), "isn't valid gzip"),
    ],
    ids=["endless", "gzip bomb", "deflate bomb", "br", "zstd", "twice", "broken gzip"],
)
def test_a_page_that_is_too_much(index: Index, tmp_path: Path, fault: Any, told: str) -> None:
    index.fail("^/simple/", packed(bomb(fault), fault) if isinstance(fault, str) else fault)
    # on a busy machine the head alone takes longer than the bounds of slow peers
    patient = replace(SMALL, whole_seconds=60.0, first_seconds=30.0)
    with pytest.raises(IndexFailure) as error:
        fetcher(tmp_path, patient).get(f"{index.url}/large/")
    assert told in error.value.message and index.url in error.value.message


@pytest.mark.parametrize("row", [b'{"url": []},', b"[[]],", b'<a href="">x</a>'])
def test_a_page_of_a_million_rows(small: None, row: bytes) -> None:
    body = (b"<html>" if row[:1] == b"<" else b'{"files": [') + row * 10_000
    with pytest.raises(IndexFailure, match="has more than 1000 files, the limit for an index page"):
        parse_page(body, "https://index.example/simple/many/")


def test_a_packed_page_is_read(index: Index, tmp_path: Path) -> None:
    index.fail("^/simple/", packed(gzip.compress(b"<html>fine</html>" * 1000), "gzip"))
    assert fetcher(tmp_path).get(f"{index.url}/fine/").body == b"<html>fine</html>" * 1000


def with_metadata(size: int) -> Dist:
    """A small wheel whose METADATA is large once it's unpacked."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "large-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: large\nVersion: 1.0\n" + bytes(size)
        )
    return Dist("large", "1.0", "large-1.0-py3-none-any.whl", buffer.getvalue(), None)


def test_metadata_that_unpacks_to_too_much(index: Index, tmp_path: Path) -> None:
    dist = with_metadata(8 << 20)
    index.add(dist)
    reader = MetadataReader(MetadataCache(tmp_path), fetcher(tmp_path))
    with pytest.raises(DamagedFile, match="METADATA is larger than"):
        reader.read(FoundFile(index.file_url(dist), dist.file, dist.sha256, len(dist.content)))


@pytest.mark.by_day(1)
@pytest.mark.e2e
@pytest.mark.parametrize("path", ["^/simple/app", r"^/files/app.*\.metadata"], ids=["page", "METADATA"])
@pytest.mark.parametrize("fault", [dripping, "gzip"], ids=["slow", "bomb"])
def test_lock_gives_it_up(machine: Machine, index: Index, small: None, path: str, fault: Any) -> None:
    index.add(wheel("app", "1.0"))
    index.fail(path, packed(bomb(fault), fault) if isinstance(fault, str) else fault)
    ran = machine.envspec("lock", machine.spec(cpu("app")), status=3)
    assert "app" in ran.error and ("is too slow" in ran.error or "is larger than" in ran.error)
    assert machine.files() == {}


@pytest.mark.e2e
@pytest.mark.parametrize("fault", [dripping, endless, lying_range], ids=["slow", "endless", "lying range"])
def test_bundle_gives_it_up(machine: Machine, index: Index, small: None, fault: Any) -> None:
    index.add(wheel("app", "1.0"))
    machine.locked(spec=cpu("app"))
    index.fail(r"^/files/.*\.whl$", fault)
    ran = machine.envspec("bundle", "specs/demo.toml", "--target", "cpu", "-o", "app.tar", status=3)
    assert "app-1.0-py3-none-any.whl" in ran.error
    assert not (machine.folder / "app.tar").exists()
    artifacts = machine.cache / "artifacts"
    assert sum(path.stat().st_size for path in artifacts.rglob("*") if path.is_file()) < 1 << 20


@pytest.mark.e2e
@pytest.mark.parametrize(("files", "size"), [(1, 8 << 20), (3000, 1)], ids=["bytes", "entries"])
def test_bundle_carries_no_zip_bomb(machine: Machine, index: Index, monkeypatch: Any, files: int, size: int) -> None:
    app = wheel("app", "1.0")
    buffer = io.BytesIO(app.content)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        for number in range(files):
            archive.writestr(f"bomb{number}", bytes(size))
    index.add(replace(app, content=buffer.getvalue()))
    machine.locked(spec=cpu("app"))
    small = replace(limits.LIMITS, archive_entries=2000, unpacked_bytes=1 << 20)
    monkeypatch.setattr(limits, "LIMITS", small)
    ran = machine.envspec("bundle", "specs/demo.toml", "--target", "cpu", "-o", "app.tar", status=3)
    assert "app-1.0-py3-none-any.whl has" in ran.error and "are the most" in ran.error
    assert not (machine.folder / "app.tar").exists()


def test_who_is_slow_but_steady_is_waited_for() -> None:
    clock = iter(range(0, 10_000))
    pace = Pace("https://slow.example", limits.Limits(), clock=lambda: float(next(clock)))
    for _ in range(3000):
        pace.add(5000)


@pytest.mark.nightly
def test_the_real_limits(index: Index, tmp_path: Path) -> None:
    """A byte at a time is given up after the time that the page on security states."""
    index.fail("^/simple/slow", dripping)
    begun = time.monotonic()
    with pytest.raises(IndexFailure, match="is too slow"):
        Fetcher(credentials={}, env={"HOME": str(tmp_path)}).get(f"{index.url}/slow/")
    assert limits.LIMITS.first_seconds <= time.monotonic() - begun < limits.LIMITS.first_seconds + 15


def test_the_page_on_security_states_them(root: Path) -> None:
    text = (root / "docs" / "security.md").read_text(encoding="utf-8")
    for field in fields(limits.Limits):
        value = getattr(limits.LIMITS, field.name)
        shown = f"{value >> 20} MiB" if field.name.endswith("_bytes") else f"{value:g}"
        assert f"| `{field.name}` | {shown} |" in text
