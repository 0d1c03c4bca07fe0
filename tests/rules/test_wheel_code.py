"""What was read in wheels, against the target's GPUs, CUDA and torch."""

import pytest
from msgspec.structs import replace
from test_pin_verdicts import spec_of

from envspec.base.finding import Finding
from envspec.binaries.build_notes import BuildNotes
from envspec.binaries.device_code import CompiledLibrary, DeviceCode
from envspec.rules.neighbours import Origin
from envspec.rules.pins import PinnedVersions, judge_pins
from envspec.rules.wheel_code import WheelBuild

# as xformers 0.0.35 holds it
XFORMERS = CompiledLibrary("xformers/_C.so", ("7.5", "8.0", "9.0a"), ("8.0",), "12", ("cudart.12",))
FLAGS = CompiledLibrary("torch/lib/libtorch_python.so", ("7.5", "8.0", "9.0", "10.0"))
TORCH = WheelBuild(BuildNotes("13.4", member="torch/version.py"), DeviceCode((FLAGS,), listed=True, read=8 << 20))


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
        assert "xformers 0.0.35 has no code for sm_70 (V100): its wheel's code for CUDA 12.8 is for" in found[0].message
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
        ("faiss-gpu", "url", DeviceCode(listed=True), "error"),
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
            CompiledLibrary(name.format(118), ("7.0",), (), "11", ("cudart.11",)),
            CompiledLibrary(name.format(130), ("7.5", "10.0"), ("12.0",), "13", ("cudart.13",)),
        )
    )
    read = {"bitsandbytes": WheelBuild(code=code)}
    pins = {"torch": "2.11.0", "bitsandbytes": "0.99.0"}
    assert told("wheel-architecture", judged(pins, read, ("B200",), "13.0")) == []
    (found,) = told("wheel-architecture", judged(pins, read, ("A100",), "11.8"))
    assert "CUDA 11.8 is for 7.0" in found.message and "10.0" not in found.message


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
    code = DeviceCode(tuple(CompiledLibrary("acme/_C.so", ("9.0",), loads=(f"cudart.{major}",)) for major in majors))
    found = judged({"acme": "1.0"}, {"acme": WheelBuild(notes, code)}, ("H100",), cuda)
    assert [one.severity for one in told("built-for-another", found)] == ["error"] * bool(wrong)
    assert wrong is None or wrong in told("built-for-another", found)[0].message


HIP = CompiledLibrary("acme/_hip.so", hip=("gfx1100", "gfx90a", "gfx942", "gfx950"))
ZSTANDARD = CompiledLibrary("acme/_hip.so", hip=())
SASS = CompiledLibrary("acme/_cuda.so", ("9.0",))
LOADS = CompiledLibrary("acme/_load.so", loads=("cudart.12",))


@pytest.mark.parametrize("by_content", [False, True])
@pytest.mark.parametrize(
    ("libraries", "complete", "severity"),
    [
        ((HIP,), True, "error"),
        ((ZSTANDARD,), True, "error"),
        ((HIP,), False, "warning"),
        # a wheel for both makers is right for either
        ((HIP, SASS), True, None),
        ((HIP, LOADS), True, None),
        ((SASS,), True, None),
    ],
)
def test_a_wheel_with_hip_code_alone_is_another_makers(
    libraries: tuple[CompiledLibrary, ...], complete: bool, severity: str | None, by_content: bool
) -> None:
    read = {"acme": WheelBuild(code=DeviceCode(libraries, complete=complete, read=9), by_content=by_content)}
    found = told("built-for-another", judged({"acme": "1.0"}, read, ("H100",)))
    assert [one.severity for one in found] == ([severity] if severity else [])
    if libraries == (HIP,):
        said = "acme 1.0 is built for AMD's GPUs (gfx1100, gfx90a, gfx942, gfx950), as acme/_hip.so in its wheel says"
        assert said in found[0].message and found[0].package == "acme"
    # its name says so already
    named = judged({"cupy-rocm-7-0": "14.2.0"}, {"cupy-rocm-7-0": read["acme"]}, ("H100",))
    assert told("built-for-another", named) == []


