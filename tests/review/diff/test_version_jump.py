"""How far versions move, in both ecosystems, and conda's order against rattler's."""

import pytest
from hypothesis import example, given, strategies as st

from envspec.facts.calendar import counts_years
from envspec.packages import conda
from envspec.review.diff.jump import jump


@pytest.mark.parametrize(
    ("kind", "old", "new", "expected"),
    [
        ("pip", "1.2.3", "2.0.0", "major"),
        ("pip", "1.2.3", "1.3", "minor"),
        ("pip", "1.2.3", "1.2.4", "patch"),
        ("pip", "12.8.4.1", "12.8.4.2", "patch"),
        ("pip", "1.9", "1.10", "minor"),
        ("pip", "1.10", "1.9", "minor down"),
        ("pip", "1!1.0", "2.0", "epoch down"),
        ("pip", "2.0", "1!1.0", "epoch"),
        ("pip", "2.0rc1", "2.0", "pre-release"),
        ("pip", "2.0", "2.0rc1", "pre-release down"),
        ("pip", "2.0.dev1", "2.0a1", "pre-release"),
        ("pip", "2.0", "2.0.post1", "post-release"),
        ("pip", "2.9.1+cu126", "2.9.1+cu128", "local"),
        ("pip", "2.9.1+cu128", "2.9.1", "local"),
        ("pip", "2.9.1+cu126", "2.10.0+cu126", "minor"),
        ("pip", "1.0", "1.0.0", "none"),
        ("pip", "2025.9.0", "2026.1.0", "minor"),
        ("pip", "0.30.0", "2026.5.1", "major"),
        ("pip", "0.9", "0.10", "minor"),
        ("pip", "what", "1.0", "other"),
        ("conda", "1.1.1w", "3.6.3", "major"),
        ("conda", "1.1.1a", "1.1.1w", "pre-release"),
        ("conda", "2023c", "2026c", "minor"),
        ("conda", "1.0", "1!0.5", "epoch"),
        ("conda", "7.1", "7.1.0", "none"),
        ("conda", "2.0.dev1", "2.0", "pre-release"),
        ("conda", "2.0", "2.0.post1", "pre-release"),
        ("conda", "3.13", "3.9.23", "minor down"),
        ("conda", "1.2+a", "1.2+b", "local"),
    ],
)
def test_jumps(kind: str, old: str, new: str, expected: str) -> None:
    assert str(jump(kind, old, new)) == expected


@pytest.mark.parametrize(("name", "expected"), [("attrs", "minor"), ("cudf-cu12", "minor"), ("pyarrow", "major")])
def test_a_year_of_two_digits_is_one_by_the_table(name: str, expected: str) -> None:
    assert str(jump("pip", "25.10.0", "26.1.0", by_year=counts_years(name))) == expected


def test_a_move_to_a_pre_release_is_told() -> None:
    assert jump("pip", "1.0", "1.1rc1").to_prerelease
    assert not jump("pip", "1.1rc1", "1.1rc2").to_prerelease


_final = st.builds(
    lambda numbers, local: ".".join(map(str, numbers)) + local,
    st.lists(st.sampled_from((0, 1, 2, 9, 10, 25, 2025, 2026)), min_size=1, max_size=4),
    st.sampled_from(("", "", "+cpu", "+cu126", "+cu128")),
)


@given(_final, _final)
def test_final_releases_move_as_packaging_has_them(old: str, new: str) -> None:
    # a `v` in front means nothing, and leaves a version to `packaging`
    assert jump("pip", old, new) == jump("pip", f"v{old}", f"v{new}")


# Made of the parts that conda's order is about; what it calls invalid (an empty component) isn't a version.
_part = st.sampled_from(
    ("0", "1", "2", "10", "007", "1a", "1rc2", "a", "rc1", "dev", "dev3", "post", "post1", "1post2", "b3c", "2dev")
)
_release = st.lists(_part, min_size=1, max_size=4).map(".".join).filter(lambda text: text[0].isdigit())
versions = st.builds(
    lambda epoch, release, local: f"{epoch}{release}{local}",
    st.sampled_from(("", "", "", "0!", "1!", "2!")),
    _release,
    st.sampled_from(("", "", "", "+1", "+2", "+a")),
)


@example("1.1dev1", "1.1_")
@example("1.1_", "1.1a1")
@example("0.9.6", "0.960923")
@given(versions, versions)
def test_order_is_condas(old: str, new: str) -> None:
    rattler = pytest.importorskip("rattler")
    was, now = rattler.Version(old), rattler.Version(new)
    expected = -1 if was < now else 1 if was > now else 0
    assert conda.compare(old, new) == expected
