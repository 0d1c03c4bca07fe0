"""A packed recording gives back what was packed, and what stands for a wheel says what the wheel says."""

import io
from pathlib import Path

from envspec.binaries.import_time import modules_importing_at_start
from envspec.binaries.wheel import open_wheel
from stacks.packed import Row, pack, stand_in, unpack
from stacks.recording import Recording, _stub

PAGES: dict[str, list[Row]] = {
    "b": [
        ["b-1.0-py3-none-any.whl", "11" * 32, 7, "2020-01-02T03:04:05.000600Z", ">=3.8", None],
        ["b-1.0.tar.gz", "22" * 32, 1 << 33, "2020-01-02T03:04:06Z", None, "broken"],
        ["b-0.9.exe", "33" * 32, 5, "1999-12-31T23:59:59.999999Z", None, None],
    ],
    "a": [["a-2.tar.gz", "44" * 32, 1, "2026-10-31T00:00:00Z", ">=3.8", None]],
    "none": [],
}
FILES = {"a-2.tar.gz": b"source", "b.whl": b""}


def test_what_was_packed_comes_back() -> None:
    packed = pack(PAGES, FILES, ["b-1.0-py3-none-any.whl", "a-2.tar.gz"], {"metadata": {"w": "Name: w"}})
    assert packed == pack(
        dict(reversed(PAGES.items())), FILES, ["a-2.tar.gz", "b-1.0.tar.gz"], {"metadata": {"w": "Name: w"}}
    )
    pages, files, more = unpack(packed)
    assert (files, more) == (FILES, {"metadata": {"w": "Name: w"}})
    first, second, third = PAGES["b"]
    assert pages == {
        **PAGES,
        "b": [first, second, [third[0], stand_in(third[0]), None, "1999-12-31T23:59:59Z", *third[4:]]],
    }
    assert "absent" not in pages


def test_what_stands_for_a_wheel_imports_what_the_wheel_does() -> None:
    """Also of a module beside which another wheel's paths are told."""
    modules = ["board.data.server", "board.default"]
    said = [None, None, modules, {"board/__init__.py": "3fab09", "board/other.py": "ab12"}]
    with open_wheel(io.BytesIO(_stub("board-1.0-py3-none-any.whl", said))) as wheel:
        assert list(modules_importing_at_start(wheel, "pkg_resources").modules) == modules


def test_only_the_file_of_a_project_whose_answer_changed_is_written(tmp_path: Path) -> None:
    recording = Recording(dict(PAGES), {"b-1.0-py3-none-any.whl": "Name: b"}, files={"a-2.tar.gz": b"source"})
    recording.save(tmp_path)
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()}
    assert set(before) == {"a.xz", "b.xz", "none.xz"}
    again = Recording.load(tmp_path)
    assert (again.metadata, again.files) == (recording.metadata, recording.files)
    assert {project: len(rows) for project, rows in again.pages.items()} == {"a": 1, "b": 3, "none": 0}
    again.metadata["b-1.0-py3-none-any.whl"] = "Name: b\nVersion: 1.0"
    again.save(tmp_path)
    after = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()}
    assert {name for name in after if after[name] != before[name]} == {"b.xz"}
