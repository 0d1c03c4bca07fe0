"""Holes of the shipped facts: what moves, and what is told of it."""

import pytest

from envspec.base.errors import IndexFailure
from envspec.facts import torch_builds, wheels
from envspec.lock.model import Pin
from envspec.resolve.pip.request import Request
from envspec.resolve.torch_index.choice import TorchIndex, choose
from envspec.resolve.torch_index.holes import (
    CODE,
    everywhere,
    finding,
    held_files,
    hole_text,
    newest_releases,
    unreachable_index,
)


def request(*requirements: str, cuda: str | None, exclude_newer: str | None = None, python: str = "3.12") -> Request:
    return Request("linux-64", python, "2.28", requirements, cuda=cuda, exclude_newer=exclude_newer)


def pin(name: str, version: str, *dependencies: str, index: str = "pypi") -> Pin:
    return Pin("pip", name, version, index, None, dependencies)


def indexes(*requests: Request) -> dict[Request, TorchIndex]:
    return {one: choose(one) for one in requests}


HOLE = "2.12.0"
"""torch of this release for CUDA 12.6 is in nobody's records; for the CPU on Python 3.14, and for CUDA 13.0, it is."""


def test_the_hole_of_these_tests_is_one() -> None:
    assert wheels.pythons("cu126", "torch", HOLE, "linux-64") == ()
    assert "3.14" in wheels.pythons("cpu", "torch", HOLE, "linux-64")
    assert "3.12" in wheels.pythons("cu130", "torch", HOLE, "linux-64")
    (build,) = torch_builds.builds(HOLE, variant="cu126", platform="linux-64")
    assert build.trust != "planned"


@pytest.mark.parametrize("platform", ["linux-64", "linux-aarch64", "win-64"])
def test_pythons_of_a_whole_release(platform: str) -> None:
    (build,) = torch_builds.builds("2.9.1", variant="cu126", platform=platform)
    assert wheels.pythons("cu126", "torch", "2.9.1", platform) == build.pythons
    assert wheels.pythons("cu999", "torch", "2.9.1", platform) == ()


def test_what_the_readme_says_of_the_facts() -> None:
    """On x86-64 Linux every variant of torch 2.0 to 2.10 is held, from PyPI or among the facts."""
    lacking = [
        (build.version, build.variant)
        for build in torch_builds.builds(platform="linux-64")
        if torch_builds.order(build.version) < (2, 11)
        and torch_builds.pypi_variant(build.version, "linux-64") != build.variant
        and set(build.pythons) - set(wheels.pythons(build.variant, "torch", build.version, "linux-64"))
    ]
    assert lacking == []


def test_a_hole_holds_back_its_own_target_alone() -> None:
    bounds = "torch>=2.10,<=2.12.0"
    c126, c130 = request(bounds, cuda="12.6"), request(bounds, cuda="13.0")
    assert newest_releases(indexes(c126, c130)) == {c126: "2.10.0", c130: HOLE}


def test_without_a_hole_all_prefer_one_release() -> None:
    shared = newest_releases(indexes(*(request("torch==2.9.*", cuda=cuda) for cuda in (None, "12.6", "12.8", "13.0"))))
    assert set(shared.values()) == {"2.9.1"}
    assert newest_releases(indexes(request("torch==2.9.*", cuda="12.6"), request("torch==2.9.0", cuda=None)))


def test_a_target_that_cant_share_a_release_holds_nobody_back() -> None:
    """CUDA 12.8 has no torch after 2.11: CUDA 13.0 and the CPU share a newer one."""
    several = [request("torch>=2.8,<2.14", cuda=cuda) for cuda in ("13.0", "12.8", None)]
    newest = newest_releases(indexes(*several))
    assert newest[several[0]] == newest[several[2]] != newest[several[1]] == "2.11.0"


def test_a_companion_that_the_spec_names_must_be_held_too() -> None:
    """torchaudio 2.11.0+cu126 is a hole of its own."""
    alone = request("torch<2.13", cuda="12.6")
    assert newest_releases(indexes(alone))[alone] == "2.12.1"
    both = request("torch<2.13", "torchaudio", cuda="12.6")
    assert newest_releases(indexes(both))[both] == "2.10.0"


