"""A package that needs a torch which the facts lack, or which nobody builds for the target's CUDA, says so."""

from collections.abc import Iterator, Sequence

import pytest
from msgspec.structs import replace

from envspec.base.finding import Finding
from envspec.facts.wheels import FAMILY
from envspec.net.index_proxy.releases import Release
from envspec.packages.conflict import Unsatisfiable
from envspec.resolve.pip.behind import behind_findings, find_behind
from envspec.resolve.pip.leads import LeadCase
from envspec.resolve.pip.newest import fitting_releases
from envspec.resolve.pip.request import Request
from envspec.resolve.torch_index.choice import choose
from envspec.resolve.torch_index.holes import explain_torch, find_unheld, held_releases
from envspec.resolve.uv.answer import Found, FoundFile
from envspec.resolve.uv.conflict import read_conflict
from envspec.spec.way import Way

NO_BUILD = "the newest torch for CUDA 12.8 is 2.11.0"
HOLE = "Because there is no version of torch==2.12.0 and server>=2 depends on torch==2.12.0, we can conclude that"


def refused(proof: str) -> Unsatisfiable:
    error = Unsatisfiable(proof)
    error.conflict = read_conflict(proof)
    return error


def needed(proof: str) -> list[tuple[str, str]]:
    return [(one.other, one.bound) for one in read_conflict(proof).of("requires")]


def request(*lines: str, cuda: str = "12.6") -> Request:
    return Request("linux-64", "3.12", "2.28", lines, cuda)


@pytest.mark.parametrize(
    ("cuda", "message", "said"),
    [
        ("12.6", HOLE, "torch 2.12.0, of which envspec's own facts have no file for CUDA 12.6, linux-64 and "),
        ("12.8", "Because a depends on torch>=2.12,<2.13, we can", "torch 2.12.1, of which there is no build for "),
        (
            "12.6",
            f"{HOLE} x. And because app depends on torch==2.14.0 and lib depends on torchvision==0.29.0, we can",
            "torch 2.12.0 or 2.14.0 and torchvision 0.29.0, of which",
        ),
        ("12.6", "app depends on torch>=2.9 and lib depends on torchmetrics==99", None),
        ("12.6", "app depends on torch==2.12.1", None),
    ],
)  # fmt: skip
def test_what_a_conflict_asks_for_and_no_one_has(cuda: str, message: str, said: str | None) -> None:
    asked = request("server", cuda=cuda)
    found = find_unheld(needed(message), asked, choose(asked))
    assert (said is None and not found) or (said is not None and found[0].sentence(asked).startswith(said))


def test_what_the_spec_itself_rules_out_is_no_hole() -> None:
    asked = request("server", "torch<2.12")
    assert find_unheld(needed(HOLE), asked, choose(asked)) == ()


def told_of(asked: Request, *lines: str, page: tuple[Release, ...] = ()) -> list[Finding]:
    """What is told of a package whose next release has these requirements."""
    index = choose(asked)
    file = FoundFile("", "server-1-py3-none-any.whl", None)
    found = (Found("server", "1", (file,)), Found("torch", "2.11.0", (file,)))
    pages = {"server": tuple(Release(one, (), False, False, None, None) for one in "321"), "torchaudio": page}

    def releases(name: str) -> Sequence[Release]:
        return held_releases(asked, index, name) if name in FAMILY else pages.get(name, ())

    def fitting(name: str) -> Iterator[Release]:
        return fitting_releases(name, asked, releases)

    def requires(name: str, version: str) -> Sequence[str]:
        return lines if name == "server" else ()

    case = LeadCase(asked, found, {}, dict, releases, fitting, releases, requires)
    return [*behind_findings(find_behind(case, index, {}), asked)]


def test_the_line_and_the_hint_say_what_would_help() -> None:
    asked = request("server")
    (warning,) = told_of(asked, "torch==2.12.0", "numpy")
    assert warning.severity == "warning" and warning.code == "torch-not-in-facts"
    assert warning.message.startswith("server 1 is locked, not 3: newer ones need torch 2.12.0, of which envspec's own")
    assert "--refresh" in str(warning.remedy)
    hole = explain_torch(refused(HOLE), asked, choose(asked), gated=True)
    assert str(hole.hint).startswith("if this machine reaches the PyTorch index, --refresh asks") and hole.ways == ()
    other = refused("Because app depends on numpy<1, we can conclude that")
    assert explain_torch(other, asked, choose(asked), gated=True).hint is None and other.ways == ()


def test_a_conflict_names_the_cuda_versions_whose_files_the_facts_have() -> None:
    newer = request("server", cuda="12.8")
    told = explain_torch(refused(HOLE), newer, choose(newer), gated=True)
    assert "The target needs torch 2.12.0, of which there is no build for CUDA 12.8" in told.message
    assert [way.cuda for way in told.ways] == ["13.0"], "12.6 and 13.2 have rows of it, and no files"


@pytest.mark.parametrize(("day", "cuda"), [("2023-07-25T00:00:00Z", "11.8"), ("2023-11-15T00:00:00Z", "12.1")])
def test_a_day_whose_torch_is_for_another_cuda_stays(day: str, cuda: str) -> None:
    """peft 0.4.0 of 2023-07-25 with CUDA 13.2: only today's torch has that, and the hint gave up the day."""
    asked = replace(request("peft==0.4.0", cuda="13.2"), exclude_newer=day, python="3.11")
    late = Way(exclude_newer="2026-07-09")
    conflict = refused("Because there are no versions of torch and peft depends on torch==2.15.0, the")
    conflict.ways = (late,)
    told = explain_torch(conflict, asked, choose(asked), gated=True)
    assert told.ways[0].cuda == cuda and late not in told.ways
    assert "depends on torch, which for CUDA 13.2 is torch==2.15.0 alone" in told.message


def test_nothing_is_said_of_a_package_whose_next_release_takes_the_torch_that_is_there() -> None:
    asked = request("server", cuda="12.8")
    assert told_of(asked, "torch>=2.9", "lib") == []
    (note,) = told_of(asked, "torch<2.13,>=2.12", "torch; extra == 'x'")
    assert note.severity == "info" and note.message == f"server 1 is locked, not 3: {NO_BUILD}"


def test_of_torchs_family_its_own_index_speaks() -> None:
    """Of vLLM at CUDA 12.8: PyPI's page has a torchaudio 0.13.1, for Python 3.10 at most."""
    page = (Release("0.13.1", ("torchaudio-0.13.1-cp310-cp310-manylinux1_x86_64.whl",), False, False, None, None),)
    told = told_of(replace(request("server", cuda="12.6"), python="3.11"), "torchaudio==2.11.0", page=page)
    assert [one.message.partition(" need ")[2].partition(", of which")[0] for one in told] == ["torchaudio 2.11.0"]
