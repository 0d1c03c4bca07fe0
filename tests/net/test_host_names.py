"""A host's name is looked up once for all connections to it."""

import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
import urllib3
from support.index import Index
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError

from envspec.base.errors import IndexFailure
from envspec.net.fetch import Fetcher
from envspec.net.transport import HostNames, timed_pools


def test_who_asks_meanwhile_waits_for_the_same_answer() -> None:
    asked, all_here, clock = [], threading.Event(), [0.0]

    def ask(host: str) -> tuple[str, ...]:
        asked.append(host)
        assert all_here.wait(5)
        return (f"127.0.0.{len(asked)}",)

    names = HostNames(ask, clock=lambda: clock[0])
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(names.addresses, "index.test") for _ in range(8)]
        all_here.set()
        assert {job.result() for job in jobs} == {("127.0.0.1",)}
    assert asked == ["index.test"]
    clock[0] = 299
    assert names.addresses("index.test") == ("127.0.0.1",)
    clock[0] = 301
    assert names.addresses("index.test") == ("127.0.0.2",)


def test_who_waits_meanwhile_gets_the_error_too() -> None:
    begun, fail = threading.Event(), threading.Event()

    def ask(host: str) -> tuple[str, ...]:
        begun.set()
        assert fail.wait(5)
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    names = HostNames(ask)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(names.addresses, "index.test")
        assert begun.wait(5)
        answer = names._answers["index.test"][1]
        fail.set()
        assert isinstance(first.exception(5), socket.gaierror)
    assert answer is not None and isinstance(answer.exception(5), socket.gaierror)


def test_an_error_is_not_kept() -> None:
    tries = count()

    def ask(host: str) -> tuple[str, ...]:
        if not next(tries):
            raise socket.gaierror(-3, "Temporary failure in name resolution")
        return ("127.0.0.1",)

    names = HostNames(ask)
    with pytest.raises(socket.gaierror):
        names.addresses("index.test")
    assert names.addresses("index.test") == ("127.0.0.1",)


def pool(names: HostNames) -> urllib3.PoolManager:
    made = urllib3.PoolManager(retries=False)
    made.pool_classes_by_scheme = timed_pools(5, names)
    return made


def test_each_address_of_a_host_is_tried_and_the_host_keeps_its_name(index: Index) -> None:
    port = int(index.url.split(":")[2].partition("/")[0])
    asked = []

    def ask(host: str) -> tuple[str, ...]:
        asked.append(host)
        return ("127.255.0.9", "127.0.0.1") if host == "index.test" else ("127.255.0.9",)

    pools = pool(HostNames(ask))
    for _ in range(3):
        reply = pools.request("GET", f"http://index.test:{port}/simple/")
        assert reply.status in (200, 404)
        # the next one is a connection of its own
        pools.clear()
    assert asked == ["index.test"]
    for _ in range(2):
        # one that answers at none of its addresses may have moved
        with pytest.raises((NewConnectionError, ConnectTimeoutError)):
            pools.request("GET", f"http://moved.test:{port}/")
    assert asked == ["index.test", "moved.test", "moved.test"]


def test_a_name_that_nobody_knows() -> None:
    def ask(host: str) -> tuple[str, ...]:
        raise socket.gaierror(-2, "Name or service not known")

    with pytest.raises(NameResolutionError, match=r"unknown\.test"):
        pool(HostNames(ask)).request("GET", "http://unknown.test/")


def test_a_name_that_is_none() -> None:
    fetcher = Fetcher(credentials={}, env={"UV_HTTP_RETRIES": "0", "NETRC": os.devnull})
    with pytest.raises(IndexFailure):
        fetcher.get(f"http://{'a' * 70}.test/")
