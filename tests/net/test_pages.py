"""Upstream pages as the index proxy shows them to uv: stand-ins for sources, addresses, ETags."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urljoin

import pytest
from msgspec.structs import replace
from support.index import Index, status
from support.packages import sdist, wheel
from support.proxied import body_of

from envspec.base.errors import IndexFailure
from envspec.facts.corrections import Correction, Corrections
from envspec.net.fetch import Fetcher
from envspec.net.file_store import FileStore
from envspec.net.index_proxy.address import ALLOWED, REFUSED, VARIANT, WHEEL, FileAddress, parse, path_of
from envspec.net.index_proxy.pages import Pages, ServedPage, Upstream
from envspec.net.index_proxy.releases import ReleaseStore, by_version, releases_of
from envspec.net.index_proxy.server import open_proxy
from envspec.packages.stated import StatedMetadata
from envspec.packages.variants import Property, WheelOfVariant

BASE = "http://127.0.0.9:1/token"


def pages(folder: Path, *, offline: bool = False) -> Pages:
    env = {"HOME": str(folder), "UV_HTTP_RETRIES": "0"}
    fetcher = Fetcher(credentials={}, env=env)
    return Pages(fetcher, ReleaseStore(folder / "cache"), FileStore(folder / "files", fetcher), offline)


def files(shown: ServedPage, root: str, project: str) -> dict[str, FileAddress]:
    """What stands behind each file of a page, by the file name that uv sees."""
    rows: list[dict[str, Any]] = json.loads(shown.body)["files"]
    found = {}
    for row in rows:
        address = parse(urljoin(f"{BASE}/{root}/{project}/", row["url"]).removeprefix(f"{BASE}/{root}/"))
        assert address is not None and address.sha256 == row["hashes"]["sha256"]
        assert row["core-metadata"] is True
        found[row["filename"]] = address
    return found


def shown_files(folder: Path, index: Index, project: str = "a-b", *, allowed: bool = False) -> dict[str, FileAddress]:
    upstream = Upstream(index.url, frozenset({project} if allowed else ()))
    return files(pages(folder).show(upstream, project), upstream.root, project)


@pytest.mark.parametrize("form", ["json", "html"])
def test_a_release_without_a_wheel_is_shown_as_one(index: Index, tmp_path: Path, form: str) -> None:
    index.form = form
    source, made = sdist("a-b", "2.0"), wheel("a-b", "1.0")
    index.add(made, sdist("a-b", "1.0"), source)
    found = shown_files(tmp_path, index)
    assert sorted(found) == ["a_b-1.0-py3-none-any.whl", "a_b-2.0-py30-none-any.whl"]
    behind = found["a_b-2.0-py30-none-any.whl"]
    assert (behind.kind, behind.url, behind.file) == (REFUSED, index.file_url(source), source.file)
    assert behind.stand_in == "a_b-2.0-py30-none-any.whl"
    assert found["a_b-1.0-py3-none-any.whl"].url == index.file_url(made)


def test_what_may_be_built_is_shown_beside_its_wheels(index: Index, tmp_path: Path) -> None:
    index.add(wheel("a-b", "1.0", tag="cp312-cp312-win_amd64"), sdist("a-b", "1.0"))
    assert [one.kind for one in shown_files(tmp_path, index, allowed=True).values()] == [WHEEL, ALLOWED]


LINUX, REST = "manylinux_2_28_x86_64", "linux_aarch64.macosx_11_0_arm64.macosx_11_0_x86_64"


@pytest.mark.parametrize(
    ("tags", "without"),
    [
        (["cp311-cp311-win_amd64", f"cp312-cp312-{LINUX}"], ["cp313 linux_x86_64", f"py30 {REST}", "cp312 win_amd64"]),
        (["cp312-none-any"], ["cp313 any"]),
        ([f"cp39-abi3-{LINUX}"], [f"py30 {REST}.win_amd64"]),
        ([f"cp312-cp312-{LINUX}", "py3-none-any"], []),
        (["py311-none-any"], []),
        ([f"cp313-cp313t-{LINUX}", f"cp312-cp312-{LINUX}", "py3-none-win_amd64"],
         ["cp313 linux_x86_64", f"py30 {REST}"]),
        ([f"pp310-pypy310_pp73-{LINUX}", "py2-none-any", "cp312-cp312-musllinux_1_2_x86_64"], ["py30 any"]),
        (["cp312-cp312-macosx_15_0_universal2"], ["py30 linux_x86_64.linux_aarch64.win_amd64",
                                                  "cp313 macosx_11_0_arm64.macosx_11_0_x86_64"]),
    ],
)  # fmt: skip
def test_a_source_stands_in_for_platforms_without_a_wheel_and_pythons_newer_than_all(
    index: Index, tmp_path: Path, tags: list[str], without: list[str]
) -> None:
    """It is the answer there, not an older release; beside a wheel that a target takes, uv doesn't see it."""
    index.add(*(wheel("a-b", "1.0", tag=tag) for tag in tags), sdist("a-b", "1.0"))
    names = [name[:-4].split("-") for name, one in shown_files(tmp_path, index).items() if one.kind == REFUSED]
    assert sorted(f"{name[2].split('.')[0]} {name[4]}" for name in names) == sorted(without)


