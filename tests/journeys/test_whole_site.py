"""A site from a bare /etc to two users' jobs: a namespace whose network is loopback alone, with /etc of its own.

The mirrors are the only servers there are: whatever asked another address would fail. Root fills what is shared, by the
configuration and the policy that docs/how-to/site.md shows; two plain users then run it, without a variable of theirs.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.machine import ROOT

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
SYSTEM_PYTHON = Path("/usr/bin/python3").resolve()
TOOLS = [shutil.which(name) for name in ("unshare", "setpriv", "ip", "mount")]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that all users may enter."""
    made = Path(tempfile.mkdtemp(dir="/tmp", prefix="envspec-site-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or None in TOOLS, reason="needs root, unshare, setpriv, ip and mount")
@pytest.mark.skipif(SYSTEM_PYTHON.name != f"python{PYTHON}", reason="this Python isn't one that all users can run")
def test_from_a_bare_etc_to_two_users_jobs(folder: Path) -> None:
    inside = Path(__file__).with_name("site_inside.py")
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
        "HOME": str(folder / "root"),
        "LANG": "C.UTF-8",
    }
    ran = subprocess.run(
        ["unshare", "--net", "--mount", sys.executable, str(inside), str(folder)],
        env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if ran.returncode == 77:
        pytest.skip(ran.stderr.strip())
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = json.loads(ran.stdout.splitlines()[-1])
    # the first user's and the second's first run: nothing is asked, and next to nothing is written
    for user in ("ada", "bob"):
        assert told[user]["asked"] == 0 and told[user]["bytes"] < 100_000 and told[user]["inodes"] < 40, told
    assert set(told["refused"]) == {"index-elsewhere", "final", "source-forbidden"}
