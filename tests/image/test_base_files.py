"""What a base brings, seen in its layers: packages, users, what an upper layer takes away."""

from pathlib import Path

import pytest
from support.base_image import status, system, write_base

from envspec.base.open_folder import open_folder
from envspec.image.base import BaseImage
from envspec.image.layout import layout_source


def base(tmp_path: Path, *layers: dict[str, str | bytes]) -> BaseImage:
    folder = write_base(tmp_path / "base", *layers)
    return layout_source(folder, open_folder(folder)).image("linux/amd64")


def test_packages_of_dpkg() -> None:
    from envspec.image.base import BaseFiles

    text = status({"tini": "1"}) + "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n\n"
    text += "Package: c++\nStatus: install ok installed\nVersion: 2\nProvides: c-compiler, g++ (= 12)\n\n"
    files = BaseFiles(
        {"var/lib/dpkg/status": text.encode(), "var/lib/dpkg/status.d/libc6": b"Package: libc6\nVersion: 2.36\n"}
    )
    assert files.packages() == {"tini": "1", "c++": "2", "c-compiler": "2", "g++": "2", "libc6": "2.36"}


def test_what_is_kept_is_what_was_read(tmp_path: Path) -> None:
    folder = write_base(tmp_path / "base", system("3.11"))
    source = layout_source(folder, open_folder(folder))
    first = source.image("linux/amd64", tmp_path / "cache").files
    (kept,) = (tmp_path / "cache" / "bases-v1").iterdir()
    assert source.image("linux/amd64", tmp_path / "cache").files == first and first.paths
    for damage in ("", "[]", '{"files": {"etc/passwd": "?"}, "modes": {}, "paths": []}'):
        kept.write_text(damage)
        assert source.image("linux/amd64", tmp_path / "cache").files == first


def test_packages_of_apk() -> None:
    from envspec.image.base import BaseFiles

    text = b"P:gcc\nV:14-r0\np:cmd:g++=14-r0 so:libstdc++.so.6=6\n\nP:glibc\nV:2.40-r1\n\n"
    assert BaseFiles({"lib/apk/db/installed": text}).packages()["g++"] == "14-r0"


def test_an_upper_layer_counts(tmp_path: Path) -> None:
    upper: dict[str, str | bytes] = {"var/lib/dpkg/status": status({"tini": "2"}), "usr/bin/.wh.python3.11": ""}
    found = base(tmp_path, dict(system("3.11")), upper).files
    assert found.packages() == {"tini": "2"}
    assert not any(path.startswith("usr/bin") for path in found.paths)
    assert found.text("etc/passwd").startswith("root:")


@pytest.mark.parametrize("mark", ["etc/.wh..wh..opq", ".wh.etc"])
def test_what_is_below_a_folder_that_was_taken_away(mark: str, tmp_path: Path) -> None:
    found = base(tmp_path, dict(system()), {mark: "", "etc/group": "new:x:1:\n"}).files
    assert found.text("etc/passwd") == "" and found.text("etc/group") == "new:x:1:\n"


def test_a_root_that_was_merged_into_usr(tmp_path: Path) -> None:
    found = base(tmp_path, {"bin/python3.11": "one", "usr/bin/other": ""}).files
    assert found.paths == {"usr/bin/python3.11"}
