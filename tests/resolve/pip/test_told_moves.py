"""What lock takes otherwise than uv is told, with all that moves for it."""

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel

from envspec.resolve.pip.notes import moved_beside, rejected_findings


def test_what_moves_for_a_pre_release_that_isnt_taken_is_told_with_it() -> None:
    """As NumPy with numba."""
    before, now = {"numba": "0.63.0b1", "numpy": "2.5.4"}, {"numba": "0.64.0", "numpy": "2.4.6"}
    (told,) = rejected_findings({"numba": "0.63.0b1 is a pre-release"}, before, now, {})
    assert told.message == "numba 0.64.0 is locked: 0.63.0b1 is a pre-release; with numpy 2.4.6 for 2.5.4"
    assert not [*rejected_findings({"numba": "0.63.0b1 is a pre-release"}, before, now, {"numba": "0.64.0"})]


def test_of_many_moves_the_first_are_named() -> None:
    before = {f"p{n}": "1" for n in range(10)}
    assert moved_beside(before, dict.fromkeys(before, "2"), ["p0"]).endswith("p8 2 for 1, 1 more that differ")


def test_a_release_that_refuses_the_python_is_told_where_an_older_one_names_it(machine: Machine, index: Index) -> None:
    """blis 1.2.1 and 1.1.0 on Python 3.13."""
    index.add(
        wheel("lib", "1.0", tag="cp312-cp312-manylinux_2_17_x86_64"), wheel("lib", "2.0", requires_python="<3.12")
    )
    machine.spec(cpu("lib"))
    ran = machine.envspec("lock", "specs/demo.toml")
    assert "note: cpu: lib 1.0 is locked: 2.0 doesn't take Python 3.12 (Requires-Python <3.12)" in ran.err
    assert machine.envspec("lock", "specs/demo.toml").err == ""


def test_a_pre_release_of_uvs_is_told(machine: Machine, index: Index) -> None:
    """numba 0.63.0b1, which goes with a newer numpy than 0.64."""
    index.add(wheel("app", "1.0", "lib>=1"), wheel("lib", "1.0", "num<2"), wheel("lib", "2.0rc1"))
    index.add(wheel("num", "1.0"), wheel("num", "2.0"))
    machine.spec(cpu("app", "num"))
    ran = machine.envspec("lock", "specs/demo.toml")
    assert "note: cpu: lib 1.0 is locked: 2.0rc1 is a pre-release, which nothing asks for" in ran.err


@pytest.mark.slow
def test_a_correction_keeps_uv_from_an_older_release(machine: Machine, index: Index) -> None:
    """verl with vLLM: for a newer fsspec uv would go back to datasets 2.14.4, which fails beside pyarrow 24."""
    index.add(wheel("app", "1.0"), wheel("app", "2.0", "fsspec>=2026.3"), wheel("pyarrow", "24.0.0"))
    index.add(wheel("datasets", "2.14.4", "fsspec", "pyarrow"), wheel("datasets", "4.8.5", "fsspec<2026.3", "pyarrow"))
    index.add(wheel("fsspec", "2026.2.0"), wheel("fsspec", "2026.4.0"))
    machine.envspec("lock", machine.spec(cpu("app", "datasets", "pyarrow")), status=0)
    assert machine.versions("cpu")["datasets"] == "4.8.5"


@pytest.mark.by_day(1)
@pytest.mark.parametrize("held", ["a", "b"])
def test_targets_that_become_one_request_keep_the_newer_of_each_package(
    machine: Machine, index: Index, held: str
) -> None:
    """As where a merge brings an upgrade of one target beside another one's move to its CUDA."""
    index.add(*(wheel(name, version) for name in ("lib", "other") for version in ("1.0", "2.0")))
    both = "".join(f"[targets.{one}]\nplatform = 'linux-64'\n" for one in "ab")
    bounds = {held: "['lib<2', 'other==2']", {"a": "b", "b": "a"}[held]: "['lib==2', 'other<2']"}
    apart = "".join(f"[targets.{one}.pip]\nconstraints = {lines}\n" for one, lines in bounds.items())
    machine.locked(spec=cpu("lib", "other", targets=both + apart))
    assert machine.versions("a") != machine.versions("b")
    index.add(wheel("lib", "3.0"))
    ran = machine.envspec("lock", machine.spec(cpu("lib", "other", targets=both)), status=0)
    assert machine.versions("a") == machine.versions("b") == {"lib": "2.0", "other": "2.0"}
    assert "goes back" not in ran.err
