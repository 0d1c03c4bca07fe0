"""together: frameworks of one lock in one process: each computes, sees the GPUs, and leaves memory to the others."""

from __future__ import annotations

import importlib
import itertools
import json
import os
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

from envspec_check.checks.frameworks.oracle import TOLERANCES, farthest, numpy
from envspec_check.cuda_driver import Driver
from envspec_check.interface import MIB, Context, Fault, Outcome, Skip, check, failed, internal, passed
from envspec_check.lock import frameworks
from envspec_check.process import write_whole

SMALL = 2048 * MIB
"""What a framework may take of a GPU for little work: CUDA's context, the libraries' workspaces, what is computed."""

LEAVES = 0.1
"""The share of the free memory that a framework leaves to the next one at least."""


class Turn(NamedTuple):
    """A framework in a process that others use too: how many GPUs it sees, and its product of two matrices."""

    gpus: int
    product: Any


def by_torch(first: Any, second: Any) -> Turn:
    torch = importlib.import_module("torch")
    gpus = torch.cuda.device_count()
    tensors = [torch.from_numpy(each).to("cuda" if gpus else "cpu") for each in (first, second)]
    return Turn(gpus, (tensors[0] @ tensors[1]).cpu().numpy())


def by_jax(first: Any, second: Any) -> Turn:
    jax = importlib.import_module("jax")
    product = jax.numpy.matmul(first, second, precision="highest")
    return Turn(sum(each.platform == "gpu" for each in jax.devices()), numpy().asarray(product))


def by_tensorflow(first: Any, second: Any) -> Turn:
    tf = importlib.import_module("tensorflow")
    tf.config.experimental.enable_tensor_float_32_execution(False)
    return Turn(len(tf.config.list_physical_devices("GPU")), tf.linalg.matmul(first, second).numpy())


def by_cupy(first: Any, second: Any) -> Turn:
    cupy = importlib.import_module("cupy")
    return Turn(cupy.cuda.runtime.getDeviceCount(), cupy.asnumpy(cupy.asarray(first) @ cupy.asarray(second)))


TURNS: Dict[str, Callable[[Any, Any], Turn]] = {
    "torch": by_torch,
    "jax": by_jax,
    "tensorflow": by_tensorflow,
    "cupy": by_cupy,
}

LESS = {"jax": "XLA_PYTHON_CLIENT_PREALLOCATE=false", "tensorflow": "TF_FORCE_GPU_ALLOW_GROWTH=true"}
"""The variable by which a framework takes no more than it needs."""


def here(ctx: Context) -> List[str]:
    """Return the frameworks that take turns: those of the lock that compute on the device. Raises Skip below two."""
    names = [name for name in frameworks(ctx.lock) if name in TURNS and (name != "cupy" or ctx.device == "cuda")]
    if len(names) < 2:
        raise Skip("no two of {} are there to compute on the {}".format(", ".join(TURNS), ctx.device))
    return names


@internal("together.turns")
def turns(ctx: Context, *names: str) -> int:
    """Let frameworks compute one after the other, under the environment's own variables."""
    made, runs = numpy().random.RandomState(ctx.seed), []
    first, second = (made.standard_normal((320, 320)).astype("float32") for _ in range(2))
    driver = Driver() if ctx.device == "cuda" else None
    for name in names:
        free = driver.memory()[0] if driver else 0
        turn = TURNS[name](first, second)
        error = farthest(turn.product, first.astype("float64") @ second.astype("float64"))
        left = driver.memory()[0] if driver else 0
        runs.append({"framework": name, "gpus": turn.gpus, "error": error, "free_bytes": free, "left_bytes": left})
    write_whole(str(ctx.scratch / "turns.json"), json.dumps(runs))
    return 0


def take_turns(ctx: Context, names: List[str], **env: str) -> List[Dict[str, Any]]:
    unseen = {"CUDA_VISIBLE_DEVICES": ""} if ctx.device == "cpu" else {}
    ended = ctx.run_again("together.turns", *names, env={**unseen, **env}, timeout=ctx.timeout * 0.4)
    if ended.code:
        print(ended.output)
        reason = f"{', then '.join(names)} in one process: it ended with status {ended.code}"
        raise Fault(reason, "its output says why; two of them may bring unlike releases of one library")
    runs: List[Dict[str, Any]] = json.loads((ctx.scratch / "turns.json").read_text(encoding="utf-8"))
    return runs


