"""The builds of Python that locks name: a row for each release of a version, named as their publisher names them."""

import re
from typing import Any

import pytest
import tomli

from envspec.base.errors import InputError
from envspec.facts.python_builds import TRIPLES, builds_of, newest_build, python_builds, reaches, sha256_of
from envspec.packages.version_numbers import numbers
from tools.refresh.python_builds_table import table_from

URL = "https://host.example/20260901/cpython-3.12.15%2B20260901-x86_64-unknown-linux-gnu-install_only_stripped.tar.gz"
ROW = {"name": "cpython", "url": URL, "sha256": "a" * 64, "variant": None, "prerelease": ""}
BEFORE = f'builds = [{{ version = "3.12.14", build = "20260814", linux-64 = "{"b" * 64}", source = "uv" }}]'


def test_each_row_is_a_build_of_its_version() -> None:
    found = python_builds()
    assert len({(one.platform, one.version, one.build) for one in found}) == len(found)
    assert len({one.sha256 for one in found}) == len(found)
    for one in found:
        assert one.version.startswith(f"{one.python}.") and re.fullmatch("[0-9a-f]{64}", one.sha256)
        assert re.fullmatch(r"20\d{6}", one.build) and reaches(one.build)


def test_every_python_that_is_supported_has_a_build_for_each_platform() -> None:
    for minor in range(10, 15):
        for platform, triple in TRIPLES.items():
            build = newest_build(f"3.{minor}", platform)
            assert build is not None and build.file.endswith(f"-{triple}-install_only_stripped.tar.gz")
            same = [one for one in python_builds() if (one.platform, one.python) == (platform, f"3.{minor}")]
            assert build.version == max((one.version for one in same), key=numbers)
            assert sha256_of(platform, build.version, build.build) == build.sha256
    assert newest_build("3.7", "linux-64") is None


def test_a_bound_in_time_leaves_out_what_came_on_its_day_or_later() -> None:
    newest = newest_build("3.12", "linux-64")
    assert newest is not None
    day = f"{newest.build[:4]}-{newest.build[4:6]}-{newest.build[6:]}"
    older = newest_build("3.12", "linux-64", f"{day}T12:00:00Z")
    assert older is not None and numbers(older.version) < numbers(newest.version)
    assert newest_build("3.12", "linux-64", f"{day[:8]}{int(day[8:]) + 1}T00:00:00Z") == newest
    assert newest_build("3.12", "linux-64", "2020-01-01T00:00:00Z") is None
    assert not reaches("20990101")


# The table, made from uv's own


def rows(document: Any, before: str = "builds = []") -> dict[tuple[str, str], str]:
    text = table_from(document, "ab" * 20, "2026-09-02", before)
    table = tomli.loads(text)
    assert table["as-of"] == "2026-09-02" and "ab" * 20 in table["sources"]["uv"]
    return {(one.version, one.build): one.sha256 for one in builds_of(table["builds"])}


def test_builds_that_uv_no_longer_names_stay() -> None:
    assert rows({"x": ROW}, BEFORE) == {("3.12.14", "20260814"): "b" * 64, ("3.12.15", "20260901"): "a" * 64}


@pytest.mark.parametrize(
    "changed",
    [
        {"variant": "freethreaded"},
        {"prerelease": "rc1"},
        {"url": URL.replace("_stripped", "")},
        {"url": URL.replace("3.12", "3.8")},
        {"url": URL.replace("gnu", "musl")},
        {"sha256": None},
    ],
)
def test_what_is_left_out(changed: dict[str, Any]) -> None:
    assert list(rows({"x": ROW, "y": {**ROW, **changed}}).values()) == ["a" * 64]


def test_what_was_published_never_changes() -> None:
    url = URL.replace("3.12.15", "3.12.14").replace("20260901", "20260814")
    with pytest.raises(InputError, match=r"CPython 3\.12\.14 of 20260814 for linux-64 has another hash than before"):
        rows({"x": {**ROW, "url": url}}, BEFORE)


@pytest.mark.parametrize("document", [None, [], {}, {"x": 1}, {"x": {"url": 3}}])
def test_what_is_no_table_is_refused(document: Any) -> None:
    with pytest.raises(InputError, match="no builds of CPython"):
        rows(document)
