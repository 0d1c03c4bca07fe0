"""Corrections bound the resolution, as METADATA of the index proxy: an older package is taken where a newer one needs
what can't be had."""

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel

pytestmark = pytest.mark.e2e

LINUX = "[targets.t]\nplatform = 'linux-64'"


def versions(machine: Machine) -> dict[str, str]:
    target = machine.locked().target("t")
    assert target is not None
    return {pin.name: pin.version for pin in target.pins}


@pytest.fixture
def numpys(index: Index) -> Index:
    index.add(wheel("numpy", "1.26.4"), wheel("numpy", "2.2.6"))
    index.add(wheel("pyarrow", "25.0.0"), wheel("pyarrow", "26.0.0"))
    return index


def test_what_metadata_requires_is_bounded_under_its_own_marker(machine: Machine, numpys: Index) -> None:
    """opencv-python 4.9 requires numpy, and is compiled for NumPy 1; 4.10.0.84 isn't."""
    line = "numpy>=1.21.2; python_version >= '3.10'"
    numpys.add(wheel("opencv-python", "4.9.0.80", line), wheel("opencv-python", "4.10.0.84", line))
    ran = machine.envspec("lock", machine.spec(cpu("opencv-python<4.10", targets=LINUX)), status=0)
    assert versions(machine) == {"numpy": "1.26.4", "opencv-python": "4.9.0.80"}
    assert "note: t: numpy<2 added, because opencv-python 4.10.0.82 and older" in ran.err
    assert 'without-corrections = ["opencv-python-numpy-2"]' in ran.err
    assert machine.envspec("check", "specs/demo.toml").status == 0


@pytest.mark.slow
def test_another_version_of_the_corrected_package_is_taken_where_that_is_better(
    machine: Machine, numpys: Index
) -> None:
    """pyarrow names no NumPy at all, so the first solution has 26, which refuses NumPy 1."""
    numpys.add(wheel("old", "1.0", "numpy<2"))
    ran = machine.envspec("lock", machine.spec(cpu("old", "pyarrow", targets=LINUX)), status=0)
    assert versions(machine) == {"numpy": "1.26.4", "old": "1.0", "pyarrow": "25.0.0"}
    assert "note: t: pyarrow 25.0.0 locked, because pyarrow 26 refuses NumPy 1" in ran.err


@pytest.mark.slow
def test_a_constraint_adds_no_package(machine: Machine, numpys: Index) -> None:
    """numpy leaves with helper 2.0, and the line that bounds it must not keep it."""
    numpys.add(wheel("helper", "1.0"), wheel("helper", "2.0", "numpy<2"))
    machine.envspec("lock", machine.spec(cpu("pyarrow>=26", "helper", targets=LINUX)), status=0)
    assert versions(machine) == {"helper": "1.0", "pyarrow": "26.0.0"}


def test_what_metadata_leaves_out_is_added(machine: Machine, numpys: Index) -> None:
    numpys.add(wheel("faiss-cpu", "1.7.4"))
    ran = machine.envspec("lock", machine.spec(cpu("faiss-cpu", targets=LINUX)), status=0)
    assert versions(machine) == {"faiss-cpu": "1.7.4", "numpy": "1.26.4"}
    assert "numpy added, because faiss-cpu 1.7.4 and older import numpy" in ran.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "requires", "said"),
    [
        ("4.9.0.80", "numpy", "envspec adds numpy<2 to opencv-python"),
        # as haotian-liu/LLaVA's: deepspeed 0.9.5 itself requires pydantic<2, and the correction is of older ones
        ("4.12.0.88", "numpy<2", "opencv-python depend on numpy<2"),
    ],
)
def test_a_conflict_names_the_correction_that_it_is_of(
    machine: Machine, numpys: Index, version: str, requires: str, said: str
) -> None:
    """The METADATA that a user can look up doesn't say what uv was shown."""
    numpys.add(wheel("opencv-python", version, requires))
    asked = cpu(f"opencv-python=={version}", "numpy>=2", targets=LINUX)
    ran = machine.envspec("lock", machine.spec(asked), status=1)
    assert said in ran.error.replace("\n", " ") + ran.err
    corrected = "envspec adds" in said
    assert ("envspec adds" in ran.err) is ('without-corrections = ["opencv-python-numpy-2"]' in ran.err) is corrected


