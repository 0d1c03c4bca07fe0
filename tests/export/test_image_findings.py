"""What a locking run says of the images that recipes will make."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel

from envspec.base.finding import Finding
from envspec.export.image_findings import image_findings
from envspec.lock.model import LockedTarget, Pin, TargetInputs
from envspec.spec.model import Image, Spec, Target

SPEC = Spec("specs/demo.toml", "demo", "3.12", (Target("t", "linux-64"),))
CPU = LockedTarget("cpu", TargetInputs("linux-64", "3.12", "2.28"), (Pin("pip", "numpy", "2.0", "pypi", None),))
CUDA = replace(
    CPU,
    name="cu128",
    inputs=replace(CPU.inputs, cuda="12.8"),
    pins=(Pin("pip", "nvidia-cublas-cu12", "12.8", "pypi", None), Pin("pip", "jupyterlab", "4.5", "pypi", None)),
)


def told(image: Image, *targets: LockedTarget) -> list[Finding]:
    found = [*image_findings(replace(SPEC, image=image), targets)]
    return found


def test_a_service_without_its_package() -> None:
    (found,) = told(Image(services=("jupyter", "ssh", "code-server")), CPU, CUDA)
    assert (found.severity, found.code) == ("warning", "service-without-package")
    assert found.text.startswith('cpu: the service "jupyter" needs jupyterlab, which isn\'t locked')
    assert told(Image(services=("jupyter",)), CUDA) == []


def test_a_mac_gets_no_image() -> None:
    mac = replace(CPU, inputs=TargetInputs("osx-arm64", "3.12", None))
    assert told(Image(services=("jupyter",)), mac) == []


@pytest.mark.parametrize(
    ("base", "twice"),
    [
        ("nvidia/cuda:12.8.1-runtime-ubuntu22.04", True),
        ("docker.io/nvidia/cuda:12.8.1-cudnn-devel-ubuntu24.04", True),
        ("nvidia/cuda:12.8.1-base-ubuntu22.04", False),
        ("pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime", True),
        ("nvcr.io/nvidia/pytorch:25.10-py3", True),
        ("debian:bookworm-slim", False),
        ("mine/nvidia-cuda:runtime", False),
    ],
)
def test_a_base_image_with_the_cuda_of_the_wheels(base: str, twice: bool) -> None:
    found = told(Image(base=base), CPU, CUDA)
    assert [one.code for one in found] == ["cuda-twice"] * twice
    if twice:
        assert found[0].text.startswith(f"cu128: the base image {base} holds ")
    assert told(Image(base=base), CPU) == []


@pytest.mark.by_day(1)
@pytest.mark.parametrize("requirements", [["alpha"], ["alpha", "jupyterlab"]])
def test_lock_says_it(machine: Machine, index: Index, requirements: Sequence[str]) -> None:
    index.add(wheel("alpha", "1.0"), wheel("jupyterlab", "4.5"))
    ran = machine.envspec("lock", machine.spec(cpu(*requirements) + "[image]\nservices = ['jupyter']\n"), status=0)
    warned = 'cpu: the service "jupyter" needs jupyterlab' in ran.err
    assert warned == ("jupyterlab" not in requirements)
    again = machine.envspec("lock", "specs/demo.toml")
    assert "is fresh" in again.out
    assert ('cpu: the service "jupyter" needs jupyterlab' in again.err) == warned