def compare_footprints(ctx: Context, name: str) -> Tuple[Dict[str, Any], List[Tuple[str, float, str]]]:
    """Compare a framework's share of a GPU for a little work, by itself and where it's told to take no more than that
    needs: details and figures. Raises Fault where it is too much."""
    total = Driver().memory()[1]
    variable = LESS[name].partition("=")
    runs = [take_turns(ctx, [name], **env)[0] for env in ({}, {variable[0]: variable[2]})]
    own, little = (run["free_bytes"] - run["left_bytes"] for run in runs)
    details = {"total_bytes": total, "taken_bytes": own, f"taken_bytes with {LESS[name]}": little}
    if little > SMALL:
        reason = f"with {LESS[name]} {name} takes {little / 2**30:.1f} GiB for little work"
        raise Fault(reason, "see which other variables of it are set", details=details)
    return details, [(f"{name}.memory.taken", float(own), "B"), (f"{name}.memory.least", float(little), "B")]


@check("together.compute", torch=False)
def together_compute(ctx: Context) -> Outcome:
    """All of them compute in one process, whichever is imported first, and see the same GPUs."""
    names, details = here(ctx), {}
    for order in (names, names[::-1]):
        details[", ".join(order)] = runs = take_turns(
            ctx, order, **dict(setting.split("=") for setting in LESS.values())
        )
        for run in runs:
            prefix = f"{run['framework']}, of {', then '.join(order)} in one process,"
            if not run["error"] <= TOLERANCES["fp32"]:
                return failed(f"{prefix} is off by {run['error']:.2g} of float64's", "try each alone", details=details)
            if ctx.device == "cuda" and run["gpus"] != ctx.gpus:
                remedy = "lock its build for the target's CUDA; see the checks of that framework"
                return failed(f"{prefix} sees {run['gpus']} GPUs of {ctx.gpus}", remedy, details=details)
    return passed(details=details)


@check("together.memory", needs="gpu", torch=False)
def together_memory(ctx: Context) -> Outcome:
    """None of them takes all memory of the GPU by itself, so that the next one has some."""
    names = here(ctx)
    runs = take_turns(ctx, sorted(names, key=lambda name: name not in LESS))  # those that may take all come first
    details = {
        "turns": runs,
        "variables": {setting: os.environ.get(setting.split("=")[0]) for setting in LESS.values()},
    }
    for run in runs:
        if run["left_bytes"] < LEAVES * run["free_bytes"]:
            reason = "%s takes all but %.1f of %.1f GiB" % (
                run["framework"], run["left_bytes"] / 2**30, run["free_bytes"] / 2**30,
            )  # fmt: skip
            name, _, value = LESS.get(run["framework"], "").partition("=")
            remedy = f'env = {{ {name} = "{value}" }} in the spec\'s [image], or export it' if name else None
            return failed(reason, remedy, details=details)
    return passed(details=details)


READERS = {"torch": "torch", "jax": "jax.numpy", "cupy": "cupy"}
"""The modules that read others' arrays where they lie, by DLPack."""


@check("together.exchange", torch=False)
def together_exchange(ctx: Context) -> Outcome:
    """An array of one is read by the other where it lies, and holds the same numbers."""
    names = [name for name in here(ctx) if name in READERS]
    if len(names) < 2:
        raise Skip("no two of {} are there".format(", ".join(READERS)))
    os.environ.update(dict(setting.split("=") for setting in LESS.values()))
    if ctx.device == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    gpu = ctx.device == "cuda"
    makers = {
        "torch": lambda: ctx.torch.arange(24.0, device=ctx.device).reshape(4, 6),
        "jax": lambda: importlib.import_module("jax.numpy").arange(24.0).reshape(4, 6),
        "cupy": lambda: importlib.import_module("cupy").arange(24.0, dtype="float32").reshape(4, 6),
    }
    pairs = []
    for giver, taker in itertools.permutations(names, 2):
        array = importlib.import_module(READERS[taker]).from_dlpack(makers[giver]())
        if gpu and taker == "torch" and array.device.type != "cuda":
            return failed(f"an array of {giver} is on the {array.device.type} when torch reads it")
        if [list(map(float, row)) for row in array.tolist()] != [[6.0 * at + to for to in range(6)] for at in range(4)]:
            return failed(f"an array of {giver} holds other numbers when {taker} reads it", "try each alone")
        pairs.append(f"{giver} to {taker}")
    return passed(details={"exchanged": pairs})