@pytest.mark.slow
def test_a_conflict_names_the_extra_that_bounds(machine: Machine, index: Index) -> None:
    """No METADATA says that transformers 5 requires a torch, but for an extra that nobody asks for."""
    index.add(wheel("torch", "2.2.2"), wheel("torch", "2.9.1"), wheel("setuptools", "80.9.0"))
    index.add(*(wheel("transformers", version, 'torch>=2.4; extra == "torch"') for version in ("5.0.0", "5.1.0")))
    machine.spec(cpu("transformers>=5", "torch<2.3", targets="[targets.t]\nplatform = 'osx-arm64'"))
    ran = machine.envspec("lock", "specs/demo.toml", status=1)
    said = "transformers 5.1.0 works with torch>=2.4 alone, which only its extra torch says"
    assert said in ran.error.replace("\n", " "), ran.err
    assert 'without-corrections = ["transformers-extra-torch"]' in ran.err
    machine.spec(
        cpu(
            "transformers>=5",
            "torch<2.3",
            extra="without-corrections = ['transformers-extra-torch']",
            targets="[targets.t]\nplatform = 'osx-arm64'",
        )
    )
    assert machine.envspec("lock", "specs/demo.toml").status == 0


@pytest.mark.slow
def test_a_correction_is_told_that_sends_others_back_to_what_says_the_same(machine: Machine, index: Index) -> None:
    index.add(wheel("gradio", "5.1.0", "huggingface-hub>=0.25"), wheel("huggingface-hub", "0.36.2"))
    index.add(
        wheel("transformers", "4.57.6", "huggingface-hub<1"), wheel("transformers", "5.6.0", "huggingface-hub>=1")
    )
    index.add(wheel("huggingface-hub", "1.33.0"))
    told = "huggingface-hub<1 added, because gradio 4.9 to 5.8 import HfFolder"
    for asked, said in (("transformers", True), ("transformers<5", False)):
        ran = machine.envspec("lock", machine.spec(cpu("gradio", asked)), "--upgrade")
        assert ran.status == 0 and (told in ran.err) == said, ran.err


def numpy(machine: Machine) -> str:
    target = machine.locked().target("t")
    assert target is not None
    (pin,) = [pin for pin in target.pins if pin.name == "numpy"]
    return pin.version


@pytest.fixture
def learn(index: Index) -> Index:
    index.add(wheel("numpy", "1.26.4"), wheel("numpy", "2.2.6"), wheel("opencv-python", "4.9.0.80", "numpy"))
    return index


def test_an_override_counts_for_more_than_any_correction(machine: Machine, learn: Index) -> None:
    override = 'overrides = [{ requirement = "numpy>=2", reason = "rebuilt here" }]'
    machine.spec(cpu("opencv-python", extra=override, targets=LINUX))
    ran = machine.envspec("lock", "specs/demo.toml", status=0)
    assert numpy(machine) == "2.2.6"
    assert "correction" not in ran.err


def test_one_that_rules_out_nothing_is_not_told(machine: Machine, learn: Index) -> None:
    """numpy 2.2.6 is out of reach in any case: for a requirement of other METADATA, or for its wheels."""
    learn.add(wheel("old", "1.0", "numpy<2.2"))
    ran = machine.envspec("lock", machine.spec(cpu("opencv-python", "old", targets=LINUX)))
    assert (ran.status, numpy(machine)) == (0, "1.26.4")
    assert "correction" not in ran.err


def test_one_that_also_decides_another_package_is_told(machine: Machine, index: Index) -> None:
    """nuscenes-devkit 1.2 needs NumPy 1 itself, and uv without the correction has 1.1.9 beside NumPy 2: so it is in
    what people install, with torch 2.1."""
    index.add(wheel("numpy", "1.26.4"), wheel("numpy", "2.2.6"), wheel("opencv-python", "4.9.0.80", "numpy"))
    index.add(wheel("nuscenes", "1.1.9", "numpy"), wheel("nuscenes", "1.2.0", "numpy<2"))
    ran = machine.envspec("lock", machine.spec(cpu("opencv-python", "nuscenes", targets=LINUX)))
    assert (ran.status, machine.versions("t")["nuscenes"]) == (0, "1.2.0")
    assert "note: t: numpy<2 added, because opencv-python 4.10.0.82 and older" in ran.err
