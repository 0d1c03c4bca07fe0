"""The tutorial's console blocks, one after the other in an empty folder, against the real PyPI.

`envspec run`, `smoke` and the image have tests of their own: tests/e2e/test_cpu_py311_builds.py and
test_smoke_apptainer.py.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial.md"


def shape(text: str) -> str:
    """A text without its numbers: releases come, and counts follow them."""
    return re.sub(r"\d+(\.\d+)*", "N", text)


@pytest.mark.network
def test_the_tutorial(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "LC_ALL": "C.UTF-8"}
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) > 3
    for block in blocks:
        shown = ""
        for line in block.splitlines():
            if not line.startswith("$ "):
                continue
            program, *arguments = shlex.split(line[2:])
            assert program == "envspec"
            ran = subprocess.run(
                [sys.executable, "-m", "envspec", *arguments],
                cwd=tmp_path, env=env, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            shown += f"{line}\n{ran.stdout}"
        assert shape(shown) == shape(block)
