"""`python -m tools.reference.terminal`: the documentation's pictures of a terminal, each from a real run.

The terminal is one of 96 columns.
"""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
PICTURES = {
    "docs/terminal.svg": (
        ".",
        "envspec check specs/cpu-py311.toml specs/mm-v2.9.toml",
        "envspec doctor specs/mm-v2.9.toml --gpu V100 --driver 470.82 --target cu126-volta",
        "envspec why specs/mm-v2.9.toml numpy --target cu128-hopper --limit 2",
    ),
    "docs/how-to/review.svg": ("tests/review/diff/foreign", "envspec diff old.uv.lock new.uv.lock"),
}
"""By a picture's file, the folder in which its commands run, and these."""
COLUMNS = 96

# rich's own format, without the fonts that it loads from a server
FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def screen_of(command: str, folder: Path) -> str:
    """Return a command's output on a terminal, run in a folder."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", "UV_OFFLINE": "1", "LC_ALL": "C.UTF-8", "COLUMNS": str(COLUMNS)}
    env["PYTHONPATH"] = str(ROOT)
    env.pop("NO_COLOR", None)
    program = [sys.executable, "-m", *command.split()]
    with subprocess.Popen(program, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as ran:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux's way to say that the other end is closed
                break
            if not part:
                break
            parts.append(part)
        ran.wait()
    os.close(ours)
    return b"".join(parts).decode("utf-8").replace("\r\n", "\n")


def picture(name: str) -> str:
    """Return the SVG of a picture by its file."""
    folder, *commands = PICTURES[name]
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor")
        for command in commands:
            console.print(Text(f"$ {command}", style="bold"))
            console.print(Text.from_ansi(screen_of(command, ROOT / folder).rstrip("\n")))
            console.print()
        return console.export_svg(title="envspec", code_format=FORMAT, unique_id="envspec")


if __name__ == "__main__":
    for name in PICTURES:
        (ROOT / name).write_text(picture(name), "utf-8")
