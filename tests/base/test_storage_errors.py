"""The system's errors about files, in words."""

import errno
import os
from pathlib import Path

import pytest

from envspec.base.storage import storage_error


def told(number: int, path: Path, filename: Path | None = None) -> tuple[str, str | None]:
    error = OSError(number, os.strerror(number), str(filename or path))
    found = storage_error(error, path, option="-o", again="run the command again; nothing was changed")
    return str(found), found.hint


@pytest.mark.parametrize("number", [errno.ENOTDIR, errno.EEXIST])
@pytest.mark.parametrize("below", ["x.html", "deeper/x.html", ""])
def test_a_file_in_the_way(tmp_path: Path, number: int, below: str) -> None:
    file = tmp_path / "a"
    file.touch()
    expected = (f"{file}: this is a file; a folder is needed", "move it away, or give -o another place")
    assert told(number, file / below, file) == told(number, file / below) == expected


def test_a_folder_in_the_way(tmp_path: Path) -> None:
    expected = (f"{tmp_path}: this is a folder; a file is needed", "give -o a file's name")
    assert told(errno.EISDIR, tmp_path, tmp_path.with_name(".staged")) == expected


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EACCES, "check the permissions there, or give -o another place"),
        (errno.EROFS, "the filesystem is read-only: give -o a place that isn't"),
        (errno.ENOSPC, "free some space, then run the command again; nothing was changed"),
        (errno.EIO, "give -o another place"),
    ],
)
def test_every_error_has_a_hint_and_the_name_that_was_given(tmp_path: Path, number: int, hint: str) -> None:
    path = tmp_path / "x.html"
    assert told(number, path, tmp_path / ".x.html.1234") == (f"{path}: can't be written: {os.strerror(number)}", hint)
