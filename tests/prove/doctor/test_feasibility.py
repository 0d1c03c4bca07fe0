"""A spec on hardware: verdicts, the target that is meant, what the machine adds, and each refusal by its reason."""

import pytest
from msgspec.structs import replace

from envspec.lock.model import Artifact, LockedTarget, Pin, TargetInputs
from envspec.prove.doctor.feasibility import Feasibility, Hardware, assess, hardware_of, on_hardware, overall
from envspec.prove.doctor.fits import LocalMachine, misfit
from envspec.prove.doctor.machine import Device, Machine, Nvidia, Pythons
from envspec.spec.model import Spec, Target
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


def test_a_target_on_which_the_gpu_doesnt_exist_is_anothers() -> None:
    """hopper's code would run on a GH200, and linux-64 doesn't."""
    arm = '[targets.arm]\nplatform = "linux-aarch64"\ncuda = "13.0"\ngpus = ["GH200"]\n'
    found = verdicts(parse_spec(TEXT + arm, "specs/demo.toml"), Hardware(("GH200",)))
    assert [found[name].status for name in ("volta", "hopper", "arm")] == ["elsewhere", "elsewhere", "feasible"]
    alone = verdicts(parse_spec(TEXT, "specs/demo.toml"), Hardware(("GH200",)))
    assert codes(alone["hopper"]) == ["gpu-platform"] and alone["hopper"].status == "infeasible"


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


def test_another_platforms_targets_are_judged_on_paper(spec: Spec) -> None:
    """By their own words: neither this machine's GPUs, nor its driver and glibc, say anything of them."""
    found = verdicts(spec, Hardware(("K80",), "470.57.02", glibc="2.17", platform="linux-aarch64"))
    assert [(one.status, codes(one)) for one in found.values()] == [
        (one.status, codes(one)) for one in verdicts(spec, Hardware()).values()
    ]
    assert found["cpu"].reason == "on paper: for linux-64, and this machine is linux-aarch64"
    old = replace(spec, targets=tuple(replace(one, cuda="10.2", gpus=("H100",)) for one in spec.targets))
    assert verdicts(old, Hardware(platform="linux-aarch64"))["hopper"].status == "infeasible"


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


SPEC = Spec("specs/demo.toml", "demo", "3.12", (Target("t", "linux-64"),))
CPU = LockedTarget(
    "cpu",
    TargetInputs("linux-64", "3.12", "2.28"),
    (Pin("pip", "torch", "2.9.0", "pypi", Artifact("torch.whl", "0" * 64, 3 * 10**9)),),
)
CUDA = replace(
    CPU,
    name="cu128-ampere",
    inputs=TargetInputs("linux-64", "3.12", "2.28", cuda="12.8", gpus=("A100",)),
    architectures=("sm_80",),
    driver_floor="525.60.13",
)
HERE = LocalMachine("linux-64", "2.36", lambda version: version == "3.12", capabilities=("8.0",), driver="550.54.15")


@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda target: target.name)
def test_what_fits_is_served(target: LockedTarget) -> None:
    assert misfit(SPEC, target, HERE) is None


@pytest.mark.parametrize(
    ("target", "machine", "says"),
    [
        (CPU, replace(HERE, platform="osx-arm64"), "the target is for linux-64, this machine is osx-arm64"),
        (CPU, replace(HERE, glibc="2.17"), "locked for glibc 2.28, this machine has 2.17"),
        (CPU, replace(HERE, glibc=None), "this machine has none"),
        (CPU, replace(HERE, has_python=lambda version: False), "this machine has no Python 3.12"),
        (CUDA, replace(HERE, capabilities=()), "this machine has no working one"),
        (CUDA, replace(HERE, capabilities=("7.5",)), "the target is for sm_80, this machine's GPUs are 7.5"),
        (CUDA, replace(HERE, capabilities=("9.0",)), "the target is for sm_80"),
        (CUDA, replace(HERE, capabilities=("8.6",)), "the target is for sm_80, this machine's GPUs are 8.6"),
        (CUDA, replace(HERE, capabilities=("8.0", "7.5")), "the target is for sm_80, this machine's GPUs are 8.0, 7.5"),
        (CUDA, replace(HERE, driver="510.1"), "the target needs driver 525.60.13 or newer, this machine has 510.1"),
        (CUDA, replace(HERE, driver=None), "an unknown one"),
    ],
)
def test_what_doesnt_fit_is_named(target: LockedTarget, machine: LocalMachine, says: str) -> None:
    assert says in (misfit(SPEC, target, machine) or "")


def test_a_cuda_target_without_a_gpu_where_that_is_allowed() -> None:
    assert misfit(SPEC, CUDA, replace(HERE, capabilities=(), driver=None, without_gpu=True)) is None


def test_an_image_brings_its_own_python_and_glibc() -> None:
    assert misfit(SPEC, CPU, replace(HERE, glibc=None, has_python=lambda version: False, contained=True)) is None


def test_conda_packages_need_their_installer() -> None:
    conda = replace(CPU, pins=(Pin("conda", "python", "3.12.1", "conda-forge/linux-64", None),))
    assert "py-rattler" in (misfit(SPEC, conda, replace(HERE, has_conda=False)) or "")
    assert misfit(SPEC, conda, replace(HERE, has_python=lambda version: False)) is None


def test_the_gpus_are_the_targets_exactly() -> None:
    several = replace(CUDA, architectures=("sm_80", "sm_86", "sm_120"))
    assert misfit(SPEC, several, replace(HERE, capabilities=("8.0", "12.0"))) is None
    newer = replace(CUDA, architectures=("sm_89",))
    assert "the target is for sm_89" in (misfit(SPEC, newer, HERE) or "")


@pytest.mark.slow
def test_this_machine_is_asked_without_failing() -> None:
    from envspec.app.this_machine import this_machine

    found = this_machine()
    assert found.platform
    assert not found.has_python("2.1")


@pytest.mark.parametrize(("own", "fits"), [("8.6", True), ("8.9", True), ("9.0", False), ("7.5", False)])
def test_a_near_gpu_runs_the_code_of_its_family(own: str, fits: bool) -> None:
    near = replace(HERE, capabilities=(own,), near=True)
    assert (misfit(SPEC, CUDA, near) is None) == fits
    assert "the target is for sm_80" in (misfit(SPEC, CUDA, replace(near, near=False)) or "")
