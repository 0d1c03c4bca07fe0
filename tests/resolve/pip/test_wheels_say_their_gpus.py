"""`lock` of what no table knows: torch and others are judged by what a part of their wheels says."""

import pytest
from resolutions import targets
from support.index import Index
from support.machine import Machine, cpu
from support.matrix import first_by_day
from support.packages import Dist, wheel

pytestmark = pytest.mark.e2e

TAG = "cp312-cp312-manylinux_2_28_x86_64"
TARGET = "platform = 'linux-64'\ncuda = '{}'\ngpus = ['{}']"
TORCH = wheel(
    "torch",
    "99.0+cu150",
    tag=TAG,
    padding=4 << 20,
    files={
        "torch/version.py": b"cuda: Optional[str] = '15.0'\n",
        "torch/lib/libtorch_python.so": b"\x7fELF" + bytes(2 << 20) + b"sm_90 sm_100 compute_100\0",
    },
)
ACME = wheel("xformers", "99.0", tag=TAG, files={"xformers/_C.so": b"\x7fELF\0libcudart.so.12\0"})


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("gpu", "runs"), [("H100", True), ("RTX 5090", True), ("A100", False)])
def test_a_torch_that_no_table_knows(machine: Machine, index: Index, gpu: str, runs: bool) -> None:
    index.add(wheel("torch", "99.0"))
    with Index() as mirror:
        mirror.add(TORCH)
        machine.configure(f'"pytorch/cu150" = "{mirror.url}"')
        ran = machine.envspec("lock", machine.spec(cpu("torch>=99", targets=targets(t=TARGET.format("15.0", gpu)))))
        assert all(one.range for one in mirror.asked if one.path.endswith(".whl"))
    assert ran.status == (0 if runs else 1), ran.err
    known, lacks = "its wheel says CUDA 15.0 and sm_90, sm_100, PTX of 10.0", "has no code for sm_80 (A100 40GB"
    assert (known if runs else lacks) in " ".join(ran.err.split())


def own_torch(version: str, cuda: str | None) -> Dist:
    """A torch of one's own."""
    code = b"\x7fELF" + bytes(2 << 20) + (b"sm_80 sm_90\0" if cuda else b"")
    text = f"cuda: Optional[str] = {cuda!r}\n".encode()
    return wheel("torch", version, tag=TAG, files={"torch/version.py": text, "torch/lib/libtorch_python.so": code})


@pytest.mark.slow
@pytest.mark.by_commit(4)
@pytest.mark.parametrize("version", first_by_day(1, ["2.9.1+internal", "77.0", "2.10.0a0+b4e4ee8.nv25.12", "2.9.1"]))
@pytest.mark.parametrize(
    ("built", "said"),
    [("12.8", None), ("13.0", "is a build for CUDA 13.0, and the target is for CUDA 12.8"), (None, "is the CPU build")],
)
@pytest.mark.parametrize("url", first_by_day(1, [False, True]))
def test_a_torch_of_one_s_own_is_judged_by_what_its_wheel_says(
    machine: Machine, index: Index, version: str, built: str | None, said: str | None, url: bool
) -> None:
    with Index() as own:
        made = own_torch(version, built)
        own.add(made)
        terms = f"indexes = {{ own = '{own.url}' }}\nsources = {{ torch = 'own' }}"
        asked = f"torch @ {own.file_url(made)}" if url else f"torch=={version}"
        machine.spec(cpu(asked, extra="" if url else terms, targets=targets(t=TARGET.format("12.8", "H100"))))
        ran = machine.envspec("lock", "specs/demo.toml", status=0 if said is None else 1)
        assert (said or "its wheel says CUDA 12.8 and sm_80, sm_90") in " ".join(ran.err.split())
        assert said or machine.envspec("check", "specs/demo.toml").status == 0


@pytest.mark.slow
def test_an_own_index_that_serves_what_pypi_does_gives_the_torch_for_this_cuda(machine: Machine, index: Index) -> None:
    with Index() as own:
        own.add(own_torch("2.15.0", "13.2"), own_torch("2.9.1", "12.8"))
        terms = f"indexes = {{ own = '{own.url}' }}\nsources = {{ torch = 'own' }}"
        machine.spec(cpu("torch", extra=terms, targets=targets(t=TARGET.format("12.8", "H100"))))
        ran = machine.envspec("lock", "specs/demo.toml")
        assert ran.status == 0 and machine.versions("t") == {"torch": "2.9.1"}, ran.err


@pytest.mark.parametrize(("cuda", "fits"), [("12.8", True), ("13.0", False)])
def test_a_wheel_that_loads_another_cuda_is_refused_before_it_is_downloaded(
    machine: Machine, index: Index, cuda: str, fits: bool
) -> None:
    index.add(ACME)
    ran = machine.envspec(
        "lock", machine.spec(cpu("xformers", targets=targets(t=TARGET.format(cuda, "H100")))), status=0 if fits else 1
    )
    assert fits or "xformers 99.0 is built for CUDA 12, as xformers/_C.so in its wheel says" in " ".join(
        ran.err.split()
    )


@pytest.mark.slow
def test_a_jetson_with_pypis_wheels_of_cuda_12_is_refused(machine: Machine, index: Index) -> None:
    index.add(wheel("nvidia-cublas-cu12", "12.6.4.1", tag="py3-none-manylinux_2_28_aarch64"))
    orin = "platform = 'linux-aarch64'\ncuda = '12.6'\ngpus = ['Orin']"
    ran = machine.envspec("lock", machine.spec(cpu("nvidia-cublas-cu12", targets=targets(t=orin))))
    assert ran.status == 1 and "nvidia-cublas-cu12 12.6.4.1 is a wheel" in ran.err
