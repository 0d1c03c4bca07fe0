"""training.reference: what each workload computes in float32, beside float64 on the CPU, step by step.

Both go from the same weights at every step: a difference is that step's own and no chaos of the steps before, so the
limit can be a few hundred roundings. Dropout is off, TF32 too. What the optimizer makes of gradients is written out
here, and not taken from torch a second time.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from envspec_check.interface import REFERENCE_ONLY, WORKLOADS, Context, Outcome, check, failed, passed, skipped
from envspec_check.trainer import Trainer, Training, exactly
from envspec_check.workloads.base import Batch, the_torch, warm_up_and_cosine

STEPS = 6

QUICK_STEPS = 3

MANY = 264
"""Samples of one more step, since some faults begin at a size: more than 256, and no multiple of 16."""

CLIP = 0.05
"""So small that every step's gradients are clipped."""

LIMITS = {"cpu": 1e-4, "sm_90": 1e-4}
"""The most that may differ, as a share, by class of device. Healthy CPUs differ by up to 1e-5, an H100 in 39 seeds of
all workloads by up to 1.8e-6, and the smallest of the mutants in docs/smoke.md by 5.3e-4. A GPU's class is its
capability; it has a limit once a run on that class has shown what is healthy."""

SMALL = 3e-2
"""A gradient that is naught but for rounding is measured by this share of the norm of all of them."""

KINK = 1e-5
"""How near to naught a value has to be, as a share of the largest, for rounding to decide its sign."""

Errors = Dict[str, float]


class Rule(NamedTuple):
    """An optimizer's rule for a parameter, in float64; `state` is its memory of the steps before."""

    group: Dict[str, Any]
    state: Dict[str, Any]

    def move(self, weights: Any, gradient: Any, step: int, share: float) -> Any:
        """Return the weights after a step (from 1), at this share of the learning rate."""
        group, state, rate = self.group, self.state, share * self.group["initial_lr"]
        if "betas" not in group:  # SGD
            gradient = gradient + group["weight_decay"] * weights
            if group["momentum"]:
                gradient = state["buffer"] = group["momentum"] * state["buffer"] + gradient if state else gradient
            return weights - rate * gradient
        beta1, beta2 = group["betas"]
        first, second = state.get("first", 0.0), state.get("second", 0.0)
        state["first"] = first = beta1 * first + (1 - beta1) * gradient
        state["second"] = second = beta2 * second + (1 - beta2) * gradient * gradient
        size = (second / (1 - beta2**step)).sqrt() + group["eps"]
        return weights * (1 - rate * group["weight_decay"]) - rate * first / (1 - beta1**step) / size


def device_class(ctx: Context) -> str:
    """Name the class of devices that a limit is set for: CPUs, or GPUs of one compute capability."""
    return "sm_%d%d" % tuple(ctx.torch.cuda.get_device_capability()) if ctx.device == "cuda" else "cpu"


def far(tensor: Any, exact: Any, least: float = 0.0, rounding: float = 0.0) -> float:
    """Measure a tensor's distance from another, as a share of that one's norm or of `least` where that is more.
    `rounding`: the distance that counts as none."""
    difference = float((tensor - exact).norm())
    if not math.isfinite(difference):
        return math.inf
    return max(0.0, difference - rounding) / max(float(exact.norm()), least, 1e-30)


def keep_side(sides: List[Any], layer: Any, given: Any, result: Any) -> None:
    sides.append(exactly(result > 0))


def take_side(sides: List[Any], layer: Any, given: Any, result: Any) -> Any:
    x, side = given[0], sides.pop(0)
    return the_torch().where(x.detach().abs() <= KINK * x.detach().abs().max(), x * side, result)


