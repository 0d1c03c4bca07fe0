"""Resolving for tests: a spec, an index, and what is asked of it."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from support.machine import Machine

from envspec.base.progress import Progress
from envspec.lock.model import Lock
from envspec.resolve.pip.setup import pip_resolver
from envspec.resolve.workflow.keep import Upgrade
from envspec.resolve.workflow.relock import RelockRequest, relock
from envspec.resolve.workflow.solve import Resolvers
from envspec.spec.parse import load_spec

LINUX, MAC, ARM, WINDOWS = (f"platform = '{name}'" for name in ("linux-64", "osx-arm64", "linux-aarch64", "win-64"))


def targets(**lines: str) -> str:
    return "\n".join(f"[targets.{name}]\n{text}" for name, text in lines.items())


class Watched(Progress):
    """A progress that remembers what was solved, in order, and how many artifacts were read."""

    def __init__(self) -> None:
        self.solved: list[tuple[str, ...]] = []
        self.total = 0
        self._lock = threading.Lock()

    @contextmanager
    def solving(self, targets: Sequence[str]) -> Iterator[None]:
        with self._lock:
            self.solved.append(tuple(targets))
        yield

    def count(self, done: int, total: int) -> None:
        with self._lock:
            self.total = max(self.total, total)


def lock(
    machine: Machine, old: Lock | None = None, upgrade: Upgrade | None = None, *, progress: Watched | None = None
) -> Lock:
    """Lock specs/demo.toml within this process."""
    machine.introduce()
    spec = load_spec(str(machine.folder / "specs" / "demo.toml"))
    env = machine.environment()
    with pip_resolver(spec, env, offline=False, refresh=False, progress=progress or Watched()) as resolver:
        return relock(RelockRequest(spec, old, upgrade=upgrade or Upgrade()), Resolvers(resolver))[0]


CUDA = "platform = 'linux-64'\ncuda = '{}'\ngpus = ['A100']"
