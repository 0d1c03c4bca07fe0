"""The checks of every framework that differentiates, by the few functions that each of them brings."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from envspec_check.checks.frameworks import oracle
from envspec_check.checks.frameworks.oracle import OPERATORS, TOLERANCES, Params, numpy
from envspec_check.checks.training import judge_losses
from envspec_check.interface import INTERNAL, Context, Fault, Outcome, check, failed, passed
from envspec_check.process import write_whole
from envspec_check.trainer import percentile
from envspec_check.workloads.base import fall, stated_fall

WRONG = "this build computes wrongly on this machine: try another release of it, and report it"

FALLS, ENOUGH = 0.5, 30
"""The share by which the loss falls, and in how many steps."""

NEAR = 8
"""The first steps of a training, which stand beside float64."""

APART = {"fp32": 1e-4, "bf16": 2e-2}
"""How far the losses and the weights of these may be from float64's, as a share."""

TYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}

HALF, WHOLE = 6, 12
"""The steps at which a checkpoint is made, and the training ends that is gone on from it."""


class Kit:
    """A framework's own functions. A subclass settles the framework's variables before it imports it.

    operators  its own functions, by the names of `oracle.OPERATORS`
    """

    name = ""
    operators: Dict[str, Callable[..., Any]]

    def __init__(self, ctx: Context, exact: bool = False) -> None:
        """`exact`: only algorithms that give the same bits for the same input."""

    def tolerance(self, precision: str) -> float:
        return TOLERANCES[precision]

    def put(self, array: Any, precision: str) -> Any:
        """Return an array on the device, in a precision."""
        raise NotImplementedError

    def back(self, array: Any) -> Any:
        """Return an array in NumPy's float64."""
        raise NotImplementedError

    def pull(self, function: Callable[..., Any], inputs: List[Any], weights: Any) -> Tuple[Any, List[Any]]:
        """Return a function's result, and the gradients of its sum by these weights for each input."""
        raise NotImplementedError

    def gradients(self, params: Params, rows: Any, labels: Any) -> Tuple[float, Params]:
        """Return the loss of the network of `oracle` and its gradients, in float32."""
        raise NotImplementedError

    def training(self, seed: int, precision: str, dropout: bool = False) -> Any:
        """A training of that network: has `step(rows, labels)`, which gives the loss, `params()` in NumPy, `leaves()`
        with all that the rest depends on, by name, and `save(path)` and `load(path)` by the framework's own means."""
        raise NotImplementedError


def operators(ctx: Context, kit: Callable[..., Kit], precision: str) -> Outcome:
    """Each operator's result and gradients, against float64 on the CPU."""
    np, made, own = numpy(), numpy().random.RandomState(ctx.seed), kit(ctx)
    results: Dict[str, float] = {}
    pulled: Dict[str, float] = {}
    for name, case in OPERATORS.items():
        inputs = [made.standard_normal(shape) for shape in (case.quick if ctx.quick else case.shapes)]
        short = [own.put(array, precision) for array in inputs]
        exact = [own.back(array) for array in short]  # what is measured is the operator, not the rounding of its inputs
        right = case.exact(*exact)
        weights = own.put(made.standard_normal(right.shape), precision)
        result, gradients = own.pull(own.operators[name], short, weights)
        kinds = [str(array.dtype).split("'")[-2 if "'" in str(array.dtype) else 0] for array in (short[0], result)]
        if kinds != [TYPES[precision]] * 2:
            return failed(f"{name} of {kinds[0]} gives {kinds[1]}, where {precision} was asked for", WRONG)
        results[name] = oracle.farthest(own.back(result), right)
        for at, gradient in enumerate(map(own.back, gradients)):
            direction = made.standard_normal(inputs[at].shape)
            slope = oracle.slope(case.exact, exact, at, direction, own.back(weights))
            apart = abs(float((gradient * direction).sum()) - slope) / float(np.sqrt((gradient**2).sum()) or 1.0)
            pulled["gradient %d of %s" % (at, name)] = apart if math.isfinite(apart) else math.inf
    limit = own.tolerance(precision)
    whole = {**results, **pulled}
    # A gradient is a longer chain of roundings than a result.
    bounds = (results, limit), (pulled, 2 * limit)
    outcomes = [judge(errors, bound, f"in {precision}", errors=whole) for errors, bound in bounds]
    return next((outcome for outcome in outcomes if outcome.status == "fail"), outcomes[0])


