"""A package that needs a torch which the facts lack, or which nobody builds for the target's CUDA, says so."""

import pytest
from msgspec.structs import replace

from envspec.base.finding import Finding
from envspec.net.index_proxy.releases import Release
from envspec.resolve.pip.newest import Behind
from envspec.resolve.pip.request import Request
from envspec.resolve.pip.unbounded import missing_wheels, tell_missing_wheels
from envspec.resolve.torch_index.choice import choose
from envspec.resolve.torch_index.holes import find_unheld, hint_about_torch

HOLE = "Because there is no version of torch==2.12.0 and server>=2 depends on torch==2.12.0, we can conclude that"


def request(*lines: str, cuda: str = "12.6") -> Request:
    return Request("linux-64", "3.12", "2.28", lines, cuda)


@pytest.mark.parametrize(
    ("cuda", "message", "said"),
    [
        ("12.6", HOLE, "torch 2.12.0, of which envspec's own facts have no file for CUDA 12.6, linux-64 and "),
        ("12.8", "app depends on torch>=2.12,<2.13.", "torch 2.12.1, of which there is no build for CUDA 12.8, "),
        (
            "12.6",
            f"{HOLE} app depends on torch==2.14.0; lib depends on torchvision==0.29.0,",
            "torch 2.12.0 or 2.14.0 and torchvision 0.29.0, of which",
        ),
        ("12.6", "app depends on torch>=2.9 and lib depends on torchmetrics==99", None),
        ("12.6", "app depends on torch==2.12.1", None),
    ],
)  # fmt: skip
def test_what_a_conflict_asks_for_and_no_one_has(cuda: str, message: str, said: str | None) -> None:
    asked = request("server", cuda=cuda)
    found = find_unheld(message, asked, choose(asked))
    assert (said is None and not found) or (said is not None and found[0].sentence(asked).startswith(said))


def test_what_the_spec_itself_rules_out_is_no_hole() -> None:
    asked = request("server", "torch<2.12")
    assert find_unheld(HOLE, asked, choose(asked)) == ()


def test_the_line_and_the_hint_say_what_would_help() -> None:
    asked = request("server")
    index, behind = choose(asked), Behind("server", "1", ("3", "2"), True)
    over = tuple(missing_wheels([behind], asked, index, lambda name: (), lambda bound: HOLE))
    told: list[Finding] = []
    tell_missing_wheels({asked: over}, {asked: ("a", "b")}, told.append)
    (warning,) = told
    assert warning.severity == "warning" and warning.code == "torch-not-in-facts"
    assert warning.text.startswith("a, b: releases after server 1 need torch 2.12.0, of which envspec's own facts")
    assert "--refresh" in str(warning.remedy)
    assert "--refresh asks" in str(hint_about_torch(HOLE, asked, index, gated=True))
    newer = request("server", cuda="12.8")
    hint = hint_about_torch(HOLE, newer, choose(newer), gated=True)
    assert str(hint).startswith("the target needs torch 2.12.0, of which there is no build for CUDA 12.8")
    assert hint_about_torch("app depends on numpy<1", asked, index, gated=True) is None


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Because app>=2 depends on torch==2.12.1 and the spec asks for app>=2", "releases"),
        ("Because app>=2,<=3 depends on torch==2.12.1 and app>=4 depends on torch==2.13.0,", "releases"),
        ("Because app depends on torch==2.12.1", "releases"),
        # as uv said why SGLang 0.5.2 stays: of its later releases most can't be had for other reasons
        ("And because app>=2,<=3 depends on torch==2.12.1, and app>=4 depends on outlines==0.1.11", "some releases"),
        ("Because app==3 depends on torch==2.12.1 and app>=2 depends on lib>=2", "some releases"),
        ("Because lib>=2 depends on torch==2.12.1 and app>=2 depends on lib>=2", "some releases"),
        # what it concludes holds beside what it said before
        (
            "Because app==2 depends on torch==2.12.1, we can conclude that app>=2 depends on torch==2.12.1.",
            "some releases",
        ),
    ],
)
def test_the_line_speaks_of_all_newer_releases_where_it_holds_of_all(message: str, said: str) -> None:
    asked = request("app", cuda="12.8")
    index, behind = choose(asked), Behind("app", "1", ("4", "3", "2"), True)
    over = tuple(missing_wheels([behind], asked, index, lambda name: (), lambda bound: message))
    told: list[Finding] = []
    tell_missing_wheels({asked: over}, {asked: ("a",)}, told.append)
    (note,) = told
    assert note.text.startswith(f"a: {said} after app 1 need torch 2.12.1")


def test_nothing_is_said_of_a_package_that_leads_to_no_torch() -> None:
    """As uv said why cupy stays behind NumPy 1: what leads to it asks for torch's family, in releases of long ago."""
    message = (
        "Because cupy-cuda12x>=14 depends on numpy>=2.0 and server>=3 depends on ray[cgraph]>=2.48, we can conclude "
        "that server>=3 depends on cupy-cuda12x>=14. And because server<=2 depends on torchvision==0.21.0 and"
    )
    asked = request("server", "numpy<2", cuda="12.8")
    index = choose(asked)
    (found,) = find_unheld(message, asked, index)
    assert found.releases == (("torchvision", "0.21.0"),)
    for name in ("cupy-cuda12x", "numpy"):
        behind = Behind(name, "1", ("14",), True)
        assert tuple(missing_wheels([behind], asked, index, lambda name: (), lambda bound: message)) == ()


def test_of_torchs_family_its_own_index_speaks() -> None:
    """As uv said why vLLM stays at CUDA 12.8: PyPI's page has a torchaudio 0.13.1, for Python 3.10 at most."""
    message = (
        "Because torchaudio==2.11.0+cu128 has no wheels with a matching Python implementation tag (e.g., `cp311`) and "
        "there is no version of torchaudio==2.11.0, we can conclude that torchaudio==2.11.0 cannot be used. And "
        "because server>=2 depends on torchaudio==2.11.0"
    )
    page = (Release("0.13.1", ("torchaudio-0.13.1-cp310-cp310-manylinux1_x86_64.whl",), False, False, None, None),)
    asked = replace(request("server", cuda="12.8"), python="3.11")
    index, behind = choose(asked), Behind("server", "1", ("2",), True)
    over = tuple(missing_wheels([behind], asked, index, lambda name: page, lambda bound: message))
    told: list[Finding] = []
    tell_missing_wheels({asked: over}, {asked: ("a",)}, told.append)
    assert [one.message.partition(" need ")[2].partition(", of which")[0] for one in told] == ["torchaudio 2.11.0"]
