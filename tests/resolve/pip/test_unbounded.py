"""What the target's CUDA sent back, by uv's unbounded answer, from pages alone."""

import pytest
from msgspec.structs import replace

from envspec.resolve.pip.request import Request
from envspec.resolve.pip.retreat import Retreated
from envspec.resolve.pip.unbounded import Lag, lags, names_torch, refuse_outgrown, without_bounds
from envspec.resolve.uv.answer import Found, FoundFile

REQUEST = Request("linux-64", "3.12", "2.28", ("app",), "13.0", constraints=("own<2", "x<3"), own=("x<3",))


def found(**versions: str) -> tuple[Found, ...]:
    return tuple(Found(name, version, (FoundFile("", f"{name}.whl", None),)) for name, version in versions.items())


def lagging(here: dict[str, str], there: dict[str, str], **shared: str) -> tuple[Lag, ...]:
    return lags(found(**here), found(**there), REQUEST, lambda name: (), shared)


def test_what_another_target_has_was_not_sent_back() -> None:
    answers = {"app": "1.0", "torch": "2.14.1"}, {"app": "2.0", "torch": "2.4.1"}
    assert lagging(*answers, app="1.0") == ()
    (alone,) = lagging(*answers, app="0.9")
    assert (alone.taken, alone.free, alone.torch, alone.own) == ("1.0", "2.0", "2.4.1", "2.14.1")


def test_what_uv_has_too_was_not_sent_back() -> None:
    assert lagging({"app": "1.0", "torch": "2.14.1"}, {"app": "1.0", "torch": "2.4.1"}) == ()


@pytest.mark.parametrize(
    ("own", "there", "sent_back"), [("2.14.1+cu130", "2.4.1", True), ("2.11.0", "2.13.0", False), ("", "2.13.0", True)]
)
def test_a_newer_release_beside_an_older_torch_or_an_answer_without_one(own: str, there: str, sent_back: bool) -> None:
    here = {"app": "1.0", "torch": own} if own else {"app": "1.0"}
    assert bool(lagging(here, {"app": "2.0", "torch": there})) == sent_back


def test_going_back_for_the_torch_is_refused_unless_accepted() -> None:
    one = Lag("app", "1.0", "2.0", "2.4.1", own="2.14.1")
    with pytest.raises(Retreated, match=r"app 2\.0: it goes with torch 2\.4\.1") as refused:
        refuse_outgrown([one], REQUEST, "t")
    assert {way.python for way in refused.value.ways} == {"3.13", "3.14", None}
    assert any(way.line == "app<=1.0" for way in refused.value.ways)
    refuse_outgrown([one], replace(REQUEST, accepted=("retreat:app",)), "t")


def test_a_newer_cuda_of_the_targets_own_torch_comes_before_that_of_an_older_one() -> None:
    """cudf-cu12 26.10.2 with torch for CUDA 12.8: CUDA 12.9 has both, and only that of torch 2.4.1 was told. What the
    spec asks for with an extra keeps it."""
    one = Lag("app", "1.0", "2.0", "2.4.1", own="2.11.0")
    with pytest.raises(Retreated) as refused:
        refuse_outgrown([one], replace(REQUEST, cuda="12.8", requirements=("app[x]",)), "t")
    assert [way.cuda for way in refused.value.ways if way.cuda] == ["13.0", "12.9", "12.4", "12.1"]
    assert [way.line for way in refused.value.ways if way.line] == ["app<=1.0"]
    alone = replace(one, own=None)
    with pytest.raises(Retreated) as refused:
        refuse_outgrown([alone], replace(REQUEST, cuda="12.8"), "t")
    assert [way.cuda for way in refused.value.ways if way.cuda] == ["12.4", "12.1"]


def test_an_older_release_that_leads_to_no_torch_is_no_answer_to_a_glibc_that_is_too_old() -> None:
    one = Lag("app", "1.0", "2.0", "2.13.0", (("llguidance", "1.9", "2.31"),), "2.34")
    with pytest.raises(
        Retreated, match=r"app 2\.0: llguidance 1\.9 wants glibc 2\.31.*1\.0 leads to no torch"
    ) as refused:
        refuse_outgrown([one], REQUEST, "t")
    assert [way.glibc for way in refused.value.ways] == ["2.34", *(None,) * (len(refused.value.ways) - 1)]
    assert [way.line for way in refused.value.ways if way.line] == ["app<=1.0"]


def test_the_unbounded_request_keeps_the_specs_own_bounds() -> None:
    assert without_bounds(REQUEST).constraints == ("own<2",)


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
