"""What is solved: grouping of requests, and uv's names of platforms."""

import re
import subprocess

import pytest
from msgspec.structs import replace
from uv import find_uv_bin

from envspec.lock.model import SpecInputs, TargetInputs
from envspec.resolve.pip.request import UV_GLIBC_MINORS, UV_PLATFORMS, Preferences, Request, group, request_for

BASE = Request("linux-64", "3.12", "2.28", ("numpy",))


def test_equal_requests_are_one_group_and_the_largest_comes_first() -> None:
    other = replace(BASE, cuda="12.8")
    requests = {"z": BASE, "b": other, "a": other, "c": other}
    assert list(group(requests).items()) == [(other, ("a", "b", "c")), (BASE, ("z",))]


def test_groups_of_one_size_come_by_name() -> None:
    requests = {"b": BASE, "a": replace(BASE, python="3.11")}
    assert list(group(requests).values()) == [("a",), ("b",)]


@pytest.mark.parametrize(
    "change",
    [
        {"platform": "linux-aarch64"},
        {"python": "3.11"},
        {"glibc": "2.17"},
        {"requirements": ("numpy<2",)},
        {"cuda": "12.8"},
        {"constraints": ("numpy<2",)},
        {"allow_source": ("numpy",)},
        {"sources": (("numpy", "internal"),)},
        {"exclude_newer": "2026-01-01T00:00:00Z"},
    ],
)
def test_whatever_decides_a_resolution_separates(change: dict[str, object]) -> None:
    assert len(group({"a": BASE, "b": replace(BASE, **change)})) == 2


def test_gpus_and_driver_do_not_separate() -> None:
    """A100 and H100 with the same CUDA install the same wheels."""
    ampere = TargetInputs("linux-64", "3.12", "2.28", "12.8", ("A100",), "550.54.15", ("torch",))
    hopper = replace(ampere, gpus=("H100",), driver=None)
    spec = SpecInputs(sources={"b": "x", "a": "x"}, allow_source=("c",), exclude_newer="2026-01-01T00:00:00Z")
    request = request_for(spec, ampere)
    assert request == request_for(spec, hopper)
    assert request.sources == (("a", "x"), ("b", "x"))
    assert (request.allow_source, request.exclude_newer, request.cuda) == (("c",), "2026-01-01T00:00:00Z", "12.8")


@pytest.mark.parametrize(
    ("platform", "glibc", "name"),
    [
        ("linux-64", "2.28", "x86_64-manylinux_2_28"),
        ("linux-64", None, "x86_64-manylinux_2_28"),
        ("linux-64", "2.30", "x86_64-manylinux_2_28"),
        ("linux-64", "2.31", "x86_64-manylinux_2_31"),
        ("linux-64", "2.17", "x86_64-manylinux_2_17"),
        ("linux-64", "2.12", "x86_64-manylinux_2_17"),
        ("linux-64", "2.99", f"x86_64-manylinux_2_{UV_GLIBC_MINORS[-1]}"),
        ("linux-aarch64", "2.34", "aarch64-manylinux_2_34"),
        ("osx-arm64", None, "aarch64-apple-darwin"),
        ("win-64", None, "x86_64-pc-windows-msvc"),
    ],
)
def test_uv_platform(platform: str, glibc: str | None, name: str) -> None:
    assert replace(BASE, platform=platform, glibc=glibc).uv_platform == name


def test_uv_knows_every_platform_name() -> None:
    told = subprocess.run(
        [find_uv_bin(), "pip", "compile", "--help"], capture_output=True, text=True, check=True
    ).stdout
    known = set(re.findall(r"[a-z0-9_]+-[a-z0-9_-]+", told))
    ours = {name.format(glibc=minor) for name in UV_PLATFORMS.values() for minor in UV_GLIBC_MINORS}
    assert ours <= known, ours - known


def test_preferences() -> None:
    old, shared = Preferences({"a": "1", "b": "1"}), Preferences({"b": "2", "c": "2"})
    assert old.over(shared).versions == {"a": "1", "b": "1", "c": "2"}
    assert old.without(frozenset({"a"})).versions == {"b": "1"}
    assert Preferences().versions == {}
