"""What wheels say of themselves bounds a solution, stands in the lock, and is replayed from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from support.told import pin

from envspec.lock.model import Lock, LockedCorrection, Pin
from envspec.lock.write import dumps
from envspec.resolve.pip.request import Preferences, Request
from envspec.spec.model import Spec
from envspec.spec.parse import parse_spec
from envspec.workflow.keep import Upgrade
from envspec.workflow.relock import relock

ACME = pin("acme", "2.0", "numpy")
READ = LockedCorrection("acme", "2.0", "acme-2.0-py3-none-any.whl", "a" * 64, "numpy<2", "it imports numpy.core alone")


class Solver:
    """Gives NumPy 1 to whom METADATA shows that it must be."""

    def __init__(self) -> None:
        self.asked = 0

    def resolve(
        self, requests: Mapping[str, Request], keep: Mapping[str, Preferences]
    ) -> Mapping[str, tuple[Pin, ...]]:
        self.asked += 1
        return {name: self._pins(request) for name, request in requests.items()}

    def _pins(self, request: Request) -> tuple[Pin, ...]:
        bounds = request.corrections.bounds("acme", "2.0", ["numpy"])
        return (replace(ACME, direct=True), pin("numpy", "1.26.4" if "numpy<2" in bounds else "2.2.6"))


class Reader:
    def __init__(self) -> None:
        self.read = 0

    def __call__(self, pins: Sequence[Pin]) -> Sequence[LockedCorrection]:
        self.read += 1
        return (READ,)


def spec(more: str = "") -> Spec:
    text = f"[env]\npython = '3.12'\n[pip]\ndependencies = ['acme']\n{more}\n[targets.a]\nplatform = \"linux-64\"\n"
    return parse_spec(text, "specs/demo.toml")


def locked(old: Lock | None = None, upgrade: Upgrade | None = None, more: str = "") -> tuple[Lock, Solver]:
    solver = Solver()
    return relock(spec(more), old, solver, upgrade=upgrade, inspect=Reader()), solver


def numpy(lock: Lock) -> str:
    found = lock.targets[0].pin("numpy")
    assert found is not None
    return found.version


def test_what_a_wheel_says_bounds_the_next_solution_and_stands_in_the_lock() -> None:
    lock, solver = locked()
    assert (numpy(lock), solver.asked, lock.corrections) == ("1.26.4", 2, (READ,))


def test_it_is_replayed_and_the_bytes_are_the_same() -> None:
    first, _ = locked()
    again, solver = locked(first)
    assert (dumps(again), solver.asked) == (dumps(first), 1)
    anew, solver = locked(first, Upgrade(everything=True))
    assert (dumps(anew), solver.asked) == (dumps(first), 2)


def test_without_a_reader_nothing_is_read_or_replayed() -> None:
    first, _ = locked()
    lock = relock(spec(), first, Solver())
    assert (numpy(lock), lock.corrections) == ("2.2.6", ())


def test_it_is_switched_off_by_name() -> None:
    first, _ = locked()
    lock, _ = locked(first, more="without-corrections = ['acme-read-numpy']")
    assert (numpy(lock), lock.corrections) == ("2.2.6", ())
