"""Large pages, made in a process of their own: as they are made here, and here where that can't be."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from support.index import Index
from support.packages import sdist, wheel

from envspec.net.fetch import Fetcher
from envspec.net.file_store import FileStore
from envspec.net.index_proxy import making
from envspec.net.index_proxy.making import PageMaker
from envspec.net.index_proxy.pages import Pages, ServedPage, Upstream
from envspec.net.index_proxy.releases import ReleaseStore


def pages(folder: Path, maker: PageMaker | None) -> Pages:
    fetcher = Fetcher(credentials={}, env={"HOME": str(folder), "UV_HTTP_RETRIES": "0"})
    return Pages(fetcher, ReleaseStore(folder / "cache"), FileStore(folder / "files", fetcher), maker=maker)


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch, index: Index) -> None:
    """Every page counts as large, and has all kinds of files; the machine has two processors."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr("envspec.net.index_proxy.pages.LARGE", 0)
    tags = ("cp312-cp312-win_amd64", "cp312-cp312-musllinux_1_2_x86_64")
    index.add(*(wheel("a-b", f"{one}.0") for one in range(3)), *(wheel("a-b", "3.0", tag=tag) for tag in tags))
    index.add(sdist("a-b", "4.0"), uploaded="2024-01-01T00:00:00Z", yanked="broken")
    index.add(wheel("a-b", "5.0rc1"), sdist("a-b", "5.0rc1"))


def both(folder: Path, upstream: Upstream, maker: PageMaker) -> tuple[ServedPage, ServedPage]:
    """A page as it is made here, and as a maker makes it."""
    here, there = pages(folder / "here", None), pages(folder / "there", maker)
    shown = here.show(upstream, "a-b"), there.show(upstream, "a-b")
    assert [*here.releases(upstream, "a-b")] == [*there.releases(upstream, "a-b")] != []
    return shown


@pytest.mark.by_day(1)
@pytest.mark.parametrize("form", ["json", "html"])
@pytest.mark.parametrize("allowed", [(), ("a-b",)])
def test_a_page_is_the_same_from_there(index: Index, tmp_path: Path, form: str, allowed: tuple[str, ...]) -> None:
    index.form = form
    maker = PageMaker()
    try:
        here, there = both(tmp_path, Upstream(index.url, frozenset(allowed)), maker)
        assert maker._process is not None and maker._process.poll() is None
    finally:
        maker.close()
    assert here == there and json.loads(here.body)["files"]


def test_what_it_can_not_make_is_made_here(index: Index, tmp_path: Path) -> None:
    maker = PageMaker()
    try:
        assert pages(tmp_path, maker).show(Upstream(index.url), "a-b").status == 200
        index.add(wheel("a-b", "6.0", tag="py3-none-any-x8664v3"))
        here, there = both(tmp_path, Upstream(index.url), maker)
    finally:
        maker.close()
    assert here == there


def test_one_that_ended_is_not_missed(index: Index, tmp_path: Path) -> None:
    maker = PageMaker()
    one = pages(tmp_path, maker)
    assert one.show(Upstream(index.url), "a-b").status == 200
    assert maker._process is not None
    os.kill(maker._process.pid, signal.SIGKILL)
    assert one.show(Upstream(index.url, frozenset({"a-b"})), "a-b").status == 200
    maker.close()
    assert maker._process.returncode == -signal.SIGKILL
    assert one.show(Upstream(index.url, unfit=frozenset({"a-b"})), "a-b").status == 200


@pytest.mark.parametrize("program", ["/nowhere/python", "/bin/false"])
def test_one_that_does_not_start_is_not_missed(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    maker = PageMaker()
    here, there = both(tmp_path, Upstream(index.url), maker)
    maker.close()
    assert here == there


def test_one_processor_has_none(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    maker = PageMaker()
    here, there = both(tmp_path, Upstream(index.url), maker)
    assert here == there and maker._process is None


def test_it_ends_with_whoever_started_it(tmp_path: Path) -> None:
    process = making._start()
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    assert process.wait(20) == 0
    process.stdout.close()


def test_it_imports_what_stands_here_and_nothing_of_the_folder(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('run')\n")
    (tmp_path / "pickle.py").write_text("raise SystemExit('run')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    maker = PageMaker()
    both(tmp_path, Upstream(index.url), maker)
    assert maker._process is not None and maker._process.poll() is None
    maker.close()
