#!/usr/bin/env python3
"""Runs the commands that are for all systems once, for real: a spec is made, locked, judged, shown, exported, verified.

    python .ci/elsewhere.py        # with envspec installed; asks the real index

Ends with the exit code of the first command that doesn't do what it should.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

COMMANDS = (
    ("init", "demo", "--cuda", "cpu"),
    ("add", "demo", "tqdm", "packaging"),
    ("check", "demo"),
    ("why", "demo", "tqdm"),
    ("tree", "demo"),
    ("diff", "locks/demo/envspec.lock", "locks/demo/envspec.lock"),
    ("export", "demo", "--format", "requirements", "-o", "out"),
    ("doctor", "demo", "--gpu", "H100", "--driver", "580.82.07"),
    ("report", "demo", "-o", "report.html"),
    ("verify", "demo"),
    ("lock", "demo", "--upgrade"),
)


def main() -> int:
    """Run them in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            print("$ envspec", *command, flush=True)  # noqa: T201
            ended = subprocess.run([sys.executable, "-m", "envspec", *command], cwd=folder, check=False).returncode
            if ended:
                return ended
        assert Path(folder, "report.html").stat().st_size
    return 0


if __name__ == "__main__":
    sys.exit(main())
