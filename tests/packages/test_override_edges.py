"""Overrides replace requirements as uv does: each row was tried with uv 0.13."""

import pytest
from hypothesis import given, strategies as st

from envspec.packages.edges import Markers, Overrides, effective

MARKERS = Markers("linux-64", "3.12")
WIN = "sys_platform == 'win32'"


@pytest.mark.parametrize(
    ("requirement", "extras", "holds"),
    [
        ("lib<2", "", True),
        (f"lib<2; {WIN}", "", True),
        ("lib[fast] @ https://example.org/lib.whl", "", True),
        ("lib; extra == 'x'", "", False),
        ("lib; extra == 'x'", "x", True),
        (f"lib; extra == 'x' and {WIN}", "", False),
        (f"lib; extra == 'x' and {WIN}", "x", True),
        (f"lib; extra == 'x' and {WIN}", "y", False),
        (f"lib; extra == 'x' or {WIN}", "", True),
        (f"lib; (extra == 'x' or extra == 'y') and {WIN}", "", False),
        (f"lib; (extra == 'x' or extra == 'y') and {WIN}", "y", True),
        ("lib; extra == 'x' or extra == 'y'", "", False),
        ("lib; extra == 'x' or extra == 'y'", "x y", True),
        ("other; extra == 'x'", "", None),
        ("other", "", None),
    ],
)
def test_what_stands_in_its_place(requirement: str, extras: str, holds: bool | None) -> None:
    found = Overrides(["lib>=2"]).instead_of(requirement, extras.split())
    assert found == {None: None, True: ("lib>=2",), False: ()}[holds]


def test_its_own_marker_decides_whether_it_holds() -> None:
    overrides = Overrides([f"lib>=2; {WIN}", "lib>=1; sys_platform == 'linux'", f"gone; {WIN}"])
    assert list(effective("Lib<1", (), MARKERS, overrides)) == [("lib>=1; sys_platform == 'linux'", True)]
    assert list(effective("gone", (), MARKERS, overrides)) == []
    assert list(effective("kept", (), MARKERS, overrides)) == [("kept", False)]
    assert list(effective(f"kept; {WIN}", (), MARKERS, overrides)) == []


_COMPARISONS = st.sampled_from(
    ("extra == 'x'", "extra == 'y'", WIN, "python_version >= '3.8'", "'x86' in platform_machine")
)
_TEXTS = st.recursive(
    _COMPARISONS,
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from(("and", "or")), inner),
    max_leaves=6,
)


@given(_TEXTS, st.sets(st.sampled_from(("x", "y"))))
def test_what_holds_as_published_is_always_overridden(marker: str, extras: set[str]) -> None:
    text = f"lib; {marker}"
    found = Overrides(["lib>=2"]).instead_of(text, extras)
    assert found in ((), ("lib>=2",))
    assert found or not MARKERS.hold(text, extras)
    assert Overrides().instead_of(text, extras) is None