def test_exclude_newer_counts() -> None:
    old = request("torch", cuda=None, exclude_newer="2025-11-01")
    assert newest_releases(indexes(old))[old] == "2.9.0"


def test_the_hole_and_the_target_are_named() -> None:
    bounds = "torch>=2.10,<=2.12.0"
    requests = {"a": request(bounds, cuda="12.6"), "b": request(bounds, cuda="13.0")}
    pins = {"a": [pin("torch", "2.10.0+cu126", index="pytorch/cu126")], "b": [pin("torch", "2.12.0", index="pypi")]}
    shared = everywhere((requests[name], pins[name]) for name in requests)
    assert finding(requests["b"], choose(requests["b"]), pins["b"], everywhere=shared) is None
    told = finding(requests["a"], choose(requests["a"]), pins["a"], everywhere=shared)
    assert told is not None and (told.severity, told.code) == ("warning", CODE)
    assert told.message == (
        "torch 2.10.0 is locked, not 2.12.0: envspec's own facts have no file of torch 2.12.0+cu126 for "
        "linux-64 and Python 3.12; torch 2.10.0 is the newest that all targets could have"
    )
    assert told.remedy == "if this machine reaches the PyTorch index, --refresh asks it" and told.ways == ()


@pytest.mark.parametrize(
    ("more", "kept", "refreshed"),
    [((pin("trainer", "1.0", "torch<2.11"),), None, False), ((), "2.10.0+cu126", False), ((), None, True)],
    ids=["another package holds torch back", "the old lock had it", "the live index was asked"],
)
def test_what_no_hole_did_is_not_told_as_one(more: tuple[Pin, ...], kept: str | None, refreshed: bool) -> None:
    own = request("torch<=2.12.0", cuda="12.6")
    pins = [pin("torch", "2.10.0+cu126", index="pytorch/cu126"), *more]
    assert finding(own, choose(own, refresh=refreshed), pins, kept) is None


def test_an_index_that_does_not_answer_is_told_after_what_asks_for_it() -> None:
    pinned = request(f"torch=={HOLE}", cuda="12.6")
    failure = unreachable_index(IndexFailure("gpu: the network is down"), pinned, choose(pinned), "gpu")
    assert failure.about == ("torch",)
    assert failure.message == (
        "gpu: the spec asks for torch==2.12.0, envspec's own facts have no file of torch 2.12.0+cu126 for linux-64 and "
        "Python 3.12, and the PyTorch index doesn't answer: the network is down"
    )
    assert [way.line for way in failure.ways] == ["torch==2.12.1", "torch==2.10.0"]
    assert str(failure.hint).startswith("if you have a mirror")


@pytest.mark.parametrize(
    ("day", "ways"),
    [
        ("2022-12-31T00:00:00Z", [("torch==2.0.0", "2023-03-16")]),
        ("2023-06-01T00:00:00Z", [("torch==2.0.1", None), ("torch==2.0.0", None)]),
    ],
)
def test_releases_after_the_day_of_a_spec_are_not_offered(day: str, ways: list[tuple[str, str | None]]) -> None:
    old = request("torch==1.13.1", cuda="11.7", python="3.10", exclude_newer=day)
    failure = unreachable_index(IndexFailure("gpu: the network is down"), old, TorchIndex("cu117", live=True), "gpu")
    assert [(way.line, way.exclude_newer) for way in failure.ways] == ways


def test_a_release_that_is_not_in_the_facts_has_no_name() -> None:
    unknown = request("torch>=99", cuda="12.6")
    assert hole_text(unknown, choose(unknown)) == "this torch"


def test_the_facts_say_what_the_targets_own_file_requires() -> None:
    """torch 2.11.0 pins triton on Linux, and requires nothing of it on Windows."""
    asked = request("torch", cuda="12.8")
    file = held_files(asked, choose(asked), "torch")["2.11.0"]
    assert "linux" in file.file and any(line.startswith("triton==3.6.0") for line in file.requires_dist)
