"""The workloads of the check: its arithmetic here, each of its trainings in a real environment."""

import math
import subprocess
from pathlib import Path

import envspec_check.checks
import envspec_check.workloads  # noqa: F401
import pytest
from envspec_check.checks.ddp import apart, even_ranks
from envspec_check.checks.determinism import Run, first_difference
from envspec_check.checks.precision import FEW
from envspec_check.checks.training import judge_losses
from envspec_check.interface import QUICK_STEPS, WORKLOAD_NAMES, WORKLOADS
from envspec_check.trainer import PARTS, digest, percentile
from envspec_check.workloads.base import fall, layer_of, number_of, stated_fall, warm_up_and_cosine
from support.smoke_env import CHECK, run_check


def test_a_fall_is_a_share_of_the_first_losses() -> None:
    assert fall([4.0, 3.0, 2.0, 1.0]) == 0.75
    assert fall([1.0, 2.0]) == -1.0
    assert fall([4.0] * 5 + [0.0] * 40 + [1.0] * 5) == 0.75
    assert fall([2.0]) == 0.0
    assert fall([0.0, 1.0]) == 0.0


@pytest.mark.parametrize(("steps", "least"), [(25, 0.25), (50, 0.5), (500, 0.5)])
def test_short_trainings_have_to_fall_by_less(steps: int, least: float) -> None:
    assert stated_fall(0.5, 50, steps) == least


def test_losses_that_fall_are_right() -> None:
    assert judge_losses([4.0, 3.0, 2.0, 1.0], "fp32", 0.5, 4, 4) is None


@pytest.mark.parametrize(
    ("losses", "reason"),
    [
        ([2.0, math.nan], "the loss is nan at step 2 of 4 (bf16)"),
        ([math.inf], "the loss is inf at step 1 of 4 (bf16)"),
        ([2.0, 1.0], "the training ended after 2 of 4 steps (bf16)"),
        ([2.0, 2.0, 2.0, 1.5], "the loss fell by 25.0 % in 4 steps, not by 50.0 % (bf16): 2 to 1.5"),
        ([1.0, 2.0, 2.0, 2.0], "the loss fell by -100.0 % in 4 steps, not by 50.0 % (bf16): 1 to 2"),
    ],
)
def test_losses_that_are_wrong(losses: list[float], reason: str) -> None:
    found = judge_losses(losses, "bf16", 0.5, 4, 4)
    assert found and found.status == "fail" and found.reason == reason


def test_percentiles() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert [percentile(values, share) for share in (0.5, 0.9, 0.99, 1.0)] == [50.0, 90.0, 99.0, 100.0]
    assert percentile([7.0], 0.5) == 7.0


def test_the_learning_rate_warms_up_and_falls() -> None:
    rates = [warm_up_and_cosine(step, 50) for step in range(50)]
    assert rates[:6] == [0.2, 0.4, 0.6, 0.8, 1.0, 1.0]
    assert rates[5:] == sorted(rates[5:], reverse=True)
    assert rates[-1] > 0.1


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("patches.weight", 0),
        ("position", 0),
        ("blocks.0.one.bias", 1),
        ("blocks.2.feed.0.weight", 3),
        ("norm.weight", 4),
        ("head.bias", 4),
        ("head_distilled.weight", 4),
    ],
)
def test_layers_of_a_vision_transformer(name: str, layer: int) -> None:
    assert layer_of(name, 3) == layer


def test_seeds_of_unlike_words_differ() -> None:
    assert number_of(0, "text", 1) == number_of(0, "text", 1)
    assert len({number_of(*words) for words in [(0, 1), (1, 0), ("0", 1), (0, 1, 0), ("01",)]}) == 5


def test_a_digest_sees_every_bit() -> None:
    value = {"a": [1, 2.0, (True, None)], "b": "text"}
    assert digest(value) == digest(dict(reversed(value.items())))
    others = [{"a": [1, 2.0, (True, None)]}, {**value, "a": [1, 2, (True, None)]}, {**value, "b": math.nextafter(1, 2)}]
    assert len({digest(one) for one in (value, *others)}) == 4
    assert digest(0.0) != digest(-0.0)
    assert digest(["ab"]) != digest(["a", "b"])


def test_how_far_losses_are_apart() -> None:
    assert apart([1.0, 2.0], [1.0, 2.0]) == 0.0
    assert apart([1.0, 2.0], [1.0, 1.0]) == 0.5
    assert apart([1.0], [1.0, 2.0]) == math.inf
    assert apart([math.nan], [math.nan]) == math.inf


