"""A release that fits, and is passed over because something that it needs has no wheel for the target."""

from __future__ import annotations

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel

pytestmark = pytest.mark.e2e

WINDOWS = "cp312-cp312-win_amd64"
NEWER_GLIBC = "cp38-abi3-manylinux_2_31_x86_64"
HERE = "linux-64 with glibc 2.28 and Python 3.12"


def told(machine: Machine) -> list[str]:
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 0, ran.err
    return [line for line in ran.err.splitlines() if not line.startswith("wrote ")]


def test_what_it_needs_is_named_with_the_glibc_that_would_do(machine: Machine, index: Index) -> None:
    index.add(wheel("server", "0.21", "guidance<1.4"), wheel("server", "0.22", "guidance>=1.7"))
    index.add(wheel("guidance", "1.3"), wheel("guidance", "1.7.6", tag=NEWER_GLIBC))
    machine.spec(cpu("server"))
    assert told(machine) == [
        f"note: cpu: server 0.21 is locked: newer ones need guidance, whose 1.7.6 has wheels, but none for {HERE}",
        'hint: if the machines have it: glibc = "2.31" in the target',
    ]
    assert machine.versions("cpu") == {"guidance": "1.3", "server": "0.21"}
    # what stays from the old lock was told when it was chosen
    index.add(wheel("more", "1.0"))
    machine.spec(cpu("server", "more"))
    assert told(machine) == []


def test_also_of_what_only_a_package_requires(machine: Machine, index: Index) -> None:
    index.add(wheel("app", "1.0", "lib"), wheel("lib", "1.0"), wheel("lib", "2.0", "deep"))
    index.add(wheel("deep", "1.0", "native"), wheel("native", "3.0", tag=WINDOWS))
    machine.spec(cpu("app"))
    assert told(machine) == [
        f"note: cpu: lib 1.0 is locked: newer ones need native, whose 3.0 has wheels, but none for {HERE}"
    ]


def test_also_below_a_newest_one_with_another_fault(machine: Machine, index: Index) -> None:
    index.add(wheel("server", "1"), wheel("server", "2", "native"), wheel("server", "3", "lib>=9"))
    index.add(wheel("native", "1", tag=WINDOWS), wheel("lib", "1"))
    machine.spec(cpu("server"))
    assert told(machine) == [
        f"note: cpu: server 1 is locked: newer ones need native, whose 1 has wheels, but none for {HERE}"
    ]


def test_also_of_its_own_release_below_a_newest_one_with_another_fault(machine: Machine, index: Index) -> None:
    index.add(
        wheel("server", "1"), wheel("server", "2", tag=WINDOWS), wheel("server", "3", "lib>=9"), wheel("lib", "1")
    )
    machine.spec(cpu("server"))
    assert told(machine) == [f"note: cpu: server 2 has wheels, but none for {HERE}: 1 is locked"]


def test_one_line_for_what_several_packages_need(machine: Machine, index: Index) -> None:
    index.add(wheel("app", "1", "lib"), wheel("app", "2", "lib==2"))
    index.add(wheel("lib", "1"), wheel("lib", "2", "native"), wheel("native", "1", tag=WINDOWS))
    machine.spec(cpu("app", "lib"))
    assert told(machine) == [
        f"note: cpu: app 1 and lib 1 are locked: newer ones need native, whose 1 has wheels, but none for {HERE}"
    ]


def test_other_reasons_are_not_told_as_one_of_wheels(machine: Machine, index: Index) -> None:
    index.add(wheel("app", "1"), wheel("app", "2", "lib<1"), wheel("lib", "1"))
    index.add(wheel("other", "1"), wheel("other", "2", tag=WINDOWS))
    machine.spec(cpu("app", "lib"))
    assert told(machine) == []
