"""Builds for another maker's GPUs, with the real uv: no CUDA target locks one, and a CPU target tells of each."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from resolutions import CUDA, LINUX, targets
from support.cubins import entry, fatbin
from support.flat_page import FlatIndex
from support.hip_code import bundle, compressed
from support.index import Index
from support.machine import Machine, Ran, cpu
from support.packages import Dist, wheel
from support.torch_packages import stand_ins

pytestmark = pytest.mark.e2e

TAG = "cp312-cp312-manylinux_2_28_x86_64"
HIP, NVIDIA = b"\x7fELF" + bundle("gfx942", "gfx1100"), b"\x7fELF" + fatbin([entry("sm_80")])
TORCH = "torch==2.10.0"
C130 = CUDA.format("13.0")


def build(version: str, content: bytes = b"\x7fELF", name: str = "pytorch3d") -> Dist:
    return wheel(name, version, tag=TAG, files={f"{name}/_C.so": content})


@pytest.fixture
def flat() -> Iterator[FlatIndex]:
    with FlatIndex(sidecars=False, hashed=True) as running:
        yield running


@pytest.fixture(autouse=True)
def _torch(index: Index) -> None:
    index.add(*stand_ins("cu130", "2.10.0"), wheel("torch", "2.10.0"))


def lock(machine: Machine, page: str, *asked: str, target: str = C130, more: str = "") -> Ran:
    terms = f"find-links = {{ page = '{page}' }}\nsources = {{ pytorch3d = 'page' }}\n{more}"
    text = cpu(*(asked or (TORCH, "pytorch3d")), extra=terms, targets=targets(t=target))
    return machine.envspec("lock", machine.spec(text))


def said(ran: Ran) -> str:
    return " ".join(ran.err.split())


@pytest.mark.slow
def test_the_page_that_has_cpu_cuda_and_rocm_side_by_side(machine: Machine, flat: FlatIndex) -> None:
    """PEP 440 sorts rocm behind cu and cpu, so uv takes it: the refusal names the file to take, and that locks."""
    flat.add(*(build(f"0.7.8+pt2.10.0{one}") for one in ("cpu", "cu130", "rocm7.1")))
    ran = lock(machine, flat.page)
    assert ran.status == 1 and not machine.lock_path().exists()
    assert "pytorch3d 0.7.8+pt2.10.0rocm7.1 is built for AMD's ROCm 7.1, as its label says" in said(ran)
    assert 'write "pytorch3d==0.7.8+pt2.10.0cu130"' in said(ran)
    ran = lock(machine, flat.page, TORCH, "pytorch3d==0.7.8+pt2.10.0cu130")
    assert ran.status == 0 and machine.versions("t")["pytorch3d"] == "0.7.8+pt2.10.0cu130", ran.err
    for other in ("rocm7.1", "cpu"):
        ran = lock(machine, flat.page, TORCH, f"pytorch3d==0.7.8+pt2.10.0{other}")
        assert ran.status == 1 and 'write "pytorch3d==0.7.8+pt2.10.0cu130"' in said(ran), ran.err


@pytest.mark.slow
@pytest.mark.parametrize(
    "label", ["xpu", "cpu", "rocm", "rocm71torch2.10cxx11abiTRUE", "cu128.torch2.10", "cu130.torch29"]
)
def test_each_other_maker_cuda_and_torch_is_refused_by_label(machine: Machine, flat: FlatIndex, label: str) -> None:
    flat.add(build(f"1.0+{label}"))
    ran = lock(machine, flat.page)
    assert ran.status == 1 and f"pytorch3d 1.0+{label.lower()} is built for" in said(ran), ran.err
    assert "as its label says" in said(ran) and "write" not in said(ran)
    accept = "accept = { built-for-another = { pytorch3d = 'its Python half is enough' } }"
    assert lock(machine, flat.page, more=accept).status == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "label",
    ["cu130", "cu13torch2.10", "cu130.torch210", "pt210cu130", "cu.13.0.torch.2.10", "cu130torch2.9.0andhigher"],
)
def test_each_form_of_a_fitting_label_locks_in_peace(machine: Machine, flat: FlatIndex, label: str) -> None:
    flat.add(build(f"1.0+{label}", NVIDIA))
    ran = lock(machine, flat.page)
    assert ran.status == 0 and "pytorch3d" not in said(ran), ran.err
    assert machine.envspec("check", "specs/demo.toml").status == 0


@pytest.mark.slow
@pytest.mark.parametrize("plus", ["+", "%2B"])
def test_a_file_name_speaks_where_metadata_does_not(machine: Machine, index: Index, plus: str) -> None:
    """flash-attn's METADATA has no local part; its wheels are named by their URL."""
    plain = build("2.8.4", NVIDIA, name="flash-attn")
    for label, status in (("rocm71torch2.10cxx11abiTRUE", 1), ("cu13torch2.10cxx11abiTRUE", 0)):
        labelled = replace(plain, file=plain.file.replace("2.8.4", f"2.8.4+{label}"))
        index.add(labelled)
        url = index.file_url(labelled).replace("+", plus)
        machine.spec(cpu(TORCH, f"flash-attn @ {url}", targets=targets(t=C130)))
        ran = machine.envspec("lock", "specs/demo.toml")
        assert ran.status == status, ran.err
        assert ("is built for AMD's ROCm 7.1" in said(ran)) is bool(status)
    assert machine.envspec("check", "specs/demo.toml").status == 0
    assert machine.versions("t")["flash-attn"] == f"2.8.4+{label.lower()}"
    ran = machine.envspec("export", "specs/demo.toml", "--format", "requirements", "-o", "-")
    assert ran.status == 0 and "cu13torch2.10cxx11abiTRUE" in ran.out, ran.err


