"""The GPUs and the CUDA that a wheel is compiled for, from a bounded part of it."""

import io
import os
import zipfile
from pathlib import Path

import pytest
from support.cubins import entry, fatbin
from test_fatbin_inspect import library, write_wheel

from envspec.binaries import device_code as module
from envspec.binaries.build_notes import BuildNotes, build_notes
from envspec.binaries.device_code import CompiledLibrary, DeviceCode, device_code
from envspec.binaries.inspect import inspect
from envspec.binaries.library import QueriedGpu, without_code_for
from envspec.binaries.wheel import open_wheel
from envspec.facts.compute_capability import Architecture

PYTHON = "torch/lib/libtorch_python.so"
FLAGS = b"sm_75 sm_80 sm_90a sm_100 compute_120\0"


def wheel(members: dict[str, bytes]) -> io.BytesIO:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer


def code(members: dict[str, bytes]) -> DeviceCode:
    with open_wheel(wheel(members)) as opened:
        return device_code(opened)


@pytest.mark.parametrize(
    "before",
    # torch 2.9.1 packs it behind other text; and a list may stand across two pieces of what is read
    [b"\0", b"std::string ipc_h", bytes((1 << 20) - 9), bytes((2 << 20) - 1), bytes(1 << 20)],
)
def test_the_flags_in_torchs_own_library(before: bytes) -> None:
    found = code({PYTHON: before + FLAGS + b"at::cuda\0", "torch/lib/libtorch_cuda.so": library("sm_50")})
    assert found.libraries == (CompiledLibrary(PYTHON, ("7.5", "8.0", "9.0a", "10.0"), ("12.0",)),)
    assert found.listed and found.complete and 0 < found.read < 4 << 20


def test_a_torch_without_flags_says_nothing() -> None:
    found = code({PYTHON: bytes(3 << 20)})
    assert (found.libraries, found.complete) == ((), True)


def test_not_all_of_a_torch_without_flags_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNPACKED", 2 << 20)
    found = code({PYTHON: bytes(8 << 20) + FLAGS})
    assert (found.libraries, found.complete) == ((), False)


def test_tensorflow_writes_it_down() -> None:
    path = "tensorflow/python/platform/build_info.py"
    text = b"OrderedDict([('cuda_compute_capabilities', ['sm_60', 'sm_89', 'compute_90']), ('cuda_version', '12.5.1')])"
    members = {path: text, "tensorflow/libtensorflow_cc.so.2": library("sm_30")}
    assert code(members).libraries == (CompiledLibrary(path, ("6.0", "8.9"), ("9.0",)),)
    with open_wheel(wheel(members)) as opened:
        assert build_notes(opened) == BuildNotes("12.5", member=path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch_info={'version': '2.4', 'bf16_support': True, 'cuda_version': '12.1'}", ("12.1", ("2.4",))),
        ("torch_info={'version': '0.0', 'bf16_support': False, 'cuda_version': '0.0'}", (None, ())),
    ],
)
def test_operators_of_deepspeed_that_were_compiled_ahead(
    text: str, expected: tuple[str | None, tuple[str, ...]]
) -> None:
    with open_wheel(wheel({"deepspeed/git_version_info_installed.py": text.encode()})) as opened:
        notes = build_notes(opened)
    assert (notes.cuda, notes.torch) == expected


def test_the_cuda_of_torch() -> None:
    with open_wheel(
        wheel({"torch/version.py": b"cuda: Optional[str] = '13.2'\nhip: Optional[str] = None\n"})
    ) as opened:
        assert build_notes(opened).cuda == "13.2"


def test_libraries_of_another_wheel() -> None:
    found = code(
        {
            "acme/_C.so": library("sm_80", "compute_80") + b"\0libcudart.so.12\0",
            "acme/cuda130.so": b"\x7fELF\0libcudart.so.13\0libcublasLt.so.13.1.0\0libcudnn.so.9\0",
            "acme/nccl.so": b"\x7fELF\0libnccl.so.2\0libnvinfer.so.10\0libnvinfer_plugin.so.9\0libncclx.so.3\0",
            "acme/lib_cuda128.so": b"\x7fELF\0libcudnn-0a1b2c3d.so.8\0",
            "acme.libs/libacme.so": library("sm_90") + b"\0libcudart-b5a066d7.so.12.2.140\0",
            "acme.libs/libcudnn_ops.so.9": library("sm_120"),
            "rapids/libcudf.so": library("sm_70"),
            "triton/backends/nvidia/lib/cupti/libcupti.so.13": library("sm_120"),
            "acme/host.so": b"\x7fELF",
            "acme/readme.txt": library("sm_120"),
        }
    )
    assert found.complete and not found.listed and found.versions == ("12.8",)
    assert found.libraries == (
        CompiledLibrary("acme.libs/libacme.so", ("9.0",), compiler="12"),
        CompiledLibrary("acme/_C.so", ("8.0",), ("8.0",), "12", ("cudart.12",)),
        CompiledLibrary("acme/cuda130.so", compiler="13", loads=("cublas.13", "cudart.13", "cudnn.9")),
        CompiledLibrary("acme/nccl.so", loads=("nccl.2", "nvinfer.10")),
        CompiledLibrary("rapids/libcudf.so", ("7.0",)),
    )


