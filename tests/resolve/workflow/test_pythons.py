"""The builds of Python that a lock names: chosen, kept, moved."""

import pytest
from msgspec.structs import replace
from support.index import Index
from support.machine import Machine
from support.packages import wheel

from envspec.facts.python_builds import newest_build
from envspec.lock.model import Lock, LockedPython
from envspec.lock.store import LockFolder

SPEC = '[env]\npython = "3.12"\n[pip]\ndependencies = ["lib"]\n[targets.cpu]\nplatform = "linux-64"\n'
ARM = '[targets.arm]\nplatform = "linux-aarch64"\n'
OLD = "2025-06-30"


def known(platform: str = "linux-64", before: str | None = None) -> LockedPython:
    found = newest_build("3.12", platform, before)
    assert found is not None
    return LockedPython(found.platform, found.version, found.build, found.file, found.sha256)


def locked(machine: Machine, index: Index, text: str, *arguments: str) -> Lock:
    index.add(wheel("lib", "1.0"))
    return machine.locked(*arguments, spec=text)


def write(machine: Machine, lock: Lock) -> None:
    LockFolder(machine.locks, "demo").write(lock)


def with_exclude_newer(day: str) -> str:
    return SPEC.replace("[pip]", f"exclude-newer = '{day}'\n[pip]")


def test_each_platform_gets_the_newest(machine: Machine, index: Index) -> None:
    assert locked(machine, index, SPEC + ARM).pythons == (known(), known("linux-aarch64"))


@pytest.mark.slow
def test_it_is_kept_until_it_is_upgraded(machine: Machine, index: Index) -> None:
    index.add(wheel("more", "1.0"))
    lock = locked(machine, index, SPEC)
    old = known(before=OLD)
    write(machine, replace(lock, pythons=(old,)))
    assert machine.locked(spec=SPEC.replace('"lib"', '"lib", "more"')).pythons == (old,)
    ran = machine.envspec("lock", "specs/demo.toml", "--upgrade-package", "python")
    assert f"changed python for linux-64 {old.version}+{old.build} -> {known().version}+{known().build}" in ran.out
    assert machine.lock().pythons == (known(),)
    write(machine, replace(machine.lock(), pythons=(old,)))
    assert machine.locked("--upgrade").pythons == (known(),)


def test_exclude_newer_holds_for_it(machine: Machine, index: Index) -> None:
    index.add(wheel("lib", "1.0"), uploaded="2025-01-01T00:00:00Z")
    for text, before in ((SPEC, None), (with_exclude_newer(OLD), OLD)):
        assert machine.locked(spec=text).pythons == (known(before=before),)


def test_without_a_known_build_the_lock_names_none_and_says_so(machine: Machine, index: Index) -> None:
    index.add(wheel("lib", "1.0"), uploaded="2019-01-01T00:00:00Z")
    ran = machine.envspec("lock", machine.spec(with_exclude_newer("2020-01-01")))
    assert ran.status == 0 and machine.lock().pythons == ()
    assert "cpu: envspec knows no build of Python 3.12 released before 2020-01-01" in ran.err
