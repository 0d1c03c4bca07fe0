"""`envspec smoke` of the shipped `cpu-py311`, as a process, with this machine's own settings.

Environments are kept under ~/.cache, by the lock's fingerprint."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from envspec.pytest_plugin import Ran, smoke as ask
from support.once import once

ROOT = Path(__file__).resolve().parents[2]
SPEC = str(ROOT / "specs" / "cpu-py311.toml")
ENVSPEC = (sys.executable, "-m", "envspec")


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    cache = Path.home() / ".cache" / "envspec-tests" / "smoke"
    return {**os.environ, "ENVSPEC_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT), **(more or {})}


def smoke(
    *arguments: str, env: Mapping[str, str] | None = None, seconds: float = 900
) -> subprocess.CompletedProcess[str]:
    """Run it to its end. Skips where the environment can't be made, since no index or folder has its torch."""
    ran = subprocess.run(
        [*ENVSPEC, "smoke", SPEC, *arguments], capture_output=True, text=True, timeout=seconds, check=False,
        env=environment(env), stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert "Traceback" not in ran.stderr, ran.stderr
    skip_without_torch(ran.stdout)
    return ran


def whole_run(factory: pytest.TempPathFactory) -> Callable[[Sequence[str]], Ran]:
    """`envspec smoke` as `prove` asks for it, each command line once a test run: every check takes minutes."""

    def asked(argv: Sequence[str]) -> Ran:
        name = hashlib.sha256("\0".join(argv).encode()).hexdigest()[:16]

        def make(folder: Path) -> None:
            (folder / "ran.json").write_text(json.dumps(ask(argv)))

        status, out, err = json.loads((once(factory, name, make) / "ran.json").read_text())
        return status, out, err

    return asked


def skip_without_torch(out: str) -> None:
    try:
        runs = json.loads(out)["runs"]
    except ValueError:
        return
    for run in runs:
        if run["status"] == "error" and "can't be made" in (run["reason"] or "") and "torch" in run["reason"]:
            pytest.skip(f"no index or folder has the torch of cpu-py311: {run['reason'][:300]}")
