"""A lock of thousands of packages: what its targets share is read once for all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.installs import pip_pin, write_lock
from support.machine import Machine
from support.packages import Dist

from envspec.lock.graph import Graph
from envspec.lock.judge import judge
from envspec.lock.model import Lock, LockedTarget
from envspec.lock.rules import files, requirements

COUNT = 5000
"""More than the largest cache had that was smaller than a lock: read in the same order again, it missed every time."""


@pytest.mark.slow
def test_the_second_target_reads_no_file_name_and_no_requirement_again(machine: Machine) -> None:
    pins = [pip_pin(Dist(f"lib{n}", "1.0", f"lib{n}-1.0-py3-none-any.whl", b"%d" % n, b"")) for n in range(COUNT)]
    lock = write_lock(machine, {"one": pins, "two": pins}, python="3.12", platform="linux-64")
    for cached in (files._flaw_of, requirements._contains):
        cached.cache_clear()
    assert judge(lock) == ()
    for cached in (files._flaw_of, requirements._contains):
        assert cached.cache_info().misses == COUNT


def locked(machine: Machine) -> tuple[Lock, LockedTarget]:
    """A lock of one target, and that target."""
    pins = [pip_pin(Dist("lib", "1.0", "lib-1.0-py3-none-any.whl", b"x", b""))]
    lock = write_lock(machine, {"one": pins}, python="3.12", platform="linux-64", glibc="2.28")
    return lock, lock.targets[0]


@pytest.mark.parametrize(
    ("other", "graphs"),
    [
        ({"gpus": ("A100",)}, 1),
        ({"driver": "550.54.15"}, 1),
        ({"glibc": "2.31"}, 1),
        ({"accept": (("x", "y"),)}, 1),
        ({"platform": "linux-aarch64"}, 2),
        ({"requirements": ("lib<2",)}, 2),
        ({"overrides": (("other==1", "why"),)}, 2),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_targets_that_differ_elsewhere_share_their_graph(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any], graphs: int
) -> None:
    lock, one = locked(machine)
    two = LockedTarget("two", replace(one.inputs, **other), one.pins)
    made: list[LockedTarget] = []
    of = Graph.of

    def counted(target: LockedTarget) -> Graph:
        made.append(target)
        return of(target)

    monkeypatch.setattr(Graph, "of", staticmethod(counted))
    judge(replace(lock, targets=(one, two)))
    assert len(made) == graphs


def test_what_is_judged_once_is_told_of_each_target(machine: Machine) -> None:
    lock, one = locked(machine)
    loose = pip_pin(Dist("loose", "1.0", "loose-1.0-py3-none-any.whl", b"y", b""))
    wrong = LockedTarget("b", one.inputs, (*one.pins, replace(loose, direct=False)))
    flaws = judge(replace(lock, targets=(replace(wrong, name="a"), wrong, replace(one, name="c"))))
    assert [(flaw.package, flaw.targets) for flaw in flaws] == [("loose", ("a", "b"))]


def test_each_targets_own_gpus_are_judged(machine: Machine) -> None:
    """The pins of both are judged once; what is derived from GPUs isn't."""
    lock, one = locked(machine)
    two = LockedTarget("two", replace(one.inputs, gpus=("A100",)), one.pins)
    flaws = judge(replace(lock, targets=(one, two)))
    assert [(flaw.code, flaw.targets) for flaw in flaws] == [("wrong-architectures", ("two",))]
