"""What torch's neighbours note in their wheels."""

import io
import zipfile

import pytest

from envspec.binaries.build_notes import BuildNotes, build_notes
from envspec.binaries.wheel import open_wheel


def noted(members: dict[str, str]) -> BuildNotes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with open_wheel(buffer) as wheel:
        return build_notes(wheel)


def test_xformers() -> None:
    text = '{"version": {"cuda": 1208, "hip": null, "torch": "2.10.0+cu128", "python": "3.10.19"}, "env": {}}'
    assert noted({"xformers/cpp_lib.json": text}) == BuildNotes("12.8", member="xformers/cpp_lib.json")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": null}', '{"version": {"cuda": "x"}}', '{"version": {"cuda": 9}}', "[" * 9999]
)
def test_a_note_that_says_nothing(text: str) -> None:
    assert noted({"xformers/cpp_lib.json": text}) == BuildNotes()


def test_onnxruntime() -> None:
    path = "onnxruntime/capi/build_and_package_info.py"
    text = "package_name = 'onnxruntime-gpu'\n__version__ = '1.22.0'\ncuda_version = '12.2'\n"
    assert noted({path: text}) == BuildNotes("12.2", member=path)
    assert noted({path: "package_name = 'onnxruntime'\n"}) == BuildNotes()


def test_dgl() -> None:
    names = [f"dgl/graphbolt/libgraphbolt_pytorch_{release}.so" for release in ("2.1.2", "2.10.0", "2.2.0")]
    assert noted(dict.fromkeys(names, "")) == BuildNotes(torch=("2.1.2", "2.2.0", "2.10.0"), member=names[1])