def test_wheels_that_no_target_installs_are_left_out_beside_others(index: Index, tmp_path: Path) -> None:
    usual, other = "cp312-cp312-manylinux_2_28_aarch64", "pp310-pypy310_pp73-win_amd64"
    index.add(*(wheel("a-b", "2.0", tag=tag) for tag in (usual, other, "cp312-cp312-musllinux_1_2_x86_64")))
    index.add(wheel("a-b", "1.0", tag=other))
    assert sorted(shown_files(tmp_path, index)) == [f"a_b-1.0-{other}.whl", f"a_b-2.0-{usual}.whl"]


def test_what_a_source_says_on_the_page_its_stand_in_says(index: Index, tmp_path: Path) -> None:
    index.add(replace(sdist("a-b", "1.0"), requires_python=">=3.9"), uploaded="2024-01-01T00:00:00Z", yanked="broken")
    (row,) = json.loads(pages(tmp_path).show(Upstream(index.url), "a-b").body)["files"]
    assert (row["requires-python"], row["upload-time"], row["yanked"]) == (">=3.9", "2024-01-01T00:00:00Z", "broken")


@pytest.mark.parametrize(
    ("file", "version"),
    [
        ("a-b-1.0.tar.gz", "1.0"),
        ("A.B-1.0-rc1.zip", "1.0rc1"),
        ("a_b-2024.1.tar.bz2", "2024.1"),
        ("a-b-1.0.exe", None),
        ("a-b-c-1.0.tar.gz", None),
        ("a-b-latest.tar.gz", None),
        ("a_b-1.0-py3.9.egg", None),
    ],
)
def test_names_of_old_sources(index: Index, tmp_path: Path, file: str, version: str | None) -> None:
    index.add(replace(sdist("a-b", "1.0"), file=file))
    shown = set(shown_files(tmp_path, index))
    assert shown == ({f"a_b-{version}-py30-none-any.whl"} if version else set())


def test_a_version_in_two_spellings_is_one(index: Index, tmp_path: Path) -> None:
    index.add(wheel("a-b", "1.0"), replace(sdist("a-b", "1.0"), file="a-b-1.tar.gz"))
    assert set(shown_files(tmp_path, index)) == {"a_b-1.0-py3-none-any.whl"}


def test_a_file_whose_name_lacks_a_tag_is_no_wheel(index: Index, tmp_path: Path) -> None:
    index.add(wheel("a-b", "1.0"), replace(wheel("a-b", "2.0"), file="a_b-2.0-py3-none.whl"))
    assert set(shown_files(tmp_path, index)) == {"a_b-1.0-py3-none-any.whl"}


def test_only_an_index_of_the_specs_own_may_lack_upload_times(index: Index, tmp_path: Path) -> None:
    """Of any other, uv leaves out the files without one where the spec has `exclude-newer`."""
    index.add(wheel("a-b", "1.0"))
    for upstream, dated in ((Upstream(index.url), False), (Upstream(index.url, named=True), True)):
        (row,) = json.loads(pages(tmp_path / str(dated)).show(upstream, "a-b").body)["files"]
        assert ("upload-time" in row) is dated


