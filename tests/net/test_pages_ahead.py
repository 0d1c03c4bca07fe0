"""Pages that are read before uv asks for them: those that METADATA requires, and no other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.index import Index
from support.packages import wheel

from envspec.net.fetch import Fetcher
from envspec.net.file_store import FileStore
from envspec.net.index_proxy.ahead import AskedRoots, PagesAhead
from envspec.net.index_proxy.pages import Pages, Upstream
from envspec.net.index_proxy.releases import ReleaseStore
from envspec.packages.edges import markers_of

METADATA = b"""Metadata-Version: 2.1
Name: a
Version: 1.0
Requires-Dist: b >=1
Requires-Dist: c; sys_platform == "linux"
Requires-Dist: d; sys_platform == "win32"
Requires-Dist: e; extra == "dev"
Requires-Dist: f @ https://packages.example.org/f-1.0-py3-none-any.whl
Requires-Dist: g
Requires-Dist: h; nothing ==
Requires-Dist: own

Requires-Dist: i
"""


@pytest.fixture
def pages(index: Index, tmp_path: Path) -> Pages:
    index.add(*(wheel(name, "1.0") for name in ("b", "c", "d", "e", "f", "g", "h", "i", "own", "x")))
    fetcher = Fetcher(credentials={}, env={"HOME": str(tmp_path), "UV_HTTP_RETRIES": "0"})
    return Pages(fetcher, ReleaseStore(tmp_path / "cache"), FileStore(tmp_path / "files", fetcher))


@pytest.fixture
def ahead(pages: Pages) -> Iterator[PagesAhead]:
    reader = PagesAhead(pages)
    yield reader
    reader.close()


def roots(index: Index, *, only: frozenset[str] | None = None) -> AskedRoots:
    upstreams = (Upstream(index.url, frozenset({"own"}), only=frozenset({"own"})), Upstream(index.url, only=only))
    return AskedRoots(upstreams, frozenset({"g"}), markers_of("linux-64", "3.12"))


def read(pages: Pages, index: Index, *names: str) -> bool:
    """Whether just these pages are read within some seconds, each once."""
    ends = time.monotonic() + 20
    while time.monotonic() < ends and len(index.asked) < len(names):
        time.sleep(0.01)
    time.sleep(0.1)
    return sorted(one.path.strip("/").rpartition("/")[2] for one in index.asked) == sorted(names)


def test_what_metadata_requires_is_read_once(index: Index, pages: Pages, ahead: PagesAhead) -> None:
    ahead.expect(roots(index), ("x>=1", "g"))
    ahead.read_requirements(METADATA)
    ahead.read_requirements(METADATA)
    assert read(pages, index, "x", "b", "c", "own")
    special, usual = roots(index).upstreams
    assert pages.store.get(special.root, "own") and not pages.store.get(usual.root, "own")
    assert pages.show(usual, "b").status == 200
    assert len(index.asked) == 4


def test_nothing_is_read_for_what_nobody_expects(index: Index, pages: Pages, ahead: PagesAhead) -> None:
    ahead.read_requirements(METADATA)
    assert read(pages, index)


def test_metadata_of_another_encoding_is_uvs_to_judge(index: Index, pages: Pages, ahead: PagesAhead) -> None:
    ahead.expect(roots(index), ())
    ahead.read_requirements(METADATA + b"\n\n\xff")
    ahead.read_requirements(b"Requires-Dist: \xff\n")
    assert read(pages, index, "b", "c", "own")


def test_a_page_that_was_ever_read_is_left_to_uv(index: Index, pages: Pages, ahead: PagesAhead) -> None:
    usual = roots(index).upstreams[1]
    pages.show(usual, "b")
    ahead.expect(roots(index), ())
    ahead.read_requirements(METADATA)
    assert read(pages, index, "b", "c", "own")


def test_a_root_is_asked_for_what_it_serves_alone(index: Index, pages: Pages, ahead: PagesAhead) -> None:
    ahead.expect(roots(index, only=frozenset({"c"})), ())
    ahead.read_requirements(METADATA)
    assert read(pages, index, "c", "own")


def test_offline_nothing_is_read(index: Index, pages: Pages) -> None:
    ahead = PagesAhead(replace(pages, offline=True))
    ahead.expect(roots(index), ("x",))
    ahead.read_requirements(METADATA)
    ahead.close()
    assert read(pages, index)