@pytest.mark.parametrize(("gpus", "ranks"), [(2, 2), (3, 2), (4, 4), (7, 4), (8, 8)])
def test_ranks_share_batches_evenly(gpus: int, ranks: int) -> None:
    assert even_ranks(gpus) == ranks


DIGESTS = dict.fromkeys(PARTS, "same")
RUN = Run("fp32", [(2.0).hex(), (1.0).hex()], DIGESTS, {})


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (RUN, None),
        (RUN._replace(precision="bf16"), "one is in fp32, the other in bf16"),
        (RUN._replace(losses=[(2.0).hex(), (1.5).hex()]), "their losses differ from step 2 on (1, 1.5)"),
        (RUN._replace(losses=[(2.0).hex()]), "one ended after 2 steps, the other after 1"),
        (
            RUN._replace(parts={**DIGESTS, "optimizer": "other", "rng": "other"}),
            "they end with equal losses, but the state differs in: optimizer, rng",
        ),
    ],
)
def test_how_two_runs_differ(other: Run, told: str | None) -> None:
    assert first_difference(RUN, other) == told


def test_every_workload_is_there() -> None:
    assert tuple(WORKLOADS) == WORKLOAD_NAMES
    for name, made in WORKLOADS.items():
        assert made.name == name
        assert 0 < made.falls < 1
        assert made.batch.bit_count() == made.on_gpu.bit_count() == 1  # ranks and parts share it evenly


@pytest.mark.nightly
@pytest.mark.network
@pytest.mark.e2e
@pytest.mark.parametrize("workload", WORKLOAD_NAMES)
def test_a_workload_trains_repeats_and_resumes(smoke_env: Path, tmp_path: Path, workload: str) -> None:
    done = run_check(
        *(smoke_env, tmp_path, "--workload", workload, "--quick", "--device", "cpu"),
        *("--only", "training", "--only", "determinism"),
    )
    assert done.failed == []
    assert done.status == 0
    statuses = {one["name"]: one["status"] for one in done.report["checks"]}
    assert statuses == {
        "training.reference": "pass",
        "training.pure_bf16": "pass",
        "training.scaler": "pass",
        "training.fp32": "pass",
        "training.bf16": "pass",
        "training.fp16": "pass",
        "training.optimizers": "pass",
        "training.schedules": "pass",
        "training.data_parallel": "skip",
        "training.ddp": "pass",
        "training.fsdp": "skip",
        "determinism.repeat": "pass",
        "determinism.resume": "pass",
    }
    for precision in ("fp32", "bf16", "fp16"):
        losses = done.report["curves"][f"training.{precision}"]
        assert len(losses) == (FEW if precision == "fp16" else QUICK_STEPS)
        assert losses[-1] < losses[0] or precision == "fp16"
    curves = [tuple(done.report["curves"][f"training.{precision}"]) for precision in ("fp32", "bf16", "fp16")]
    assert len(set(curves)) == 3  # each precision is really another
    figures = {one["name"]: one["value"] for one in done.report["figures"]}
    assert figures["training.samples_per_s"] > 0
    assert 0 < figures["training.step_ms.p50"] <= figures["training.step_ms.p90"] <= figures["training.step_ms.p99"]
    assert 2**20 < figures["training.peak_memory"] < 4 * 2**30
    resumed = done.check("determinism.resume")["details"]
    assert (resumed["half"], resumed["steps"]) == (QUICK_STEPS // 2, QUICK_STEPS)


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from envspec_check import checks, workloads
from envspec_check.checks.gpu import float8
from envspec_check.interface import Context
ctx = Context({}, "cpu", "basic", 5, True, 0, 60.0, Path("."), "check")
right = float8.product
print(float8.operators_fp8(ctx).status)
float8.product = lambda torch, one, other: right(torch, one, other) * 1.05
print(float8.operators_fp8(ctx).reason)
"""


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.e2e
def test_fp8_is_compared_with_float64(smoke_env: Path) -> None:
    words = [str(smoke_env / "bin" / "python"), "-I", "-c", PROGRAM, str(CHECK)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    healthy, wrong = done.stdout.splitlines()
    assert healthy == "pass"
    assert wrong.startswith("a product in FP8 is off by 0.05")