def test_a_root_for_what_may_be_built_has_nothing_else(index: Index, tmp_path: Path) -> None:
    index.add(wheel("a", "1.0"), wheel("b", "1.0"))
    upstream = Upstream(index.url, frozenset({"a"}), only=frozenset({"a"}))
    assert pages(tmp_path).show(upstream, "a").status == 200
    assert pages(tmp_path).show(upstream, "b").status == 404
    assert index.paths("/b/") == []


def test_the_roots_tell_whatever_makes_pages_others() -> None:
    url = "https://host/simple"
    a = frozenset({"a"})
    row = Correction("a-b", "a", ">=1", "constraint", "b<2", "it fails")
    some = [
        Upstream(url),
        Upstream(f"{url}2"),
        Upstream(url, a),
        Upstream(url, only=a),
        Upstream(url, flat=True),
        Upstream(url, unfit=a),
        Upstream(url, a, stated=(StatedMetadata("a", "", ("b",)),)),
        Upstream(url, a, stated=(StatedMetadata("a", "", ("c",)),)),
        *(Upstream(url, a, only=frozenset(names)) for names in ((), ("a",), ("a", "b"))),
        Upstream(url, corrections=Corrections((row,))),
        Upstream(url, corrections=Corrections((row,), frozenset({"a-b"}))),
    ]
    assert len({one.root for one in some}) == len(some)
    assert Upstream("https://user:secret@host/simple").root == Upstream(url).root


def test_credentials_are_on_no_page(index: Index, tmp_path: Path) -> None:
    index.add(wheel("a", "1.0"), sdist("a", "2.0"))
    body = pages(tmp_path).show(Upstream(index.url_with("robot", "hunter2")), "a").body
    assert b"hunter2" not in body and b"robot" not in body


def test_what_has_not_changed_is_not_sent_again(index: Index, tmp_path: Path) -> None:
    index.add(wheel("a", "1.0"))
    upstream = Upstream(index.url)
    first = pages(tmp_path).show(upstream, "a")
    again = pages(tmp_path).show(upstream, "a", first.etag)
    assert (again.status, again.body) == (304, b"")
    index.add(wheel("a", "2.0"))
    assert pages(tmp_path).show(upstream, "a", first.etag).status == 200


def test_a_page_is_read_once_a_run(index: Index, tmp_path: Path) -> None:
    index.add(wheel("a", "1.0"))
    several = pages(tmp_path)
    assert [several.show(Upstream(index.url), "a").status for _ in range(3)] == [200, 200, 200]
    assert len(index.paths("/a/")) == 1


def test_a_failure_is_not_kept(index: Index, tmp_path: Path) -> None:
    index.add(wheel("a", "1.0"))
    index.fail("/a/", status(500))
    several = pages(tmp_path)
    with pytest.raises(IndexFailure, match="HTTP 500"):
        several.show(Upstream(index.url), "a")
    index.heal()
    assert several.show(Upstream(index.url), "a").status == 200


def test_offline_asks_nobody_and_knows_what_it_saw(index: Index, tmp_path: Path) -> None:
    index.add(wheel("a", "1.0"))
    upstream = Upstream(index.url)
    with pytest.raises(IndexFailure, match="not in the cache: a"):
        pages(tmp_path, offline=True).show(upstream, "a")
    assert pages(tmp_path, offline=True).releases(upstream, "a") == () and index.asked == []
    pages(tmp_path).show(upstream, "a")
    (release,) = pages(tmp_path, offline=True).releases(upstream, "a")
    assert (release.version, release.wheels, release.source) == ("1.0", ("a-1.0-py3-none-any.whl",), False)


def test_a_page_that_went_takes_its_releases_along(index: Index, tmp_path: Path) -> None:
    index.add(wheel("a", "1.0"))
    assert len(pages(tmp_path).current(Upstream(index.url), "a")) == 1
    index.fail("/a/", status(404))
    assert pages(tmp_path).current(Upstream(index.url), "a") == ()
    assert pages(tmp_path, offline=True).current(Upstream(index.url), "a") == ()


