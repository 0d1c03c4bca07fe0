"""Whether an answer is the newest: pre-releases that nothing asks for, releases whose wheels don't fit."""

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from envspec.net.index_proxy.releases import Release
from envspec.resolve.pip.newest import admitted_releases, asks_of, fitting_releases, is_behind, stray_pre_releases
from envspec.resolve.pip.request import Request
from envspec.resolve.uv.answer import Found, FoundFile

WINDOWS = ("a-{}-cp312-cp312-win_amd64.whl",)
NEWER_GLIBC = ("a-{}-cp312-cp312-manylinux_2_39_x86_64.whl",)
ANY = ("a-{}-py3-none-any.whl",)


def release(
    version: str,
    wheels: tuple[str, ...] = ANY,
    *,
    yanked: bool = False,
    python: str | None = None,
    day: str = "2024-01-01",
) -> Release:
    return Release(version, tuple(name.format(version) for name in wheels), True, yanked, python, f"{day}T00:00:00Z")


def found(version: str) -> tuple[Found, ...]:
    return (Found("a", version, (FoundFile("https://host/a.whl", f"a-{version}-py3-none-any.whl", "0" * 64),)),)


def asking(*lines: str, date: str | None = None, allow: tuple[str, ...] = ()) -> Request:
    return Request("linux-64", "3.12", None, lines, exclude_newer=date, allow_source=allow)


FINAL = [release("2.0rc1"), release("1.0")]


@pytest.mark.parametrize(
    ("request_", "edges", "releases", "kept", "strays"),
    [
        (asking("a"), {}, FINAL, {}, ("a",)),
        (asking("a>=1"), {}, FINAL, {}, ("a",)),
        (asking("a>=2.0rc1"), {}, FINAL, {}, ()),
        (asking("b"), {"b": ["a==2.0rc1"]}, FINAL, {}, ()),
        (asking("b"), {"b": ["a>=0.5"]}, FINAL, {}, ("a",)),
        (asking("b"), {"b": ["a>1"]}, FINAL, {}, ()),
        (asking("a"), {}, [release("2.0rc1")], {}, ()),
        (asking("a"), {}, [release("2.0rc1"), release("1.0", yanked=True)], {}, ()),
        (asking("a"), {}, [release("2.0rc1"), release("1.0", python=">=3.13")], {}, ()),
        (asking("a", date="2023-01-01T00:00:00Z"), {}, FINAL, {}, ()),
        (asking("a"), {}, [release("2.0rc1"), release("1.0", WINDOWS)], {}, ("a",)),
        (asking("a"), {}, FINAL, {"a": "2.0rc1"}, ()),
    ],
    ids=[
        "asked for by name alone",
        "a bound is no ask",
        "named by the spec",
        "named by a package",
        "a package's bound is no ask",
        "nothing final is admitted",
        "nothing final is there",
        "the final one is yanked",
        "the final one is for another Python",
        "the final one is too new",
        "the final one's wheels don't fit",
        "kept from the old lock",
    ],
)
def test_pre_releases(
    request_: Request,
    edges: Mapping[str, Sequence[str]],
    releases: Sequence[Release],
    kept: Mapping[str, str],
    strays: tuple[str, ...],
) -> None:
    assert (
        stray_pre_releases(found("2.0rc1"), request_, asks_of(request_, edges), kept, lambda name: releases) == strays
    )


def test_no_pre_release_stands_in_for_final_releases_that_were_given_up() -> None:
    """`a>2` is envspec's own bound: what it left out can't work on the target."""
    bounded = replace(asking("a"), constraints=("a>1",), final=("a",))
    assert stray_pre_releases(found("2.0rc1"), bounded, asks_of(bounded, {}), {}, lambda name: ()) == ("a",)
    named = replace(bounded, requirements=("a>=2.0rc1",))
    assert stray_pre_releases(found("2.0rc1"), named, asks_of(named, {}), {}, lambda name: ()) == ()


@pytest.mark.parametrize(
    ("request_", "releases", "fitting", "admitted"),
    [
        (asking("a"), [release("2.0", WINDOWS), release("1.0")], "1.0", "2.0"),
        (asking("a"), [replace(release("2.0", WINDOWS), source=False), release("1.0")], "1.0", "1.0"),
        (asking("a"), [release("2.0", NEWER_GLIBC), release("1.0")], "1.0", "2.0"),
        (asking("a<2"), [release("2.0"), release("1.0")], "1.0", "1.0"),
        (asking("a"), [release("2.0rc1"), release("1.0")], "1.0", "1.0"),
        (asking("a"), [release("2.0", yanked=True), release("1.0")], "1.0", "1.0"),
        (asking("a"), [release("2.0", python=">=3.13"), release("1.0")], "1.0", "2.0"),
        (asking("a", date="2023-01-01T00:00:00Z"), [release("2.0"), release("1.0", day="2022-01-01")], "1.0", "1.0"),
        (asking("a"), [release("2.0", ()), release("1.0")], "2.0", "2.0"),
        (asking("a", allow=("a",)), [release("2.0", WINDOWS), release("1.0")], "2.0", "2.0"),
        (asking("a"), [release("2.0+cu128"), release("2.0+cu126"), release("1.0")], "2.0", "2.0"),
    ],
)
def test_the_newest_that_fits_and_the_newest_that_the_spec_and_the_platform_admit(
    request_: Request, releases: Sequence[Release], fitting: str, admitted: str
) -> None:
    assert next(fitting_releases("a", request_, lambda name: releases)).version == fitting
    assert admitted_releases("a", request_, lambda name: releases)[0].version == admitted


@pytest.mark.parametrize(
    ("name", "releases", "behind"),
    [
        ("a", [("1.0", "2026-01-01"), ("9.0", "2026-12-31")], False),
        ("a", [("1.0", "2025-01-01"), ("1.1", "2026-01-01")], True),
        ("torch", [("2.10.0", "2026-01-01"), ("2.11.0", "2026-03-01"), ("2.12.1", "2026-05-01")], False),
        ("torch", [(f"2.{n}.0", "2026-01-01") for n in (10, 11, 12, 13)], True),
        ("torch", [("2.10.0", "2026-01-01"), *((f"2.11.{n}", "2026-01-02") for n in range(9))], False),
        ("a", [(f"2.{n}.0", "2026-01-01") for n in (10, 11, 12, 13)], False),
        ("torch", [("2.10.0", "2025-01-01"), ("2.11.0", "2026-03-01")], True),
    ],
)
def test_behind_is_a_year_or_three_feature_releases_of_a_framework(
    name: str, releases: Sequence[tuple[str, str]], behind: bool
) -> None:
    page = [release(version, day=day) for version, day in releases]
    assert is_behind(page[0], page[-1], name, page) == behind
    assert not is_behind(page[-1], page[0], name, page)
