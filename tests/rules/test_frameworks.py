"""A framework in a CUDA target has its CUDA backend, or the spec takes it knowingly."""

import pytest

from envspec.base.errors import Place
from envspec.binaries.device_code import CompiledLibrary, DeviceCode
from envspec.rules.case import Case
from envspec.rules.pins import framework_problems
from envspec.rules.wheel_code import WheelBuild
from envspec.spec.model import Located

AT = Place("s.toml", 5, 17)


def case(cuda: str | None = "12.8") -> Case:
    return Case("linux-64", "3.12", cuda, (), None, "2.28")


def told(asked: str, *pins: str, cuda: str | None = "12.8") -> list[tuple[str, str, str | None]]:
    versions = dict(one.split("==") for one in pins)
    found = framework_problems(case(cuda), versions, [Located(asked, AT)])
    return [(one.severity, one.code, one.ways[0].line or one.ways[0].text if one.ways else one.remedy) for one in found]


@pytest.mark.parametrize(
    ("asked", "remedy"),
    [
        ("jax>=0.8", "jax[cuda12]>=0.8"),
        ("jax[cuda13]", "jax[cuda12]"),
        ("jax[rocm7-local,k8s]; python_version > '3'", 'jax[cuda12,k8s]; python_version > "3"'),
        ("jax[oneapi]", "jax[cuda12]"),
        ("jax[tpu]", "jax[cuda12]"),
    ],
)
def test_jax_alone_is_a_cpu_jax(asked: str, remedy: str) -> None:
    assert told(asked, "jax==0.8.0", "jaxlib==0.8.0") == [("error", "no-cuda-backend", remedy)]
    assert told(asked, "jax==0.8.0", "jax-cuda12-plugin==0.8.0") == []
    assert told(asked, "jax==0.8.0", cuda=None) == []


def test_the_backend_is_of_the_targets_major() -> None:
    pins = ("jax==0.8.0", "jax-cuda12-plugin==0.8.0")
    assert told("jax[cuda12]", *pins, cuda="13.0") == [("error", "no-cuda-backend", "jax[cuda13]")]


def test_beside_torch_it_is_a_warning_and_one_asked_for_cpus_a_note() -> None:
    assert told("jax", "jax==0.8.0", "torch==2.9.1") == [("warning", "no-cuda-backend", "jax[cuda12]")]
    assert told("jax[cpu]", "jax==0.8.0") == [("info", "no-cuda-backend", None)]


def test_one_that_another_package_brings_is_a_note() -> None:
    assert told("optax", "optax==0.2.6", "jax==0.8.0") == [("info", "no-cuda-backend", None)]


def test_where_the_backend_is_another_package_advice_names_it() -> None:
    code = "no-cuda-backend"
    assert told("onnxruntime<2", "onnxruntime==1.23") == [
        ("error", code, 'add "onnxruntime-gpu" to [pip] dependencies and leave onnxruntime out')
    ]
    [(severity, _, remedy)] = told("paddlepaddle", "paddlepaddle==3.3.1")
    assert severity == "error" and "Paddle's own index" in str(remedy)
    assert told("tensorflow", "tensorflow==2.21.0", "nvidia-cudnn-cu12==9.3") == []
    [(severity, _, remedy)] = told("apex", "apex==0.9.10.dev0", "torch==2.9.1")
    assert severity == "error" and "NVIDIA's Apex is on no index" in str(remedy)
    [(severity, _, remedy)] = told("dgl", "dgl==2.1.0", "torch==2.2.1")
    assert severity == "error" and "if dgl's own index" in str(remedy)
    [(severity, _, remedy)] = told("paddlepaddle-gpu", "paddlepaddle-gpu==2.6.2")
    assert severity == "error" and "2.6.2, brings none of NVIDIA's libraries" in str(remedy)