def test_releases_come_newest_first(index: Index, tmp_path: Path) -> None:
    index.add(wheel("a", "1.9"), wheel("a", "1.10"), sdist("a", "1.10"), wheel("a", "2.0rc1"), sdist("a", "0.5"))
    found = pages(tmp_path).releases(Upstream(index.url), "a")
    assert [one.version for one in found] == ["2.0rc1", "1.10", "1.9", "0.5"]
    assert [one.source for one in found] == [False, True, False, True]


@pytest.mark.parametrize(
    "damage", [lambda kept: kept[:-9], lambda kept: kept.replace(b"1.0", b"1.1"), lambda kept: b""]
)
def test_releases_that_were_damaged_are_read_again(
    index: Index, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    index.add(wheel("a", "1.0"))
    pages(tmp_path).show(Upstream(index.url), "a")
    (kept,) = (tmp_path / "cache").glob("releases-v*/*/a.json")
    kept.write_bytes(damage(kept.read_bytes()))
    assert [one.version for one in pages(tmp_path).releases(Upstream(index.url), "a")] == ["1.0"]
    assert len(index.asked) == 2


@pytest.mark.parametrize(
    "url",
    [
        "https://host/a/b%20c-1.0-py3-none-any.whl",
        "http://127.0.0.1:8080/x.whl?token=1&b=2",
        "https://host//odd//x.whl",
    ],
)
@pytest.mark.parametrize("size", [None, 17])
@pytest.mark.parametrize("stand_in", [None, "x-1.0-py30-none-any.whl"])
def test_an_address_says_all(url: str, size: int | None, stand_in: str | None) -> None:
    kind = REFUSED if stand_in else WHEEL
    file = FileAddress(kind, url, "ab", size, stand_in, sidecar=True, yanked=True, requires_python=">=3.9")
    assert parse(path_of(file)) == file


def test_the_address_of_a_variant_says_all_and_a_broken_one_no_more_than_it_holds() -> None:
    told = WheelOfVariant("cu", (Property("ns", "a", "b"),), ("ns",), frozenset({Property("ns", "a", "b")}))
    file = "x-1.0-py3-none-any"
    one = FileAddress(VARIANT, f"https://host/deep/er/{file}-cu.whl", "0" * 64, 7, f"{file}.whl", variant=told)
    path = path_of(one)
    assert parse(path) == one
    broken = parse(path.replace("ns:a:b*", "ns:a;;:::::*"))
    assert broken is not None and broken.variant == replace(told, properties=(), compatible=frozenset())


def test_releases_count_withdrawn_files_only_where_all_are() -> None:
    rows: list[dict[str, Any]] = [
        {"filename": "a-1.0-py3-none-any.whl", "yanked": True, "requires-python": ">=3.99"},
        {"filename": "a-1.0-py2-none-any.whl"},
        {"filename": "a-2.0-py3-none-any.whl", "yanked": True},
    ]
    two, one = releases_of(by_version(rows, "a"))
    assert (two.wheels, two.yanked) == (("a-2.0-py3-none-any.whl",), True)
    assert (one.wheels, one.yanked, one.requires_python) == (("a-1.0-py2-none-any.whl",), False, None)


def test_a_file_of_this_machine_is_served_of_its_own_index_alone(tmp_path: Path) -> None:
    folder, dist = tmp_path / "wheels", wheel("x", "1.0")
    folder.mkdir()
    (folder / dist.file).write_bytes(dist.content)
    path = path_of(FileAddress(WHEEL, (folder / dist.file).as_uri(), dist.sha256, None))
    with open_proxy(pages=pages(tmp_path)) as proxy:
        assert body_of(proxy, f"{proxy.index(Upstream(folder.as_uri(), flat=True))}/{path}") == dist.content
        with pytest.raises(HTTPError, match="404"):
            body_of(proxy, f"{proxy.index(Upstream('http://a.example'))}/{path}")


@pytest.mark.parametrize("path", ["", "f", "f/x", "f/ab.1/ftp/host/x.whl", "x/ab.1/https/host/x.whl", "cu126/torch"])
def test_other_paths_are_no_files(path: str) -> None:
    assert parse(path) is None
