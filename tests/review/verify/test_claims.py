"""Claims compared with what is published, without a network."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from envspec.lock.model import Artifact, Pin
from envspec.lock.read import load
from envspec.packages.metadata import Metadata
from envspec.review.verify import compare
from envspec.review.verify.claims import claims_of, new_claims
from envspec.review.verify.indexes import shipped_file
from envspec.review.verify.model import IndexedFile, PinClaim

FILE = Artifact("demo-1.0-py3-none-any.whl", "a" * 64, 100)
PIN = Pin("pip", "demo", "1.0", "pypi", FILE, ("low>=1",), licence="MIT")
CLAIM = PinClaim(PIN, platform="linux-64", python="3.12")


def published(*requires: str, licence: str | None = "MIT") -> Metadata:
    return Metadata("demo", "1.0", requires, (), None, licence)


@pytest.mark.parametrize(
    ("file", "codes"),
    [
        (IndexedFile(FILE.file, "a" * 64, 100), []),
        (IndexedFile(FILE.file, "a" * 64), []),
        (IndexedFile(FILE.file, "b" * 64, 100), ["other-hash"]),
        (IndexedFile(FILE.file, "a" * 64, 99), ["other-size"]),
        (None, ["not-published"]),
    ],
)
def test_files(file: IndexedFile | None, codes: list[str]) -> None:
    assert [one.code for one in compare.of_file(FILE, file)] == codes


def test_a_lock_without_a_size_claims_none() -> None:
    file = IndexedFile(FILE.file, "a" * 64, 100)
    assert [*compare.of_file(replace(FILE, size=None), file)] == []


@pytest.mark.parametrize(
    ("requires", "extras", "overrides", "same"),
    [
        (["low>=1"], [], [], True),
        (["low >= 1"], [], [], True),
        (["low>=1", "low>=1"], [], [], True),
        (["low>=1", "win; sys_platform == 'win32'"], [], [], True),
        (["low>=1", "old; python_version < '3.10'"], [], [], True),
        (["low>=1", "more; extra == 'more'"], [], [], True),
        (["low>=1", "more; extra == 'more'"], ["more"], [], False),
        (["low>=1", "win; sys_platform == 'win32'"], [], ["win==2"], False),
        (["low>=1,<3"], [], [], False),
        ([], [], [], False),
    ],
)
def test_requirements_that_hold(requires: list[str], extras: list[str], overrides: list[str], same: bool) -> None:
    claim = replace(CLAIM, extras=frozenset(extras), overrides=tuple(overrides))
    found = [one.code for one in compare.of_metadata(claim, published(*requires))]
    assert found == ([] if same else ["other-requirements"])


def test_a_difference_names_what_is_too_much_and_too_little() -> None:
    (one,) = compare.of_metadata(CLAIM, published("high"))
    assert one.message == "its requirements differ: the lock lacks high; its publisher has no low>=1"
    assert dict(one.evidence) == {"locked": "low>=1", "published": "high"}


def test_envspec_s_own_corrections_may_stand_in_a_lock() -> None:
    """And an older lock may lack them."""
    pin = replace(PIN, name="lightning-utilities", version="0.11.3", dependencies=())
    corrected = replace(pin, dependencies=("setuptools<82",))
    later = replace(corrected, version="0.15.0")
    found = {one.version: [*compare.of_requirements(replace(CLAIM, pin=one), [])] for one in (pin, later)}
    assert found["0.11.3"] == [] and [one.code for one in found["0.15.0"]] == ["other-requirements"]
    assert [*compare.of_requirements(replace(CLAIM, pin=corrected), [])] == []


@pytest.mark.parametrize(
    ("uploaded", "fine"),
    [
        ("2026-02-28T23:59:59.999999Z", True),
        ("2026-03-01T00:00:00Z", True),
        ("2026-03-01T00:00:01.5Z", False),
        ("yesterday", True),
        (None, True),
    ],
)
def test_times(uploaded: str | None, fine: bool) -> None:
    claim = replace(CLAIM, exclude_newer="2026-03-01T00:00:00Z")
    assert [one.code for one in compare.of_time(claim, uploaded)] == ([] if fine else ["too-new"])
    assert [*compare.of_time(CLAIM, uploaded)] == []


def test_targets_that_claim_alike_are_asked_once(root: Path) -> None:
    lock = load(root / "locks" / "mm-v2.9" / "envspec.lock")
    claims = claims_of(lock, lock.targets)
    pins = sum(1 + len(pin.built_with or ()) for target in lock for pin in target.pins)
    assert sum(map(len, claims.values())) == pins > 3 * len(claims)
    assert new_claims(claims, claims) == {}


@pytest.mark.parametrize(
    ("before", "now", "asked"),
    [
        ("2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z", False),
        ("2026-03-01T00:00:00Z", None, False),
        ("2026-03-01T00:00:00Z", "2026-02-01T00:00:00Z", True),
        (None, "2026-04-01T00:00:00Z", True),
        ("2026-03-01T00:00:00Z", "April", True),
        ("March", "2026-04-01T00:00:00Z", True),
    ],
)
def test_a_later_bound_claims_nothing_new(before: str | None, now: str | None, asked: bool) -> None:
    claims = {replace(CLAIM, exclude_newer=now): ("a",)}
    assert new_claims(claims, {replace(CLAIM, exclude_newer=before): ("a",)}) == (claims if asked else {})


@pytest.mark.parametrize("name", ["cpu-py311", "deit-v2.6", "hpc-v2.7", "llm-v2.9", "mm-v2.1", "mm-v2.9", "team-v2.9"])
def test_shipped_locks_are_what_the_shipped_facts_say(name: str, root: Path) -> None:
    lock = load(root / "locks" / name / "envspec.lock")
    known = [
        (claim, facts) for claim in claims_of(lock, lock.targets) if (facts := shipped_file(claim.pin)) is not None
    ]
    assert known
    for claim, (file, metadata) in known:
        assert claim.pin.artifact is not None
        assert [*compare.of_file(claim.pin.artifact, file), *compare.of_metadata(claim, metadata)] == []
