"""Reviews between files of other tools."""

from collections.abc import Callable
from pathlib import Path

import pytest

from envspec.lock.formats.foreign.read import sides
from envspec.review.diff.review import review
from envspec.review.diff.rows import Review
from envspec.review.diff.words import versions

FILES = Path(__file__).parent / "foreign"


Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text, encoding="utf-8")
        return path

    return to


def between(old: Path, new: Path) -> Review:
    return review(*sides(old, new))


def rows(found: Review) -> dict[str, str]:
    return {row.name: "; ".join(versions(move) for move in row.moves) for row in found.rows}


FORMATS = {
    "old.uv.lock": "uv_lock",
    "new.uv.lock": "uv_lock",
    "pylock.toml": "pylock",
    "uv.requirements.txt": "requirements",
    "pip-compile.requirements.txt": "requirements",
    "requirements.in": "requirements",
    "poetry.lock": "poetry_lock",
    "old.conda-lock.yml": "conda_lock",
    "old.pixi.lock": "pixi_lock",
}
