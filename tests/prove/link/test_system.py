"""What stands below a target's wheels, and how symbols are named."""

import shutil
import subprocess

import pytest

from envspec.binaries.elf import DynamicFacts
from envspec.prove.link.model import ElfFile, WheelFacts, family, plain_name
from envspec.prove.link.system import System, cuda_major_of, runtime_of_gcc, runtime_of_glibc, torch_abi


def system(glibc: tuple[int, ...], driver: bool = False) -> System:
    return System(glibc, runtime_of_glibc(glibc), "3.12", driver, None, "debian:bookworm-slim")


@pytest.mark.parametrize(
    ("library", "version", "glibc", "lacks"),
    [
        ("libc.so.6", "GLIBC_2.28", (2, 28), False),
        ("libc.so.6", "GLIBC_2.29", (2, 28), True),
        ("libm.so.6", "GLIBC_2.9", (2, 28), False),
        ("libc.so.6", "GLIBC_PRIVATE", (2, 17), False),
        ("libc.so.6", "GLIBC_ABI_DT_RELR", (2, 35), True),
        ("libc.so.6", "GLIBC_ABI_DT_RELR", (2, 36), False),
        ("libstdc++.so.6", "GLIBCXX_3.4.25", (2, 28), False),
        ("libstdc++.so.6", "GLIBCXX_3.4.26", (2, 28), True),
        ("libstdc++.so.6", "GLIBCXX_3.4.30", (2, 36), False),
        ("libstdc++.so.6", "CXXABI_1.3.13", (2, 31), True),
        ("libstdc++.so.6", "CXXABI_TM_1", (2, 17), False),
        ("libgcc_s.so.1", "GCC_12.0.0", (2, 34), True),
        ("libz.so.1", "ZLIB_1.2.9", (2, 28), False),
    ],
)
def test_versions(library: str, version: str, glibc: tuple[int, ...], lacks: bool) -> None:
    assert system(glibc).lacks(library, version) is lacks


def test_libraries_by_where_they_come_from() -> None:
    plain, driven = system((2, 28)), system((2, 28), driver=True)
    for name in ("libc.so.6", "ld-linux-x86-64.so.2", "libstdc++.so.6", "libz.so.1", "libpython3.12.so.1.0"):
        assert plain.has(name)
    for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libnvcuvid.so.1"):
        assert driven.has(name) and not plain.has(name)
    for name in ("libpython3.11.so.1.0", "libcudart.so.12", "libGL.so.1", "libnvrtc.so.12"):
        assert not driven.has(name)


def test_condas_runtime_goes_by_its_gcc() -> None:
    assert runtime_of_gcc((15, 2, 0)) == runtime_of_gcc((14, 2)) != runtime_of_gcc((13, 4))


@pytest.mark.parametrize(
    ("library", "major"),
    [("libcudart.so.12", "12"), ("libcudart.so.11.0", "11"), ("libcublasLt.so.13", "13"), ("libcusolver.so.11", None)],
)
def test_the_cuda_of_a_librarys_name(library: str, major: str | None) -> None:
    """libcusolver.so.11 is CUDA 12's."""
    assert cuda_major_of(library) == major


SYMBOLS = {
    "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs": "torch",
    "_ZNK2at6Tensor4sizeEl": "torch",
    "_ZTVN5torch8autograd4NodeE": "torch",
    "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE": "torch",
    "THPVariableClass": "torch",
    "aoti_torch_empty_strided": "stable",
    "cudaMalloc": "cuda",
    "__nvJitLinkCreate_12_4": "cuda",
    "PyInit__C": "python",
}


def test_families() -> None:
    assert {name: family(name) for name in SYMBOLS} == SYMBOLS
    # the driver's own, Python's, others'
    assert not any(map(family, ("cuInit", "PyObject_Call", "_ZNSt6vectorIiE9push_backEv", "sin", "_ZN4attr3getEv")))


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="needs c++filt")
def test_names_are_those_of_cxxfilt() -> None:
    for name in SYMBOLS:
        done = subprocess.run(["c++filt", name], capture_output=True, text=True, check=True)
        whole = done.stdout.strip().replace("vtable for", "vtable of")
        assert whole.startswith(plain_name(name)), whole


@pytest.mark.parametrize(
    ("symbols", "abi"),
    [
        ((), None),
        (("cudaMalloc",), None),
        (("aoti_torch_empty_strided",), "stable"),
        (("aoti_torch_empty_strided", "_ZNK2at6Tensor4sizeEl"), "unstable"),
    ],
)
def test_which_of_torchs_interfaces_a_wheel_uses(symbols: tuple[str, ...], abi: str | None) -> None:
    assert torch_abi(WheelFacts((ElfFile("acme/_C.so", DynamicFacts(undefined=symbols)),))) == abi
