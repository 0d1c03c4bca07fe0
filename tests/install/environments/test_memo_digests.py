"""The digests that a memo of `run` rests on, of files that a repository may hold."""

import os
from pathlib import Path

from envspec.install.environments import memo


def test_only_plain_files_have_one(tmp_path: Path) -> None:
    assert memo.digest_of(str(tmp_path)) is None and memo.digest_of(str(tmp_path / "none")) is None
    os.mkfifo(tmp_path / "pipe")
    assert memo.digest_of(str(tmp_path / "pipe")) is None


def test_a_file_without_end_isnt_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.touch()
    os.truncate(path, 1 << 34)
    first = memo.digest_of(str(path))
    os.truncate(path, 1 << 35)
    assert first and memo.digest_of(str(path)) != first
