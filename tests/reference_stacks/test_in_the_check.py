"""Demands that a part of the check meets, each shown by what the part does."""

import itertools
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from envspec_check.checks import extension, figures
from envspec_check.checks.collectives import EQUAL, between, mark
from envspec_check.checks.gpu.device import device_capability
from envspec_check.interface import WORKLOADS, Context, Fault
from envspec_check.ranks import Rank
from envspec_check.report import figure, shares
from support.smoke_env import CHECK, CONFIG
from support.waiting import wait_until

LOCK = {"targets": {"t": {"cuda": "12.8", "architectures": ["sm_80"]}}}
CONTEXT = Context({"target": "t", "lock": LOCK}, "cuda", "basic", 5, False, 0, 60.0, Path(), "check", gpus=1)


class OnGpus(Context):
    """A context whose torch has GPUs of these capabilities."""

    def __init__(self, *capabilities: tuple[int, int]) -> None:
        super().__init__(**CONTEXT.__dict__)
        object.__setattr__(self, "capabilities", capabilities)

    @property
    def torch(self) -> Any:
        own = self.__dict__["capabilities"]
        found = {"get_device_capability": own.__getitem__, "get_device_name": "GPU {}".format}
        return SimpleNamespace(cuda=SimpleNamespace(device_count=lambda: len(own), **found))


@pytest.mark.parametrize(
    ("capabilities", "status", "reason"),
    [
        ([(8, 0)], "pass", None),
        ([(8, 6)], "pass", "code for sm_80 runs on 8.6"),
        ([(8, 0), (8, 9)], "pass", "code for sm_80 runs on 8.9"),
        ([(9, 0)], "fail", "GPU 0: the target is for sm_80"),
        ([(7, 5)], "fail", "GPU 0: the target is for sm_80"),
    ],
)
def test_d1_a_gpu_that_runs_the_target_s_code_is_taken_and_told(
    capabilities: list[tuple[int, int]], status: str, reason: str | None
) -> None:
    """A100's code on an RTX 3090; tests/prove/smoke/test_proof_standing.py holds that it proves nothing of the A100."""
    found = device_capability(OnGpus(*capabilities))
    assert (found.status, found.reason) == (status, reason)
    assert found.details.get("near", False) is (status == "pass" and reason is not None)


def test_a11_shares_of_the_card_s_peaks_stand_beside_the_figures() -> None:
    card = {"tflop_s": {"bf16": 312}, "bandwidth_gb_s": 2000, "trust": "high"}
    taken = [
        figure("figures.matmul_tflop_s.bf16", 234.0, "TFLOP/s", {}, card),
        figure("figures.copy_gb_s", 1700.0, "GB/s", {}, card),
        figure("figures.copy_gb_s", None, "GB/s", {}, card),
        figure("figures.gpu_utilisation", 81.0, "%", {}, card),
    ]
    assert list(shares(taken)) == [
        ("figures.share_of_peak.matmul.bf16", 75.0, "%"),
        ("figures.share_of_peak.copy", 85.0, "%"),
    ]
    assert not list(shares([figure("figures.copy_gb_s", 20.0, "GB/s", {}, None)]))


def test_a11_an_all_reduce_is_timed_by_the_device_s_own_events() -> None:
    class Event:
        made = 0

        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            Event.made += 1

        def synchronize(self) -> None:
            assert Event.made == 2

        def elapsed_time(self, other: object) -> float:
            return 12.0

    on_gpu = Rank(SimpleNamespace(cuda=SimpleNamespace(Event=Event)), None, 0, 1, "cuda")
    assert between(on_gpu, mark(on_gpu), mark(on_gpu)) == 0.012
    on_cpu = on_gpu._replace(device="cpu")
    assert 0 <= between(on_cpu, mark(on_cpu), mark(on_cpu)) < 1


def test_d4_gpu_use_is_sampled_while_a_block_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """By NVML, of the GPU that torch uses, whatever its number; what can't tell (MIG) is left out."""
    told: Iterator[int | None] = itertools.cycle((40, None, 80))
    library = SimpleNamespace(
        device_at=lambda pci: pci, utilisation=lambda device: next(told) if device == "pci" else 0
    )
    monkeypatch.setattr(figures, "nvml", lambda: library)
    monkeypatch.setattr(figures, "pci_address", lambda torch: "pci")
    with figures.Sampler(OnGpus((8, 6))) as sampler:
        wait_until(lambda: len(sampler.samples) >= 4, 30)
    assert sampler.samples[:4] == [40, 80, 40, 80] and sampler.mean is not None and 40 <= sampler.mean <= 80


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc isn't installed")
@pytest.mark.slow
def test_d3_nvcc_compiles_the_kernel(tmp_path: Path) -> None:
    """Its run needs a GPU."""
    compiler, ctx = extension.nvcc(), replace(CONTEXT, scratch=tmp_path)
    assert compiler
    library = extension.build(ctx, compiler, "sm_90")
    assert Path(library).stat().st_size > 10_000
    with pytest.raises(Fault, match="nvcc compiles no kernel for sm_1: it ended with status"):
        extension.build(ctx, compiler, "sm_1")


@pytest.fixture(scope="module")
def shown(smoke_env: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the check does between processes on a CPU, by Gloo."""
    program, scratch = Path(__file__).with_name("in_the_check.py"), tmp_path_factory.mktemp("shown")
    words = [str(smoke_env / "bin/python"), str(program), str(CHECK), str(CONFIG), str(scratch)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.nightly
@pytest.mark.e2e
def test_c3_data_parallel_and_ddp_train_as_one_process_and_are_timed(shown: dict[str, Any]) -> None:
    """Between two processes: without a GPU DataParallel calls its model."""
    names = ["training.data_parallel.wide_samples_per_s", "training.ddp.wide_samples_per_s"]
    assert shown["parallel"] == ["pass", names]
    assert shown["wrong"][0] == "fail" and shown["wrong"][1].startswith("the weights by data_parallel differ by")
    assert all(value > 0 for value in shown["all_reduce"].values()) and len(shown["all_reduce"]) == 6


@pytest.mark.nightly
@pytest.mark.e2e
def test_a9_an_activation_checkpoint_that_keeps_its_activations_is_told(shown: dict[str, Any]) -> None:
    assert shown["kept"] == ["pass", "fail", "an activation checkpoint keeps its part's activations all the same"]


@pytest.mark.nightly
@pytest.mark.e2e
def test_c3_a_rate_scaled_with_the_batch_steps_as_far_as_its_batches_together(shown: dict[str, Any]) -> None:
    assert len(shown["scaled"]) == 2 and all(apart < 1e-6 for apart in shown["scaled"])


@pytest.mark.nightly
@pytest.mark.e2e
def test_b3_torchrun_starts_four_ranks_by_one_command_and_they_train_as_one_process(shown: dict[str, Any]) -> None:
    """Every workload: how far the weights end from those of one process, and how many different ones the ranks have."""
    assert set(shown["four"]) == set(WORKLOADS)
    assert all(apart < EQUAL and different == 1 for apart, different in shown["four"].values())
