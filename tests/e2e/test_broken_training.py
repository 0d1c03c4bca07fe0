"""Environments whose torch trains wrongly, each caught by the check that should: real ones, a file of torch changed."""

from pathlib import Path

import pytest
from support.smoke_env import Checked, run_check, with_code

pytestmark = [pytest.mark.nightly, pytest.mark.network, pytest.mark.e2e]

NAN_KERNEL = """
_right_linear, _calls = linear, []
def linear(input, weight, bias=None):
    _calls.append(1)
    found = _right_linear(input, weight, bias)
    return found * float("nan") if len(_calls) > 20 else found
"""

RANDOM_KERNEL = """
_right_linear = linear
def linear(input, weight, bias=None):
    import os
    found = _right_linear(input, weight, bias)
    # enough of it that no rounding hides it: a softmax doesn't see what is added to all its inputs
    return found + 1e-2 * (int.from_bytes(os.urandom(4), "big") / 2**32 - 0.5)
"""

NO_OPTIMIZER_STATE = """
_right_save = save
def save(obj, *words, **options):
    if isinstance(obj, dict) and "optimizer" in obj:
        obj = {**obj, "optimizer": {**obj["optimizer"], "state": {}}}
    return _right_save(obj, *words, **options)
"""

NO_MOMENTS_LOADED = """
_right_load_state_dict = Optimizer.load_state_dict
def _load_state_dict(self, state_dict):
    _right_load_state_dict(self, {**state_dict, "state": {}})
Optimizer.load_state_dict = _load_state_dict
"""


def checked(prefix: Path, folder: Path, workload: str, group: str) -> Checked:
    return run_check(prefix, folder, "--workload", workload, "--quick", "--device", "cpu", "--only", group)


def test_a_kernel_that_gives_nan(smoke_env: Path, tmp_path: Path) -> None:
    prefix = with_code(smoke_env, tmp_path, "nn/functional.py", NAN_KERNEL)
    done = checked(prefix, tmp_path, "basic", "training")
    assert done.status == 1
    assert done.failed == ["training.reference", "training.fp32", "training.bf16", "training.fp16", "training.ddp"]
    found = done.check("training.fp32")
    # Three linear layers: the seventh step is the first that gets there with the 21st call.
    assert found["reason"] == "the loss is nan at step 7 of 20 (fp32)"
    assert "operators" in found["remedy"]


@pytest.mark.parametrize(
    ("file", "code"),
    [("serialization.py", NO_OPTIMIZER_STATE), ("optim/optimizer.py", NO_MOMENTS_LOADED)],
    ids=["when saved", "when loaded"],
)
@pytest.mark.parametrize("workload", ["basic", "llm"])
def test_a_checkpoint_that_drops_the_optimizers_state(
    smoke_env: Path, tmp_path: Path, workload: str, file: str, code: str
) -> None:
    done = checked(with_code(smoke_env, tmp_path, file, code), tmp_path, workload, "determinism")
    assert done.status == 1
    assert done.failed == ["determinism.resume"]
    reason = done.check("determinism.resume")["reason"]
    assert reason == "a checkpoint doesn't restore what was saved: optimizer differs after loading"


def test_a_kernel_that_isnt_repeatable(smoke_env: Path, tmp_path: Path) -> None:
    prefix = with_code(smoke_env, tmp_path, "nn/functional.py", RANDOM_KERNEL)
    done = checked(prefix, tmp_path, "basic", "determinism")
    assert done.status == 1
    assert done.failed == ["determinism.repeat", "determinism.resume"]
    reason = done.check("determinism.repeat")["reason"]
    assert reason.startswith("two runs of one training with one seed aren't equal: their losses differ from step 1 on")
