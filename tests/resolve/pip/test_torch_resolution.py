"""The torch family in a resolution: each target gets builds of its own CUDA."""

from pathlib import Path

import pytest
from resolutions import CUDA, LINUX, MAC, lock, targets
from support.index import Index
from support.machine import Machine, cpu
from support.packages import Dist, wheel
from support.torch_packages import stand_ins

from envspec.base.errors import AnswerNo, Infeasible
from envspec.lock.model import Lock

pytestmark = pytest.mark.e2e


@pytest.mark.slow
def test_cuda_targets_share_versions_and_differ_in_the_build(machine: Machine, index: Index) -> None:
    index.add(*stand_ins("cu126", "2.9.1"), *stand_ins("cu130", "2.9.1"), *stand_ins("cpu", "2.9.1"))
    # what PyPI's torch 2.9.1 is (CUDA 12.8), so far as a resolver sees it
    runtime = "nvidia-cuda-runtime-cu12==12.8.90"
    index.add(
        wheel("torch", "2.9.1", runtime),
        wheel("torch", "2.12.0", runtime),
        wheel("nvidia-cuda-runtime-cu12", "12.8.90"),
    )
    machine.spec(
        cpu(
            "torch==2.9.*",
            targets=targets(c126=CUDA.format("12.6"), c128=CUDA.format("12.8"), c130=CUDA.format("13.0"), cpu=LINUX),
        )
    )
    found = lock(machine)
    torch = {}
    for target in found:
        pin = target.pin("torch")
        assert pin is not None and pin.direct
        torch[target.name] = (pin.version, pin.index)
    assert torch == {
        "c126": ("2.9.1+cu126", "pytorch/cu126"),
        "c128": ("2.9.1", "pypi"),
        "c130": ("2.9.1+cu130", "pytorch/cu130"),
        "cpu": ("2.9.1+cpu", "pytorch/cpu"),
    }


@pytest.mark.slow
def test_torch_that_is_only_pulled_in_has_the_right_cuda(machine: Machine, index: Index) -> None:
    index.add(*stand_ins("cu126", "2.9.1"), wheel("trainer", "1.0", "torch==2.9.1"), wheel("torch", "2.9.1"))
    machine.spec(cpu("trainer", targets=targets(t=CUDA.format("12.6"))))
    pin = next(iter(lock(machine))).pin("torch")
    assert pin is not None and (pin.version, pin.index, pin.direct) == ("2.9.1+cu126", "pytorch/cu126", False)


@pytest.mark.slow
@pytest.mark.parametrize("older", [(), (wheel("trainer", "0.9", "torch"),)])
def test_torch_that_a_package_bounds_is_where_its_release_is(
    machine: Machine, index: Index, older: tuple[Dist, ...]
) -> None:
    """PyPI's newest is for the target's CUDA, and a package wants an older one: that of PyTorch's index has it too. An
    older release of the package, which doesn't want it, is no better answer, and isn't told of."""
    runtime = wheel("nvidia-cuda-runtime", "13.0.96")
    index.add(*stand_ins("cu130", "2.10.0"), wheel("torch", "2.12.0", "nvidia-cuda-runtime==13.0.96"), runtime)
    index.add(wheel("torch", "2.10.0"), wheel("trainer", "1.0", "torch<2.11"), *older)
    machine.spec(cpu("trainer", targets=targets(t=CUDA.format("13.0"))))
    for _ in ("first", "again"):
        ran = machine.envspec("lock", "specs/demo.toml", status=0)
        assert "trainer 0.9" not in ran.err
        found = next(iter(machine.lock()))
        torch, trainer = found.pin("torch"), found.pin("trainer")
        assert torch is not None and (torch.version, torch.index) == ("2.10.0+cu130", "pytorch/cu130")
        assert trainer is not None and trainer.version == "1.0"


@pytest.mark.slow
def test_torch_with_a_correction_has_the_right_cuda(machine: Machine, index: Index) -> None:
    """torch and numpy are both asked for, so torch's correction holds, and an index of its own could serve it."""
    index.add(*stand_ins("cu118", "2.2.2"), wheel("torch", "2.2.2"), wheel("numpy", "1.26.4"), wheel("numpy", "2.2.6"))
    index.add(wheel("setuptools", "80.9.0"))
    machine.spec(cpu("torch==2.2.2", "numpy", targets=targets(t=CUDA.format("11.8"))))
    found = {pin.name: (pin.version, pin.index) for pin in next(iter(lock(machine))).pins}
    assert found["torch"] == ("2.2.2+cu118", "pytorch/cu118")
    assert found["numpy"] == ("1.26.4", "pypi")


@pytest.mark.slow
def test_aarch64_takes_the_pytorch_index_where_pypi_has_a_cpu_build(machine: Machine, index: Index) -> None:
    arm = "platform = 'linux-aarch64'\ncuda = '12.8'\ngpus = ['GH200']"
    index.add(*stand_ins("cu128", "2.9.1", platform="linux-aarch64"), wheel("torch", "2.9.1"), wheel("triton", "3.5.1"))
    machine.spec(cpu("torch==2.9.1", targets=targets(t=arm)))
    pin = next(iter(lock(machine))).pin("torch")
    assert pin is not None and (pin.version, pin.index) == ("2.9.1+cu128", "pytorch/cu128")
    assert pin.artifact is not None and "aarch64" in pin.artifact.file


def test_a_cpu_build_in_a_cuda_target_is_refused(machine: Machine, index: Index) -> None:
    """PyPI's page lies: what it calls torch 2.9.1 pins no CUDA runtime."""
    index.add(wheel("torch", "2.9.1"))
    machine.spec(cpu("torch==2.9.1", targets=targets(t=CUDA.format("12.8"))))
    with pytest.raises(Infeasible, match=r"t asks for CUDA 12\.8, but torch 2\.9\.1 from pypi is a CPU build"):
        lock(machine)


