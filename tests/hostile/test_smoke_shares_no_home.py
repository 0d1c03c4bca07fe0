"""The checks in Apptainer have a home of their own: they share the machine's /tmp, which may hold others' files."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from envspec.prove.smoke.run.apptainer import _AT_HOME

LOOK = "import os; home = os.environ['HOME']; print(home, oct(os.stat(home).st_mode), os.listdir(home))"


def at_home(tmp_path: Path, code: str) -> subprocess.CompletedProcess[str]:
    """What stands behind the image in the runner's command, run here, with `tmp_path` for the machine's /tmp."""
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    words = ["sh", "-c", _AT_HOME, "sh", sys.executable, "-c", code]
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("code", [LOOK, f"{LOOK}; raise SystemExit(7)"])
def test_a_private_home(tmp_path: Path, code: str) -> None:
    for name in (".config", ".nv", ".cache", ".local"):
        (tmp_path / name).mkdir()
    before = sorted(tmp_path.iterdir())
    ran = at_home(tmp_path, code)
    home, mode, names = ran.stdout.split()
    assert Path(home).parent == tmp_path and mode == oct(stat.S_IFDIR | 0o700) and names == "[]"
    assert ran.returncode == (7 if "SystemExit" in code else 0)
    assert sorted(tmp_path.iterdir()) == before, "it is gone with what was in it"
