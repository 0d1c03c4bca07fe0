"""The target that a machine gets when the user names none."""

import pytest
from msgspec.structs import replace

from envspec.base.errors import InputError
from envspec.install.environments.choose import ChosenTarget, Undecided, choose, remark
from envspec.lock.model import LockedTarget, TargetInputs
from envspec.prove.doctor.fits import LocalMachine
from envspec.spec.model import Spec, Target

SPEC = Spec("specs/demo.toml", "demo", "3.12", (Target("t", "linux-64"),))
CPU = LockedTarget("cpu", TargetInputs("linux-64", "3.12", "2.28"), ())
MAC = replace(CPU, name="mac", inputs=TargetInputs("osx-arm64", "3.12", None))
LOGIN = LocalMachine("linux-64", "2.36", lambda version: True)
H100 = replace(LOGIN, capabilities=("9.0",), driver="550.54.15")
NOT_JUDGED = "not judged here, because this machine shows no working GPU"


def cuda(name: str, version: str, *architectures: str) -> LockedTarget:
    inputs = TargetInputs("linux-64", "3.12", "2.28", cuda=version)
    return replace(CPU, name=name, inputs=inputs, architectures=architectures, driver_floor="525.60.13")


AMPERE, HOPPER, OLD = (
    cuda("cu128-ampere", "12.8", "sm_80"),
    cuda("cu128-hopper", "12.8", "sm_90"),
    cuda("cu126-hopper", "12.6", "sm_90"),
)
WIDE = cuda("cu128-wide", "12.8", "sm_80", "sm_90")


def chosen(*targets: LockedTarget, machine: LocalMachine = H100, preferred: tuple[str, ...] = ()) -> tuple[str, str]:
    found = choose(SPEC, targets, machine, preferred)
    assert isinstance(found, ChosenTarget), found
    return found.target.name, found.because


def test_the_gpu_decides() -> None:
    assert chosen(CPU, AMPERE, HOPPER) == ("cu128-hopper", "GPU of sm_90, driver 550.54.15")
    two = replace(H100, capabilities=("9.0", "9.0"))
    assert chosen(HOPPER, machine=two) == ("cu128-hopper", "2 GPUs of sm_90, driver 550.54.15")


def test_of_several_the_newest_cuda_then_the_closest() -> None:
    told = "GPU of sm_90, driver 550.54.15; cu126-hopper, cu128-wide would run too"
    assert chosen(OLD, WIDE, HOPPER) == ("cu128-hopper", told)
    assert chosen(OLD, WIDE, HOPPER, preferred=("cu126-*",))[0] == "cu126-hopper"


def test_a_gpu_that_no_target_is_for_is_no_reason_for_a_cpu_target() -> None:
    with pytest.raises(
        InputError, match=r"cu128-ampere: the target is for sm_80, this machine's GPUs are 9\.0"
    ) as raised:
        choose(SPEC, (CPU, AMPERE), H100, ("cpu",))
    assert raised.value.hint is not None and raised.value.hint.startswith("--target cpu runs without the GPU")
    with pytest.raises(InputError, match=r"needs driver 525\.60\.13 or newer"):
        choose(SPEC, (HOPPER,), replace(H100, driver="470.1"))


def test_a_login_node_gets_no_cpu_target_because_it_has_no_gpu() -> None:
    found = choose(SPEC, (CPU, HOPPER), LOGIN)
    assert isinstance(found, Undecided)
    assert found.targets == (CPU, HOPPER)
    assert "shows no working GPU" in found.because


def test_the_setting_decides_on_a_login_node() -> None:
    assert chosen(CPU, HOPPER, machine=LOGIN, preferred=("none", "cu128-*")) == (
        "cu128-hopper",
        f"by the default of your settings; {NOT_JUDGED}",
    )
    assert chosen(CPU, HOPPER, machine=LOGIN, preferred=("cpu",)) == ("cpu", "by the default of your settings")


def test_where_there_is_nothing_to_fall_back_from() -> None:
    assert chosen(CPU, machine=LOGIN) == ("cpu", "")
    assert chosen(CPU, machine=H100) == ("cpu", "")
    mac = replace(LOGIN, platform="osx-arm64", glibc=None)
    assert chosen(CPU, HOPPER, MAC, machine=mac) == ("mac", "the only one for osx-arm64")
    assert chosen(HOPPER, MAC, machine=LOGIN) == ("cu128-hopper", f"the only one for linux-64; {NOT_JUDGED}")
    assert isinstance(choose(SPEC, (CPU, replace(CPU, name="cpu-small")), LOGIN), Undecided)


def test_nothing_runs_here() -> None:
    with pytest.raises(InputError, match=r"no target of demo runs here:\n  cpu: the target is for linux-64"):
        choose(SPEC, (CPU,), replace(LOGIN, platform="linux-aarch64"))
    many = tuple(replace(MAC, name=f"mac-{number}") for number in range(9))
    with pytest.raises(InputError, match="and 3 more"):
        choose(SPEC, many, LOGIN)


def test_what_is_said_of_a_named_target() -> None:
    assert remark(SPEC, HOPPER, H100) is None
    assert remark(SPEC, CPU, LOGIN) is None
    assert remark(SPEC, HOPPER, LOGIN) == NOT_JUDGED
    assert remark(SPEC, AMPERE, H100) == "the target is for sm_80, this machine's GPUs are 9.0"
