"""The `sh` blocks of README.md and docs/, and those that are indented: their commands, line by line. The pages are the
long ones of the site, which have every example of `--help`.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.reference.pages import LONG

ROOT = Path(__file__).resolve().parents[2]
HOW_TOS = ROOT / "docs" / "how-to"
_SEPARATORS = {"&&", ";", "|", "||"}
_INDENTED = re.compile(
    r"(?<=\n\n)(?=    (?:[A-Z_]+=\S+ )?(?:envspec|docker|apptainer|nix|cd|git|condor_submit|python3?|pytest|ln|sbatch)"
    r" )(?:    .*\n)+"
)
_GRAMMAR = {"for", "do", "done", "cd", "export", "."}
"""What the shell itself does."""


class Command(NamedTuple):
    """A command of a line, without the variables that stand before it. `page` is relative to the root."""

    page: str
    line: str
    words: tuple[str, ...]

    @property
    def program(self) -> str:
        return Path(self.words[0]).name


def pages() -> Iterator[Path]:
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def text_of(page: Path) -> str:
    """Give a page's text, as the site has it."""
    return LONG[page.name]() if page.parent == ROOT / "docs" and page.name in LONG else page.read_text("utf-8")


def blocks(page: Path) -> list[str]:
    """Give the texts of a page's `sh` blocks."""
    return re.findall(r"^```sh\n(.*?)^```$", text_of(page), re.DOTALL | re.MULTILINE)


def commands(page: Path) -> Iterator[Command]:
    """Yield what a page's blocks start, redirections and the shell's own words left out."""
    indented = [re.sub("^    ", "", block, flags=re.M) for block in _INDENTED.findall(text_of(page))]
    for block in (*blocks(page), *indented):
        for line in block.replace("\\\n", " ").splitlines():
            yield from (Command(str(page.relative_to(ROOT)), line, words) for words in _started(line))


def _started(line: str) -> Iterator[tuple[str, ...]]:
    read = shlex.shlex(re.sub(r"(^|\s)#.*", "", line), posix=True, punctuation_chars=";&|<>")
    read.commenters = ""
    read.whitespace_split = True
    words: list[str] = []
    for word in [*read, ";"]:
        if word not in _SEPARATORS:
            words.append(word)
            continue
        while words and (words[0] == "do" or re.match(r"[A-Z_]+=", words[0])):
            words.pop(0)
        for sign in (">", ">>", "<"):
            if sign in words:
                words = words[: words.index(sign)]
        if words and words[0] not in _GRAMMAR:
            yield tuple(words)
        words = []
