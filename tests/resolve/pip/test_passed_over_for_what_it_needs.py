"""A release that fits, and is passed over because something that it needs has no wheel for the target."""

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import Dist, wheel

pytestmark = pytest.mark.e2e

WINDOWS = "cp312-cp312-win_amd64"
NEWER_GLIBC = "cp38-abi3-manylinux_2_31_x86_64"


def told(machine: Machine) -> list[str]:
    ran = machine.envspec("lock", "specs/demo.toml", status=0)
    return [line for line in ran.err.splitlines() if not line.startswith("wrote ")]


def test_what_it_needs_is_named_with_the_glibc_that_would_do(machine: Machine, index: Index) -> None:
    index.add(wheel("server", "0.21", "guidance<1.4"), wheel("server", "0.22", "guidance>=1.7"))
    index.add(wheel("guidance", "1.3"), wheel("guidance", "1.7.6", tag=NEWER_GLIBC))
    machine.spec(cpu("server"))
    assert told(machine) == [
        "note: cpu: server 0.21 is locked, not 0.22: guidance 1.7.6 wants glibc 2.31, and the target has 2.28",
        'hint: if the machines have it, set glibc = "2.31" in the target',
    ]
    assert machine.versions("cpu") == {"guidance": "1.3", "server": "0.21"}
    # what stays from the old lock was told when it was chosen
    index.add(wheel("more", "1.0"))
    machine.spec(cpu("server", "more"))
    assert told(machine) == []


@pytest.mark.parametrize(
    ("asked", "lines"),
    [
        (["app"], []),
        (["app", "lib"], ["note: cpu: lib 1.0 is locked, not 2.0: native 3.0 has no wheel for the target"]),
    ],
)
def test_what_only_a_package_requires_is_not_told(
    machine: Machine, index: Index, asked: list[str], lines: list[str]
) -> None:
    """`envspec outdated` lists it."""
    index.add(wheel("app", "1.0", "lib"), wheel("lib", "1.0"), wheel("lib", "2.0", "deep"))
    index.add(wheel("deep", "1.0", "native"), wheel("native", "3.0", tag=WINDOWS))
    machine.spec(cpu(*asked))
    assert told(machine) == lines


def test_also_below_a_newest_one_with_another_fault(machine: Machine, index: Index) -> None:
    index.add(wheel("server", "1"), wheel("server", "2", "native"), wheel("server", "3", "lib>=9"))
    index.add(wheel("native", "1", tag=WINDOWS), wheel("lib", "1"))
    machine.spec(cpu("server"))
    assert told(machine) == ["note: cpu: server 1 is locked, not 3: native 1 has no wheel for the target"]


def test_what_needs_one_of_these_is_not_told_unless_it_is_far_behind(machine: Machine, index: Index) -> None:
    index.add(wheel("app", "1", "lib"), wheel("app", "2", "lib==2"))
    index.add(wheel("lib", "1"), wheel("lib", "2", "native"), wheel("native", "1", tag=WINDOWS))
    machine.spec(cpu("app", "lib"))
    assert told(machine) == ["note: cpu: lib 1 is locked, not 2: native 1 has no wheel for the target"]


def test_metadata_of_a_newer_release_that_cant_be_read_stops_nothing(machine: Machine, index: Index) -> None:
    index.add(
        wheel("lib", "1.0"), wheel("lib", "2.0", "native", "@broken >=", "more ~~ 1"), wheel("lib", "3.0", "gone")
    )
    machine.spec(cpu("lib"))
    assert [line for line in told(machine) if "error" in line] == []
    assert machine.versions("cpu") == {"lib": "1.0"}


def test_releases_for_another_python_are_told_of_what_the_spec_asks_for(machine: Machine, index: Index) -> None:
    index.add(wheel("app", "1", "deep"), wheel("app", "2", requires_python=">=3.13"), wheel("app", "3rc1"))
    index.add(wheel("bound", "1"), wheel("bound", "2", requires_python=">=3.13"), wheel("deep", "1"))
    # the newest is what counts, and what a package asks for itself is its own affair
    index.add(wheel("deep", "2", requires_python=">=3.13"), wheel("two", "1"), wheel("two", "3", "lib>=9"))
    index.add(wheel("two", "2", requires_python=">=3.13"), wheel("lib", "1"))
    machine.spec(cpu("app", "bound<2", "two<3"))
    held = "app 1 (not 2) and two 1 (not 2) are locked"
    assert told(machine) == [f"note: cpu: {held}: newer ones want another Python than 3.12"]
    # what stays from the old lock was told when it was chosen
    machine.spec(cpu("app", "bound<2", "two<3", "lib"))
    assert told(machine) == []


def test_other_reasons_are_not_told_as_one_of_wheels(machine: Machine, index: Index) -> None:
    index.add(wheel("app", "1"), wheel("app", "2", "lib<1"), wheel("lib", "1"))
    index.add(wheel("other", "1"), wheel("other", "2", tag=WINDOWS))
    machine.spec(cpu("app", "lib"))
    assert told(machine) == []


NUMPY_1 = b"\x7fELF module compiled against API version 0x%x but this version of numpy is 0x%x\0"


def compiled_for_numpy_1(name: str) -> Dist:
    files = {f"{name}/_m.cpython-312-x86_64-linux-gnu.so": NUMPY_1}
    return wheel(name, "1.0", "numpy", tag="cp312-cp312-manylinux_2_17_x86_64", files=files)


@pytest.mark.slow
def test_only_of_the_last_solution(machine: Machine, index: Index) -> None:
    """The first one has NumPy 2.2, below a release without wheels for here; a wheel then asks for NumPy 1."""
    index.add(compiled_for_numpy_1("acme"))
    index.add(wheel("numpy", "1.26.4"), wheel("numpy", "2.2.6"), wheel("numpy", "2.5.0", tag=NEWER_GLIBC))
    machine.spec(cpu("numpy", "acme"))
    lines = told(machine)
    assert machine.versions("cpu")["numpy"] == "1.26.4"
    assert not [line for line in lines if "2.2.6" in line or "has wheels" in line], lines
    assert lines[0].startswith("note: cpu: numpy<2 added, ")


@pytest.mark.slow
def test_the_reason_is_the_last_solution_s(machine: Machine, index: Index) -> None:
    """Beside lib 5, server 2 isn't to be had for its bound on lib; beside lib 4, for want of deep's wheels."""
    index.add(compiled_for_numpy_1("acme"), wheel("numpy", "1.26.4"), wheel("numpy", "2.2.6"))
    index.add(wheel("lib", "4", "numpy"), wheel("lib", "5", "numpy>=2"))
    index.add(wheel("server", "1"), wheel("server", "2", "lib<5", "deep>=2"), wheel("deep", "2", tag=NEWER_GLIBC))
    machine.spec(cpu("numpy", "acme", "lib", "server"))
    lines = told(machine)
    assert machine.versions("cpu") == {"acme": "1.0", "lib": "4", "numpy": "1.26.4", "server": "1"}
    assert "note: cpu: server 1 is locked, not 2: deep 2 wants glibc 2.31, and the target has 2.28" in lines
