"""The digest by which a spec's own project is known to have changed."""

from pathlib import Path

import pytest

from envspec.install.project import _files_digest


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("lib/more.py", True),
        ("lib/.hidden", True),
        (".git/HEAD", False),
        ("lib/__pycache__/a.pyc", False),
        ("own.egg-info/PKG-INFO", False),
        ("venv/pyvenv.cfg", False),
    ],
)
def test_what_tools_keep_beside_a_project_does_not_count(tmp_path: Path, file: str, counts: bool) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.py").write_text("a = 1\n")
    before = _files_digest(tmp_path)
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("x")
    assert (_files_digest(tmp_path) != before) is counts
