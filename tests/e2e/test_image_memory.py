"""An image of 6 GB, from an index on loopback into a registry on loopback, takes less than 200 MB of memory."""

import random
import shutil
from pathlib import Path

import pytest
from support.base_image import system, write_base
from support.hub import serving_hub
from support.index import Index
from support.installs import PYTHON, SPEC, pip_pin, write_lock
from support.machine import Machine
from support.packages import Dist, packed_anew, wheel

from bench.measure import envspec, run

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("docker-registry") is None, reason="no docker-registry"),
]

LIBRARIES, LIBRARY = 14, 450 << 20
"""Wheels with one library each, as CUDA's are; more than are fetched at a time would be."""
FILES = 40_000
"""Of all other packages of a large environment."""
MOST = 200


def library(seed: int) -> bytes:
    piece = random.Random(seed).randbytes(1 << 10) + bytes(19 << 10)
    return (piece * (LIBRARY // len(piece) + 1))[:LIBRARY]


def packed(name: str, files: dict[str, bytes]) -> Dist:
    return packed_anew(wheel(name, "1.0", files=files))


def test_six_gigabytes_take_less_than_200_megabytes(machine: Machine, index: Index, tmp_path: Path) -> None:
    many = {f"many/{n % 200}/module_of_a_package_{n}.py": b"%d" % n for n in range(FILES)}
    dists = [packed(f"nvidia-lib{n:02}-cu12", {f"nvidia/lib{n:02}.so": library(n)}) for n in range(LIBRARIES)]
    dists.append(packed("many", many))
    index.add(*dists)
    write_lock(machine, [pip_pin(one) for one in dists], platform="linux-64")
    write_base(machine.folder / "base", system(PYTHON))
    with serving_hub(tmp_path) as hub:
        command = envspec("image", SPEC, "--base", "./base", "-o", f"{hub.host}/team/large:1")
        taken = run(command, env=machine.environment(), cwd=machine.folder)
    assert taken.megabytes < MOST
