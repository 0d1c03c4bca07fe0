"""The console blocks of README.md and docs/: what they show is what the commands print, of the shipped specs.

ENVSPEC_UPDATE_GOLDEN=1 writes them anew.
"""

import os
import re
import shutil
from pathlib import Path

import pytest
from console_blocks import ROOT, Block, blocks, shown
from support.matrix import first_by_day

MM = "specs/mm-v2.9.toml"

EDITS: dict[str, tuple[tuple[str, str], ...]] = {"has no CUDA 11.8 build": (('cuda = "12.6"', 'cuda = "11.8"'),)}
"""What is wrong with mm-v2.9 in a block that has these words."""

ELSEWHERE = ("make lock", "envspec inspect", "envspec link", "has no CUDA 11.8")
"""Words of the first two lines of the blocks that ask real indexes: test_consoles_outside.py runs them."""


def begins_with(block: Block, words: str) -> bool:
    return any(words in line for line in block.text.splitlines()[:2])


def here() -> list[Block]:
    return [block for block in blocks() if not any(begins_with(block, words) for words in ELSEWHERE)]


def as_on_a_terminal(text: str) -> str:
    """`envspec tree` draws its lines in ASCII where nobody looks."""
    signs = {"|-- ": "├── ", "`-- ": "└── ", "|   ": "│   "}
    branch = re.compile(r"^(?:\|   |    )*(?:\|-- |`-- )", re.MULTILINE)
    return branch.sub(lambda found: re.sub(r"\|-- |`-- |\|   ", lambda sign: signs[sign[0]], found[0]), text)


def set_up(block: Block, folder: Path) -> None:
    """Copy the shipped specs and locks, with what is wrong with one in a block."""
    for name in ("specs", "locks"):
        shutil.copytree(ROOT / name, folder / name)
    for words, edits in EDITS.items():
        if words in block.text:
            text = (ROOT / MM).read_text("utf-8")
            for old, new in edits:
                assert text.count(old) == 1, old
                text = text.replace(old, new)
            (folder / MM).write_text(text, "utf-8")


def test_the_pages_have_blocks() -> None:
    assert len(here()) > 3
    for words in ELSEWHERE:
        assert any(begins_with(block, words) for block in blocks()), f"no block has {words}"
    for words in EDITS:
        assert sum(words in block.text for block in blocks()) == 1, words


@pytest.mark.parametrize("block", first_by_day(2, here()), ids=lambda block: f"{block.page.name}: {block.first[2:42]}")
def test_what_a_block_shows_is_what_is_printed(block: Block, tmp_path: Path) -> None:
    set_up(block, tmp_path)
    told = as_on_a_terminal(shown(block, tmp_path, {"UV_OFFLINE": "1"}))
    if os.environ.get("ENVSPEC_UPDATE_GOLDEN"):
        page = block.page.read_text("utf-8")
        block.page.write_text(page.replace(f"```console\n{block.text}```\n", f"```console\n{told}```\n"), "utf-8")
        return
    assert told == block.text
