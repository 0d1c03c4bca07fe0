"""The readers' time grows with a file's size only."""

import time
from contextlib import suppress
from pathlib import Path

import pytest

from envspec.base.errors import InputError
from envspec.draft.repository import read_draft

MANY = 20_000
GROUPS = "".join(f'g{n}=[{{ include-group = "g{n + 1}" }}, {{ include-group = "g{n + 1}" }}]\n' for n in range(40))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Dockerfile", "FROM x\nRUN " + "--mount=type=bind" * 4_000),
        ("Dockerfile", "FROM x\nRUN if " + " --a" * MANY),
        ("Dockerfile", "FROM x\nENV A=" + "${B:-" * MANY),
        ("Dockerfile", "FROM x\nENV A=1\n" + "ENV A=$A$A\n" * 200),
        ("Dockerfile", "FROM x\nRUN pip config " + "--a " * MANY),
        ("environment.yml", "dependencies:\n - a " + "#[a]" * MANY),
        ("environment.yml", "dependencies:\n" + " - a\n" * MANY),
        ("environment.yml", "dependencies:\n - a=1=" + "cuda_" * MANY),
        ("requirements.txt", "torch==1+cu121" + ".a" * MANY),
        ("requirements.txt", "https://h/" + "a ; " * MANY),
        ("requirements.txt", "# coding" + ":" * MANY + "\nsix"),
        ("pyproject.toml", '[tool.poetry.dependencies]\na="' + "1 >" * MANY + '"'),
        ("pyproject.toml", f"[dependency-groups]\n{GROUPS}g40 = ['six']\n"),
    ],
)
def test_it_is_read_in_seconds(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    begun = time.process_time()
    with suppress(InputError):
        read_draft(tmp_path / name)
    assert time.process_time() - begun < 5
