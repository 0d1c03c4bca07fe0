"""How long is waited: for an index with a time-out of its own, and for a server that says when to come back."""

import json
import os
import time
from email.utils import formatdate

import pytest
from msgspec.structs import replace
from support.index import Answer, Fault, Index, _Handler, slow
from support.packages import wheel

from envspec.base.errors import IndexFailure
from envspec.net.fetch import Fetcher, give_up_seconds
from envspec.net.limits import LIMITS
from envspec.net.simple_page import read_page
from envspec.net.transport import Patience, retries

ALPHA = wheel("alpha", "1.0")


def later(asked: str, times: int, status: int = 429) -> Fault:
    """So many answers that ask to come back later, then the real one."""
    left = [times]

    def fault(handler: _Handler, answer: Answer) -> Answer:
        left[0] -= 1
        return Answer(status, b"later", "text/plain", (("Retry-After", asked),)) if left[0] >= 0 else answer

    return fault


def fetcher(tries: int = 2, longest: float = 300.0, patience: dict[str, Patience] | None = None) -> Fetcher:
    return Fetcher(
        credentials={},
        env={"UV_HTTP_RETRIES": str(tries), "NETRC": os.devnull},
        read_seconds=5,
        bounds=replace(LIMITS, whole_seconds=longest),
        patience=patience,
    )


@pytest.mark.by_day(1)
@pytest.mark.parametrize("status", [429, 503, 502])
def test_a_server_is_asked_again_when_it_says(index: Index, status: int) -> None:
    index.add(ALPHA)
    index.fail("^/files/", later("1", 1, status))
    begun = time.monotonic()
    assert fetcher().get(index.file_url(ALPHA)).body == ALPHA.content
    assert 1 <= time.monotonic() - begun < 10
    assert len(index.paths("^/files/")) == 2


@pytest.mark.slow
def test_a_server_may_say_when_as_a_date(index: Index) -> None:
    index.add(ALPHA)
    index.fail("^/files/", later(formatdate(time.time() + 2, usegmt=True), 1))
    begun = time.monotonic()
    assert fetcher().get(index.file_url(ALPHA)).body == ALPHA.content
    assert 0.5 <= time.monotonic() - begun < 10


@pytest.mark.parametrize("asked", ["3600", formatdate(4_000_000_000, usegmt=True)])
def test_one_that_asks_for_too_long_is_given_up_at_once_and_by_name(index: Index, asked: str) -> None:
    index.add(ALPHA)
    index.fail("^/files/", later(asked, 9))
    begun = time.monotonic()
    with pytest.raises(IndexFailure) as caught:
        fetcher().get(index.file_url(ALPHA))
    assert time.monotonic() - begun < 5
    assert len(index.paths("^/files/")) == 1
    told = caught.value.message
    assert told.startswith(f"{index.file_url(ALPHA)} is given up: it answers HTTP 429 and asks to wait ")
    assert told.endswith(" s (Retry-After)")
    assert caught.value.hint == "run the same command again later: envspec waits 300 s at most"


@pytest.mark.slow
def test_the_pauses_of_one_request_are_bounded_together(index: Index) -> None:
    index.add(ALPHA)
    index.fail("^/files/", later("1", 9))
    with pytest.raises(IndexFailure, match="asks to wait 1 s"):
        fetcher(tries=5, longest=1.5).get(index.file_url(ALPHA))
    assert len(index.paths("^/files/")) == 2


@pytest.mark.parametrize("asked", ["", "soon", "-5", "1.5", "9" * 5000, "Mon, 99 Foo 99999999 99:99:99 GMT", "0"])
def test_what_is_no_time_is_as_if_nothing_had_been_said(index: Index, asked: str) -> None:
    index.add(ALPHA)
    index.fail("^/files/", later(asked, 1))
    begun = time.monotonic()
    assert fetcher().get(index.file_url(ALPHA)).body == ALPHA.content
    assert time.monotonic() - begun < 5


def test_nothing_is_slept_without_another_try() -> None:
    slept: list[float] = []
    made = retries(0, "http://x", lambda: 300 - sum(slept), slept.append)
    assert (made.connect, made.read, made.status, made.other) == (0, 0, 0, 0) and slept == []


def test_an_index_with_a_time_out_of_its_own_is_given_up_by_name(index: Index) -> None:
    index.add(ALPHA)
    index.fail("^/simple/", slow(20))
    own = {index.origin: Patience("internal", 0.3)}
    begun = time.monotonic()
    with pytest.raises(IndexFailure) as caught:
        fetcher(tries=0, patience=own).get(f"{index.url}/alpha/")
    assert time.monotonic() - begun < 4
    assert caught.value.message == f"{index.url}/alpha/ is given up: the index 'internal' sent nothing for 0.3 s"
    assert caught.value.hint and "[timeouts] internal" in caught.value.hint


@pytest.mark.slow
def test_a_slow_index_may_have_longer_than_all_others(index: Index) -> None:
    index.add(ALPHA)
    index.fail("^/simple/", slow(1.2))
    quick = {"read_seconds": 0.2, "bounds": replace(LIMITS, first_seconds=0.5)}
    env = {"UV_HTTP_RETRIES": "0", "NETRC": os.devnull}
    url = f"{index.url}/alpha/"
    with pytest.raises(IndexFailure):
        Fetcher(credentials={}, env=env, **quick).get(url)  # type: ignore[arg-type]
    patient = {index.origin: Patience("internal", 8)}
    assert Fetcher(credentials={}, env=env, patience=patient, **quick).get(url).status == 200  # type: ignore[arg-type]


def test_who_waits_for_a_fetcher_waits_for_the_slowest_index() -> None:
    env = {"UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "10"}
    assert give_up_seconds(env, 500) - give_up_seconds(env) == 490
    assert give_up_seconds(env, 5) == give_up_seconds(env)


def test_files_on_a_host_of_their_own_have_their_indexs_time(index: Index) -> None:
    """The page tells where they are; another host's time stays."""
    with Index() as files:
        files.add(ALPHA)
        files.fail("^/files/", slow(20))
        one = fetcher(tries=0, patience={index.origin: Patience("internal", 0.3)})
        row = {"filename": ALPHA.file, "url": files.file_url(ALPHA), "hashes": {"sha256": ALPHA.sha256}}
        page = json.dumps({"files": [row]})
        read_page(page.encode(), f"{index.url}/alpha/", one)
        begun = time.monotonic()
        with pytest.raises(IndexFailure, match=r"the index 'internal' sent nothing for 0\.3 s"):
            one.get(files.file_url(ALPHA))
        assert time.monotonic() - begun < 4
