"""The `console` blocks of README.md and docs/: their commands, run, and what they show."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
"""Its blocks build on each other and ask the real index: test_tutorial.py runs them."""
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page != TUTORIAL)]
LEFT_OUT = "…"
"""A line of a block that stands for any others."""


class Block(NamedTuple):
    page: Path
    text: str

    @property
    def first(self) -> str:
        return self.text.partition("\n")[0]


def of(page: Path) -> list[Block]:
    found = re.findall(r"^```console\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [Block(page, text) for text in found]


def blocks() -> Iterator[Block]:
    for page in PAGES:
        yield from of(page)


def shown(
    block: Block,
    folder: Path,
    more: Mapping[str, str] | None = None,
    programs: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Run a block's commands in a folder. Gives each with all that it printed.

    more       variables besides the test's own
    programs   what a program's name stands for; envspec alone if left out
    """
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "LC_ALL": "C.UTF-8", **(more or {})}
    known = programs or {"envspec": (sys.executable, "-m", "envspec")}
    told = ""
    for line in block.text.splitlines():
        if line.startswith("$ "):
            program, *arguments = shlex.split(line[2:])
            ran = subprocess.run(
                [*known[program], *arguments],
                cwd=folder, env=env, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            told += f"{line}\n{ran.stdout}"
    # what a machine's own pip or uv is set to
    return re.sub(r"^note: the spec's own indexes are asked, .*\n", "", told, flags=re.MULTILINE)


def shape(text: str) -> str:
    """A text without its numbers: releases come, and counts follow them."""
    return re.sub(r"\d+(\.\d+)*", "N", text)


def fits(block: Block, told: str) -> bool:
    """Whether a block shows what was told, but for numbers and for the lines that it leaves out."""
    lines = (re.escape(line) if line != LEFT_OUT else r".*?" for line in shape(block.text).splitlines())
    return re.fullmatch("\n".join(lines), shape(told).rstrip("\n"), re.DOTALL) is not None