def test_a_library_of_amds_is_undecided_until_all_was_read() -> None:
    part = WheelBuild(code=DeviceCode((HIP,), complete=False), by_content=True)
    assert part.is_undecided(["9.0"], "12") and not part.is_for_cpus


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
    assert "its wheel says CUDA 13.4 and sm_75, sm_80, sm_90, sm_100" in newer.message


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
    code = DeviceCode((CompiledLibrary("libct.so", ("8.0",), loads=tuple(f"cudnn.{one}" for one in cudnn)),))
    pins = {"ctranslate2": "4.4.0", "nvidia-cudnn-cu12": locked}
    found = told("built-for-another", judged(pins, {"ctranslate2": WheelBuild(code=code)}, ("A100",)))
    assert [one.bound for one in found] == ([bound] if bound else [])


@pytest.mark.parametrize(
    ("loads", "beside", "severities"),
    [
        (("nvinfer.8",), {"tensorrt-cu12-libs": "10.13.3.9"}, ["error"]),
        (("nvinfer.10",), {"tensorrt-cu12-libs": "10.13.3.9", "tensorrt": "8.6.1"}, []),
        (("nvinfer.10",), {"tensorrt-libs": "8.6.1"}, ["error"]),
        (("nvinfer.8",), {}, []),
        (("nccl.3",), {"nvidia-nccl-cu12": "2.28.9"}, ["error"]),
        (("nccl.2",), {"nvidia-nccl-cu12": "2.28.9"}, []),
    ],
)
def test_a_wheel_that_loads_another_nccl_or_tensorrt(
    loads: tuple[str, ...], beside: dict[str, str], severities: list[str]
) -> None:
    read = {"acme": WheelBuild(code=library(*loads))}
    found = told("built-for-another", judged({"acme": "1.0", **beside}, read, ("A100",)))
    assert [one.severity for one in found] == severities


def test_another_tensorrt_for_a_part_of_a_wheel_is_a_warning() -> None:
    """onnxruntime-gpu has its CUDA provider beside the one of TensorRT."""
    part = DeviceCode((*library("nvinfer.10").libraries, CompiledLibrary("ort/cuda.so", ("8.0",))))
    pins = {"onnxruntime-gpu": "1.99.0", "tensorrt-cu12-libs": "8.6.1"}
    (found,) = told("built-for-another", judged(pins, {"onnxruntime-gpu": WheelBuild(code=part)}, ("A100",)))
    assert (found.severity, found.bound) == ("warning", None)
    assert "loads TensorRT 10, as acme/_C.so" in found.message and "has TensorRT 8.6.1" in found.message


def test_a_binding_of_cudnn_is_for_those_who_ask_for_it() -> None:
    """cupy 13.6.0 has one for cuDNN 8, and works beside cuDNN 9 without: ray requires it, and vllm ray."""
    binding = CompiledLibrary("cupy_backends/libs/cudnn.cpython-312-x86_64-linux-gnu.so", loads=("cudnn.8",))
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


# What only content tells, PTX alone, and libraries that nothing brings.


def library(*loads: str, sm: tuple[str, ...] = ("8.0",), ptx: tuple[str, ...] = ()) -> DeviceCode:
    return DeviceCode((CompiledLibrary("acme/_C.so", sm, ptx, "12", loads),))


def test_a_wheel_that_doesnt_say_that_it_is_for_gpus_is_warned_of() -> None:
    """comfy-kitchen 0.2.10 loads CUDA 13's cuBLAS for some of what it does."""
    pins, read = {"torch": "2.9.1", "acme": "1.0"}, {"acme": WheelBuild(code=library("cublas.13"), by_content=True)}
    (found,) = told("built-for-another", judged(pins, read, ("A100",)))
    assert (found.severity, found.bound) == ("warning", None) and "what it does on a GPU may not work" in found.message
    part = DeviceCode((*library("cublas.13").libraries, CompiledLibrary("acme/_D.so", ("8.0",))))
    assert not told("built-for-another", judged(pins, {"acme": WheelBuild(code=part, by_content=True)}, ("A100",)))
    read = {"acme": WheelBuild(code=library("cublas.13"))}
    (found,) = told("built-for-another", judged(pins, read, ("A100",)))
    assert found.severity == "error" and found.bound


@pytest.mark.parametrize(
    ("said", "sm", "ptx", "severity"),
    [
        (True, ("8.9", "9.0"), ("9.0",), "warning"),  # tensorflow 2.16.1 on an RTX 5090
        (False, ("8.9", "9.0"), ("9.0",), "info"),  # catboost 1.2.10
        (True, ("9.0", "12.0"), ("9.0",), None),
        (False, ("9.0",), ("12.1", "9.0"), "info"),
    ],
)
def test_a_wheel_that_holds_only_ptx_for_a_gpu(
    said: bool, sm: tuple[str, ...], ptx: tuple[str, ...], severity: str | None
) -> None:
    code = DeviceCode((CompiledLibrary("acme/_C.so", sm, ptx),), listed=said)
    found = told("ptx-only", judged({"acme": "1.0"}, {"acme": WheelBuild(code=code)}, ("RTX 5090",)))
    assert [one.severity for one in found] == ([severity] if severity else [])
    assert all("only PTX of 9.0" in one.message for one in found)


