"""A spec on hardware: verdicts, the target that is meant, and what the machine adds."""

from dataclasses import replace

import pytest

from envspec.prove.doctor.feasibility import Feasibility, Hardware, assess, hardware_of, on_hardware, overall
from envspec.prove.doctor.machine import Device, Machine, Nvidia, Pythons
from envspec.spec.model import Spec
from envspec.spec.parse import parse_spec

TEXT = """\
[env]
python = "3.12"
[pip]
dependencies = ["torch==2.9.*"]
[targets.volta]
platform = "linux-64"
cuda = "12.6"
gpus = ["V100"]
driver = "535.54.03"
[targets.hopper]
platform = "linux-64"
cuda = "13.0"
gpus = ["H100", "H200"]
[targets.cpu]
platform = "linux-64"
"""


@pytest.fixture
def spec() -> Spec:
    return parse_spec(TEXT, "specs/demo.toml")


def verdicts(spec: Spec, hardware: Hardware, *only: str) -> dict[str, Feasibility]:
    return {verdict.target: verdict for verdict in assess(spec, hardware, only)}


def codes(verdict: Feasibility) -> list[str]:
    return [finding.code for finding in verdict.findings]


def test_nothing_said_is_the_targets_own(spec: Spec) -> None:
    found = verdicts(spec, Hardware())
    assert {name: verdict.status for name, verdict in found.items()} == dict.fromkeys(found, "feasible")
    assert codes(found["volta"]) == ["driver-minor-version-compatibility"]
    assert found["hopper"].torch == ("2.9.1", "2.9.0")


def test_the_target_that_is_meant_for_a_gpu_is_judged(spec: Spec) -> None:
    found = verdicts(spec, Hardware(("H100",), "535.104"))
    assert [found[name].status for name in ("volta", "hopper", "cpu")] == ["elsewhere", "infeasible", "feasible"]
    assert codes(found["hopper"]) == ["driver-forward-compatibility"]
    assert found["hopper"].torch == ()
    assert found["volta"].reason == "for V100; another target is for H100"
    place = found["hopper"].findings[0].place
    assert place is not None and (place.file, place.line) == ("specs/demo.toml", 10)


def test_a_target_that_is_named_is_judged_on_any_gpu(spec: Spec) -> None:
    found = verdicts(spec, Hardware(("V100",)), "hopper")
    assert list(found) == ["hopper"]
    assert codes(found["hopper"]) == ["cuda-dropped-gpu"]
    place = found["hopper"].findings[0].place
    assert place is not None and place.line == 12


def test_without_a_target_for_the_gpu_all_are_judged(spec: Spec) -> None:
    found = verdicts(spec, Hardware(("K80",)))
    assert [found[name].status for name in ("volta", "hopper", "cpu")] == ["infeasible", "infeasible", "feasible"]


def test_names_of_an_architecture_mean_its_cards(spec: Spec) -> None:
    assert verdicts(spec, Hardware(("sm_90",)))["volta"].status == "elsewhere"
    assert verdicts(spec, Hardware(("volta",)))["hopper"].status == "elsewhere"


def test_a_driver_alone_goes_with_every_target(spec: Spec) -> None:
    found = verdicts(spec, Hardware(driver="470.57.02"))
    assert [found[name].status for name in ("volta", "hopper", "cpu")] == ["infeasible", "infeasible", "feasible"]


def test_an_old_glibc_breaks_the_lock_where_torch_would_run(spec: Spec) -> None:
    older = replace(spec, targets=tuple(replace(target, glibc="2.34") for target in spec.targets))
    found = verdicts(older, Hardware(glibc="2.31"))
    assert codes(found["cpu"]) == ["glibc-below-target"]
    assert found["cpu"].findings[0].remedy == 'set glibc = "2.31" in the target and lock again'
    assert codes(verdicts(older, Hardware(glibc="2.34"))["cpu"]) == []
    assert codes(verdicts(older, Hardware(glibc="2.17"))["cpu"]) == ["glibc-too-old"]


def test_another_platform_is_elsewhere(spec: Spec) -> None:
    found = verdicts(spec, Hardware(platform="linux-aarch64"))
    assert {verdict.status for verdict in found.values()} == {"elsewhere"}
    assert found["cpu"].reason == "for linux-64; this machine is linux-aarch64"


def test_a_cpu_target_stays_one(spec: Spec) -> None:
    cpu = spec.target("cpu")
    assert cpu is not None
    changed = on_hardware(cpu, Hardware(("H100",), "570.86.15", "2.31"))
    assert (changed.gpus, changed.driver, changed.glibc) == ((), None, "2.31")


def test_overall(spec: Spec) -> None:
    here = Hardware(platform="linux-64", pythons=("3.11",))
    assert [finding.code for finding in overall(spec, here)] == ["no-gpu-here", "no-python"]
    python = overall(spec, here)[1].place
    assert python is not None and python.line == 2
    cpu = replace(spec, targets=spec.targets[2:])
    assert overall(cpu, Hardware(platform="linux-64", pythons=("3.12",))) == ()
    assert overall(spec, Hardware()) == ()


def test_hardware_of_a_machine() -> None:
    devices = (Device("NVIDIA H100 80GB HBM3", "9.0"), Device("Sample", "12.0"), Device("Sample", "12.0"), Device("?"))
    nvidia = Nvidia((), "570.86.15", "answered", devices)
    machine = Machine("linux-64", "2.36", Pythons("3.12.4", "python", ("3.11",)), nvidia)
    expected = Hardware(("NVIDIA H100 80GB HBM3", "12.0"), "570.86.15", "2.36", "linux-64", ("3.11", "3.12"))
    assert hardware_of(machine) == expected
    assert hardware_of(replace(machine, nvidia=Nvidia(driver="570-open"))).driver is None
