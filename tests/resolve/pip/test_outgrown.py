"""What the target's torch or glibc sent back, by pages and METADATA alone."""

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from envspec.net.index_proxy.releases import Release
from envspec.resolve.pip.behind import BehindCause
from envspec.resolve.pip.leads import LeadCase
from envspec.resolve.pip.newest import fitting_releases
from envspec.resolve.pip.outgrown import Outgrown, find_outgrown, names_torch, refuse_outgrown
from envspec.resolve.pip.request import Request
from envspec.resolve.pip.retreat import Retreated
from envspec.resolve.torch_index.choice import TorchIndex
from envspec.resolve.uv.answer import Found, FoundFile

REQUEST = Request("linux-64", "3.12", "2.28", ("app",), "13.0")
OLDER = BehindCause("cuda", "2.14.1", torch="2.4.1")


def release(version: str, wheel: str = "p-1-py3-none-any.whl") -> Release:
    return Release(version, (wheel,), False, False, None, f"202{version[0]}-01-01T00:00:00Z")


def outgrown(
    app: Mapping[str, Sequence[str]], torch: str | None, request: Request = REQUEST, shared: Mapping[str, str] = {}
) -> tuple[Outgrown, ...]:
    """What `app` went back for, at its oldest release beside this torch. A target with CUDA 13.0 has torch 2.14.1."""
    taken = {"app": min(app), **({"torch": torch} if torch else {})}
    pages = {
        "app": [release(version) for version in sorted(app, reverse=True)],
        "torch": [release("2.14.1")],
        "llguidance": [release("1.9", "llguidance-1.9-cp312-cp312-manylinux_2_31_x86_64.whl")],
    }

    def releases(name: str) -> Sequence[Release]:
        return pages.get(name, ())

    case = LeadCase(
        request,
        tuple(Found(name, version, (FoundFile("", f"{name}.whl", None),)) for name, version in taken.items()),
        {},
        lambda: {"app": app[taken["app"]], "torch": ()},
        releases,
        lambda name: fitting_releases(name, request, releases),
        releases,
        lambda name, version: app.get(version, ()) if name == "app" else ("torch>=2",) if name == "llguidance" else (),
    )
    return tuple(find_outgrown(case, TorchIndex(None), shared))


def test_a_newer_release_that_goes_with_an_older_torch_alone_was_sent_back() -> None:
    (one,) = outgrown({"1.0": (), "2.0": ("torch==2.4.1",)}, "2.14.1+cu130")
    assert (one.taken, one.newer, one.cause.torch, one.own) == ("1.0", "2.0", "2.4.1", "2.14.1")


@pytest.mark.parametrize(
    ("own", "newer"),
    [
        (("torch==2.14.1",), ("torch==2.4.1",)),  # names the target's
        (("torch",), ("torch>=2.20",)),  # the target is older than what it wants: the newest that fits is right
        (("torch",), ("torch>=2",)),
        ((), ()),
    ],
)
def test_what_names_the_targets_torch_or_wants_a_newer_one_was_not(own: Sequence[str], newer: Sequence[str]) -> None:
    assert outgrown({"1.0": own, "2.0": newer}, "2.14.1") == ()


def test_a_release_that_has_lost_its_torch_is_no_answer_beside_a_torch_of_the_specs_own() -> None:
    """sglang 0.5.2 beside torch on aarch64."""
    (one,) = outgrown({"1.0": (), "2.0": ("llguidance", "torch")}, "2.14.1")
    assert (one.cause.kind, one.own, one.leads) == ("glibc", "2.14.1", False)
    assert outgrown({"1.0": ("torch",), "2.0": ("llguidance", "torch")}, "2.14.1") == ()


def test_what_another_target_has_was_not_sent_back() -> None:
    app = {"1.0": (), "2.0": ("torch==2.4.1",)}
    assert outgrown(app, "2.14.1", shared={"app": "1.0"}) == ()
    assert outgrown(app, "2.14.1", shared={"app": "0.9"})


def test_an_answer_for_which_releases_were_given_up_is_judged_by_the_rules() -> None:
    app = {"1.0": (), "2.0": ("torch==2.4.1",)}
    assert outgrown(app, "2.14.1", replace(REQUEST, own=("x<3",), constraints=("x<3",))) == ()


def test_an_older_release_that_leads_to_no_torch_is_no_answer_to_a_glibc_that_is_too_old() -> None:
    (one,) = outgrown({"1.0": (), "2.0": ("llguidance", "torch")}, None)
    assert one.cause.glibc == "2.31"
    with pytest.raises(
        Retreated, match=r"app 2\.0: llguidance 1\.9 wants glibc 2\.31.*1\.0 leads to no torch"
    ) as refused:
        refuse_outgrown([one], REQUEST, "t")
    assert [way.glibc for way in refused.value.ways] == ["2.31", *(None,) * (len(refused.value.ways) - 1)]
    assert [way.line for way in refused.value.ways if way.line] == ["app<=1.0"]
    assert outgrown({"1.0": (), "2.0": ("llguidance",), "0.1": ()}, "2.14.1") == ()


def test_a_cause_that_names_no_torch_is_told_by_what_the_target_has() -> None:
    """A companion of torch that the target hasn't: nothing says which torch goes with it."""
    one = Outgrown("app", "1.0", "2.0", BehindCause("cuda", "2.11.0"), own="2.11.0")
    with pytest.raises(
        Retreated, match=r"app 2\.0: the newest torch for CUDA 13\.0 is 2\.11\.0; 1\.0 leads to no torch"
    ):
        refuse_outgrown([one], REQUEST, "t")


def test_going_back_for_the_torch_is_refused_unless_accepted() -> None:
    one = Outgrown("app", "1.0", "2.0", OLDER, own="2.14.1")
    with pytest.raises(Retreated, match=r"app 2\.0: it goes with torch 2\.4\.1") as refused:
        refuse_outgrown([one], REQUEST, "t")
    assert {way.python for way in refused.value.ways} == {"3.13", "3.14", None}
    assert any(way.line == "app<=1.0" for way in refused.value.ways)
    refuse_outgrown([one], replace(REQUEST, accepted=("retreat:app",)), "t")


def test_a_newer_cuda_of_the_targets_own_torch_comes_before_that_of_an_older_one() -> None:
    """cudf-cu12 26.10.2 with torch for CUDA 12.8: CUDA 12.9 has both, and only that of torch 2.4.1 was told. What the
    spec asks for with an extra keeps it."""
    one = Outgrown("app", "1.0", "2.0", OLDER, own="2.11.0")
    with pytest.raises(Retreated) as refused:
        refuse_outgrown([one], replace(REQUEST, cuda="12.8", requirements=("app[x]",)), "t")
    assert [way.cuda for way in refused.value.ways if way.cuda] == ["13.0", "12.9", "12.4", "12.1"]
    assert [way.line for way in refused.value.ways if way.line] == ["app<=1.0"]
    alone = replace(one, own=None)
    with pytest.raises(Retreated) as refused:
        refuse_outgrown([alone], replace(REQUEST, cuda="12.8"), "t")
    assert [way.cuda for way in refused.value.ways if way.cuda] == ["12.4", "12.1"]


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
