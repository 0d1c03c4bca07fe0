"""envspec as another Python runs it, installed from this checkout."""

import os
import subprocess
from pathlib import Path

import pytest

from envspec.base.errors import ToolError
from envspec.install.interpreter import find_interpreter
from support.machine import ROOT


def envspec_of(version: str, folder: Path) -> Path:
    """The program `envspec` in a new environment of a Python. Skips where this machine has none of the version."""
    from uv import find_uv_bin

    try:
        python = find_interpreter(version, os.environ)
    except ToolError:
        pytest.skip(f"no Python {version}")
    uv = [find_uv_bin(), "--quiet"]
    subprocess.run([*uv, "venv", "--python", str(python), str(folder)], check=True)
    subprocess.run([*uv, "pip", "install", "--python", str(folder), f"{ROOT}[image]"], check=True)
    return folder / "bin" / "envspec"
