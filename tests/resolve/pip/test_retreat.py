"""Which older release is an answer on a Python, and which isn't: the rule on what pages say."""

from typing import Any

import pytest

from envspec.net.index_proxy.releases import Release
from envspec.packages.requirement import published_requirement
from envspec.resolve.pip.newest import asks_of
from envspec.resolve.pip.problem import Bound
from envspec.resolve.pip.request import Request
from envspec.resolve.pip.retreat import LostExtra, bounds_of, names_python, newest_python, retreats
from envspec.resolve.uv.answer import Found, FoundFile

LINUX = "manylinux_2_17_x86_64"


def release(version: str, requires: str | None = None, *tags: str, source: bool = True) -> Release:
    wheels = tuple(f"p-{version}-{tag}.whl" for tag in tags)
    return Release(version, wheels, source, False, requires, "2025-01-01T00:00:00Z")


def cp(minor: int, abi: str = "") -> str:
    return f"cp3{minor}-{abi or f'cp3{minor}'}-{LINUX}"


ANY = "py3-none-any"
ASKED = Request("linux-64", "3.13", "2.28", ("p",), python_version="3.13.5")


@pytest.mark.parametrize(
    ("one", "named"),
    [
        (release("1", None, cp(13)), True),
        (release("1", None, cp(9, "abi3")), False),
        (release("1", None, ANY), False),
        (release("1", None, "cp313-none-any"), False),
        (release("1", ">=3.9,<3.14", ANY), True),
        (release("1", ">=3.9,<3.13", ANY), False),
        (release("1", ">=3.9", ANY), False),
        (release("1", ">=3.9,<4", ANY), False),
        (release("1", "!=3.14.*", ANY), True),
        (release("1", "==3.13.*", ANY), True),
        (release("1", ">=3.13.2,<3.14", ANY), True),
        (release("1", ">=3.13.9,<3.14", ANY), False),
    ],
)
def test_floors_wide_caps_and_wheels_for_many_pythons_name_none(one: Release, named: bool) -> None:
    assert names_python(one, ASKED) == named


# Requires-Python and wheels as PyPI has them; newest first. The last value is what is right: the release that is
# locked, "source" for the newest one's, or "refuse".
CASES: dict[str, tuple[str, tuple[Release, ...], str]] = {
    "mlserver": ("3.13", (release("1.7.1", ">=3.9,<3.13", ANY), release("1.3.5", None, ANY)), "refuse"),
    "pandasai": ("3.12", (release("3.0.0", ">=3.8,<3.12", ANY), release("2.3.2", ">=3.9", ANY)), "refuse"),
    "great-expectations": ("3.13", (release("1.6.4", ">=3.9,<3.13", ANY), release("0.18.22", ">=3.8", ANY)), "refuse"),
    "kfp": ("3.13", (release("2.10.0", ">=3.9.0,<3.13.0", ANY), release("1.8.24", ">=3.6.1", ANY)), "refuse"),
    "autogluon": ("3.14", (release("1.6.3", ">=3.10,<3.14", ANY), release("0.0.15", ">=3.6.*", ANY)), "refuse"),
    "blis": ("3.13", (release("1.2.1", ">=3.6,<3.13"), release("1.1.0", ">=3.6,<3.14", cp(13))), "1.1.0"),
    "numpy<2": ("3.13", (release("1.26.4", ">=3.9", cp(12)), release("1.21.1", ">=3.7", ANY)), "source"),
    "abi3": ("3.13", (release("2.0", ">=3.9", cp(9, "abi3")),), "2.0"),
    "rembg": ("3.10", (release("2.0.74", ">=3.11,<4.0", ANY), release("2.0.69", ">=3.10", ANY)), "2.0.69"),
    "onnxruntime": (
        "3.9",
        (release("1.20.1", ">=3.9", cp(10), source=False), release("1.19.2", ">=3.9", cp(9), source=False)),
        "1.19.2",
    ),
    "wheels of older Pythons alone, no source": (
        "3.13",
        (release("2.0", ">=3.9", cp(12), source=False), release("1.0", ">=3.9", ANY)),
        "refuse",
    ),
    "an older release with a wheel for exactly this Python": (
        "3.13",
        (release("2.0", ">=3.9", cp(12), source=False), release("1.0", ">=3.9", cp(13))),
        "1.0",
    ),
}


