"""A command at a terminal of its own, and what a terminal shows in the end."""

import os
import pty
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_STEP = re.compile(rb"\x1b\[([?0-9;]*)([A-Za-z])|\r|\n|[^\x1b\r\n]+")


@dataclass(frozen=True)
class AtTerminal:
    """How a command ended, what it wrote to a pipe, and what it wrote to its terminal, byte for byte."""

    status: int
    out: bytes
    told: bytes

    @property
    def screen(self) -> list[str]:
        """The lines that a terminal as wide as any line shows in the end."""
        rows, row, column = [""], 0, 0
        for step in _STEP.finditer(self.told):
            count = int(step[1]) if step[1] and step[1].isdigit() else 1
            if step[0] == b"\n":
                row += 1
                rows += [""] * (row + 1 - len(rows))
            elif step[0] == b"\r":
                column = 0
            elif step[2] is None:
                text = step[0].decode()
                rows[row] = rows[row][:column].ljust(column) + text + rows[row][column + len(text) :]
                column += len(text)
            elif step[2] == b"A":
                row = max(0, row - count)
            elif step[2] == b"K":
                rows[row] = ""
            else:
                assert step[2] in b"mhl", step[0]
        while rows and not rows[-1]:
            rows.pop()
        return rows


def at_terminal(
    command: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None, stdout: bool = False
) -> AtTerminal:
    """Run a command whose stderr is a terminal, and with `stdout` that, too."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=theirs if stdout else subprocess.PIPE, stderr=theirs
    ) as process:
        os.close(theirs)
        told = b""
        while True:
            try:
                block = os.read(ours, 1 << 16)
            except OSError:  # how Linux says that the other end is closed
                break
            if not block:
                break
            told += block
        os.close(ours)
        out = process.stdout.read() if process.stdout else b""
    return AtTerminal(process.returncode, out, told)
