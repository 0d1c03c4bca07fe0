"""Ages in a spec, and the moments that they stand for."""

from datetime import datetime, timedelta, timezone

import pytest

from envspec.spec.model import Spec
from envspec.spec.newer import bounds, moment_of, span_of, with_moments_of_lock, with_moments_of_now
from envspec.spec.parse import parse_spec

NOW = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)
SPEC = """\
[env]
python = "3.12"
exclude-newer = "7 days"
[env.exclude-newer-package]
Mine = { exclude-newer = "1 day", reason = "x", until = "2026-11-22" }
other = { exclude-newer = 2026-01-02, reason = "x" }
[env.exclude-newer-index]
internal = { reason = "no upload times" }
[pip]
dependencies = ["mine", "own"]
indexes = { internal = "https://packages.example.org/simple" }
sources = { mine = "internal", Own_One = "internal" }
[targets.cpu]
platform = "linux-64"
"""


@pytest.fixture(scope="module")
def spec() -> Spec:
    return parse_spec(SPEC, "a.toml")


@pytest.mark.parametrize(
    ("text", "hours"), [("1 hour", 1), ("7 days", 168), ("2 weeks", 336), ("2026-11-01T00:00:00Z", None), (None, None)]
)
def test_spans(text: str | None, hours: int | None) -> None:
    assert span_of(text) == (None if hours is None else timedelta(hours=hours))


@pytest.mark.parametrize("text", ["2026-11-22T12:00:00Z", "2026-11-22T14:00:00.1234567+02:00", "2026-11-22T12:00:00"])
def test_a_moment_of_any_offset_is_one_moment(text: str) -> None:
    assert moment_of(text) == NOW


@pytest.mark.parametrize("text", [None, "", "7 days", "yesterday", "2026-13-01T00:00:00Z"])
def test_other_texts_are_no_moments(text: str | None) -> None:
    assert moment_of(text) is None


def test_it_begins_now(spec: Spec) -> None:
    begun = with_moments_of_now(spec, NOW)
    assert begun.exclude_newer == "2026-11-15T12:00:00Z"
    assert bounds(begun) == {"mine": "2026-11-21T12:00:00Z", "other": "2026-11-15T12:00:00Z", "own-one": None}


def test_an_exception_never_holds_a_package_back() -> None:
    """A fix that was let through is a brake a year later, where its moment counts against a later general one."""
    fixed = SPEC.replace('"1 day"', "2026-01-01")
    for general, holds in (("2025-12-01", "2026-01-02"), ("2026-02-01", "2026-02-01")):
        spec = parse_spec(fixed.replace('"7 days"', general), "a.toml")
        assert bounds(spec)["other"] == f"{holds}T00:00:00Z"


def test_a_lock_s_moment_stands_for_all_ages(spec: Spec) -> None:
    assert with_moments_of_lock(spec, "2026-11-15T12:00:00Z") == with_moments_of_now(spec, NOW)
    assert with_moments_of_lock(spec, None) == spec, "an age equals no lock's moment"


def test_after_its_last_day_an_exception_is_gone(spec: Spec) -> None:
    assert bounds(with_moments_of_now(spec, NOW + timedelta(days=1)))["mine"] is None, "the index's own stays"
    assert len(with_moments_of_lock(spec, "2027-01-01T00:00:00Z").newer_for) == 3, "a lock has no day"
