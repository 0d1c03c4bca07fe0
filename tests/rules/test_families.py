"""GPU packages without torch's label: their wheels are read, and judged against the target's CUDA and GPUs."""

import io

import pytest
from support.cubins import cubin
from support.packages import wheel
from test_pin_verdicts import spec_of

from envspec.artifacts.wheel_inspector import build_questions
from envspec.artifacts.wheel_reader import WheelSays, answers
from envspec.binaries.wheel import open_wheel
from envspec.lock.model import Artifact, Pin
from envspec.rules.pins import PinnedVersions, judge_pins
from envspec.rules.wheel_code import WheelBuild

TAG = "cp312-cp312-manylinux_2_28_x86_64"


@pytest.mark.parametrize(
    ("name", "member", "code"),
    [
        ("mamba-ssm", "selective_scan_cuda.cpython-312-x86_64-linux-gnu.so", "built-for-another"),
        ("cupy-cuda12x", "cupy/cuda/cub.cpython-312-x86_64-linux-gnu.so", "cuda-major-mixed"),
        ("jax-cuda12-plugin", "jax_cuda12_plugin/_prng.so", "cuda-major-mixed"),
        ("jax-cuda12-pjrt", "jax_plugins/xla_cuda12/xla_cuda_plugin.so", "cuda-major-mixed"),
    ],
)
def test_a_familys_wheel_is_judged_before_it_is_downloaded(name: str, member: str, code: str) -> None:
    held = cubin(80, abi=7) + b"\0libcudart.so.12\0"
    made = wheel(name, "99.0", tag=TAG, files={member: held})
    pin = Pin("pip", name, "99.0", "pypi", Artifact(made.file, made.sha256))
    questions = build_questions(pin, "12.8", "linux-64")
    with open_wheel(io.BytesIO(made.content)) as opened:
        says = answers(opened, questions, WheelSays())
    read = {name: WheelBuild(says.notes, says.code)}

    def errors_and_warnings(cuda: str, gpu: str) -> dict[str, str]:
        spec, target = spec_of(cuda, (gpu,))
        found = judge_pins(spec, target, PinnedVersions({name: "99.0"}, read=read))
        return {one.code: one.message for one in found if one.severity != "info" and one.code != "cuda-library-missing"}

    assert errors_and_warnings("12.8", "A100") == {}
    lacking = errors_and_warnings("12.8", "H100")
    assert list(lacking) == ["wheel-architecture"]
    assert f"{name} 99.0 has no code for sm_90 (H100" in lacking["wheel-architecture"]
    assert "is for 8.0" in lacking["wheel-architecture"]
    other = errors_and_warnings("13.0", "A100")
    assert code in other and f"{name} 99.0" in other[code] and "CUDA 12" in other[code]