def test_ptx_of_a_gpus_own_generation_is_a_note() -> None:
    """tensorflow 2.20.0 has machine code up to 8.9, and PTX of 9.0, for an H100."""
    code = DeviceCode((CompiledLibrary("build_info.py", ("8.0", "8.9"), ("9.0",)),), listed=True)
    (found,) = told("ptx-only", judged({"tensorflow": "2.20.0"}, {"tensorflow": WheelBuild(code=code)}, ("H100",)))
    assert found.severity == "info"


def test_ptx_of_a_newer_cuda_than_the_drivers() -> None:
    spec, target = spec_of("12.8", ("RTX 5090",))
    target = replace(target, driver="570.26")
    read = {
        "tensorflow": WheelBuild(
            BuildNotes("12.9"), DeviceCode((CompiledLibrary("t.py", ("9.0",), ("9.0",)),), listed=True)
        )
    }
    found = judge_pins(spec, target, PinnedVersions({"tensorflow": "9.9"}, read=read))
    (newer,) = told("ptx-newer-than-driver", list(found))
    assert newer.severity == "error" and "driver 570.26 compiles none of CUDA 12.9" in newer.message


@pytest.mark.parametrize(
    ("loads", "beside", "cuda", "lacks"),
    [
        (("cublas.12", "cudnn.9"), {}, "12.8", "libcublas.so.12, libcudnn.so.9"),
        (("cublas.12", "cudnn.9"), {"nvidia-cublas-cu12": "12.8.4.1"}, "12.8", "libcudnn.so.9"),
        (("cublas.12", "cudnn.9"), {"libcublas": "12.8.4.1", "cudnn": "9.10"}, "12.8", None),
        (("cublas.11", "cudnn.8"), {"torch": "2.0.1+cu118"}, "11.8", None),  # they lie in torch's wheel
        (("cublas.13", "cudart.13"), {"torch": "2.9.1"}, "12.8", None),  # it is another CUDA's, which is told
        ((), {}, "12.8", None),
    ],
)
def test_a_library_that_no_package_brings(
    loads: tuple[str, ...], beside: dict[str, str], cuda: str, lacks: str | None
) -> None:
    """ctranslate2 and onnxruntime-gpu compute on the CPU without, and their METADATA requires none."""
    read = {"ctranslate2": WheelBuild(code=library(*loads))}
    found = told("cuda-library-missing", judged({"ctranslate2": "4.8.4", **beside}, read, ("A100",), cuda))
    assert [one.severity for one in found] == ["warning"] * bool(lacks)
    assert lacks is None or f"loads {lacks}, and no package" in found[0].message


def test_the_package_that_brings_it_is_named_and_what_few_need_is_a_note() -> None:
    read = {"onnxruntime-gpu": WheelBuild(code=library("cublas.13", "cudnn.9", "nvinfer.10"))}
    pins = {"onnxruntime-gpu": "1.31.1"}
    found, note = told("cuda-library-missing", judged(pins, read, ("A100",), "13.0"))
    assert "add nvidia-cublas, nvidia-cudnn-cu13==9.* to" in str(found.remedy)
    assert (note.severity, note.remedy) == ("info", "add tensorrt-cu13==10.* to [pip] dependencies if you use TensorRT")
    pins |= {"nvidia-cublas": "13.1", "nvidia-cudnn-cu13": "9.26"}
    assert told("cuda-library-missing", judged(pins, read, ("A100",), "13.0")) == [note]
    pins |= {"tensorrt-cu13-libs": "10.14"}
    assert told("cuda-library-missing", judged(pins, read, ("A100",), "13.0")) == []