@pytest.mark.by_day(1)
@pytest.mark.parametrize("packed", [HIP, b"\x7fELF" + compressed(b"", version=3, zstandard=True)])
def test_hip_code_without_a_label_is_refused_by_what_the_wheel_holds(
    machine: Machine, flat: FlatIndex, packed: bytes
) -> None:
    flat.add(build("1.0", packed))
    ran = lock(machine, flat.page)
    assert ran.status == 1 and "pytorch3d 1.0 is built for AMD's GPUs" in said(ran), ran.err
    assert "as pytorch3d/_C.so in its wheel says, and the target has CUDA 13.0" in said(ran)


@pytest.mark.slow
def test_a_wheel_with_both_makers_code_is_right(machine: Machine, flat: FlatIndex) -> None:
    both = {"pytorch3d/_rocm.so": HIP, "pytorch3d/_cuda.so": NVIDIA}
    flat.add(wheel("pytorch3d", "1.0", tag=TAG, files=both))
    ran = lock(machine, flat.page)
    assert ran.status == 0 and "AMD" not in said(ran), ran.err


@pytest.mark.slow
def test_a_label_that_no_form_fits_is_told_and_one_that_says_nothing_is_not(machine: Machine, flat: FlatIndex) -> None:
    flat.add(build("1.0+gfx942"))
    ran = lock(machine, flat.page)
    assert ran.status == 0 and "pytorch3d 1.0+gfx942: the label gfx942 isn't read" in said(ran), ran.err
    flat.add(build("1.1+computecanada"), build("1.2+g1a2b3c4.d20260219"))
    ran = lock(machine, flat.page, TORCH, "pytorch3d>1.0.99")
    assert ran.status == 0 and "isn't read" not in said(ran), ran.err


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("name", "version", "maker"),
    [
        ("pytorch3d", "0.7.8+pt2.10.0rocm7.1", "AMD's ROCm 7.1"),
        ("pytorch3d", "0.7.8+pt2.10.0cu130", "CUDA"),
        ("pytorch3d", "0.7.8+xpu", "Intel's GPUs (XPU)"),
        ("jax-rocm10-plugin", "0.12.0", "AMD's GPUs"),
        ("cupy-rocm-7-0", "14.0.1", "AMD's GPUs"),
        ("onnxruntime-migraphx", "1.23.0", "AMD's GPUs"),
        ("pytorch-triton-xpu", "3.5.0", "Intel's GPUs"),
    ],
)
def test_a_cpu_target_tells_of_builds_for_gpus(
    machine: Machine, flat: FlatIndex, index: Index, name: str, version: str, maker: str
) -> None:
    (flat if name == "pytorch3d" else index).add(build(version, name=name))
    ran = lock(machine, flat.page, name, target=LINUX, more="# no torch")
    assert ran.status == 0 and f"{name} {version} is made for {maker}, and this is a CPU target" in said(ran)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("local", "maker"),
    [("rocm6.4", "AMD's ROCm 6.4"), ("xpu", "Intel's GPUs (XPU)"), ("rocm7.2.0.lw.git7e1940d4", "AMD's ROCm 7.2.0")],
)
def test_torch_of_a_named_index_for_another_maker(machine: Machine, index: Index, local: str, maker: str) -> None:
    with Index() as own:
        torch = wheel("torch", f"2.10.0+{local}", tag=TAG)
        vision = wheel("torchvision", f"0.25.0+{local}", tag=TAG)
        own.add(torch, vision, wheel("torchvision", "0.25.0", tag=TAG))
        terms = f"indexes = {{ own = '{own.url}' }}\nsources = {{ torch = 'own', torchvision = 'own' }}"
        for asked in ("torch", f"torch==2.10.0+{local}"):
            machine.spec(cpu(asked, extra=terms, targets=targets(t=C130)))
            ran = machine.envspec("lock", "specs/demo.toml")
            assert (ran.status == 1 and f"torch {torch.version}" in said(ran)) or "asks for PyTorch's build" in said(
                ran
            )
            assert "AMD's ROCm" in said(ran) or "Intel's GPUs" in said(ran)
        terms = f"indexes = {{ own = '{own.url}' }}\nsources = {{ torchvision = 'own' }}"
        machine.spec(cpu(TORCH, "torchvision", extra=terms, targets=targets(t=C130)))
        ran = machine.envspec("lock", "specs/demo.toml")
        assert ran.status == 1 and f"torchvision {vision.version} is built for {maker}" in said(ran), ran.err


@pytest.mark.slow
def test_check_refuses_a_lock_that_holds_such_a_build(machine: Machine, flat: FlatIndex) -> None:
    flat.add(build("0.7.8+pt2.10.0cu130", NVIDIA), build("0.7.8+pt2.10.0rocm7.1", HIP))
    assert lock(machine, flat.page, TORCH, "pytorch3d==0.7.8+pt2.10.0cu130").status == 0
    for path in (machine.folder / "specs/demo.toml", machine.lock_path()):
        path.write_text(path.read_text().replace("pt2.10.0cu130", "pt2.10.0rocm7.1"))
    ran = machine.envspec("check", "specs/demo.toml")
    assert ran.status == 1 and "is built for AMD's ROCm 7.1 by its label" in " ".join((ran.out + ran.err).split())
    ran = machine.envspec("export", "specs/demo.toml", "--format", "dockerfile", "-o", "out")
    assert ran.status != 0 and "AMD's ROCm 7.1" in said(ran)
