"""What an image takes from others: the files of its base, and programs of other images."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.base_image import status, system, write_base

from envspec.base.errors import InputError
from envspec.base.open_folder import open_folder
from envspec.export.plan import Borrowed, ImageReference
from envspec.image.base import BaseImage
from envspec.image.borrowed import borrowed_entries
from envspec.image.layer import LayerEntry
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


IMAGE = ImageReference("acme/tool:1", "sha256:" + "0" * 64)


def tar(*members: tuple[str, bytes, str, bytes]) -> bytes:
    """A layer of entries: name, kind, link, content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind, link, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, link, len(content)
            info.mode = 0o755 if name.endswith(".sh") else 0o640
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def file(name: str, content: bytes = b"") -> tuple[str, bytes, str, bytes]:
    return name, tarfile.REGTYPE, "", content


def taken(
    tmp_path: Path, *layers: bytes, copies: tuple[tuple[str, str], ...], links: tuple[tuple[str, str], ...] = ()
) -> Mapping[str, LayerEntry]:
    kept = tmp_path / "kept"
    kept.mkdir()
    with open_folder(write_base(tmp_path / "other", *layers)) as folder:
        source = layout_source(tmp_path / "other", folder)
        found = borrowed_entries(Borrowed("tool", IMAGE, copies, links), source, "linux/amd64", kept)
    return {entry.path: entry for entry in found}


def content(entry: LayerEntry) -> bytes:
    assert entry.content is not None
    with entry.content() as stream:
        return stream.read()


def test_what_all_layers_have_of_a_folder_is_taken(tmp_path: Path) -> None:
    first = tar(
        file("usr/lib/tool/run.sh", b"1"), file("usr/lib/tool/old", b"1"), file("usr/lib/tool/gone/a", b"1"),
        file("usr/lib/toolbox/other"), ("usr/lib/tool/name", tarfile.SYMTYPE, "run.sh", b""),
        ("usr/lib/tool/same.sh", tarfile.LNKTYPE, "usr/lib/tool/run.sh", b""),
    )  # fmt: skip
    second = tar(file("usr/lib/tool/old", b"2"), file("usr/lib/tool/.wh.gone"), file("etc/passwd"))
    found = taken(
        tmp_path, first, second, copies=(("/usr/lib/tool", "/opt/tool"),), links=(("/opt/tool/more", "name"),)
    )
    assert set(found) == {f"opt/tool/{name}" for name in ("run.sh", "same.sh", "old", "name", "more")}
    assert content(found["opt/tool/old"]) == b"2" and content(found["opt/tool/same.sh"]) == b"1"
    assert (found["opt/tool/run.sh"].mode, found["opt/tool/old"].mode) == (0o755, 0o644)
    assert (found["opt/tool/name"].link, found["opt/tool/more"].link) == ("run.sh", "name")


def test_what_a_pattern_names_is_taken(tmp_path: Path) -> None:
    names = ("libcudart.so.12", "libcudadevrt.a", "libcublas.so.12", "stubs/libcuda.so")
    layer = tar(*(file(f"usr/local/cuda-12.8/lib/{name}") for name in names))
    found = taken(tmp_path, layer, copies=(("/usr/local/cuda-12.8/lib/libcuda*", "/usr/local/cuda/lib/"),))
    assert set(found) == {"usr/local/cuda/lib/libcudart.so.12", "usr/local/cuda/lib/libcudadevrt.a"}


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (tar(file("usr/lib/other")), "has no /usr/lib/tool, from where tool is taken"),
        (tar(file("usr/lib/tool/../../../etc/passwd")), "leads out of the image"),
        (tar(("usr/lib/tool/a", tarfile.LNKTYPE, "etc/shadow", b"")), "'etc/shadow', which isn't taken"),
        (tar(("usr/lib/tool/a", tarfile.CHRTYPE, "", b"")), "is neither a file nor a folder nor a link"),
        (tar(file("usr/lib/tool/a\nb")), "it has a control character"),
    ],
)
def test_what_cant_be_taken_is_refused(layer: bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        taken(tmp_path, layer, copies=(("/usr/lib/tool", "/opt/tool"),))