def test_a_module_that_binds_cudnn_lacks_nothing_and_a_package_is_named_with_its_major() -> None:
    """cupy-cuda11x 13.6.0: its cudnn module loads cuDNN 8 for those who ask, and nvidia-cudnn-cu11 is at 9."""
    cublas = CompiledLibrary("cupy_backends/cuda/libs/cublas.so", loads=("cublas.11",))
    cudnn = CompiledLibrary("cupy_backends/cuda/libs/cudnn.so", loads=("cudnn.8",))
    pins = {"cupy-cuda11x": "13.6.0"}
    for other, names in (
        (cudnn, "add nvidia-cublas-cu11 to"),
        (replace(cudnn, member="a.so"), "nvidia-cudnn-cu11==8.*"),
    ):
        read = {"cupy-cuda11x": WheelBuild(code=DeviceCode((cublas, other)))}
        (found,) = told("cuda-library-missing", judged(pins, read, ("V100",), "11.8"))
        assert names in str(found.remedy)


def test_a_base_image_or_a_jetsons_system_may_bring_it() -> None:
    spec, target = spec_of("12.8", ("A100",))
    pinned = PinnedVersions({"ctranslate2": "4.8.4"}, read={"ctranslate2": WheelBuild(code=library("cublas.12"))})
    assert told("cuda-library-missing", list(judge_pins(spec, target, pinned)))
    based = replace(spec, image=replace(spec.image, base="nvidia/cuda:12.8.1-cudnn-runtime-ubuntu24.04"))
    assert not told("cuda-library-missing", list(judge_pins(based, target, pinned)))
    spec, jetson = spec_of("12.6", ("Orin",), platform="linux-aarch64")
    assert not told("cuda-library-missing", list(judge_pins(spec, jetson, pinned)))


@pytest.mark.parametrize(
    ("pins", "gpu", "told_of"),
    [
        ({"nvidia-cublas-cu12": "12.3.4.1", "nvidia-cuda-runtime-cu12": "12.3.101"}, "RTX 5090", True),
        ({"nvidia-cublas-cu12": "12.3.4.1", "nvidia-cuda-runtime-cu12": "12.3.101"}, "H100", False),
        ({"nvidia-cublas-cu12": "12.8.4.1", "nvidia-cuda-runtime-cu12": "12.8.90"}, "RTX 5090", False),
        ({"nvidia-cublas-cu12": "12.8.4.1", "nvidia-cuda-runtime-cu12": "12.8.90"}, "B300", False),  # 10.0's runs there
        ({"nvidia-cublas-cu12": "12.3.4.1", "torch": "2.9.1"}, "RTX 5090", False),  # torch's rules decide
        ({}, "RTX 5090", False),
    ],
)
def test_cuda_libraries_older_than_the_gpu(pins: dict[str, str], gpu: str, told_of: bool) -> None:
    """tensorflow[and-cuda] 2.16.1 brings CUDA 12.3, whatever the target's."""
    assert bool(told("library-architecture", judged(pins, {}, (gpu,)))) is told_of


@pytest.mark.parametrize(
    ("pin", "gpu", "least"),
    [
        (("flash-attn", "2.8.3"), "T4", "8.0"),
        (("flash-attn", "2.8.3"), "L4", None),
        (("flash-attn", "1.0.9"), "T4", None),
        (("gptqmodel", "5.0.0"), "T4", "8.0"),
        (("gptqmodel", "7.6.0"), "T4", None),
        (("gptqmodel", "7.6.0"), "V100", "7.5"),
        (("natten", "0.21.7"), "T4", None),
    ],
)
def test_a_source_is_for_the_gpus_that_its_maker_wrote_kernels_for(
    pin: tuple[str, str], gpu: str, least: str | None
) -> None:
    found = told("wheel-architecture", judged(dict([pin]), {}, (gpu,)))
    assert [one.severity for one in found] == ["warning"] * bool(least)
    assert all(f"its kernels are for {least} and newer" in one.message for one in found)


def test_what_was_read_in_a_wheel_comes_before_what_a_source_says() -> None:
    read = {"flash-attn": WheelBuild(code=library(sm=("7.5",)))}
    assert told("wheel-architecture", judged({"flash-attn": "2.8.3+t4"}, read, ("T4",))) == []


@pytest.mark.parametrize(
    ("sm", "ptx", "complete", "undecided"),
    [
        (("8.0",), (), False, False),
        (("9.0",), (), False, True),
        (("7.0",), ("7.0",), False, True),  # whether that is all for the GPU, its rest says
        (("9.0",), (), True, False),
        ((), (), False, True),
    ],
)
def test_a_part_without_machine_code_for_the_gpu_decides_nothing(
    sm: tuple[str, ...], ptx: tuple[str, ...], complete: bool, undecided: bool
) -> None:
    code = DeviceCode((CompiledLibrary("acme/_C.so", sm, ptx),), complete=complete)
    assert WheelBuild(code=code).is_undecided(("8.0",), "12") is undecided
