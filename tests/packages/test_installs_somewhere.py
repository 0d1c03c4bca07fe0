"""What no target installs has no place on a page that uv sees."""

from __future__ import annotations

from itertools import product

from envspec.packages.tags import PLATFORMS, installs_somewhere, wheel_fits

ABIS = ("none", "abi3", "cp39", "cp310", "cp312", "cp312t", "cp32", "any")


def test_what_no_machine_installs_has_no_place() -> None:
    ends = ("any", "manylinux2014_aarch64", "manylinux_2_34_x86_64", "musllinux_1_2_x86_64", "win32", "win_amd64")
    interpreters = ("py2", "py3", "py39", "cp3", "cp32", "cp39", "cp312", "cp312t", "pp312", "py3x")
    every = {"-".join(tag) for tag in product(interpreters, ABIS, ends)}
    machines = list(product(PLATFORMS, ["3.2", "3.9", "3.12"], ["2.99"]))
    anywhere = {tag for tag in every if any(wheel_fits(f"a-1-{tag}.whl", *machine) for machine in machines)}
    assert {tag for tag in every if installs_somewhere(tag)} == anywhere
    assert installs_somewhere("1-cp312-cp312-manylinux_2_28_x86_64")


def test_a_name_with_millions_of_tags_takes_no_time() -> None:
    assert installs_somewhere("-".join([".".join(["pp310"] * 1000)] * 3))