@pytest.mark.parametrize(
    ("name", "version", "says"),
    [
        ("cudf", "0.6.1.post1", "is a placeholder of RAPIDS' name: cudf-cu12, which brings CUDA 12"),
        ("cupy", "14.2.0", "is a source alone: cupy-cuda12x, which brings CUDA 12"),
    ],
)
def test_a_name_that_holds_no_wheel_is_an_error_beside_torch_too(name: str, version: str, says: str) -> None:
    pins = {name: version, "torch": "2.9.1"}
    (found,) = framework_problems(case(), pins, [Located(name, AT)])
    backend = says.partition(": ")[2].partition(",")[0]
    assert found.severity == "error" and says in found.message
    assert [(one.more, one.without) for one in found.ways] == [((backend,), (name,))]
    assert not list(framework_problems(case(), pins, [Located(name, AT)], {name}))  # the spec allows its source


@pytest.mark.parametrize("name", ["tensorflow-cpu", "faiss-cpu", "xgboost-cpu"])
def test_a_name_that_says_cpu_is_a_note(name: str) -> None:
    assert told(name, f"{name}==2.0") == [("info", "no-cuda-backend", None)]
    assert told(name, f"{name}==2.0", cuda=None) == []


VENDORS = ["jax-rocm7-plugin", "tensorflow-rocm", "rocm", "pytorch-triton-xpu", "jax-oneapi-plugin", "libtpu"]


@pytest.mark.parametrize("name", VENDORS)
def test_builds_for_another_vendors_gpus_are_refused_in_a_cuda_target_alone(name: str) -> None:
    assert [(severity, code) for severity, code, _ in told(name, f"{name}==1.0")] == [("error", "other-vendor")]
    assert told(name, f"{name}==1.0", cuda=None) == []
    assert told("micro-rocms", "micro-rocms==1.0") == []


@pytest.mark.parametrize(
    ("asked", "beside", "severity"),
    [("tensorflow[and-cuda]", {}, "error"), ("tensorflow", {"torch": "2.9.1"}, "warning"), ("keras-hub", {}, "info")],
)
def test_a_wheel_without_anything_for_gpus_is_a_cpu_build_beside_cudas_libraries_too(
    asked: str, beside: dict[str, str], severity: str
) -> None:
    """tensorflow's and ctranslate2's wheels for aarch64 hold no code for GPUs, and those for x86_64 do."""
    pins = {"tensorflow": "2.21.0", "nvidia-cudnn-cu12": "9.28.0.42", **beside}
    server = Case("linux-aarch64", "3.12", "12.8", (), None, "2.28")
    read = {"tensorflow": WheelBuild(code=DeviceCode(read=1_000_000))}
    (found,) = framework_problems(server, pins, [Located(asked, AT)], read=read)
    assert (found.severity, found.code) == (severity, "no-cuda-backend")
    assert "nothing in its wheel for linux-aarch64 is compiled for a GPU" in found.message
    part = {"tensorflow": WheelBuild(code=DeviceCode(complete=False, read=1))}
    holds = {"tensorflow": WheelBuild(code=DeviceCode((CompiledLibrary("tensorflow/libtf.so", ("8.0",)),)))}
    for one in (part, holds):
        assert not list(framework_problems(server, pins, [Located(asked, AT)], read=one))
    assert not list(framework_problems(server, pins, [Located(asked, AT)], {"tensorflow"}, read)), "one of one's own"


def test_what_a_table_knows_to_load_nothing_and_what_serves_others_is_no_cpu_build() -> None:
    """torchcodec 0.13 decodes on the CPU by its table; cudf-cu12's code is in libcudf-cu12."""
    read = {name: WheelBuild(code=DeviceCode(read=9)) for name in ("torchcodec", "cudf-cu12")}
    pins = {"torchcodec": "0.13.0", "cudf-cu12": "26.10.2"}
    asked = [Located(name, AT) for name in pins]
    assert not list(framework_problems(case(), pins, asked, read=read))
