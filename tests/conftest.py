"""What all tests share: Hypothesis profiles, the repository's root, and the recorded data that may lie beside it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from support.index import Index
from support.machine import Machine
from support.smoke_env import smoke_env as smoke_env

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("ENVSPEC_CI") else "dev")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Ctrl-C always counts: children would inherit the ignored SIGINT that a background job of a shell script has."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def project_files(root: Path) -> tuple[Path, ...]:
    """Every file that is tracked or would be: what git doesn't ignore, relative to the root."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout.decode()
    return tuple(sorted({Path(name) for name in listed.split("\0") if name and (root / name).is_file()}))


@pytest.fixture(scope="session")
def recorded_data(root: Path) -> Path:
    """The folder of recorded facts beside the checkout. Without it the test is skipped, by name."""
    folder = root.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no recorded data: ../shared/data is missing")
    return folder


@pytest.fixture
def index() -> Iterator[Index]:
    """An empty package index on loopback."""
    with Index() as running:
        yield running


@pytest.fixture
def machine(tmp_path: Path, index: Index) -> Iterator[Machine]:
    """A user's machine, to which `index` is PyPI."""
    made = Machine(tmp_path / "machine", index.url)
    yield made
    made.close()
