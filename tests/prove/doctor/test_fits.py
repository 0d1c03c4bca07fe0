"""Which targets a machine can run, each refusal by its reason."""

from dataclasses import replace

import pytest

from envspec.lock.model import Artifact, LockedTarget, Pin, TargetInputs
from envspec.prove.doctor.fits import LocalMachine, misfit
from envspec.spec.model import Spec, Target

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
        (CPU, replace(HERE, largest=10**9), "packages are 3.0 GB, and the limit is 1.0 GB"),
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
