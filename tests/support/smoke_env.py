"""A real environment for the check: what the shipped lock `cpu-py311` says, installed once and kept for later runs.

It lies in the user's cache folder by the lock's fingerprint; processes that ask for it at the same time wait for the
one that makes it. Nobody changes it: who needs a broken one breaks a `copied` one.
"""

import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from envspec_check.lock import read_target

from envspec.lock.inputs import fingerprint
from envspec.lock.read import load
from envspec.lock.slice import slice_digest

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "recipes" / "cpu-py311" / "cpu" / "target.json"
"""What the check of that lock's target reads."""
CHECK = ROOT / "check"
SECONDS = 600.0
"""A bound against hanging, wide enough for a machine that does much else."""


@pytest.fixture(scope="session")
def smoke_env() -> Path:
    """The prefix of the environment. Skipped where the lock isn't for this machine or torch can't be had."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        pytest.skip("the lock cpu-py311 is for linux-64")
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "envspec-tests"
    kept.mkdir(parents=True, exist_ok=True)
    lock = load(ROOT / "locks" / "cpu-py311" / "envspec.lock")
    made_from = fingerprint(lock.inputs, lock.targets[0].inputs).removeprefix("sha256:")
    prefix = kept / f"cpu-py311-{made_from[:16]}"
    with open(f"{prefix}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        spec = ROOT / "specs" / "cpu-py311.toml"
        # Changes nothing where it's complete already, and finishes what was interrupted.
        words = [sys.executable, "-m", "envspec", "install", str(spec), "--target", "cpu", "--prefix", str(prefix)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode == 3:
        pytest.skip(f"the environment can't be installed here: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return prefix


def copied(prefix: Path, to: Path) -> Path:
    """A copy of an environment, to break. Its files are links where they can be: replace, don't write into them."""

    def link(source: str, target: str) -> str:
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)
        return target

    shutil.copytree(prefix, to, symlinks=True, copy_function=link)
    return to


def with_code(smoke_env: Path, folder: Path, file: str, code: str) -> Path:
    """A copy of the environment in which code follows at the end of one of torch's files."""
    prefix = copied(smoke_env, folder / "env")
    path = site_packages(prefix) / "torch" / file
    text = path.read_text(encoding="utf-8")
    path.unlink()  # it may be a link to the file of the environment that was copied
    path.write_text(text + code, encoding="utf-8")
    return prefix


def site_packages(prefix: Path) -> Path:
    return next((prefix / "lib").glob("python3.*")) / "site-packages"


def changed_config(path: Path, old: str, new: str) -> Path:
    """That target.json with another slice of the lock, written to a path."""
    document = read_target(str(CONFIG))
    document["lock"] = json.loads(json.dumps(document["lock"]).replace(old, new))
    document["lock_digest"] = slice_digest(document["lock"])
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Checked:
    """What the check ended with."""

    status: int
    report: dict[str, Any]
    said: str

    def check(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(one for one in self.report["checks"] if one["name"] == name)
        return found

    @property
    def failed(self) -> list[str]:
        return [one["name"] for one in self.report["checks"] if one["status"] == "fail"]


def run_check(prefix: Path, folder: Path, *words: str, env: Mapping[str, str] | None = None) -> Checked:
    """Run the check by an environment's Python; its report and scratch go below the folder."""
    report = folder / "report.json"
    command = [prefix / "bin" / "python", "-I", CHECK, "--config", CONFIG, "--json", report]
    done = subprocess.run(
        [str(word) for word in (*command, "--scratch", folder, *words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        env={**os.environ, **(env or {})},
    )
    assert report.is_file(), done.stderr
    return Checked(done.returncode, json.loads(report.read_text(encoding="utf-8")), done.stderr)


ONE = """
import json, pathlib, sys
sys.path.insert(0, sys.argv[1])
from envspec_check import checks, workloads
from envspec_check.command import load_config
from envspec_check.interface import CHECKS, Context
from envspec_check.process import run_check
folder, quick = pathlib.Path(sys.argv[4]), sys.argv[6] == "quick"
seconds = float(sys.argv[7])
ctx = Context(load_config(sys.argv[2]), "cpu", sys.argv[5], 20, quick, 0, seconds, folder, sys.argv[1])
(folder / "outcome.json").write_text(json.dumps(run_check(CHECKS[sys.argv[3]], ctx)))
"""
"""Runs one check of a group alone, as the check's own processes do."""


def run_one(
    prefix: Path, config: Path, name: str, folder: Path, variables: Mapping[str, str], workload: str = "basic",
    length: str = "quick", seconds: float = 120,
) -> dict[str, Any]:  # fmt: skip
    """The outcome of one check by an environment's Python; `length` is "quick" or "full", `seconds` its limit."""
    words = [prefix / "bin" / "python", "-I", "-c", ONE, CHECK, config, name, folder, workload, length, seconds]
    env = {**os.environ, **variables}
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=env, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "outcome.json").read_text(encoding="utf-8"))
    return found
