"""What artifacts say of themselves: METADATA of every age, and the cache that keeps it."""

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from support.index import Index, html_error, other_bytes
from support.packages import Dist, metadata_text, wheel

from envspec.artifacts.metadata import MetadataCache, MetadataReader
from envspec.base.errors import IndexFailure
from envspec.net.fetch import Fetcher
from envspec.packages.metadata import Metadata, parse_metadata
from envspec.resolve.uv.answer import FoundFile

MODERN = """\
Metadata-Version: 2.4
Name: Flash_Attn.Extra
Version: 2.8.3
Summary: Fast attention
License-Expression: BSD-3-Clause AND MIT
License-File: LICENSE
Requires-Python: >=3.9
Requires-Dist: torch>=2.4
Requires-Dist: einops
Provides-Extra: dev
Requires-Dist: pytest>=7; extra == "dev"
Description-Content-Type: text/markdown

Name: this is the description
Requires-Dist: not-a-dependency
"""

OLD = """\
Metadata-Version: 2.1
Name: old-package
Version: 1.0
License: BSD 3-Clause License
        \x20
         Copyright (c) 2019, someone
         All rights reserved, and so on for much more than sixty characters
Classifier: Programming Language :: Python
Classifier: License :: OSI Approved :: BSD License
Classifier: License :: OSI Approved :: Apache Software License
Requires-Dist: numpy (>=1.11,
 <2)
"""


def test_modern_metadata() -> None:
    found = parse_metadata(MODERN)
    assert found == Metadata(
        name="flash-attn-extra",
        version="2.8.3",
        requires_dist=("torch>=2.4", "einops", 'pytest>=7; extra == "dev"'),
        provides_extra=("dev",),
        requires_python=">=3.9",
        licence="BSD-3-Clause AND MIT",
    )


def test_old_metadata_with_folded_fields() -> None:
    found = parse_metadata(OLD)
    assert found.requires_dist == ("numpy (>=1.11, <2)",)
    assert found.licence == "Apache Software License AND BSD License"


def test_windows_line_ends() -> None:
    assert parse_metadata(MODERN.replace("\n", "\r\n")) == parse_metadata(MODERN)


def test_case_of_field_names_and_order_do_not_matter() -> None:
    assert parse_metadata("version: 1\nNAME: A\nrequires-dist: b\n").requires_dist == ("b",)


@pytest.mark.parametrize(
    "text", ["", "\n\nName: a\nVersion: 1\n", "Name: a\n", "Version: 1\n", "<html></html>", "Name:\nVersion: 1\n"]
)
def test_no_metadata(text: str) -> None:
    with pytest.raises(ValueError, match="has no name or no version"):
        parse_metadata(text)


@pytest.mark.parametrize(
    ("lines", "licence"),
    [
        (["License: MIT"], "MIT"),
        (["License: UNKNOWN"], None),
        (["License: UNKNOWN", "Classifier: License :: OSI Approved :: MIT License"], "MIT License"),
        (["License: see LICENSE.txt"], None),
        (["License: " + "x" * 61], None),
        (["License-Expression: MIT", "License: something else"], "MIT"),
        (["Classifier: License :: OSI Approved"], None),
        ([], None),
    ],
)
def test_licence(lines: list[str], licence: str | None) -> None:
    assert parse_metadata("\n".join(["Name: a", "Version: 1", *lines])).licence == licence


word = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)


@pytest.mark.slow
@given(word, st.lists(word, max_size=5), st.lists(word, max_size=3), st.sampled_from(["\n", "\r\n"]))
def test_what_was_written_is_read(name: str, requires: list[str], extras: list[str], end: str) -> None:
    text = metadata_text(name, "1.0", requires, extras=extras, requires_python=">=3.10").replace("\n", end)
    found = parse_metadata(text)
    assert (found.name, found.version, found.requires_python) == (name, "1.0", ">=3.10")
    assert found.requires_dist == tuple(requires) and found.provides_extra == tuple(extras)


SAMPLE = parse_metadata(MODERN)
KEY = "ab" + "0" * 62


def entry(folder: Path) -> Path:
    (path,) = folder.rglob("*.json")
    return path


def test_cache_keeps(tmp_path: Path) -> None:
    cache = MetadataCache(tmp_path)
    assert cache.get(KEY) is None
    cache.put(KEY, SAMPLE)
    assert MetadataCache(tmp_path).get(KEY) == SAMPLE
    assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".json"]


