"""A limit on open files: whatever meets it first, the error names it, and says what to raise."""

import resource
import subprocess
import sys

import pytest
from support.index import Index
from support.installs import SPEC, serve_lock
from support.machine import Machine
from support.packages import wheel

from envspec.base.storage import shortage

pytestmark = pytest.mark.e2e


@pytest.mark.slow
@pytest.mark.by_commit(3)
@pytest.mark.parametrize("count", [5, 6, 8, 10, 12, 14, 16, 20, 32])
def test_the_limit_is_named(machine: Machine, index: Index, count: int) -> None:
    serve_lock(machine, index, wheel("alpha", "1.0"))
    for words in (("lock", SPEC, "--upgrade"), ("install", SPEC, "--prefix", "env"), ("bundle", SPEC, "-o", "x.tar")):
        ran = subprocess.run(
            [sys.executable, "-m", "envspec", *words],
            cwd=machine.folder,
            env=machine.environment(),
            capture_output=True,
            text=True,
            timeout=120,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count)),
        )
        named = "open files" in ran.stderr and "ulimit -n 1024" in ran.stderr
        assert ran.returncode == 0 or named, (words, ran.stderr)
        assert "Traceback" not in ran.stderr and "has a fault" not in ran.stderr, ran.stderr


def test_uvs_own_words() -> None:
    short = shortage("uv", "failed to open file `/x`: Too many open files (os error 24)")
    assert short is not None and short.message == "uv reached the system's limit on open files"