class Pair:
    """A trainer on the device, and its reference."""

    def __init__(self, training: Training) -> None:
        self.own, self.exact = Trainer(training), Trainer(replace(training, device="cpu", precision="fp64"))
        for layer in self.exact.model.modules():
            if hasattr(layer, "recomputes"):
                layer.recomputes = False
        self.follow_kinks()
        self.rules: Dict[str, Rule] = {}
        groups = {id(weights): group for group in self.own.optimizer.param_groups for weights in group["params"]}
        for name, weights in self.own.model.named_parameters():
            self.rules[name] = Rule(groups[id(weights)], {})
        self.moves = dict.fromkeys(self.rules, 0)
        self.worst: Errors = {}

    def follow_kinks(self) -> None:
        """Make the reference's ReLU take the device's side of naught where rounding alone decides it: of a hundred
        thousand values one is as near in some step, and half a gradient turns on it by right."""
        torch, theirs = the_torch(), dict(self.exact.model.named_modules())
        for name, layer in self.own.model.named_modules():
            if isinstance(layer, torch.nn.ReLU):
                sides: List[Any] = []
                layer.register_forward_hook(functools.partial(keep_side, sides))
                theirs[name].register_forward_hook(functools.partial(take_side, sides))

    def note(self, what: str, error: float) -> None:
        self.worst[what] = max(self.worst.get(what, 0.0), error)

    def step(self, batch: Batch, at: int) -> None:
        own, exact = self.own, self.exact
        exact.model.load_state_dict({name: weights.detach().cpu() for name, weights in own.model.state_dict().items()})
        before = {name: exactly(weights) for name, weights in own.model.named_parameters()}
        loss, right = exactly(own.gradients(batch)), exact.gradients(batch)
        self.note("loss", far(loss, right))
        buffers = dict(own.model.named_buffers())
        for name, buffer in exact.model.named_buffers():
            if buffer.is_floating_point() and not the_torch().equal(
                exactly(buffers[name]), buffer
            ):  # masks are infinite
                self.note("buffer", far(exactly(buffers[name]), buffer, SMALL))
        pairs = dict(exact.model.named_parameters())
        gradients = {name: exactly(weights.grad) for name, weights in own.model.named_parameters() if has(weights)}
        self.note("missing gradient", float(set(gradients) != {name for name in pairs if has(pairs[name])}))
        whole = math.sqrt(sum(float(weights.grad.square().sum()) for weights in pairs.values() if has(weights)))
        for name in gradients:
            if has(pairs[name]):
                self.note("gradient", far(gradients[name], pairs[name].grad, SMALL * whole))
        own.update()
        self.check_update(before, gradients, warm_up_and_cosine(at, own.training.steps))

    def check_update(self, before: Batch, gradients: Batch, share: float) -> None:
        """Clipping and the optimizer, by the device's own gradients: what is wrong with those was noted already."""
        whole = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients.values()))
        clip = self.own.training.clip or math.inf
        clipped = min(1.0, clip / (whole + 1e-6))
        for name, weights in self.own.model.named_parameters():
            if name not in gradients:
                continue
            now, taken = exactly(weights), exactly(weights.grad)
            self.note("clipped gradient", far(taken, clipped * gradients[name], SMALL * clip))
            self.moves[name] += 1
            moved = self.rules[name].move(before[name], taken, self.moves[name], share)
            # Weights are far larger than what a step adds to them: two roundings of theirs are no error.
            rounding = 2.0**-23 * float(moved.norm())
            self.note("update", far(now - before[name], moved - before[name], 1e-12, rounding))


def has(weights: Any) -> bool:
    return weights.grad is not None


def compare(ctx: Context, name: str, steps: int, many: int) -> Iterator[Errors]:
    """Yield how far a workload's losses, gradients, buffers and updates are from those in float64 at the worst, after
    each step: `steps` usual ones, and one with `many` samples in one go."""
    made = Training(name, steps + 1, ctx.seed, ctx.device, "fp32", dropout=False, clip=CLIP)
    pair = Pair(made)
    workload = pair.own.workload
    for at, batch in enumerate(workload.batches(ctx.seed, 0, steps, workload.batch, False)):
        pair.step(batch, at)
        yield pair.worst
    workload.accumulate = pair.exact.workload.accumulate = 1  # in one go
    for batch in workload.batches(ctx.seed, 1, 2, many, False):
        pair.step(batch, steps)
        yield pair.worst


def lengths(ctx: Context, name: str) -> Tuple[int, int]:
    """Give the number of compared steps of a workload, and the number of samples in the step after those."""
    if name in REFERENCE_ONLY:
        return 1, REFERENCE_ONLY[name].batch
    return (QUICK_STEPS if ctx.quick else STEPS), MANY


def last(errors: Iterator[Errors]) -> Errors:
    return list(errors)[-1]


@check("training.reference")
def training_reference(ctx: Context) -> Outcome:
    """Every workload's losses, gradients and updates in float32 are those of float64 on the CPU."""
    names = [*REFERENCE_ONLY, ctx.workload, *(name for name in WORKLOADS if name != ctx.workload)]
    errors = {name: last(compare(ctx, name, *lengths(ctx, name))) for name in names}
    kind = device_class(ctx)
    return judge(errors, kind, LIMITS.get(kind), {"steps": lengths(ctx, ctx.workload)[0], "samples": MANY})


def judge(errors: Dict[str, Errors], kind: str, limit: Optional[float], about: Dict[str, Any]) -> Outcome:
    """Judge the errors of workloads on a class of device, whose limit may not be known."""
    details = {**about, "device": kind, "limit": limit, "errors": errors}
    worst = max((error, name, what) for name, by_part in errors.items() for what, error in by_part.items())
    message = "%s of %s differs from float64's by %.2g" % (worst[2], worst[1], worst[0])
    if limit is None:
        reason = "uncalibrated: the %s; no limit is set for %s yet" % (message, kind)
        return skipped(reason, details=details)
    wrong: List[str] = sorted({name for name, by_part in errors.items() if not max(by_part.values()) <= limit})
    if wrong:
        reason = "the %s; %.2g is allowed (wrong in %s)" % (message, limit, ", ".join(wrong))
        remedy = "this build computes wrongly on this machine: see the operators checks, and try another torch"
        return failed(reason, remedy, details=details)
    return passed(details=details)
