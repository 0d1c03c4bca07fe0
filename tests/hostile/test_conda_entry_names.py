"""Names that conda packages may give to nothing, each against the check itself: on packages laid out by hand."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.hostile_archives import Forged, Member, link, link_json

from envspec.base.errors import IndexFailure
from envspec.base.progress import Progress
from envspec.install.conda_cache import CondaCache
from envspec.install.conda_paths import Unpacked, entries_of, member_fault, refuse_unsafe
from envspec.install.inside import Inside
from envspec.packages.archive_entries import path_fault

SITE = "lib/python3.12/site-packages"


def checked(tmp_path: Path, *packages: Forged, platform: str = "linux-64") -> None:
    prefix = tmp_path / "prefix"
    prefix.mkdir(exist_ok=True)
    found = [Unpacked(each.name, each.unpack(tmp_path / "cache" / each.name)) for each in packages]
    refuse_unsafe({package: entries_of(package, {SITE}) for package in found}, prefix, platform)


@pytest.mark.parametrize(
    ("path", "fault"),
    {
        "empty": ("", "an empty name"),
        "NUL": ("a\0b", "it has a control character"),
        "line end": ("a\nb", "it has a control character"),
        "escape": ("a\x1b[2Jb", "it has a control character"),
        "absolute": ("/etc/passwd", "it's absolute"),
        "UNC": ("\\\\host\\share", "it's absolute"),
        "drive": ("C:/x", "it names a drive"),
        "drive without a slash": ("c:x", "it names a drive"),
        "backslash": ("a\\..\\b", "it has a backslash, which separates folders on Windows"),
        "dots": ("..", "it leads out of its folder (..)"),
        "dots inside": ("a/../b", "it leads out of its folder (..)"),
        "dots at the end": ("a/..", "it leads out of its folder (..)"),
        "dot": ("a/./b", "it has an empty part"),
        "two slashes": ("a//b", "it has an empty part"),
        "slash at the end": ("a/", "it has an empty part"),
        "name too long": ("a/" + "b" * 256, "it's longer than a file's name can be"),
        "name too long in bytes": ("é" * 128, "it's longer than a file's name can be"),
        "path too long": ("/".join(["a" * 200] * 21), "it's longer than a file's name can be"),
        "folders too deep": ("a/" * 100 + "b", "it lies more than 100 folders deep"),
        "a byte that is no UTF-8": ("caf\udce9", "it isn't UTF-8"),
    }.values(),
)
def test_a_name_that_no_package_may_have(path: str, fault: str) -> None:
    assert path_fault(path) == fault


FINE = ["a", "a/b.c", "a/" * 99 + "b", "..a", "a..b/...", "ünï/a b", "N", "x" * 255, "@a/#b$"]


@pytest.mark.parametrize("path", [*FINE, "man/B::Deparse.3", ".hidden"])
def test_a_name_that_is_fine(path: str) -> None:
    assert path_fault(path) == ""


def test_a_member_that_is_no_utf8() -> None:
    assert member_fault("caf\ufffd", None) == "it isn't UTF-8"
    assert member_fault("folder/", None) == ""


@pytest.mark.parametrize("path", ["a\0b", "", "x" * 300, "a\\b", "C:/a", "../a", "/a"])
def test_paths_json_lists_it(tmp_path: Path, path: str) -> None:
    with pytest.raises(IndexFailure, match="the conda package esc has the entry"):
        checked(tmp_path, Forged("esc", "1", members=[Member("a", b"")], listed={"a": "hardlink", path: "hardlink"}))


@pytest.mark.parametrize("place", ["site-packages/../../../../x", "python-scripts/../../x", "python-scripts/a\\b"])
def test_a_noarch_python_place(tmp_path: Path, place: str) -> None:
    with pytest.raises(IndexFailure, match="has the entry"):
        checked(tmp_path, Forged("esc", "1", noarch="python", listed={place: "hardlink"}))


@pytest.mark.parametrize("command", ["../x", "/x", "a/b", "a\\b", "", "a\0b", "C:x"])
def test_an_entry_points_command(tmp_path: Path, command: str) -> None:
    with pytest.raises(IndexFailure, match=r"info/link\.json"):
        checked(tmp_path, Forged("esc", "1", noarch="python", info=link_json(f"{command} = m:f")))


@pytest.mark.parametrize("text", [b"[]", b'{"noarch": 1}', b"{", b'{"noarch": {"entry_points": 1}}', b"[" * 100_000])
def test_a_link_json_that_is_none(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(IndexFailure, match="it can't be read"):
        checked(tmp_path, Forged("esc", "1", info={"info/link.json": text}))


def test_the_older_list_of_files_is_read_as_rattler_does(tmp_path: Path) -> None:
    package = Forged("esc", "1", members=[Member("a", b"")], info={"info/files": b"a\n../../evil\n"})
    folder = package.unpack(tmp_path / "cache")
    (folder / "info/paths.json").unlink()
    (tmp_path / "../evil").resolve().write_text("there, so that its type can be seen")
    with pytest.raises(IndexFailure, match=r"evil|can't be read"):
        entries_of(Unpacked("esc", folder), {SITE})


@pytest.mark.parametrize(
    ("said", "members", "more"),
    {
        # its content would be read through the link, from anywhere, and written into the environment
        "a listed file that is a link": (
            "listed as a file, but is a link", [link("a", "/etc/hostname")], {"listed": {"a": "hardlink"}},
        ),
        # linking would stop half-way
        "a listed file that isn't there": (
            "isn't in the package", [Member("a", b"")], {"listed": {"a": "hardlink", "b": "hardlink"}},
        ),
        "a file and a folder of one name": (
            "folder", [Member("a/b", b"")], {"listed": {"a/b": "hardlink", "a": "hardlink"}},
        ),
        "through a link of the same package": (
            "a link and a folder at once", [link("lnk", "real"), Member("real/x", b"")],
            {"listed": {"lnk": "softlink", "lnk/x": "hardlink"}},
        ),
        "a paths.json that is none": (
            r"info/paths\.json.*can't be read", [], {"info": {"info/paths.json": b"{}"}},
        ),
    }.values(),
)  # fmt: skip
def test_a_list_of_files_that_lies(tmp_path: Path, said: str, members: list[Member], more: dict[str, Any]) -> None:
    with pytest.raises(IndexFailure, match=said):
        checked(tmp_path, Forged("esc", "1", members=members, **more))


@pytest.mark.parametrize(
    ("links", "through"),
    [
        # on a file system that folds case, `LNK` is `lnk`
        *(([link("lnk", "/nowhere/yet")], spelling) for spelling in ("LNK/x", "lnk/x", "Lnk/x")),
        ([link("a", "b"), link("b", "a")], "a/x"),
    ],
)
def test_through_a_link_by_another_spelling_or_in_a_circle(tmp_path: Path, links: list[Member], through: str) -> None:
    first, second = Forged("aaa", "1", members=links), Forged("zzz", "1", members=[Member(through, b"")])
    with pytest.raises(IndexFailure, match="leads out of the environment"):
        checked(tmp_path, first, second)


@pytest.mark.parametrize(("one", "other"), [("A", "a"), ("caf\u00e9", "cafe\u0301"), ("straße", "STRASSE")])
def test_names_that_fold_into_one(tmp_path: Path, one: str, other: str) -> None:
    package = Forged("esc", "1", members=[Member(f"share/{one}", b"1"), Member(f"share/{other}", b"2")])
    with pytest.raises(IndexFailure, match="the same file"):
        checked(tmp_path, package, platform="osx-arm64")


def test_names_that_differ_in_case_are_fine_on_linux(tmp_path: Path) -> None:
    checked(tmp_path, Forged("ncurses", "1", members=[Member("share/N", b"1"), Member("share/n", b"2")]))


@pytest.mark.parametrize(
    "path",
    ["conda-meta/history", "Conda-Meta/x.json", "conda-meta", "etc/envspec/install.json", ".trash/x", ".envspec-lock"],
)
def test_what_isnt_a_packages_to_write(tmp_path: Path, path: str) -> None:
    with pytest.raises(IndexFailure, match="packages can't write to"):
        checked(tmp_path, Forged("esc", "1", members=[Member(path, b"")]))


def test_a_fifo_in_the_cache(tmp_path: Path) -> None:
    folder = Forged("esc", "1").unpack(tmp_path / "cache")
    os.mkfifo(folder / "pipe")
    with pytest.raises(IndexFailure, match="neither a file nor a folder nor a link"):
        entries_of(Unpacked("esc", folder), {SITE})


def test_a_prefix_that_replaces_nothing(tmp_path: Path) -> None:
    folder = Forged("esc", "1", members=[Member("a", b"x")]).unpack(tmp_path / "cache")
    (folder / "info/paths.json").write_text(
        '{"paths": [{"_path": "a", "path_type": "hardlink", "file_mode": "text", "prefix_placeholder": ""}],'
        ' "paths_version": 1}'
    )
    with pytest.raises(IndexFailure, match="placeholder for the prefix is empty"):
        entries_of(Unpacked("esc", folder), {SITE})


def test_chains_of_links_are_followed_to_their_end(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "real").mkdir(parents=True)
    links = {"a": "b", "b": "real", "up": "real/../..", "deep/x": "../../root/real", "abs": str(root / "real")}
    inside = Inside(root, {**links, "to-up": str(root / "up")})
    assert [inside.holds(path) for path in ("a/f", "abs/f", "plain/f")] == [True, True, True]
    assert [inside.holds(path) for path in ("up/f", "deep/x/f", "to-up/f")] == [False, False, False]
    dotted = Inside(root, {"dot": "./real", "dot-out": "./.."})
    assert (dotted.holds("dot/f"), dotted.holds("dot-out/f")) == (True, False)
    # a last part is taken by itself: removing a link removes the link
    assert inside.holds("up")


def test_a_package_whose_name_is_a_path(tmp_path: Path) -> None:
    """rattler itself takes no such build string, and no lock has one; the cache doesn't count on either."""
    record = SimpleNamespace(name=SimpleNamespace(normalized="esc"), version="1.0", build="../../../victim")
    cache = CondaCache(tmp_path, tmp_path, None, Progress())  # type: ignore[arg-type]
    with pytest.raises(IndexFailure, match=r"\.\./victim"):
        cache.drop(record)  # type: ignore[arg-type]
