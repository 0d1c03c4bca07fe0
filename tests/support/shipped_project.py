"""A shipped spec and its lock on a machine that can't fetch the build of Python that the lock names: a copy of both,
whose lock names a stand-in from a mirror on loopback. For all that makes an environment or an image of such a lock."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from envspec.install.interpreter import MIRROR_VARIABLE
from envspec.lock.read import load
from envspec.lock.store import LockFolder
from support.installs import PYTHON
from support.machine import ROOT
from support.oci import ENVSPEC, envspec
from support.python_build import locked_build, served


@dataclass(frozen=True)
class ShippedProject:
    """folder   what holds specs/ and locks/
    spec       the spec's path in it
    mirror     the address of the stand-in's mirror
    """

    folder: Path
    spec: str
    mirror: str

    @property
    def variables(self) -> dict[str, str]:
        """What tells envspec of the mirror."""
        return {MIRROR_VARIABLE: self.mirror}

    def envspec(self, command: str, *arguments: str, program: Sequence[str] = ENVSPEC, **more: str) -> str:
        """Run a command of envspec for the spec; gives what it prints. `more` are environment variables."""
        return envspec(self.folder, command, self.spec, *arguments, program=program, **self.variables, **more)


@contextmanager
def shipped_project(name: str, build: Path, folder: Path) -> Iterator[ShippedProject]:
    """A copy of a shipped spec in a new folder, with the stand-in `build`. Skips where this Python isn't the spec's,
    since the stand-in is made of it."""
    lock = load(ROOT / "locks" / name / "envspec.lock")
    if any(target.inputs.python != PYTHON for target in lock.targets):
        pytest.skip(f"{name} is for another Python than {PYTHON}")
    project = folder / "project"
    (project / "specs").mkdir(parents=True)
    shutil.copy(ROOT / "specs" / f"{name}.toml", project / "specs")
    LockFolder(project / "locks", name).write(replace(lock, pythons=(locked_build(build),)))
    with served(build, folder / "builds") as mirror:
        yield ShippedProject(project, f"specs/{name}.toml", mirror)