def judge(errors: Dict[str, float], limit: float, how: str, /, **details: Any) -> Outcome:
    """Judge how far results are from NumPy's, by name."""
    details = {"errors": errors, "tolerance": limit, **details}
    worst = max(errors, key=lambda name: errors[name] if math.isfinite(errors[name]) else math.inf)
    if errors[worst] <= limit:
        return passed(details=details)
    reason = f"{worst} {how} is off by {errors[worst]:.2g} of float64's; {limit:.2g} is allowed"
    return failed(reason, WRONG, details=details)


def gradient(ctx: Context, kit: Callable[..., Kit]) -> Outcome:
    """The gradients of a network, each against float64 on the CPU."""
    params, (rows, labels) = oracle.first_params(ctx.seed), oracle.batch_of(ctx.seed, 0)
    right_loss, right = oracle.loss_and_gradients(oracle.wide(params), rows.astype("float64"), labels)
    loss, gradients = kit(ctx).gradients(params, rows, labels)
    errors = {name: oracle.farthest(gradients[name], right[name]) for name in right}
    errors["the loss"] = abs(loss - right_loss) / right_loss
    return judge(errors, APART["fp32"], "or its gradient")


def train(own: Any, seed: int, until: int, start: int = 0) -> Tuple[List[float], List[float]]:
    """The loss and the seconds of each step."""
    losses, seconds = [], []
    for step in range(start, until):
        began = time.perf_counter()
        losses.append(float(own.step(*oracle.batch_of(seed, step))))
        seconds.append(time.perf_counter() - began)
    return losses, seconds


def training(ctx: Context, kit: Callable[..., Kit], precision: str) -> Outcome:
    """A training: its first steps are float64's, its loss stays finite and falls by the stated share."""
    made = kit(ctx)
    own = made.training(ctx.seed, precision)
    losses, seconds = train(own, ctx.seed, NEAR)
    right, exact = oracle.train_by_hand(ctx.seed, NEAR)
    apart = {
        "loss": max(abs(loss - other) / other for loss, other in zip(losses, right)),
        "weights": oracle.distance_share(own.params(), exact, oracle.wide(oracle.first_params(ctx.seed))),
    }
    more = train(own, ctx.seed, ctx.steps, NEAR)
    losses, seconds = losses + more[0], seconds + more[1]
    name = f"{made.name}.training" + ("" if precision == "fp32" else f".{precision}")
    details = {"steps": len(losses), "fall": fall(losses), "apart": apart, "limit": APART[precision]}
    curves, steps = {name: losses}, max(ctx.steps, NEAR)
    wrong = judge_losses(losses, precision, FALLS, ENOUGH, steps)
    worst = max(apart, key=lambda key: apart[key] if math.isfinite(apart[key]) else math.inf)
    if wrong is None and not apart[worst] <= APART[precision]:
        reason = f"the {worst} of the first {NEAR} steps in {precision} differ from float64's by {apart[worst]:.2g}"
        wrong = failed(f"{reason}; {APART[precision]:.2g} is allowed", WRONG)
    if wrong is not None:
        return wrong._replace(details=details, curves=curves)
    details["least_fall"] = stated_fall(FALLS, ENOUGH, steps)
    taken = seconds[NEAR:] or seconds  # the first ones compile
    figures = [(f"{name}.samples_per_s", oracle.BATCH * len(taken) / sum(taken), "samples/s")]
    figures.append((f"{name}.step_ms.p50", 1000 * percentile(taken, 0.5), "ms"))
    return passed(details=details, figures=figures, curves=curves)


def digests(leaves: Dict[str, Any]) -> Dict[str, str]:
    """Return a digest of each leaf: equal if, and only if, they are equal bit by bit."""
    hashes = {}
    for name, leaf in leaves.items():
        array = numpy().asarray(leaf)
        hashes[name] = hashlib.sha256(f"{array.dtype} {array.shape} ".encode() + array.tobytes()).hexdigest()
    return hashes


