"""A mirror that lies consistently: lock and mirror agree, and a second source that the site's policy names tells."""

from collections.abc import Iterator

import pytest
from support.index import Index, status
from support.machine import Machine, cpu
from support.packages import wheel
from support.site import place_policy
from test_verify import codes, verify

from envspec.lock.model import Pin
from envspec.review.verify.ask import SecondSource
from envspec.review.verify.indexes import Indexes
from envspec.review.verify.model import ClaimResult, Outcome, PinClaim
from envspec.spec.parse import parse_spec

HONEST, EVIL = wheel("lib", "1.0"), wheel("lib", "1.0", files={"lib/evil.py": b"import os"})


@pytest.fixture
def mirror(machine: Machine, index: Index) -> Index:
    """What this machine asks, with another file under a known name; the lock is made from it."""
    index.add(wheel("app", "1.0", "lib"), EVIL)
    machine.spec(cpu("app"))
    machine.locked()
    return index


@pytest.fixture
def publisher() -> Iterator[Index]:
    with Index() as real:
        real.add(wheel("app", "1.0", "lib"), HONEST)
        yield real


def second(monkeypatch: pytest.MonkeyPatch, machine: Machine, name: str, url: str) -> None:
    place_policy(monkeypatch, machine.base, f'[indexes.second]\n"{name}" = "{url}"\n')


def test_the_mirror_alone_proves_its_own_lie(machine: Machine, mirror: Index) -> None:
    ran, document = verify(machine)
    assert ran.status == 0 and document["sources"] == [{"index": "pypi", "source": mirror.url, "pins": 2}]


def test_the_second_source_tells(
    machine: Machine, mirror: Index, publisher: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    second(monkeypatch, machine, "pypi", publisher.url)
    ran, document = verify(machine)
    assert ran.status == 1 and {"other-hash"} <= codes(document) <= {"other-hash", "other-size"}, document
    assert {one["package"] for one in document["forged"]} == {"lib"}
    assert {one["source"] for one in document["forged"]} == {publisher.url}
    assert sorted(one["source"] for one in document["sources"]) == sorted([mirror.url, publisher.url])
    assert document["pins"] == {"total": 2, "asked": 2, "proved": 1, "facts": 0}
    told = machine.envspec("verify", "specs/demo.toml").out
    assert f"(by {publisher.url})" in told and f"2 pins of pypi: {mirror.url} answered" in told, told


def test_two_that_agree_prove_it(
    machine: Machine, index: Index, publisher: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add(wheel("app", "1.0", "lib"), HONEST)
    machine.spec(cpu("app"))
    machine.locked()
    second(monkeypatch, machine, "pypi", publisher.url)
    ran, document = verify(machine)
    assert ran.status == 0 and document["pins"]["proved"] == 2 and len(document["sources"]) == 2, document


def test_a_second_source_that_is_down_is_no_forgery_and_no_proof(
    machine: Machine, mirror: Index, publisher: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    second(monkeypatch, machine, "pypi", publisher.url)
    publisher.fail("/simple/", status(500))
    ran, document = verify(machine)
    assert ran.status == 3 and document["forged"] == [] and document["pins"]["proved"] == 0, document


def test_the_first_source_again_is_no_second(machine: Machine, mirror: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    second(monkeypatch, machine, "pypi", f"{mirror.origin}/other")
    ran, document = verify(machine)
    assert ran.status == 3 and "is no second source" in document["unasked"][0]["reason"], document


def test_a_channel_has_no_second_source_yet_and_that_is_told(
    machine: Machine, mirror: Index, publisher: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    second(monkeypatch, machine, "conda-forge", publisher.url)
    ran, _ = verify(machine)
    assert ran.status == 0, "the lock has nothing of it"


def test_a_conda_package_has_no_second_source_yet(index: Index) -> None:
    with Index() as other:
        indexes = Indexes.of(parse_spec(cpu("app"), "demo.toml"), {"UV_DEFAULT_INDEX": index.url})
        claim = PinClaim(Pin("conda", "tool", "1.0", "conda-forge/linux-64", None))
        told = (ClaimResult(claim, ("cpu",), Outcome("there")),)
        (found,) = SecondSource(indexes, {"conda-forge": other.url}).ask(told, (), lambda done, total: None)
    assert found.second is not None and "can't ask a second channel" in str(found.second.unasked)
