"""What was read in wheels, against the target's GPUs, CUDA and torch."""

import pytest
from test_pin_verdicts import spec_of

from envspec.base.finding import Finding
from envspec.binaries.build_notes import BuildNotes
from envspec.binaries.device_code import CompiledLibrary, DeviceCode
from envspec.rules.neighbours import Origin
from envspec.rules.pins import PinnedVersions, judge_pins
from envspec.rules.wheel_code import WheelBuild

# as xformers 0.0.35 holds it
XFORMERS = CompiledLibrary("xformers/_C.so", ("7.5", "8.0", "9.0a"), ("8.0",), ("12",), "12")
FLAGS = CompiledLibrary("torch/lib/libtorch_python.so", ("7.5", "8.0", "9.0", "10.0"))
TORCH = WheelBuild(BuildNotes("13.4", member="torch/version.py"), DeviceCode((FLAGS,), said=True, read=8 << 20))


def judged(
    pins: dict[str, str], read: dict[str, WheelBuild], gpus: tuple[str, ...], cuda: str = "12.8"
) -> list[Finding]:
    spec, target = spec_of(cuda, gpus)
    return list(judge_pins(spec, target, PinnedVersions(pins, read=read)))


def told(code: str, found: list[Finding]) -> list[Finding]:
    return [one for one in found if one.code == code]


@pytest.mark.parametrize(
    ("gpu", "lacks"), [("V100", True), ("A100", False), ("H100", False), ("RTX 4090", False), ("B200", False)]
)
def test_a_wheel_without_code_for_a_gpu(gpu: str, lacks: bool) -> None:
    read = {"xformers": WheelBuild(code=DeviceCode((XFORMERS,)))}
    found = told("wheel-architecture", judged({"torch": "2.9.1", "xformers": "0.0.35"}, read, (gpu,)))
    assert [one.severity for one in found] == ["warning"] * lacks
    if lacks:
        assert "xformers 0.0.35 has no code for sm_70 (V100): xformers/_C.so" in found[0].message
        assert "7.5, 8.0, 9.0a, PTX of 8.0" in found[0].message


def test_a_torch_of_ones_own_is_judged_by_the_cuda_that_its_wheel_notes() -> None:
    """Also where nothing was read of its code; a wheel that notes none is told, and one read in part proves no CPU
    build."""
    pins = {"torch": "2.9.1+acme"}
    noted = WheelBuild(BuildNotes("12.6", member="torch/version.py"))
    assert [one.code for one in judged(pins, {"torch": noted}, ("H100",))] == ["cuda-mismatch"]
    part = WheelBuild(code=DeviceCode((), complete=False, read=1))
    assert [one.code for one in judged(pins, {"torch": part}, ("H100",))] == ["torch-local-build"]


@pytest.mark.parametrize(
    ("name", "index", "code", "severity"),
    [
        ("cupy", "own", DeviceCode(read=9), "error"),
        ("faiss-gpu", "url", DeviceCode(said=True), "error"),
        ("cupy", "own", DeviceCode(), None),  # nothing compiled is in it
        ("cupy", "own", DeviceCode(complete=False, read=9), None),
        ("tensorflow", "own", DeviceCode(read=9), "error"),  # it imports, and would run on the CPU in silence
        ("jaxlib", "own", DeviceCode(read=9), None),
        ("bitsandbytes", "pypi", DeviceCode(read=9), None),
    ],
)
def test_an_own_build_for_the_cpu(name: str, index: str, code: DeviceCode, severity: str | None) -> None:
    spec, target = spec_of("12.8", ("H100",))
    pinned = PinnedVersions({name: "7.1"}, origins={name: Origin(index, "")}, read={name: WheelBuild(code=code)})
    found = [one for one in judge_pins(spec, target, pinned) if "is a CPU build" in one.message]
    assert [one.severity for one in found] == ([severity] if severity else [])


def test_what_was_read_in_part_proves_no_lack() -> None:
    code = DeviceCode((CompiledLibrary("ort/cuda.so", ("8.0", "8.6")),), complete=False, read=12_000_000)
    read = {"onnxruntime-gpu": WheelBuild(code=code)}
    (found,) = told("wheel-architecture", judged({"onnxruntime-gpu": "1.99.0"}, read, ("H100",)))
    assert found.severity == "info"
    assert "may have no code for sm_90" in found.message and "the rest wasn't read" in found.message


def test_a_wheel_with_a_library_for_each_cuda() -> None:
    """bitsandbytes 0.50.2 loads the one for torch's CUDA."""
    name = "bitsandbytes/libbitsandbytes_cuda{}.so"
    code = DeviceCode(
        (
            CompiledLibrary(name.format(118), ("7.0",), (), ("11",), "11"),
            CompiledLibrary(name.format(130), ("7.5", "10.0"), ("12.0",), ("13",), "13"),
        )
    )
    read = {"bitsandbytes": WheelBuild(code=code)}
    pins = {"torch": "2.11.0", "bitsandbytes": "0.99.0"}
    assert told("wheel-architecture", judged(pins, read, ("B200",), "13.0")) == []
    (found,) = told("wheel-architecture", judged(pins, read, ("A100",), "11.8"))
    assert "cuda118.so" in found.message and "cuda130.so" not in found.message


