"""The console blocks of README.md and docs/: what they show is what the commands print, of the shipped specs.

ENVSPEC_UPDATE_GOLDEN=1 writes them anew.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from support.matrix import first_by_day

ROOT = Path(__file__).resolve().parents[1]
TUTORIAL = ROOT / "docs" / "tutorial.md"
"""Its blocks build on each other and ask the real index: tests/docs/test_tutorial.py runs them."""
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page != TUTORIAL)]
MM = "specs/mm-v2.9.toml"

EDITS: dict[str, tuple[tuple[str, str], ...]] = {
    "unknown key 'glibcc'": (
        ('  "pandas",\n', '  "pandas",\n  "pandas",\n'),
        ('[targets.cpu]\nplatform = "linux-64"\n', '[targets.cpu]\nplatform = "linux-64"\nglibcc = "2.31"\n'),
    ),
    "has no CUDA 11.8 build": (('cuda = "12.6"', 'cuda = "11.8"'),),
    "einops was added": (('  "regex",\n', '  "regex",\n  "einops",\n'), ("torch==2.9.*", "torch==2.9.1")),
}
"""What is wrong with mm-v2.9 in a block that has these words."""

ELSEWHERE = {
    "make lock": "resolves from the real indexes",
    "specs/mm-v2.1.toml": "resolves from the real indexes",
    "envspec inspect": "needs a wheel that isn't here",
    "envspec bundle": "fetches CUDA's wheels and needs Docker; tests/e2e/test_variants_in_images.py does",
    "envspec link": "reads torch's wheel; tests/e2e/test_link_torch.py does",
}
"""Blocks that can't be had here, by words of their first line."""


class Block(NamedTuple):
    page: Path
    text: str

    @property
    def first(self) -> str:
        return self.text.partition("\n")[0]


def blocks() -> Iterator[Block]:
    for page in PAGES:
        for text in re.findall(r"^```console\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE):
            yield Block(page, text)


def here() -> list[Block]:
    return [block for block in blocks() if not any(words in block.first for words in ELSEWHERE)]


def as_on_a_terminal(text: str) -> str:
    """`envspec tree` draws its lines in ASCII where nobody looks."""
    signs = {"|-- ": "├── ", "`-- ": "└── ", "|   ": "│   "}
    branch = re.compile(r"^(?:\|   |    )*(?:\|-- |`-- )", re.MULTILINE)
    return branch.sub(lambda found: re.sub(r"\|-- |`-- |\|   ", lambda sign: signs[sign[0]], found[0]), text)


def test_the_pages_have_blocks() -> None:
    assert len(here()) > 5
    for words in ELSEWHERE:
        assert any(words in block.first for block in blocks()), f"no block has {words}"
    for words in EDITS:
        assert sum(words in block.text for block in blocks()) == 1, words


@pytest.mark.parametrize("block", first_by_day(2, here()), ids=lambda block: f"{block.page.name}: {block.first[2:42]}")
def test_what_a_block_shows_is_what_is_printed(block: Block, tmp_path: Path) -> None:
    for name in ("specs", "locks"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for words, edits in EDITS.items():
        if words in block.text:
            text = (ROOT / MM).read_text("utf-8")
            for old, new in edits:
                assert text.count(old) == 1, old
                text = text.replace(old, new)
            (tmp_path / MM).write_text(text, "utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "LC_ALL": "C.UTF-8", "UV_OFFLINE": "1"}
    shown = ""
    for line in block.text.splitlines():
        if line.startswith("$ "):
            program, *arguments = shlex.split(line[2:])
            assert program == "envspec"
            ran = subprocess.run(
                [sys.executable, "-m", "envspec", *arguments],
                cwd=tmp_path, env=env, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            shown += f"{line}\n{as_on_a_terminal(ran.stdout)}"
    if os.environ.get("ENVSPEC_UPDATE_GOLDEN"):
        page = block.page.read_text("utf-8")
        block.page.write_text(page.replace(f"```console\n{block.text}```\n", f"```console\n{shown}```\n"), "utf-8")
        return
    assert shown == block.text
