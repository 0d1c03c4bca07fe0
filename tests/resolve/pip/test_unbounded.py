"""How far an answer is behind uv's unbounded one, from pages alone."""

import pytest
from msgspec.structs import replace

from envspec.net.index_proxy.releases import Release
from envspec.resolve.pip.request import Request
from envspec.resolve.pip.retreat import Retreated
from envspec.resolve.pip.unbounded import Lag, lags, may_be_behind, names_torch, refuse_outgrown, without_bounds
from envspec.resolve.uv.answer import Found, FoundFile

REQUEST = Request("linux-64", "3.12", "2.28", ("app",), "13.0", constraints=("own<2", "x<3"), own=("x<3",))


def found(**versions: str) -> tuple[Found, ...]:
    return tuple(Found(name, version, (FoundFile("", f"{name}.whl", None),)) for name, version in versions.items())


def page(*releases: tuple[str, str]) -> tuple[Release, ...]:
    return tuple(Release(one, ("p-1-py3-none-any.whl",), False, False, None, at) for one, at in reversed(releases))


def lagging(here: dict[str, str], there: dict[str, str], *releases: tuple[str, str], **shared: str) -> tuple[Lag, ...]:
    return lags(found(**here), found(**there), REQUEST, lambda name: page(*releases) if name == "app" else (), shared)


@pytest.mark.parametrize(
    ("releases", "far"),
    [
        ([("1.0", "2026-01-01T00:00:00Z"), ("1.9", "2026-02-01T00:00:00Z")], False),
        ([(f"1.{n}", "2026-01-01T00:00:00Z") for n in (0, 1, 2, 9)], False),
        ([(f"1.{n}", "2026-01-01T00:00:00Z") for n in (0, 1, 2, 3, 9)], True),
        ([("1.0", "2026-01-01T00:00:00Z"), *((f"1.9.{n}", "2026-01-02T00:00:00Z") for n in range(9))], False),
        ([("1.0", "2025-01-01T00:00:00Z"), ("1.9", "2026-02-01T00:00:00Z")], True),
    ],
)
def test_far_is_more_than_three_feature_releases_or_a_year(releases: list[tuple[str, str]], far: bool) -> None:
    (one,) = lagging({"app": "1.0", "torch": "2.14.1"}, {"app": releases[-1][0], "torch": "2.15.0"}, *releases)
    assert one.far == far and not one.outgrown


def test_what_was_given_up_is_behind_too_whatever_leads_to_it() -> None:
    assert [one.name for one in lagging({"app": "1.0", "x": "2.0"}, {"app": "1.0", "x": "4.0"})] == ["x"]


def test_what_another_target_has_is_shared_and_never_outgrown() -> None:
    request = {"app": "1.0", "torch": "2.14.1"}, {"app": "2.0", "torch": "2.4.1"}, ("1.0", ""), ("2.0", "")
    (one,) = lagging(*request, app="1.0")
    assert one.shared and not one.outgrown and one.reason(REQUEST).startswith("another target has it")
    (alone,) = lagging(*request, app="0.9")
    assert alone.outgrown and not alone.shared


def test_what_uv_has_too_isnt_behind() -> None:
    assert lagging({"app": "1.0", "torch": "2.14.1"}, {"app": "1.0", "torch": "2.15.0"}) == ()


@pytest.mark.parametrize(
    ("own", "there", "outgrown"), [("2.14.1+cu130", "2.4.1", True), ("2.11.0", "2.13.0", False), ("", "2.13.0", True)]
)
def test_a_newer_release_beside_an_older_torch_or_an_answer_without_one_is_outgrown(
    own: str, there: str, outgrown: bool
) -> None:
    here = {"app": "1.0", "torch": own} if own else {"app": "1.0"}
    (one,) = lagging(here, {"app": "2.0", "torch": there}, ("1.0", ""), ("2.0", ""))
    assert one.outgrown == outgrown


def test_going_back_for_the_torch_is_refused_unless_accepted() -> None:
    one = Lag("app", "1.0", "2.0", False, torch="2.4.1", own="2.14.1")
    with pytest.raises(Retreated, match=r"app 2\.0: it goes with torch 2\.4\.1") as refused:
        refuse_outgrown([one], REQUEST, "t")
    assert {way.python for way in refused.value.ways} == {"3.13", "3.14", None}
    assert any(way.line == "app<=1.0" for way in refused.value.ways)
    refuse_outgrown([one], replace(REQUEST, accepted=("retreat:app",)), "t")


def test_a_newer_cuda_of_the_targets_own_torch_comes_before_that_of_an_older_one() -> None:
    """cudf-cu12 26.10.2 with torch for CUDA 12.8: CUDA 12.9 has both, and only that of torch 2.4.1 was told."""
    one = Lag("app", "1.0", "2.0", False, torch="2.4.1", own="2.11.0")
    with pytest.raises(Retreated) as refused:
        refuse_outgrown([one], replace(REQUEST, cuda="12.8", requirements=("app[x]",)), "t")
    assert [way.cuda for way in refused.value.ways if way.cuda] == ["13.0", "12.9", "12.4", "12.1"]
    assert [way.line for way in refused.value.ways if way.line] == ["app<=1.0"]
    alone = replace(one, own=None)
    with pytest.raises(Retreated) as refused:
        refuse_outgrown([alone], replace(REQUEST, cuda="12.8"), "t")
    assert [way.cuda for way in refused.value.ways if way.cuda] == ["12.4", "12.1"]


def test_an_older_release_that_leads_to_no_torch_is_no_answer_to_a_glibc_that_is_too_old() -> None:
    one = Lag("app", "1.0", "2.0", True, (("llguidance", "1.9", "2.31"),), "2.34", torch="2.13.0")
    with pytest.raises(
        Retreated, match=r"app 2\.0: llguidance 1\.9 wants glibc 2\.31.*1\.0 leads to no torch"
    ) as refused:
        refuse_outgrown([one], REQUEST, "t")
    assert [way.glibc for way in refused.value.ways] == ["2.34", *(None,) * (len(refused.value.ways) - 1)]
    assert [way.line for way in refused.value.ways if way.line] == ["app<=1.0"]
    kept = replace(one, own="2.14.1")
    assert one.outgrown and not kept.outgrown, "with a torch, the older release is an answer, and told"


def test_the_unbounded_request_keeps_the_specs_own_bounds() -> None:
    assert without_bounds(REQUEST).constraints == ("own<2",)
    assert may_be_behind((), REQUEST, {}, lambda name: ())
    bare = without_bounds(REQUEST)
    assert not may_be_behind(found(app="1.0"), bare, {"app": "1.0"}, lambda name: page(("2.0", "")))
    assert may_be_behind(found(app="1.0"), bare, {}, lambda name: page(("2.0", "")))


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("torch==2.14.1", True),
        ("torch<2.15", True),
        ("torch~=2.14.0", True),
        ("torch>=2", False),
        ("torch<3", False),
        ("torch", False),
        ("numpy==2", False),
    ],
)
def test_a_pin_or_a_cap_at_this_minor_names_a_torch(line: str, named: bool) -> None:
    assert names_torch([line], "2.14.1+cu130") == named
    assert not names_torch([line], None)
