"""What a machine installs by the plain reading of tags is what it installs by `packaging`'s."""

from __future__ import annotations

from itertools import product

import pytest

from envspec.base.errors import InputError
from envspec.packages.marker_environment import PLATFORMS
from envspec.packages.tags import installs_somewhere, plainly_installs, wheel_tags

INTERPRETERS = (
    "py2", "py3", "py30", "py39", "py310", "py312", "py313", "cp3", "cp30", "cp31", "cp32", "cp39", "cp310", "cp312",
    "cp313", "cp312t", "pp312", "py", "py3x", "py3\u0661",
)  # fmt: skip
ABIS = ("none", "abi3", "cp39", "cp310", "cp312", "cp312t", "cp32", "any")
ENDS = (
    "any", "linux_x86_64", "linux_aarch64", "manylinux1_x86_64", "manylinux2014_aarch64", "manylinux_2_17_x86_64",
    "manylinux_2_28_x86_64", "manylinux_2_34_x86_64", "musllinux_1_2_x86_64", "win_amd64", "win32",
    "macosx_11_0_arm64", "macosx_14_0_x86_64", "macosx_15_0_arm64", "none",
)  # fmt: skip
MACHINES = (
    ("linux-64", "3.12", "2.28"), ("linux-64", "3.10", "2.17"), ("linux-aarch64", "3.12", "2.31"),
    ("osx-arm64", "3.12", None), ("osx-64", "3.10", None), ("win-64", "3.12", None),
)  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: "-".join(filter(None, machine)))
def test_tags_are_those_of_packaging(machine: tuple[str, str, str | None]) -> None:
    known = {str(tag) for tag in wheel_tags(*machine)}
    every = {"-".join(tag) for tag in product(INTERPRETERS, ABIS, ENDS)} | known
    assert {tag for tag in every if plainly_installs(tag, *machine)} == known


def test_one_of_several_tags_is_enough() -> None:
    machine = MACHINES[0]
    assert plainly_installs("py2.py3-none-any", *machine)
    assert plainly_installs("cp39-abi3-manylinux1_x86_64.manylinux_2_28_x86_64", *machine)
    assert not plainly_installs("py2-none-any", *machine)
    assert not plainly_installs("py3-none", *machine)


def test_an_unknown_platform() -> None:
    with pytest.raises(InputError, match="solaris"):
        plainly_installs("py3-none-any", "solaris", "3.12", None)


def test_what_no_machine_installs_has_no_place() -> None:
    ends = ("any", "manylinux2014_aarch64", "manylinux_2_34_x86_64", "musllinux_1_2_x86_64", "win32", "win_amd64")
    interpreters = ("py2", "py3", "py39", "cp3", "cp32", "cp39", "cp312", "cp312t", "pp312", "py3x")
    every = {"-".join(tag) for tag in product(interpreters, ABIS, ends)}
    machines = list(product(PLATFORMS, ["3.2", "3.9", "3.12"], ["2.99"]))
    anywhere = {tag for tag in every if any(plainly_installs(tag, *machine) for machine in machines)}
    assert {tag for tag in every if installs_somewhere(tag)} == anywhere
    assert installs_somewhere("1-cp312-cp312-manylinux_2_28_x86_64")


def test_a_name_with_millions_of_tags_takes_no_time() -> None:
    assert installs_somewhere("-".join([".".join(["pp310"] * 1000)] * 3))
