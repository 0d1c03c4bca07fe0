"""training: the workload in each precision."""

from __future__ import annotations

import functools
import math
from typing import Any, Sequence

from envspec_check.checks.memory import Held, growth, leak, measure
from envspec_check.checks.precision import beside_fp32
from envspec_check.interface import Context, Outcome, check, failed, passed, skipped
from envspec_check.trainer import Trainer, Training, lacks, peak_memory, percentile
from envspec_check.workloads.base import fall, stated_fall

NOT_FINITE = "see which operators check fails; a kernel that gives NaN is most often a build for another architecture"

NOT_FALLING = "see the operators checks; with other steps than the spec's, give --steps more"


def judge_losses(losses: Sequence[float], precision: str, falls: float, enough: int, steps: int) -> Outcome | None:
    """Name the fault in the losses of a training, or None."""
    for at, loss in enumerate(losses, 1):
        if not math.isfinite(loss):
            return failed("the loss is %s at step %d of %d (%s)" % (loss, at, steps, precision), NOT_FINITE)
    if len(losses) < steps:
        return failed("the training ended after %d of %d steps (%s)" % (len(losses), steps, precision))
    fell, least = fall(losses), stated_fall(falls, enough, steps)
    if fell < least:
        reason = "the loss fell by %.1f %% in %d steps, not by %.1f %% (%s): %.4g to %.4g"
        shares = 100 * fell, steps, 100 * least
        return failed(reason % (*shares, precision, losses[0], losses[-1]), NOT_FALLING)
    return None


def training_in(ctx: Context, precision: str) -> Outcome:
    """Train the workload: its loss stays finite and falls by the stated share."""
    lacking = lacks(ctx.device, precision)
    if lacking:
        return skipped(lacking)
    short: dict[str, Any] = {}
    if precision != "fp32":
        short, losses = beside_fp32(ctx, precision)
        if precision == "fp16" and ctx.device == "cpu":
            # CPUs emulate it, at half a second a step: what it computes stands beside float32 already.
            return passed(details={"steps": len(losses), **short}, curves={"training.fp16": losses})
    trainer = Trainer(Training(ctx.workload, ctx.steps, ctx.seed, ctx.device, precision))
    looks: list[Held] = []

    def look() -> None:
        looks.append(measure(ctx.torch, ctx.device))

    trainer.run(ctx.steps, {ctx.steps // 2: look, ctx.steps: look})
    made, losses = trainer.workload, trainer.losses
    curves = {"training.%s" % precision: losses}
    details: dict[str, Any] = {"steps": len(losses), "batch": trainer.count, "fall": fall(losses), **short}
    details["least_fall"] = stated_fall(made.falls, made.enough, ctx.steps)
    details["tf32"] = False
    wrong = judge_losses(losses, precision, made.falls, made.enough, ctx.steps)
    if wrong:
        return wrong._replace(details=details, curves=curves)
    if len(looks) > 1:
        between = ctx.steps - ctx.steps // 2
        details["growth_bytes_per_step"] = growth(looks[0], looks[1], between)
        leaks = leak(looks[0], looks[1], between)
        if leaks:
            remedy = "something keeps what a step made: look for hooks and patches of torch, and for sitecustomize.py"
            return failed("%s (%s)" % (leaks, precision), remedy, details=details, curves=curves)
    # The first steps also choose algorithms and fill caches.
    taken = trainer.seconds[max(1, ctx.steps // 10) :] or trainer.seconds
    name = "training" if precision == "fp32" else "training.%s" % precision
    figures = [("%s.samples_per_s" % name, trainer.count * len(taken) / sum(taken), "samples/s")]
    for share in (50, 90, 99):
        figures.append(("%s.step_ms.p%d" % (name, share), 1000 * percentile(taken, share / 100), "ms"))
    figures.append(("%s.peak_memory" % name, peak_memory(ctx.device), "B"))
    return passed(details=details, figures=figures, curves=curves)


for _precision in ("fp32", "bf16", "fp16"):
    check("training.%s" % _precision)(functools.partial(training_in, precision=_precision))