def test_a_cuda_that_lies_in_the_wheel_itself() -> None:
    own = ("libcudart.so.12", "libnccl.so.2", "libnvinfer.so.10.13.3")
    named = b"\0libcudart.so.12\0libnccl.so.2\0libnvinfer.so.10\0"
    members = {"acme/_C.so": library("sm_80") + named, **{f"acme/lib/{name}": b"\x7fELF" for name in own}}
    assert [one.loads for one in code(members).libraries] == [()]


@pytest.mark.parametrize(("beside", "loads"), [((), ("cudnn.8",)), (("libcudnn_ops_infer-1a2b3c4d.so.8.9.7",), ())])
def test_cudnns_first_library_alone_loads_the_others_from_outside(
    beside: tuple[str, ...], loads: tuple[str, ...]
) -> None:
    """As in ctranslate2 4.4.0, which beside cuDNN 9 finds none of them."""
    files = {f"acme.libs/{name}": b"\x7fELF" for name in ("libcudnn-463fd6d5.so.8.9.7", *beside)}
    (one,) = code({"acme.libs/libacme.so": library("sm_80"), **files}).libraries
    assert one.loads == loads


def test_what_a_library_is_for_stands_in_its_name() -> None:
    name = "bitsandbytes/libbitsandbytes_cuda{}.so"
    assert CompiledLibrary(name.format("128")).only == "12"
    assert CompiledLibrary(name.format("123_nocublaslt")).only == "12"
    assert CompiledLibrary("acme/_cuda_ext.so").only is None


@pytest.mark.slow
def test_a_large_wheel_is_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each library has its share."""
    monkeypatch.setattr(module, "PACKED", 5 << 20)
    far = os.urandom(4 << 20) + fatbin([entry("sm_120")])
    found = code({f"acme/_{number}.so": library("sm_80") + far for number in range(4)})
    assert not found.complete and found.read <= 8 << 20
    assert {one.sm for one in found.libraries} == {("8.0",)}
    assert len(found.libraries) == 4


@pytest.mark.slow
def test_no_more_is_read_once_code_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is for the target's GPU there is enough; else `lock` reads to the end."""
    monkeypatch.setattr(module, "_ENOUGH", 1 << 20)
    monkeypatch.setattr(module, "_MODULES", 2)
    many = library("sm_80") * 3 + os.urandom(2 << 20) + library("sm_90")
    members = {"acme/_a.so": many, "acme/_b.so": os.urandom(3 << 20) + library("sm_100")}
    found = code(members)
    assert not found.complete and found.read < 4 << 20 and {one.sm for one in found.libraries} == {("8.0",)}
    # 500 modules of libcudf 26.10 are for nvJitLink, and stand before all that a GPU runs
    (linked,) = code({"acme/libcudf.so": library("lto_80") * 5 + library("sm_90")}).libraries
    assert linked.sm == ("9.0",)
    # what small libraries have left of it is all that a large one gets
    assert code({"acme/_a.so": library("sm_80"), "acme/_b.so": os.urandom(9 << 20)}).read < 4 << 20
    cudas = {"118": "sm_80", "130": "sm_90"}
    for_cudas = {f"acme/lib_cuda{cuda}.so": os.urandom(2 << 20) + library(sm) for cuda, sm in cudas.items()}
    assert {one.sm for one in code(for_cudas).libraries} == {("8.0",), ("9.0",)}
    with open_wheel(wheel(members)) as opened:
        whole = device_code(opened, to_the_end=True)
    assert whole.complete and [one.sm for one in whole.libraries] == [("8.0", "9.0"), ("10.0",)]


def test_a_bomb_is_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNPACKED", 4 << 20)
    found = code({"acme/_C.so": bytes(32 << 20) + library("sm_80")})
    assert (found.libraries, found.complete) == ((), False)


@pytest.mark.parametrize(
    ("file", "text", "runs"),
    [
        ("demo-1.0+cu130-cp312-cp312-linux_aarch64.whl", b"", True),
        ("demo-1.0-cp312-cp312-linux_aarch64.whl", b"\0libcudart.so.13\0", True),
        ("nvidia_cudnn_cu13-9.0-py3-none-linux_aarch64.whl", b"", True),
        ("demo-1.0-cp312-cp312-linux_aarch64.whl", b"\0libcudart.so.12\0", False),
        ("demo-1.0-cp312-cp312-linux_aarch64.whl", b"", False),
    ],
)
def test_inspect_knows_which_cuda_compiled_what_is_in_a_wheel(
    tmp_path: Path, file: str, text: bytes, runs: bool
) -> None:
    """sm_80 runs on Orin if CUDA 13 compiled it."""
    path = write_wheel(tmp_path / file, {"demo/_C.so": library("sm_80") + text})
    assert (without_code_for(inspect(path), QueriedGpu("Orin", Architecture(87))) == ()) is runs
