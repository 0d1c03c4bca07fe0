"""A lock of thousands of packages: what its targets share is read once for all of them."""

from __future__ import annotations

from support.installs import pip_pin, write_lock
from support.machine import Machine
from support.packages import Dist

from envspec.lock.judge import judge
from envspec.lock.rules import files, requirements

COUNT = 5000
"""More than the largest cache had that was smaller than a lock: read in the same order again, it missed every time."""


def test_the_second_target_reads_no_file_name_and_no_requirement_again(machine: Machine) -> None:
    pins = [pip_pin(Dist(f"lib{n}", "1.0", f"lib{n}-1.0-py3-none-any.whl", b"%d" % n, b"")) for n in range(COUNT)]
    lock = write_lock(machine, {"one": pins, "two": pins}, python="3.12", platform="linux-64")
    for cached in (files._flaw_of, requirements._plainly_satisfies):
        cached.cache_clear()
    assert judge(lock) == ()
    for cached in (files._flaw_of, requirements._plainly_satisfies):
        assert cached.cache_info().misses == COUNT and cached.cache_info().hits >= COUNT
