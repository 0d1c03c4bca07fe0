"""HIP code in libraries: found in bundles, compressed bundles and code objects, and in nothing that only names them."""

import io
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from support.cubins import entry, fatbin
from support.examples import examples
from support.hip_code import bundle, code_object, compressed
from support.packages import wheel

from envspec.binaries.device_code import DeviceCode, device_code
from envspec.binaries.inspect import inspect
from envspec.binaries.library import scan
from envspec.binaries.wheel import open_wheel
from envspec.binaries.window import Window


def hip_of(content: bytes) -> frozenset[str] | None:
    return scan(Window(io.BytesIO(content), can_seek=False), "a.so", len(content)).hip


def code_of(**files: bytes) -> DeviceCode:
    made = wheel(
        "acme", "1.0", tag="cp312-cp312-linux_x86_64", files={f"acme/{name}.so": of for name, of in files.items()}
    )
    with open_wheel(io.BytesIO(made.content)) as opened:
        return device_code(opened)


@pytest.mark.parametrize(
    ("content", "gpus"),
    [
        (bundle("gfx90a", "gfx942"), {"gfx90a", "gfx942"}),
        (bundle("gfx90a:xnack+", "gfx90a:xnack-"), {"gfx90a"}),
        (bundle("gfx9-4-generic"), {"gfx9-4-generic"}),
        (bundle(triples=("hip-spirv64-amd-amdhsa--amdgcnspirv",)), {"amdgcnspirv"}),
        (compressed(bundle("gfx1100")), {"gfx1100"}),
        (compressed(bundle("gfx1100"), version=1), {"gfx1100"}),
        (compressed(bundle("gfx1100"), version=3), {"gfx1100"}),
        (compressed(b"", version=1, zstandard=True), set()),
        (compressed(b"", version=2, zstandard=True), set()),
        (compressed(b"", version=3, zstandard=True), set()),
        (code_object(), set()),
        (bundle("gfx90a") + bytes(99) + bundle("gfx1201"), {"gfx90a", "gfx1201"}),
    ],
)
def test_hip_code_is_found(content: bytes, gpus: set[str]) -> None:
    assert hip_of(b"\x7fELF" + bytes(200) + content + bytes(200)) == frozenset(gpus)


@pytest.mark.parametrize(
    "content",
    [
        # clang, LLVM's tools and triton name the magic
        b"__CLANG_OFFLOAD_BUNDLE__\0__CLANG_OFFLOAD_BUNDLE____START__ \0unbundling\0" + bytes(99),
        b"__CLANG_OFFLOAD_BUNDLE__",
        b"CCOB\0CCOB" + bytes(99),
        b"CCOB" + struct.pack("<HH", 2, 1) + bytes(99),
        b"CCOB" + struct.pack("<HH", 9, 1) + bytes(99),
        compressed(b"no bundle"),
        compressed(bundle("gfx90a"))[:20],
        bundle(payload=b"", triples=("hipv4-amdgcn-amd-amdhsa--gfx90a",)),
        bundle(triples=("openmp-nvptx64-nvidia-cuda--sm_90",)),
        bundle(triples=("sycl-spir64-unknown-unknown",)),
        bundle("gfx90a")[:30],
        b"\x7fELF\x02\x01\x01\0" + bytes(8) + struct.pack("<HHI", 3, 62, 1) + bytes(99),
        fatbin([entry("sm_90")]),
    ],
)
def test_what_is_no_hip_code(content: bytes) -> None:
    assert hip_of(content + bytes(9)) is None


@settings(max_examples=examples(200))
@given(st.binary(max_size=300), st.integers(0, 400))
def test_damaged_bundles_are_read_or_left(noise: bytes, cut: int) -> None:
    for content in (bundle("gfx90a", "gfx942"), compressed(bundle("gfx90a"))):
        found = hip_of(content[:cut] + noise)
        assert found is None or found <= {"gfx90a", "gfx942"} or noise


def test_a_wheel_says_which_of_its_libraries_are_amds() -> None:
    found = code_of(_cuda=fatbin([entry("sm_90")]), _hip=bundle("gfx942"), _host=b"\x7fELF" + bytes(99))
    assert [(one.member, one.sm, one.hip) for one in found.libraries] == [
        ("acme/_cuda.so", ("9.0",), None),
        ("acme/_hip.so", (), ("gfx942",)),
    ]


def test_inspect_names_them(tmp_path: Path) -> None:
    made = wheel(
        "acme", "1.0", files={"acme/_hip.so": b"\x7fELF" + bundle("gfx942"), "acme/k.so": b"\x7fELF" + bytes(9)}
    )
    (path := tmp_path / made.file).write_bytes(made.content)
    found = inspect(path)
    assert (found.hip, found.libraries, found.binaries) == (("acme/_hip.so",), (), 2)


def real(requirement: str, folder: Path) -> DeviceCode:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version=3.12", "--platform=manylinux_2_27_x86_64", "--platform=manylinux_2_24_x86_64"]
    subprocess.run([*command, "--dest", str(folder), requirement], check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    with path.open("rb") as file, open_wheel(file) as opened:
        return device_code(opened)


@pytest.mark.network
@pytest.mark.slow
def test_jaxs_plugin_for_rocm_holds_hip_code_alone(tmp_path: Path) -> None:
    found = real("jax-rocm7-plugin==0.12.0", tmp_path)
    assert found.complete and not any(one.sm or one.ptx or one.cuda for one in found.libraries)
    amd = [one.member for one in found.libraries if one.hip is not None]
    assert [f"jax_rocm7_plugin/{name}.so" for name in ("_linalg", "_prng", "_solver")] == amd


@pytest.mark.network
@pytest.mark.slow
def test_bitsandbytes_holds_code_of_both_makers(tmp_path: Path) -> None:
    found = real("bitsandbytes==0.50.2", tmp_path)
    of_rocm = {one.member for one in found.libraries if one.hip is not None}
    of_cuda = {one.member for one in found.libraries if one.sm}
    assert all("_rocm" in one for one in of_rocm) and all("_cuda" in one for one in of_cuda)
    assert (len(of_rocm), len(of_cuda)) == (6, 7)
