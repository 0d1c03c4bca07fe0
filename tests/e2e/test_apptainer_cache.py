"""A cache that is bound into the builds of a SIF, by the real Apptainer: the second build fetches nothing, neither
writes into the machine's /tmp, and the image has nothing of either."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.hub import serving_hub
from support.index import Index
from support.installs import SPEC, serve_lock
from support.machine import Machine
from support.packages import wheel
from support.sif import build_sif, push_bases, skip_without_tools

from envspec.export.plan import decode

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.e2e,
    pytest.mark.skipif(
        sys.version_info[:2] != (3, 11), reason="the base has Python 3.11, and the lock is for this one"
    ),
]

skip_without_tools()

LIB = wheel("lib", "1.0")
LOOK = """
import lib, os
print(lib.version, [p for p in ("/layers", "/opt/tools") if os.path.exists(p)], *os.listdir("/mnt"))
"""


def test_a_bound_cache_is_kept_from_build_to_build(machine: Machine, index: Index, tmp_path: Path) -> None:
    serve_lock(machine, index, LIB)
    machine.envspec("export", SPEC, "--format", "apptainer", "-o", "r", status=0)
    recipe = {
        path.relative_to(machine.folder / "r").as_posix(): decode(path.read_bytes())
        for path in (machine.folder / "r").rglob("*")
        if path.is_file() and path.name != "apptainer-offline.def"
    }
    settings = f'[[index]]\nurl = "{index.url}"\ndefault = true\n'
    cache = tmp_path / "settings" / "cache"
    cache.mkdir(parents=True)
    with serving_hub(tmp_path / "hub") as hub:
        push_bases(hub, tmp_path)
        build_sif(recipe, hub, tmp_path, tmp_path / "one.sif", settings=settings)
        assert len(index.paths(LIB.file)) >= 1 and list((cache / "uv").rglob("lib.py"))
        index.asked.clear()
        build_sif(recipe, hub, tmp_path, tmp_path / "two.sif", settings=settings)
        assert index.paths(LIB.file) == [], "the wheel came from the cache"
    for name in ("one.sif", "two.sif"):
        words = ["apptainer", "exec", "--containall", "--no-home", str(tmp_path / name), "python", "-c", LOOK]
        assert subprocess.run(words, capture_output=True, text=True).stdout == "1.0 []\n"
