"""The blocks of docs/how-to/site.md, from a bare /etc to two users' jobs and back, in a namespace whose network is
loopback alone.

The site's servers are the only ones there are: a mirror of plain files, an index and a registry with logins. Whatever
asked another address would fail, and strace would tell. Root fills what is shared; two plain users then run it, without
a variable of theirs. A week later there are new releases, a lock is signed, the servers are down and a node has no
routes at all.
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
from site_inside import LMOD
from support.machine import ROOT

NAMES = ("unshare", "setpriv", "ip", "mount", "docker-registry", "strace", "buildah", "mksquashfs", "ssh-keygen")
TOOLS = [LMOD.is_file() or None, *(shutil.which(name) for name in NAMES)]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that all users may enter."""
    made = Path(tempfile.mkdtemp(dir="/tmp", prefix="envspec-site-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or None in TOOLS, reason=f"needs root, Lmod and {', '.join(NAMES)}")
@pytest.mark.skipif(sys.base_prefix == "/usr", reason="Debian's own Python works below /usr alone")
def test_from_a_bare_etc_to_two_users_jobs_and_back(folder: Path) -> None:
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
        assert told[user]["asked"] == [] and told[user]["bytes"] < 100_000 and told[user]["inodes"] < 40, told
    assert set(told["refused"]) == {"index-elsewhere", "final", "source-forbidden"}
    assert told["pushed"].startswith("sha256:") and told["ci"] == [0, 1] and told["secrets"] == [], told
    assert told["module"] == "4001" and told["upgraded"] == ["1.1"], told
    assert told["left"] == [] and told["not followed"] == [], told
    here = {port for address, port in told["connected"] if address == "127.0.0.1"}
    # without a resolv.conf, a name that is looked up is a question to port 53 here
    assert here == set(told["ports"].values()), told
    # envspec's own proxy for uv has another address of loopback
    assert all(address.startswith("127.") for address, _ in told["connected"]), told["connected"]
