"""Corrections that others report: they bound a resolution, heed their markers, and give way to requirements."""

from __future__ import annotations

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel

pytestmark = pytest.mark.e2e

LINUX = "[targets.t]\nplatform = 'linux-64'"


OTHERS = {"a": "linux-64", "b": "linux-64", "c": "osx-arm64"}


def numpy(machine: Machine) -> str:
    target = machine.locked().target("t")
    assert target is not None
    (pin,) = [pin for pin in target.pins if pin.name == "numpy"]
    return pin.version


@pytest.fixture
def learn(index: Index) -> Index:
    index.add(wheel("numpy", "1.26.4"), wheel("numpy", "2.2.6"))
    index.add(wheel("scikit-learn", "1.3.0", "numpy>=1.17.3"), wheel("scikit-learn", "1.3.2", "numpy<2.0,>=1.17.3"))
    return index


def test_what_conda_forge_found_bounds_the_solution_and_is_told(machine: Machine, learn: Index) -> None:
    ran = machine.envspec("lock", machine.spec(cpu("scikit-learn==1.3.0", targets=LINUX)))
    assert ran.status == 0, ran.err
    assert numpy(machine) == "1.26.4"
    assert "note: t: numpy<2 added, because conda-forge found that scikit-learn 1.3.0 and older need numpy<2" in ran.err
    assert 'without-corrections = ["conda-forge-scikit-learn-numpy"]' in ran.err


@pytest.mark.slow
def test_it_gives_way_to_requirements_in_one_line(machine: Machine, learn: Index) -> None:
    ran = machine.envspec("lock", machine.spec(cpu("scikit-learn==1.3.0", "numpy>=2", targets=LINUX)))
    assert ran.status == 0, ran.err
    assert numpy(machine) == "2.2.6"
    assert (
        "note: t: numpy<2 isn't added to scikit-learn, because the requirements leave nothing within it, though "
        "conda-forge found that scikit-learn 1.3.0 and older need numpy<2" in ran.err
    )
    assert ran.err.count("\n") == 1


@pytest.mark.slow
def test_it_gives_way_in_a_target_that_is_solved_beside_others(machine: Machine, learn: Index) -> None:
    """What a conflict stopped isn't stopped for the solution after it."""
    more = "".join(f"[targets.{name}]\nplatform = '{subdir}'\n" for name, subdir in OTHERS.items())
    machine.spec(cpu("scikit-learn==1.3.0", targets=f"{more}[targets.a.pip]\ndependencies = ['numpy>=2']\n"))
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 0, ran.err
    assert [machine.versions(name)["numpy"] for name in OTHERS] == ["2.2.6", "1.26.4", "1.26.4"]


@pytest.mark.slow
def test_one_that_was_proved_stays(machine: Machine, learn: Index) -> None:
    """And in its conflict, those that give way aren't named."""
    learn.add(wheel("opencv-python", "4.9.0.80", "numpy"))
    ran = machine.envspec("lock", machine.spec(cpu("scikit-learn==1.3.0", "opencv-python", "numpy>=2", targets=LINUX)))
    assert ran.status == 1
    assert 'without-corrections = ["opencv-python-numpy-2"]' in ran.err


@pytest.mark.parametrize(("python", "locked"), [("3.12", "1.26.4"), ("3.13", "2.2.6")])
def test_its_marker_decides(machine: Machine, learn: Index, python: str, locked: str) -> None:
    """pint 0.23 can't have NumPy 1 on Python 3.13: there is none."""
    learn.add(wheel("pint", "0.23", "numpy; python_version >= '3.9'"))
    ran = machine.envspec("lock", machine.spec(cpu("pint", "numpy", targets=LINUX, python=python)))
    assert ran.status == 0, ran.err
    assert numpy(machine) == locked
    assert ("conda-forge-pint-numpy" in ran.err) == (python == "3.12")


def test_an_override_counts_for_more_than_any_correction(machine: Machine, learn: Index) -> None:
    learn.add(wheel("opencv-python", "4.9.0.80", "numpy"))
    override = 'overrides = [{ requirement = "numpy>=2", reason = "rebuilt here" }]'
    machine.spec(cpu("scikit-learn==1.3.0", "opencv-python", extra=override, targets=LINUX))
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 0, ran.err
    assert numpy(machine) == "2.2.6"
    assert "correction" not in ran.err


def test_one_that_rules_out_nothing_is_not_told(machine: Machine, learn: Index) -> None:
    """numpy 2.2.6 is out of reach in any case: for a requirement of other METADATA, or for its wheels."""
    learn.add(wheel("old", "1.0", "numpy<2.2"), wheel("pywavelets", "1.4.1", "numpy"))
    ran = machine.envspec("lock", machine.spec(cpu("scikit-learn==1.3.0", "pywavelets", "old", targets=LINUX)))
    assert (ran.status, numpy(machine)) == (0, "1.26.4")
    assert "correction" not in ran.err


def test_one_beyond_what_is_on_offer_is_not_told(machine: Machine, index: Index) -> None:
    index.add(wheel("numpy", "1.26.4"), wheel("numpy", "2.2.6", tag="cp313-cp313-manylinux_2_17_x86_64"))
    index.add(wheel("scikit-learn", "1.3.0", "numpy"))
    ran = machine.envspec("lock", machine.spec(cpu("scikit-learn", targets=LINUX)))
    assert (ran.status, numpy(machine)) == (0, "1.26.4")
    assert "correction" not in ran.err
