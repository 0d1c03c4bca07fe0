"""Asking wheels at an index: by ranges, once, and never with an exception."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from support.index import Index, status
from support.packages import Dist, wheel

from envspec.binaries.import_time import ImportTime
from envspec.binaries.installed_paths import installed_paths
from envspec.binaries.numpy_abi import NumpyAbi
from envspec.binaries.wheel import open_wheel
from envspec.net.fetch import Fetcher
from envspec.net.file_store import FileStore
from envspec.resolve.uv.answer import FoundFile
from envspec.resolve.wheels.model import Question, Unread, WheelSays
from envspec.resolve.wheels.reader import WheelReader, WheelStore

MODULE = b"\x7fELF module compiled against API version 0x%x but this version of numpy is 0x%x\0"
EXTENSION = "acme/_m.cpython-312-x86_64-linux-gnu.so"
ACME = wheel("acme", "1.0", padding=3 << 20, files={EXTENSION: MODULE, "acme/__init__.py": b"import pkg_resources\n"})
BOTH: frozenset[Question] = frozenset({"numpy", "pkg_resources"})
ORIGIN = "https://packages.example.org/simple"
with open_wheel(io.BytesIO(ACME.content)) as opened:
    PATHS = installed_paths(opened)
SAYS = WheelSays(NumpyAbi(1, EXTENSION), ImportTime(("acme",)), paths=PATHS)
"""Who opens a wheel reads its paths, too."""


def reader(folder: Path) -> WheelReader:
    fetcher = Fetcher(credentials={}, env={"HOME": str(folder)}, read_seconds=5)
    return WheelReader(WheelStore(folder), FileStore(folder / "artifacts", fetcher))


def found(index: Index, dist: Dist) -> FoundFile:
    return FoundFile(index.file_url(dist), dist.file, dist.sha256, len(dist.content))


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
def test_a_wheel_is_asked_once(index: Index, tmp_path: Path, ranges: bool) -> None:
    index.ranges = ranges
    index.add(ACME)
    assert reader(tmp_path).ask(found(index, ACME), ORIGIN, BOTH) == SAYS
    asked = len(index.asked)
    assert reader(tmp_path).ask(found(index, ACME), ORIGIN, BOTH) == SAYS
    assert len(index.asked) == asked
    if ranges:
        assert all(one.range for one in index.asked)


def test_another_question_keeps_the_answers(index: Index, tmp_path: Path) -> None:
    index.add(ACME)
    assert reader(tmp_path).ask(found(index, ACME), ORIGIN, frozenset({"numpy"})) == WheelSays(SAYS.numpy, paths=PATHS)
    assert reader(tmp_path).ask(found(index, ACME), ORIGIN, frozenset({"pkg_resources"})) == SAYS


@pytest.mark.slow
def test_what_one_index_served_is_not_said_of_another(index: Index, tmp_path: Path) -> None:
    index.add(ACME)
    reader(tmp_path).ask(found(index, ACME), ORIGIN, BOTH)
    elsewhere = FoundFile("http://127.0.0.1:9/acme.whl", ACME.file, ACME.sha256)
    assert reader(tmp_path).recall(ACME.file, ACME.sha256, ORIGIN) == SAYS
    assert reader(tmp_path).recall(ACME.file, ACME.sha256, "http://127.0.0.1:9/") == WheelSays()
    assert isinstance(reader(tmp_path).ask(elsewhere, "http://127.0.0.1:9/", BOTH), Unread)


def test_a_wheel_that_is_kept_is_read_there(index: Index, tmp_path: Path) -> None:
    """As a wheel by its URL is: it was fetched whole, and its hash compared."""
    place = tmp_path / "artifacts" / ACME.sha256 / ACME.file
    place.parent.mkdir(parents=True)
    place.write_bytes(ACME.content)
    assert reader(tmp_path).ask(found(index, ACME), ORIGIN, BOTH) == SAYS
    assert index.asked == []


@pytest.mark.parametrize("content", [b"", b"no wheel", ACME.content[:-30], ACME.content[:2000]])
def test_a_wheel_that_is_damaged(index: Index, tmp_path: Path, content: bytes) -> None:
    dist = Dist("acme", "1.0", ACME.file, content, ACME.metadata, None)
    index.add(dist)
    says = reader(tmp_path).ask(found(index, dist), ORIGIN, BOTH)
    assert isinstance(says, Unread) and says.file == ACME.file and says.reason
    assert not list(tmp_path.rglob("*.json"))


def test_an_index_that_fails(index: Index, tmp_path: Path) -> None:
    index.add(ACME)
    index.fail("/files/", status(403))
    says = reader(tmp_path).ask(found(index, ACME), ORIGIN, BOTH)
    assert isinstance(says, Unread) and "403" in says.reason


@pytest.mark.parametrize(
    "entry", ["", "[]", "{}", '{"numpy": 1, "pkg_resources": null, "notes": null}', '{"numpy": {"built_for": "1"}}']
)
def test_a_damaged_entry_counts_as_absent(tmp_path: Path, entry: str) -> None:
    store = WheelStore(tmp_path)
    store.put("0" * 64, SAYS)
    assert store.get("0" * 64) == SAYS
    (path,) = tmp_path.rglob("*.json")
    path.write_text(entry)
    assert store.get("0" * 64) == WheelSays()