@pytest.mark.slow
def test_a_package_of_another_cuda_is_refused(machine: Machine, index: Index) -> None:
    index.add(wheel("cupy-cuda13x", "14.0"))
    machine.spec(cpu("cupy-cuda13x", targets=targets(t=CUDA.format("12.8"))))
    with pytest.raises(AnswerNo, match=r"t: cupy-cuda13x 14\.0 belongs to CUDA 13, and the target is for CUDA 12\.8"):
        lock(machine)


@pytest.mark.slow
def test_an_impossible_cuda_is_told_with_the_changes_that_give_a_lock(machine: Machine, index: Index) -> None:
    """The facts know torch 2.7.1 for CUDA 11.8 too, and this index hasn't what it needs."""
    index.add(*stand_ins("cu126", "2.9.1"))
    machine.spec(cpu("torch==2.9.*", targets=targets(t=CUDA.format("11.8"))))
    with pytest.raises(Infeasible, match=r"demo\.toml:8:8: t: torch 2\.9 has no CUDA 11\.8 build") as refused:
        lock(machine)
    assert refused.value.hint == "Nearest: CUDA 12.6 with torch 2.9 (driver >= 525.60.13)"


def test_a_mirror_of_the_pytorch_index_serves_what_the_facts_do_not_know(
    machine: Machine, index: Index, tmp_path: Path
) -> None:
    index.add(wheel("numpy", "2.0"), wheel("nvidia-cuda-runtime", "15.0.1"), wheel("torch", "99.0"))
    torch = wheel(
        "torch", "99.0+cu150", "numpy", "nvidia-cuda-runtime==15.0.1", tag="cp312-cp312-manylinux_2_28_x86_64"
    )
    with Index() as mirror:
        mirror.add(torch, wheel("numpy", "99.0"))
        machine.configure(f'"pytorch/cu150" = "{mirror.url}"')
        machine.spec(cpu("torch>=99", targets=targets(t=CUDA.format("15.0"))))
        (target,) = lock(machine)
        assert mirror.paths("numpy") == []
    pins = {pin.name: pin for pin in target.pins}
    assert (pins["torch"].version, pins["torch"].index) == ("99.0+cu150", "pytorch/cu150")
    assert pins["torch"].artifact is not None and pins["torch"].artifact.sha256 == torch.sha256
    assert (pins["numpy"].version, pins["numpy"].index) == ("2.0", "pypi")


@pytest.mark.slow
def test_offline_takes_torch_from_the_facts_and_the_rest_from_the_cache(machine: Machine, index: Index) -> None:
    index.add(*stand_ins("cu126", "2.9.1"), *stand_ins("cpu", "2.9.1"))
    machine.locked(spec=cpu("torch==2.9.1", targets=targets(gpu=CUDA.format("12.6"), cpu="platform = 'linux-64'")))
    before = machine.files()
    index.asked.clear()
    ran = machine.envspec("lock", "specs/demo.toml", "--upgrade", "--offline")
    assert (ran.status, ran.err) == (0, "")
    assert machine.files() == before and index.asked == []


def test_torch_that_goes_back_for_what_it_requires_is_told(machine: Machine, index: Index) -> None:
    """Its newer releases cap setuptools, and the spec has a floor of its own."""
    index.add(wheel("setuptools", "81.0"), wheel("setuptools", "83.0"))
    index.add(*(wheel("torch", f"2.{minor}.0", "setuptools<82") for minor in range(9, 14)), wheel("torch", "2.8.0"))
    ran = machine.envspec("lock", machine.spec(cpu("torch", "setuptools>=83", targets=targets(mac=MAC))))
    said = "torch 2.8.0 is locked, not 2.13.0: newer ones don't go with setuptools 83.0"
    assert ran.status == 0 and f"warning: mac: {said}" in ran.err, ran.err


PINNED = (
    ("torch>=2.8", "torch==2.9.1", "2.9.1+cu128", "pytorch/cu128"),
    ("torch==2.9.1", "torch>=2.8", "2.9.1", "pypi"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "now", "version", "home"), PINNED, ids=["narrowed", "widened"])
def test_a_pin_of_torch_that_still_satisfies_keeps_its_index(
    machine: Machine, index: Index, before: str, now: str, version: str, home: str
) -> None:
    index.add(
        *stand_ins("cu128", "2.9.1"), wheel("trainer", "1.0", "torch==2.9.1"), wheel("trainer", "2.0", "torch==2.11.0")
    )
    index.add(*stand_ins("cu128", "2.11.0"), wheel("torch", "2.9.1", "nvidia-cuda-runtime-cu12==12.8.90"))
    index.add(wheel("nvidia-cuda-runtime-cu12", "12.8.90"))

    def torch(trainer: str, requirement: str, old: Lock | None) -> Lock:
        machine.spec(cpu(requirement, trainer, targets=targets(t=CUDA.format("12.8"))))
        return lock(machine, old)

    def pins(found: Lock) -> list[tuple[str, str]]:
        return [(pin.version, pin.index) for pin in (next(iter(found)).pin("torch"),) if pin]

    old = torch("trainer==1.0", before, None)
    assert pins(old) == pins(torch("trainer==1.0", now, old)) == [(version, home)]
    if now == "torch>=2.8":
        assert pins(torch("trainer==2.0", now, old)) == [("2.11.0+cu128", "pytorch/cu128")], "the pin can't stay"
