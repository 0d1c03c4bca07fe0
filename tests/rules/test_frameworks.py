"""A framework in a CUDA target has its CUDA backend, or the spec takes it knowingly."""

import pytest

from envspec.base.errors import Place
from envspec.rules.case import Case
from envspec.rules.pins import framework_problems
from envspec.spec.model import Located

AT = Place("s.toml", 5, 17)


def case(cuda: str | None = "12.8") -> Case:
    return Case("linux-64", "3.12", cuda, (), None, "2.28")


def told(asked: str, *pins: str, cuda: str | None = "12.8") -> list[tuple[str, str, str | None]]:
    versions = dict(one.split("==") for one in pins)
    found = framework_problems(case(cuda), versions, [Located(asked, AT)])
    return [(one.severity, one.code, one.ways[0].line if one.ways else one.remedy) for one in found]


@pytest.mark.parametrize(
    ("asked", "remedy"),
    [
        ("jax>=0.8", "jax[cuda12]>=0.8"),
        ("jax[cuda13]", "jax[cuda12]"),
        ("jax[rocm7-local,k8s]; python_version > '3'", 'jax[cuda12,k8s]; python_version > "3"'),
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
        ("error", code, 'write "onnxruntime-gpu" in place of onnxruntime')
    ]
    [(severity, _, remedy)] = told("paddlepaddle", "paddlepaddle==3.3.1")
    assert severity == "error" and "Paddle's own index" in str(remedy)
    assert told("tensorflow", "tensorflow==2.21.0", "nvidia-cudnn-cu12==9.3") == []
    [(severity, _, remedy)] = told("apex", "apex==0.9.10.dev0", "torch==2.9.1")
    assert severity == "error" and "NVIDIA's Apex is on no index" in str(remedy)
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
    assert found.remedy == f'write "{backend}" in place of {name}'
    assert not list(framework_problems(case(), pins, [Located(name, AT)], {name}))  # the spec allows its source


@pytest.mark.parametrize("name", ["tensorflow-cpu", "faiss-cpu", "xgboost-cpu"])
def test_a_name_that_says_cpu_is_a_note(name: str) -> None:
    assert told(name, f"{name}==2.0") == [("info", "no-cuda-backend", None)]
    assert told(name, f"{name}==2.0", cuda=None) == []


@pytest.mark.parametrize("name", ["jax-rocm7-plugin", "tensorflow-rocm", "rocm", "pytorch-triton-xpu"])
def test_builds_for_another_vendors_gpus_are_refused_in_a_cuda_target_alone(name: str) -> None:
    assert [(severity, code) for severity, code, _ in told(name, f"{name}==1.0")] == [("error", "other-vendor")]
    assert told(name, f"{name}==1.0", cuda=None) == []
    assert told("micro-rocms", "micro-rocms==1.0") == []