def answer(python: str, page: tuple[Release, ...], *, accepted: tuple[str, ...] = (), bound: str = "") -> str:
    """What the rule makes of a page: uv takes the newest release whose lower bounds admit the Python and that has a
    wheel for it, or only a source."""
    request = Request("linux-64", python, "2.28", (f"p{bound}",), accepted=accepted)
    asks = asks_of(request, {})
    for taken in page:
        lower = ",".join(part for part in (taken.requires_python or "").split(",") if part.startswith(">"))
        (one,) = (Found("p", taken.version, (FoundFile("", "p.whl", None),)),)
        request_of_it = request
        if not _installs(taken, lower, request):
            continue
        found: Any = retreats((one,), request_of_it, asks, lambda name: page)
        assert not found or retreats((one,), request_of_it, {}, lambda name: page)
        if not found:
            return taken.version
        (retreat,) = found
        if retreat.may_be_built:
            assert bounds_of(found, request) == (Bound("p", "source"),)
            return "source"
        return retreat.named or "refuse"
    return "nothing"


def _installs(taken: Release, lower: str, request: Request) -> bool:
    from packaging.specifiers import SpecifierSet

    from envspec.resolve.pip.newest import wheels_fit

    return SpecifierSet(lower.replace(".*", "")).contains(request.python) and (
        wheels_fit(taken.wheels, request) or not taken.wheels
    )


@pytest.mark.parametrize("case", CASES)
def test_an_older_release_is_an_answer_only_if_it_names_the_python(case: str) -> None:
    python, page, right = CASES[case]
    assert answer(python, page) == right


def test_a_release_against_its_bound_is_accepted_by_package() -> None:
    python, page, _ = CASES["mlserver"]
    assert answer(python, page, accepted=("requires-python:p",)) == "1.7.1"
    assert answer(python, page, accepted=("requires-python:other",)) == "refuse"


def test_a_bound_in_the_spec_is_consent() -> None:
    python, page, _ = CASES["wheels of older Pythons alone, no source"]
    assert answer(python, page, bound="<2") == "1.0"


def test_the_newest_python_that_a_release_takes_is_named() -> None:
    request = Request("linux-64", "3.13", "2.28", ("p",))
    page = (release("2.0", ">=3.9,<3.13", cp(11), cp(12), source=False),)
    found = Found("p", "2.0", (FoundFile("", "p.whl", None),))
    (retreat,) = retreats((found,), request, {}, lambda name: page)
    assert newest_python(retreat, request) == "3.12"
    assert retreat.message(request) == "p 2.0 doesn't take Python 3.13 (Requires-Python >=3.9,<3.13)"


@pytest.mark.parametrize(
    ("cuda", "lines"), [("12.8", ["p[cu12,x]>=1", "p[x]>=1"]), (None, ["p[x]>=1"]), ("11.8", ["p[x]>=1"])]
)
def test_the_ways_of_a_lost_extra_name_the_one_for_the_targets_cuda(cuda: str | None, lines: list[str]) -> None:
    """flashinfer-python[cu13] for CUDA 12. A way that is told changes nothing of what the spec asks for."""
    line = "p[cu13,x]>=1"
    lost = LostExtra(line, "p", "1.0", "cu13", release("2.0"), offers=frozenset(("cu12", "cu13", "x")))
    assert [one.line for one in lost.ways(Request("linux-64", "3.13", "2.28", (line,), cuda=cuda)) if one.line] == lines
    assert published_requirement(line).extras == {"cu13", "x"}
    both = LostExtra("p[cu12,cu13]", "p", "1.0", "cu13", release("2.0"), offers=frozenset(("cu12", "cu13")))
    ways = [one.line for one in both.ways(Request("linux-64", "3.13", "2.28", (line,), cuda=cuda)) if one.line]
    assert ways == ["p[cu12]"], "what it asks for already isn't told"
