"""`envspec image --build-sources` and the locked build environments: these alone, each by its hash."""

from dataclasses import replace

import pytest
from support.base_image import documents, members, system, write_base
from support.index import Index
from support.installs import PYTHON, SUBDIR
from support.machine import Machine, Ran, cpu
from support.packages import ASKING, sdist, wheel

from envspec.lock.store import LockFolder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.e2e,
    pytest.mark.skipif(SUBDIR != "linux-64", reason="the base is for linux-64"),
]

PROJECT = """[build-system]
requires = ["tool>=1", "gone; python_version < '3'"]
build-backend = "backend"
backend-path = ["."]
"""


@pytest.fixture
def demo(machine: Machine, index: Index) -> Machine:
    """A lock whose source is built with three wheels; newer ones came after it."""
    index.add(sdist("src", "1.0", files={"pyproject.toml": PROJECT, "backend.py": ASKING}))
    index.add(wheel("tool", "1.0", "below"), wheel("below", "2.0"), wheel("asked", "1.0"))
    spec = cpu("src", extra="allow-source = ['src']", python=PYTHON)
    machine.locked(spec=spec + "glibc = '2.17'\n[image]\npython = 'base'\n")
    index.add(wheel("tool", "1.1", "below"), wheel("below", "2.1"), wheel("asked", "1.1"))
    write_base(machine.folder / "base", system(PYTHON))
    return machine


def built(machine: Machine, to: str = "out") -> Ran:
    witness = {"WITNESS": str(machine.folder / "witness")}
    return machine.envspec("image", "specs/demo.toml", "--base", "./base", "-o", to, "--build-sources", env=witness)


def test_a_source_is_built_with_the_wheels_that_the_lock_names(demo: Machine) -> None:
    ran = built(demo)
    assert ran.status == 0, ran.err
    assert (demo.folder / "witness").read_text("utf-8") == "asked 1.0, below 2.0, tool 1.0\n"
    assert f"opt/env/lib/python{PYTHON}/site-packages/src.py" in members(demo.folder / "out", "rest")
    assert "src@sha256:" in documents(demo.folder / "out")[0]["annotations"]["envspec.built"]


def test_a_wheel_of_the_build_with_another_hash_builds_nothing(demo: Machine) -> None:
    lock = demo.lock()
    (target,) = lock.targets
    forged = tuple(
        replace(pin, built_with=tuple(replace(one, sha256="e" * 64) for one in pin.built_with or ()))
        if pin.name == "src"
        else pin
        for pin in target.pins
    )
    LockFolder(demo.locks, "demo").write(replace(lock, targets=(replace(target, pins=forged),)))
    ran = built(demo)
    assert ran.status == 3 and not (demo.folder / "witness").exists(), ran.err
