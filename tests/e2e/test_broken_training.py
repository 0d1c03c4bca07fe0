"""Environments whose torch trains wrongly, each caught by the check that should: real ones, a file of torch changed."""

import subprocess
import time
from pathlib import Path

import pytest
from support.smoke_env import CHECK, CONFIG, SECONDS, Checked, copied, run_check, run_one, with_code
from uv import find_uv_bin

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


ON_ONE_RANK = """
_right_{0} = {0}
def {0}(output, *words, **options):
    work = _right_{0}(output, *words, **options)
    if get_rank() == 1:
        output.flatten()[-1:].add_(1)
    return work
"""


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("reduce_scatter_tensor", "rank 1: reduce_scatter of 3 floats is wrong"),
        ("all_gather_into_tensor", "rank 1: all_gather_into_tensor of 3 floats is wrong"),
        ("all_reduce", "rank 1: the sum of 1 whole numbers is wrong"),
    ],
)
def test_a_collective_that_is_wrong_on_one_rank_is_named(smoke_env: Path, tmp_path: Path, name: str, told: str) -> None:
    prefix = with_code(smoke_env, tmp_path, "distributed/distributed_c10d.py", ON_ONE_RANK.format(name))
    found = run_one(prefix, CONFIG, "collectives.all_reduce", tmp_path, {})
    # had a rank waited for another one's collective, the reason would be that ranks hadn't ended
    assert found["status"] == "fail" and found["reason"] == told


BROKEN_ON_ONE_RANK = """
_right_{0} = {0}
def {0}(*words, **options):
    if get_rank() == {1}:
        {2}
    return _right_{0}(*words, **options)
"""

SLEEPS, SPINS = "import time; time.sleep(3600)", "while True: pass"


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("name", "code", "told"),
    [
        (
            "reduce_scatter_tensor",
            "raise ValueError('a bad card')",
            "reduce_scatter of 3 floats: ValueError: a bad card",
        ),
        ("all_reduce", "raise RuntimeError('no')", "the sum of 1 whole numbers: RuntimeError: no"),
        ("broadcast", "import os; os.kill(os.getpid(), 11)", "broadcast of 3 floats: crashed (SIGSEGV)"),
    ],
    ids=["raises", "raises in the first", "crashes"],
)
def test_a_collective_that_fails_on_one_rank_is_named(
    smoke_env: Path, tmp_path: Path, rank: int, name: str, code: str, told: str
) -> None:
    prefix = with_code(
        smoke_env, tmp_path, "distributed/distributed_c10d.py", BROKEN_ON_ONE_RANK.format(name, rank, code)
    )
    found = run_one(prefix, CONFIG, "collectives.all_reduce", tmp_path, {}, seconds=60)
    assert found["status"] == "fail" and f"rank {rank}: {told}" in found["reason"], found
    assert f"rank {1 - rank}" not in found["reason"].partition("; ")[0], found


@pytest.mark.parametrize("rank", [0, 1])
def test_a_collective_that_one_rank_alone_is_without_is_named(smoke_env: Path, tmp_path: Path, rank: int) -> None:
    code = BROKEN_ON_ONE_RANK.format("all_to_all_single", rank, "raise RuntimeError('not supported')")
    prefix = with_code(smoke_env, tmp_path, "distributed/distributed_c10d.py", code)
    found = run_one(prefix, CONFIG, "collectives.all_reduce", tmp_path, {}, seconds=25)
    told = f"all_to_all of 3 floats after 15 s; rank {rank} is at send_and_receive of 3 floats, without all_to_all"
    assert found["status"] == "fail" and told in found["reason"], found


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("reduce_scatter_tensor", "reduce_scatter of 3 floats"),
        ("all_reduce", "the sum of 1 whole numbers"),
        ("batch_isend_irecv", "send_and_receive of 3 floats"),
    ],
)
@pytest.mark.parametrize("code", [SLEEPS, SPINS], ids=["sleeps", "spins"])
def test_a_collective_that_never_ends_on_one_rank_is_named(
    smoke_env: Path, tmp_path: Path, rank: int, name: str, told: str, code: str
) -> None:
    prefix = with_code(
        smoke_env, tmp_path, "distributed/distributed_c10d.py", BROKEN_ON_ONE_RANK.format(name, rank, code)
    )
    began = time.monotonic()
    found = run_one(prefix, CONFIG, "collectives.all_reduce", tmp_path, {}, seconds=25)
    assert found["status"] == "fail", found
    assert f"rank {rank} hadn't ended {told} after 15 s" in found["reason"], found
    assert f"rank {1 - rank} hadn't" not in found["reason"], found
    assert time.monotonic() - began < 120


NO_SCORE_MOD = """
_right_flex_attention = flex_attention
def flex_attention(query, key, value, score_mod=None, *words, **options):
    return _right_flex_attention(query, key, value, None, *words, **options)
"""


@pytest.mark.parametrize("code", ["", NO_SCORE_MOD], ids=["sound", "broken"])
def test_flex_attention_that_ignores_its_score_mod(smoke_env: Path, tmp_path: Path, code: str) -> None:
    prefix = with_code(smoke_env, tmp_path, "nn/attention/flex_attention.py", code)
    found = run_one(prefix, CONFIG, "compile.flex_attention", tmp_path, {}, length="full")
    assert found["status"] == ("fail" if code else "pass"), found


READ = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import safetensors, safetensors.torch, torch
from envspec_check import checks
from envspec_check.checks.stack.packages.safetensors import stack_safetensors
from envspec_check.interface import Context
right = safetensors.torch.load_file
if sys.argv[3] == "broken":
    safetensors.torch.load_file = lambda path: {
        name: one.half() if one.dtype == torch.bfloat16 else one for name, one in right(path).items()
    }
ctx = Context({}, "cpu", "basic", 20, True, 0, 60.0, pathlib.Path(sys.argv[2]), sys.argv[1])
print(stack_safetensors(ctx, safetensors).reason)
"""


def test_safetensors_that_gives_bfloat16_as_float16(smoke_env: Path, tmp_path: Path) -> None:
    prefix = copied(smoke_env, tmp_path / "env")
    words = [find_uv_bin(), "-q", "pip", "install", "--python", prefix / "bin" / "python", "safetensors"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode:
        pytest.skip(f"safetensors can't be had here: {done.stderr.strip().splitlines()[-1]}")
    for how, told in (("sound", "None"), ("broken", "tensors of bfloat16 come back as others")):
        words = [prefix / "bin" / "python", "-I", "-c", READ, CHECK, tmp_path, how]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, timeout=SECONDS)
        assert done.stdout.strip() == told, done.stderr
