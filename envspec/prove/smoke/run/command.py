"""Commands and files as values: a runner's steps, which `envspec.prove.smoke.run.process` runs.

A word may contain a `Variable`'s mark, for values that only a job's shell knows. Everything else is quoted.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from envspec.base.programs import HERE

_MARK = re.compile("\x02([A-Za-z_]+)\x03")


def variable(name: str) -> str:
    """A mark that becomes `"$name"` in a script. Only scripts' commands can have it."""
    return f"\x02{name}\x03"


def quote(word: str) -> str:
    """Quote a word for a POSIX shell, with the marks of variables expanded."""
    pieces = _MARK.split(word)
    if len(pieces) == 1:
        return shlex.quote(word)
    return "".join(
        f'"${piece}"' if index % 2 else shlex.quote(piece) if piece else "" for index, piece in enumerate(pieces)
    )


def join(words: Iterable[str]) -> str:
    return " ".join(quote(word) for word in words)


@dataclass(frozen=True)
class Command:
    """A program to run.

    note    its purpose, for people
    unless  a program that ends with 0 when this one isn't needed any more; empty: it always runs
    cwd     its working folder, `HERE` for words with paths that the user gave; None: `/`
    """

    argv: tuple[str, ...]
    note: str
    unless: tuple[str, ...] = ()
    cwd: Path | None = None

    @property
    def shell(self) -> str:
        """The command as a line for a POSIX shell."""
        line = join(self.argv)
        if self.cwd not in (None, HERE):
            line = f"(cd {quote(str(self.cwd))} && {line})"
        return f"{join(self.unless)} >/dev/null 2>&1 || {line}" if self.unless else line


@dataclass(frozen=True)
class Files:
    """Texts to write below a folder, each whole or not at all. `shown`: a dry run prints them."""

    folder: Path
    texts: tuple[tuple[str, str], ...]
    note: str
    shown: bool = False


Step = Command | Files


def dry(steps: Sequence[Step]) -> str:
    """Render the steps as lines for people and shells: notes and hidden files become comments."""
    lines: list[str] = []
    for step in steps:
        lines.append(f"# {_comment(step.note)}")
        if isinstance(step, Command):
            lines.append(step.shell)
            continue
        for name, text in step.texts:
            path = quote(str(step.folder / name))
            if step.shown:
                end = _end_mark(text)
                lines.append(f"mkdir -p {quote(str((step.folder / name).parent))}")
                lines += [f"cat > {path} <<'{end}'", text.rstrip("\n"), end]
            else:
                lines.append(f"# writes {path} ({len(text.encode())} bytes)")
    return "\n".join(lines)


def _comment(text: str) -> str:
    """Make a text safe inside a comment."""
    return " ".join(text.split())


def _end_mark(text: str) -> str:
    """Choose a word that isn't a line of `text`."""
    mark = "END"
    while mark in text.splitlines():
        mark += "_"
    return mark
