"""What of a cache goes: by age, by a bound in bytes, and never what a run is at."""

import pytest
from hypothesis import given, settings, strategies as st
from support.examples import examples

from envspec.app.cache_contents import KINDS, RETAINED_KINDS, CacheContents, CacheLimit, to_prune
from envspec.base.cache import Entry

NOW = 1_800_000_000.0
DAY = 86400.0


def entry(name: str, size: int, days: float, kind: str = "metadata", *, busy: bool = False) -> Entry:
    return Entry(kind, (name,), size, NOW - days * DAY, busy)


def names(entries: tuple[Entry, ...]) -> list[str]:
    return [one.parts[0] for one in entries]


def test_the_oldest_use_goes_first_and_no_more_than_has_to() -> None:
    entries = [entry("new", 10, 1), entry("old", 10, 9), entry("middle", 10, 5)]
    assert names(to_prune(entries, CacheLimit(most=30), NOW)) == []
    assert names(to_prune(entries, CacheLimit(most=29), NOW)) == ["old"]
    assert names(to_prune(entries, CacheLimit(most=15), NOW)) == ["old", "middle"]
    assert names(to_prune(entries, CacheLimit(most=0), NOW)) == ["old", "middle", "new"]


def test_by_age_goes_any_kind() -> None:
    entries = [entry(kind, 1, 40, kind) for kind in KINDS] + [entry("young", 1, 3)]
    assert set(names(to_prune(entries, CacheLimit(older_than=30 * DAY), NOW))) == set(KINDS)
    assert names(to_prune(entries, CacheLimit(older_than=41 * DAY), NOW)) == ["scratch"]


def test_results_and_what_is_tiny_dont_make_room() -> None:
    entries = [entry(kind, 100, 9, kind) for kind in RETAINED_KINDS if kind != "scratch"] + [entry("a", 1, 0)]
    assert names(to_prune(entries, CacheLimit(most=0), NOW)) == ["a"]


def test_what_was_just_used_stays_while_others_may_be_at_it() -> None:
    entries = [entry("now", 10, 0.01), entry("before", 10, 1)]
    assert names(to_prune(entries, CacheLimit(most=0, grace=3600), NOW)) == ["before"]


def test_what_a_run_is_at_stays_and_what_a_killed_one_left_goes() -> None:
    entries = [
        entry("running", 10, 1, "scratch", busy=True),
        entry("left", 10, 1, "scratch"),
        entry("elsewhere", 10, 9, "scratch", busy=True),
    ]
    assert names(to_prune(entries, CacheLimit(most=10**9), NOW)) == ["elsewhere", "left"]


ENTRIES = st.lists(
    st.builds(
        Entry,
        st.sampled_from(list(KINDS)),
        st.tuples(st.text(min_size=1, max_size=3)),
        st.integers(0, 100),
        st.floats(0, NOW + DAY),
        st.booleans(),
    ),
    max_size=30,
)


@pytest.mark.slow
@settings(max_examples=examples(80))
@given(ENTRIES, st.integers(0, 500), st.none() | st.floats(0, NOW))
def test_what_is_left_fits_or_could_not_go(entries: list[Entry], most: int, age: float | None) -> None:
    gone = to_prune(entries, CacheLimit(older_than=age, most=most), NOW)
    assert len(gone) <= len(entries) and all(one in entries for one in gone)
    left = CacheContents(tuple(entries)).size - CacheContents(gone).size
    movable = [one for one in entries if one.kind not in RETAINED_KINDS and one.size and one not in gone]
    assert left <= most or not movable
