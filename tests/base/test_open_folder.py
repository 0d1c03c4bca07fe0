"""A folder held open, by descriptors and by paths: what it reads, writes and refuses."""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from envspec.base import atomic
from envspec.base.errors import NotPlain
from envspec.base.open_folder import Location, OpenFolder, locate, open_folder


@pytest.fixture(params=[True, False], ids=["by descriptor", "by path"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> OpenFolder:
    return open_folder(tmp_path, by_descriptor=request.param)


def test_files_are_written_read_and_removed(folder: OpenFolder, tmp_path: Path) -> None:
    atomic.replace_files(folder, {"a/b/c": b"1", "d": b"2", "e.sh": b"3"}, executable=["e.sh"])
    assert (folder.read_at("a/b/c"), folder.read("d")) == (b"1", b"2")
    assert folder.read("none") is folder.read_at("x/y") is None
    assert os.access(tmp_path / "e.sh", os.X_OK) and not os.access(tmp_path / "d", os.X_OK)
    atomic.replace_files(folder, {"d": b"4", "a/b/c": None, "none": None, "x/y": None})
    assert folder.names() == ["a", "d", "e.sh"] and folder.read("d") == b"4"
    assert not (tmp_path / "a" / "b").exists(), "a folder that lost its last file goes"


def test_order_is_the_callers(folder: OpenFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[str] = []
    real = os.replace

    def replace(source: str, target: str, **folders: int) -> None:
        moved.append(Path(target).name)
        real(source, target, **folders)

    monkeypatch.setattr(os, "replace", replace)
    atomic.replace_files(folder, {"z": b"", "a/y": b"", "x": b""})
    assert moved == ["z", "y", "x"]


def test_what_is_in_the_way_is_named(folder: OpenFolder, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotADirectoryError, match="file"):
        atomic.replace_files(folder, {"file/x": b""})
    with pytest.raises(IsADirectoryError, match="folder"):
        atomic.replace_files(folder, {"new/x": b"", "folder": b""})
    for use in (folder.read, folder.append, folder.enter, folder.refuse_odd):
        with pytest.raises(NotPlain, match=r"pipe: this is a named pipe") as caught:
            use("pipe")
        assert caught.value.exit_code == 2
    assert folder.names() == ["file", "folder", "pipe"], "nothing of a refused write stays"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0"])
def test_only_names(folder: OpenFolder, name: str) -> None:
    with pytest.raises(ValueError, match="isn't the name of an entry"):
        folder.look(name)


def test_a_line_break_in_a_name_steers_nothing(folder: OpenFolder, tmp_path: Path) -> None:
    (tmp_path / "a\x1b[2J").symlink_to("/")
    with pytest.raises(NotPlain, match=r"a\\x1b\[2J"):
        folder.read("a\x1b[2J")


def test_only_abandoned_staging_folders_are_swept(folder: OpenFolder, tmp_path: Path) -> None:
    dead, alike, empty = (tmp_path / f".envspec-{name}" for name in ("0" * 16, "x" * 16, "1" * 16))
    for place in (dead, alike, empty):
        place.mkdir()
    for name in ("held", "0", "17"):
        (dead / name).touch()
    (alike / "held").touch()
    with atomic.stage_file(Location(tmp_path), "file") as file:
        file.write(b"x")
        live = {path.name for path in tmp_path.iterdir()} - {path.name for path in (dead, alike, empty)}
        atomic.sweep(folder)
        assert set(folder.names()) == {*live, alike.name} and len(live) == 1
    assert folder.names() == [alike.name, "file"]


def test_what_isnt_envspecs_keeps_a_staging_folder(folder: OpenFolder, tmp_path: Path) -> None:
    dead = tmp_path / f".envspec-{'0' * 16}"
    dead.mkdir()
    for name in ("held", "0", "notes.txt"):
        (dead / name).touch()
    atomic.sweep(folder)
    assert [path.name for path in dead.iterdir()] == ["notes.txt"]


def test_a_failed_block_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with suppress(RuntimeError), atomic.stage_file(Location(tmp_path), "file") as file:
        file.write(b"half")
        raise RuntimeError
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "old")]


def test_where_the_users_word_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, other = tmp_path / "here", tmp_path / "other"
    here.mkdir()
    monkeypatch.chdir(here)
    assert locate(Path("a/b")) == Location(Path(), "a/b") == locate(here / "a" / "b")
    assert locate(Path()) == Location(Path(), "")
    assert locate(Path("../elsewhere")) == Location(Path("../elsewhere"))
    assert locate(other / "a", [other]) == Location(other, "a")
    assert locate(Path("a"), [tmp_path]) == Location(tmp_path, "here/a"), "the outermost"
    monkeypatch.chdir("/")
    away = Path("/") / "elsewhere" / "x"
    assert locate(away) == Location(away), "the root of all is no project"
