"""CUPTI's libraries hold cubins that no program runs: they say nothing about the GPUs that a wheel is for."""

import pytest

from envspec.binaries.fatbin import Code, Kind
from envspec.binaries.library import Inspection, Library, QueriedGpu, report, without_code_for
from envspec.facts.compute_capability import Architecture

OLD = {frozenset({Code(Kind.SASS, Architecture(70))}): 20}
B300 = QueriedGpu("B300", Architecture(103))


@pytest.mark.parametrize(
    ("path", "profiles"),
    [
        # as the triton 3.5.1 and nvidia-cuda-cupti-cu12 wheels name them
        ("triton/backends/nvidia/lib/cupti/libcupti.so.2025.1.1", True),
        ("triton/backends/nvidia/lib/cupti/libcupti_static.a", True),
        ("triton/backends/nvidia/lib/cupti/libnvperf_host.so", True),
        ("triton/backends/nvidia/lib/cupti/libnvperf_target.so", True),
        ("triton/backends/nvidia/lib/cupti/libcheckpoint.so", True),
        ("nvidia/cuda_cupti/lib/libpcsamplingutil.so", True),
        ("nvidia/cuda_cupti/bin/cupti64_2025.1.1.dll", True),
        ("torch/lib/libtorch_cuda.so", False),
        ("x/libcheckpointing.so", False),
        ("x/cupti/libkernels.so", False),
    ],
)
def test_they_are_known_by_name(path: str, profiles: bool) -> None:
    library = Library(path, 1, OLD)
    inspection = Inspection("w.whl", "wheel", 1, (library,))
    assert library.profiles is profiles
    assert without_code_for(inspection, B300) == (() if profiles else (path,))
    assert bool(report(inspection, [B300])["libraries"][0]["gpus"]) is not profiles