def run_part(ctx: Context, kit: Callable[..., Kit], saved: str, load: bool = False) -> Dict[str, Any]:
    """Train exactly, with dropout. Saves a checkpoint at half way, or goes on from that. Gives what it ended with."""
    own, start = kit(ctx, exact=True).training(ctx.seed, "fp32", dropout=True), 0
    path, half = ctx.scratch / saved, {}
    losses: List[float] = []
    if load:
        own.load(path)
        half, start = digests(own.leaves()), HALF
    else:
        losses += train(own, ctx.seed, HALF)[0]
        own.save(path)
        half = digests(own.leaves())
    losses += train(own, ctx.seed, WHOLE, HALF)[0]
    return {"start": start, "losses": [loss.hex() for loss in losses], "half": half, "end": digests(own.leaves())}


def elsewhere(ctx: Context, name: str, *words: str) -> Dict[str, Any]:
    """Run an internal command of a framework in an interpreter of its own; give its result. Raises Fault."""
    ended = ctx.run_again(name, "other.json", *words, timeout=ctx.timeout * 0.8)
    if ended.code:
        print(ended.output)
        raise Fault(f"the training in another process ended with status {ended.code}", "its output says why")
    result: Dict[str, Any] = json.loads((ctx.scratch / "other.json").read_text(encoding="utf-8"))
    return result


def difference(first: Dict[str, Any], second: Dict[str, Any]) -> Optional[str]:
    """Describe the first difference of two trainings that should be equal; None without any."""
    for step, (a, b) in enumerate(zip(first["losses"][second["start"] :], second["losses"]), second["start"] + 1):
        if a != b:
            values = step, float.fromhex(a), float.fromhex(b)
            return "their losses differ from step %d on (%.9g, %.9g)" % values
    names = sorted({*first["end"], *second["end"]})
    lost = [name for name in names if first["end"].get(name) != second["end"].get(name)]
    return "they end with equal losses, but differ in: %s" % ", ".join(lost) if lost else None


def determinism(ctx: Context, kit: Callable[..., Kit], name: str) -> Outcome:
    """The same training in two processes ends bitwise equal."""
    first = run_part(ctx, kit, "one")
    second = elsewhere(ctx, f"{name}.part", "again")
    details = {"steps": WHOLE, "weights": first["end"]}
    mismatch = difference(first, second)
    if mismatch:
        remedy = "look for an operator without a deterministic algorithm, and for what else uses the machine's memory"
        return failed(f"two runs of one training with one seed aren't equal: {mismatch}", remedy, details=details)
    return passed(details=details)


def checkpoint(ctx: Context, kit: Callable[..., Kit], name: str) -> Outcome:
    """A checkpoint of half way, gone on from in a new process, ends bitwise as the run that was never interrupted."""
    whole = run_part(ctx, kit, "half")
    resumed = elsewhere(ctx, f"{name}.part", "half", "load")
    details = {"half": HALF, "steps": WHOLE, "leaves": sorted(whole["half"])}
    names = sorted({*whole["half"], *resumed["half"]})
    lost = [leaf for leaf in names if whole["half"].get(leaf) != resumed["half"].get(leaf)]
    if lost:
        reason = f"a checkpoint doesn't restore what was saved: {', '.join(lost)} differs after loading"
        return failed(reason, f"see what replaces or patches {name}'s saving and loading", details=details)
    mismatch = difference(whole, resumed)
    if mismatch:
        reason = f"a run resumed from its checkpoint ends differently from one that wasn't interrupted: {mismatch}"
        remedy = f"see {name}.determinism; if that passes, something keeps state outside of the checkpoint"
        return failed(reason, remedy, details=details)
    return passed(details=details)


def part(ctx: Context, name: str, saved: str, *load: str, kit: Callable[..., Kit]) -> int:
    write_whole(str(ctx.scratch / Path(name)), json.dumps(run_part(ctx, kit, saved, bool(load))))
    return 0


def put_checks(name: str, kit: Callable[..., Kit]) -> None:
    """Put the checks of every such framework into the table."""
    for precision in TOLERANCES:
        check(f"{name}.operators.{precision}", torch=False)(functools.partial(operators, kit=kit, precision=precision))
    check(f"{name}.grad", torch=False)(functools.partial(gradient, kit=kit))
    for precision in APART:
        own = f"{name}.training" + ("" if precision == "fp32" else f".{precision}")
        check(own, torch=False)(functools.partial(training, kit=kit, precision=precision))
    check(f"{name}.determinism", torch=False)(functools.partial(determinism, kit=kit, name=name))
    check(f"{name}.checkpoint", torch=False)(functools.partial(checkpoint, kit=kit, name=name))
    INTERNAL[f"{name}.part"] = functools.partial(part, kit=kit)