@pytest.mark.parametrize(
    ("cuda", "majors", "notes", "wrong"),
    [
        ("13.0", ("12",), None, "CUDA 12, as acme/_C.so"),
        ("12.8", ("12",), None, None),
        ("13.0", ("12",), BuildNotes("13.0", member="acme/cpp_lib.json"), None),
        ("13.0", ("12",), BuildNotes(), "CUDA 12, as acme/_C.so"),
        ("13.0", ("11", "12"), None, None),
        ("13.0", (), None, None),
    ],
)
def test_a_wheel_that_loads_another_cuda(
    cuda: str, majors: tuple[str, ...], notes: BuildNotes | None, wrong: str | None
) -> None:
    code = DeviceCode(tuple(CompiledLibrary("acme/_C.so", ("9.0",), cuda=(major,)) for major in majors))
    found = judged({"acme": "1.0"}, {"acme": WheelBuild(notes, code)}, ("H100",), cuda)
    assert [one.severity for one in told("built-for-another", found)] == ["error"] * bool(wrong)
    assert wrong is None or wrong in told("built-for-another", found)[0].message


@pytest.mark.parametrize(
    ("gpu", "cuda", "code"),
    [
        ("B200", "13.4", None),
        ("L4", "13.4", None),
        ("RTX 5090", "13.4", "architecture-missing"),
        ("H100", "13.0", "cuda-mismatch"),
    ],
)
def test_a_torch_that_no_table_knows(gpu: str, cuda: str, code: str | None) -> None:
    found = judged({"torch": "2.99.0"}, {"torch": TORCH}, (gpu,), cuda)
    assert [one.code for one in found if one.severity == "error"] == ([code] if code else [])
    (newer,) = told("torch-newer-than-tables", found)
    assert "its wheel says CUDA 13.4 and sm_75, sm_80, sm_90, sm_100 (8.4 MB of it were read)" in newer.message


@pytest.mark.parametrize("read", [{}, {"torch": WheelBuild(BuildNotes(), DeviceCode())}])
def test_a_torch_whose_wheel_says_nothing(read: dict[str, WheelBuild]) -> None:
    (found,) = judged({"torch": "2.99.0"}, read, ("RTX 5090",), "13.0")
    assert "it relies on the METADATA" in found.message


@pytest.mark.parametrize(
    ("cudnn", "locked", "bound"),
    [
        (("8",), "9.1.0.70", "ctranslate2>4.4.0"),
        (("9",), "8.9.2.26", "ctranslate2<4.4.0"),
        (("8", "9"), "9.1.0.70", None),
        ((), "9.1.0.70", None),
    ],
)
def test_a_wheel_that_loads_another_cudnn(cudnn: tuple[str, ...], locked: str, bound: str | None) -> None:
    code = DeviceCode((CompiledLibrary("libct.so", ("8.0",), cudnn=cudnn),))
    pins = {"ctranslate2": "4.4.0", "nvidia-cudnn-cu12": locked}
    found = told("built-for-another", judged(pins, {"ctranslate2": WheelBuild(code=code)}, ("A100",)))
    assert [one.bound for one in found] == ([bound] if bound else [])


def test_a_binding_of_cudnn_is_for_those_who_ask_for_it() -> None:
    """cupy 13.6.0 has one for cuDNN 8, and works beside cuDNN 9 without: ray requires it, and vllm ray."""
    binding = CompiledLibrary("cupy_backends/libs/cudnn.cpython-312-x86_64-linux-gnu.so", cudnn=("8",))
    pins = {"cupy-cuda12x": "13.6.0", "nvidia-cudnn-cu12": "9.10.2.21"}
    read = {"cupy-cuda12x": WheelBuild(code=DeviceCode((binding,)))}
    assert told("built-for-another", judged(pins, read, ("H100",))) == []


@pytest.mark.parametrize(
    ("version", "cuda", "bound"),
    [
        ("0.45.5", "13.0", "bitsandbytes>0.45.5"),
        ("0.45.5", "12.9", "bitsandbytes>0.45.5"),  # it loads the library for just this CUDA
        ("0.50.2", "12.9", None),
        ("0.46.0rc1", "12.8", None),
    ],
)
def test_a_library_chosen_by_the_cuda_in_its_name(version: str, cuda: str, bound: str | None) -> None:
    code = DeviceCode((), complete=False, read=9, versions=("12.6", "12.8"))
    found = told(
        "built-for-another", judged({"bitsandbytes": version}, {"bitsandbytes": WheelBuild(code=code)}, ("A100",), cuda)
    )
    assert [one.bound for one in found] == ([bound] if bound else [])