def kept(**damaged: object) -> bytes:
    """An entry of the cache with other values."""
    lists: dict[str, object] = {"requires_dist": [], "provides_extra": []}
    return json.dumps(
        {"name": "a", "version": "1", **lists, "requires_python": None, "licence": None, **damaged}
    ).encode()


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"{}",
        b'{"name": "a"}',
        kept(requires_dist=[1]),
        kept(name=1),
        kept(size="9"),
        kept(requires_dist=None),
        b"[" * 100_000,
    ],
    ids=lambda damage: damage[:30].decode("latin-1"),
)
def test_a_damaged_entry_is_absent(tmp_path: Path, damage: bytes) -> None:
    cache = MetadataCache(tmp_path)
    cache.put(KEY, SAMPLE)
    entry(tmp_path).write_bytes(damage)
    assert cache.get(KEY) is None
    cache.put(KEY, SAMPLE)
    assert cache.get(KEY) == SAMPLE


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = MetadataCache(tmp_path / "file")
    cache.put(KEY, SAMPLE)
    assert cache.get(KEY) is None


def found_file(index: Index, dist: Dist, *, sized: bool = True) -> FoundFile:
    return FoundFile(index.file_url(dist), dist.file, dist.sha256, len(dist.content) if sized else None)


def reader(folder: Path) -> MetadataReader:
    return MetadataReader(MetadataCache(folder), Fetcher(credentials={}, env={"HOME": str(folder)}, read_seconds=5))


SMALL = wheel("small", "1.0", "numpy>=1", licence="MIT")
LARGE = wheel("large", "1.0", "numpy>=1", padding=3 << 20)


@pytest.mark.parametrize("dist", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
@pytest.mark.parametrize("sidecars", [True, "silent", False], ids=["sidecar", "silent sidecar", "no sidecar"])
@pytest.mark.parametrize("sized", [True, False], ids=["sized", "unsized"])
def test_every_way_to_read_gives_the_same(
    index: Index, tmp_path: Path, dist: Dist, ranges: bool, sidecars: bool | str, sized: bool
) -> None:
    index.ranges, index.sidecars = ranges, sidecars
    index.add(dist)
    found = reader(tmp_path).read(found_file(index, dist, sized=sized))
    assert (found.requires_dist, found.licence, found.size) == (("numpy>=1",), "MIT", len(dist.content))
    if sidecars and sized:
        assert [asked.path for asked in index.asked if asked.method == "GET"] == [f"/files/{dist.file}.metadata"]


def test_a_large_wheel_is_read_by_ranges(index: Index, tmp_path: Path) -> None:
    index.sidecars = False
    index.add(LARGE)
    reader(tmp_path).read(found_file(index, LARGE))
    whole = [asked for asked in index.asked if asked.path.endswith(".whl") and asked.range is None]
    assert whole == []
    assert len(index.asked) <= 4


def test_read_once_for_ever(index: Index, tmp_path: Path) -> None:
    index.add(SMALL)
    file = found_file(index, SMALL)
    first = reader(tmp_path).read(file)
    assert reader(tmp_path).recall(file) == first


def test_a_sidecar_that_is_a_web_page_is_passed_over(index: Index, tmp_path: Path) -> None:
    index.add(SMALL)
    index.fail(r"\.metadata$", html_error)
    assert reader(tmp_path).read(found_file(index, SMALL)).requires_dist == ("numpy>=1",)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_small_wheel_of_another_content_is_refused(index: Index, tmp_path: Path, ranges: bool) -> None:
    index.sidecars, index.ranges = False, ranges
    index.add(SMALL)
    index.fail(r"\.whl$", other_bytes)
    with pytest.raises(
        IndexFailure, match=r"small-1\.0-py3-none-any\.whl: the content has sha256 [0-9a-f]{64}, but the index says"
    ) as error:
        reader(tmp_path).read(found_file(index, SMALL))
    assert "don't install" in str(error.value.hint)
    assert reader(tmp_path).recall(found_file(index, SMALL)) is None


def test_metadata_of_another_package_is_refused(index: Index, tmp_path: Path) -> None:
    other = Dist("small", "1.0", SMALL.file, SMALL.content, wheel("other", "1.0").metadata)
    index.add(other)
    with pytest.raises(IndexFailure, match="the METADATA belongs to other"):
        reader(tmp_path).read(found_file(index, other))


@pytest.mark.parametrize("content", [b"", b"not a zip file at all", SMALL.content[:200]], ids=["empty", "text", "cut"])
def test_no_wheel(index: Index, tmp_path: Path, content: bytes) -> None:
    index.sidecars = False
    broken = Dist("small", "1.0", SMALL.file, content, None)
    index.add(broken)
    with pytest.raises(IndexFailure, match=r"small-1\.0-py3-none-any\.whl"):
        reader(tmp_path).read(found_file(index, broken))
