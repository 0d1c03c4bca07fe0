"""Reading over HTTP: a body that breaks off is asked for again, as often as a request would be, and no more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.index import Answer, Fault, Index, _Handler, hanging, status, truncated
from support.packages import wheel

from envspec.base.errors import IndexFailure
from envspec.configuration.settings import Credentials
from envspec.net.fetch import Fetcher

ALPHA = wheel("alpha", "1.0")


def first(times: int, fault: Fault) -> Fault:
    """A fault that is over after so many answers."""
    left = [times]

    def once(handler: _Handler, answer: Answer) -> Answer | None:
        left[0] -= 1
        return fault(handler, answer) if left[0] >= 0 else answer

    return once


def stalling(handler: _Handler, answer: Answer) -> None:
    """Sends half of the body, then nothing."""
    handler.send_head(answer)
    handler.wfile.write(answer.body[: len(answer.body) // 2])
    handler.wfile.flush()
    hanging(handler, answer)


def fetcher(retries: int) -> Fetcher:
    return Fetcher(credentials={}, env={"UV_HTTP_RETRIES": str(retries), "NETRC": os.devnull}, read_seconds=0.3)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("fault", [truncated, stalling])
def test_a_body_that_breaks_off_is_read_again(index: Index, fault: Fault) -> None:
    index.add(ALPHA)
    url = index.file_url(ALPHA)
    whole = fetcher(0).get(url).body
    index.fail("^/files/", first(2, fault))
    index.asked.clear()
    assert fetcher(2).get(url).body == whole
    assert len(index.paths("^/files/")) == 3
    index.fail("^/files/", first(1, fault))
    assert fetcher(1).range(url, 2, 9).body == whole[2:11]


@pytest.mark.parametrize("fault", [truncated, stalling])
def test_not_for_ever(index: Index, fault: Fault) -> None:
    index.add(ALPHA)
    index.fail("^/files/", fault)
    url = index.file_url(ALPHA)
    with pytest.raises(IndexFailure) as error:
        fetcher(1).get(url)
    assert error.value.message.startswith(f"{url} can't be read: ") and error.value.hint
    assert len(index.paths("^/files/")) == 2


def test_an_indexs_own_login_comes_before_netrcs(index: Index, tmp_path: Path) -> None:
    index.add(ALPHA)
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login other password of-netrc\n")
    own = Credentials("me", "of-the-index")
    env = {"UV_HTTP_RETRIES": "0", "NETRC": str(tmp_path / "netrc")}
    Fetcher(credentials={index.origin: own}, env=env).get(index.file_url(ALPHA))
    Fetcher(credentials={}, env=env).get(index.file_url(ALPHA))
    assert [one.authorization for one in index.asked] == [own.basic, Credentials("other", "of-netrc").basic]


@pytest.mark.parametrize("code", [401, 403])
def test_an_index_that_wants_a_login_is_told_as_one(index: Index, code: int) -> None:
    index.add(ALPHA)
    index.fail("^/files/", status(code))
    with pytest.raises(IndexFailure, match=f"needs credentials .HTTP {code}"):
        fetcher(0).get(index.file_url(ALPHA))


@pytest.mark.parametrize("where", ["http://[::bad/", "http://a:b:c/", "//[", "http://h:٤٤٣/x"])
def test_a_redirect_that_is_no_address(index: Index, where: str) -> None:
    index.fail(
        "/simple/",
        lambda handler, answer: Answer(302, b"", "text/plain", (("Location", where.encode().decode("latin-1")),)),
    )
    with pytest.raises(IndexFailure):
        fetcher(0).get(f"{index.url}/alpha/")


def test_a_file_of_this_machine_is_read_as_a_server_would_give_it(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "index.html").write_text("0123456789")
    local, folder = fetcher(0), (tmp_path / "a b").as_uri()
    page = local.get(folder)
    assert (page.status, page.body, page.url) == (200, b"0123456789", f"{folder}/")
    assert local.get(folder, headers={"If-None-Match": str(page.etag)}).status == 304
    assert local.get(f"{folder}/none").status == 404
    url = f"{folder}/index.html"
    assert (local.range(url, 2, 3).body, local.range(url, None, 3).body, local.range(url, 0, 1).total) == (
        b"234", b"789", 10
    )  # fmt: skip
    with local.stream(url, start=4) as stream:
        assert stream.read(99) == b"456789" and stream.start == 4
    with local.stream(url, known=page.etag) as stream:
        assert stream.unchanged
    for refused in (
        lambda: local.get(url, limit=5),
        lambda: local.stream(url, 5).__enter__(),
        lambda: local.digest(f"{url}x"),
    ):
        with pytest.raises(IndexFailure):
            refused()
    assert local.digest(url)[1] == 10
