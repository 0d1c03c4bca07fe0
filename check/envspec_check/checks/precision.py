"""The rules for short types: autocast computes in the type that was asked for, near float32; weights in bfloat16 get
the gradients of float64; and the scaler of gradients skips steps and backs off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Tuple

from envspec_check.checks.operators import share_off
from envspec_check.checks.reference import far
from envspec_check.interface import WORKLOADS, Context, Fault, Outcome, check, failed, passed, skipped
from envspec_check.trainer import TYPES, Trainer, Training, exactly, fp16_scaler, lacks

FEW = 8
"""Steps of a training that is compared step by step with float32's."""

NEAR = {"bf16": 5e-2, "fp16": 1e-2}
"""The most by which a loss of the first steps may differ from float32's, as a share."""

SHORT_REMEDY = "train in float32 until this torch is replaced, and see the operators checks"


def computed_types(model: Any, torch: Any) -> Dict[str, List[str]]:
    """Return the types in which a model's layers give their results from now on, by the kind of layer; it fills as they
    are called."""
    by_kind: Dict[str, List[str]] = {}

    def note(layer: Any, _: Any, result: Any) -> None:
        types = by_kind.setdefault(type(layer).__name__, [])
        name = str(result.dtype).replace("torch.", "")
        if name not in types:
            types.append(name)

    for layer in model.modules():
        if isinstance(layer, (torch.nn.Linear, torch.nn.Conv2d, torch.nn.Conv3d)):
            layer.register_forward_hook(note)
    return by_kind


def beside_fp32(ctx: Context, precision: str) -> Tuple[Dict[str, Any], List[float]]:
    """Return the workload's first steps in a short type, compared with float32's: details, and the losses. Raises Fault
    where layers compute in another type, or the losses are far from float32's."""
    training = Training(ctx.workload, FEW, ctx.seed, ctx.device, precision, dropout=False)
    short, whole = Trainer(training), Trainer(Training(ctx.workload, FEW, ctx.seed, ctx.device, "fp32", dropout=False))
    types = computed_types(short.model, ctx.torch)
    short.run(FEW)
    whole.run(FEW)
    differs = [abs(loss - other) / max(abs(other), 1e-12) for loss, other in zip(short.losses, whole.losses)]
    worst, limit = max(differs), NEAR[precision]
    details = {"types": types, "beside_fp32": worst, "near": limit}
    other = sorted(
        "%s gives %s" % (kind, name) for kind, names in types.items() for name in names if name != TYPES[precision]
    )
    if other:
        reason = "autocast was asked for %s, and %s" % (TYPES[precision], "; ".join(other))
        raise Fault(reason, SHORT_REMEDY, details=details)
    if not worst <= limit:
        reason = "within %d steps of %s a loss differs by %.2g from float32's; %.2g is allowed"
        raise Fault(reason % (FEW, precision, worst, limit), SHORT_REMEDY, details=details)
    return details, short.losses


PURE = {"loss": 5e-3, "gradients": 0.12, "size of the gradients": 1e-2}
"""The most by which the first steps with weights in bfloat16 may differ from float64, as a share. Healthy CPUs differ
by up to 6e-4, 4e-2 and 3e-3."""


def beside_float64(ctx: Context, name: str) -> Dict[str, float]:
    """Measure how far a workload's losses and gradients are from float64's at the worst, each step from the same
    weights and the same batch, all in bfloat16."""
    torch, steps = ctx.torch, 2 if ctx.quick else 4
    made = Training(name, steps, ctx.seed, ctx.device, "pure bf16", dropout=False)
    short, exact = Trainer(made), Trainer(replace(made, device="cpu", precision="fp64"))
    worst = dict.fromkeys(PURE, 0.0)
    for batch in short.workload.batches(ctx.seed, 0, steps, short.workload.batch, False):
        exact.model.load_state_dict(
            {name: weights.detach().cpu() for name, weights in short.model.state_dict().items()}
        )
        batch = {key: rows.bfloat16() if rows.is_floating_point() else rows for key, rows in batch.items()}
        loss, right = short.gradients(batch), exact.gradients(batch)
        pairs = [pair for pair in zip(short.model.parameters(), exact.model.parameters()) if pair[1].grad is not None]
        mine, theirs = (torch.cat([exactly(pair[at].grad).flatten() for pair in pairs]) for at in (0, 1))
        apart = (abs(float(loss) / float(right) - 1), far(mine, theirs), share_off(torch, mine, theirs))
        worst = {key: max(before, now) for (key, before), now in zip(worst.items(), apart)}
        short.update()
    return worst


@check("training.pure_bf16")
def training_pure_bf16(ctx: Context) -> Outcome:
    """With weights and data in bfloat16, losses and gradients are those of float64, but for roundings."""
    lacking = lacks(ctx.device, "bf16")
    if lacking:
        return skipped(lacking)
    names = [ctx.workload] if ctx.quick else list(WORKLOADS)
    try:
        errors = {name: beside_float64(ctx, name) for name in names}
    except RuntimeError as error:
        if ctx.device == "cpu" and "not implemented for" in str(error):
            return skipped("torch %s hasn't all of it in bfloat16 on CPUs" % ctx.torch.__version__)
        raise
    details = {"errors": errors, "limits": PURE}
    for name, by_part in errors.items():
        for what, error in by_part.items():
            if not error <= PURE[what]:
                reason = "in bfloat16 alone the %s of %s differs from float64's by %.2g; %.2g is allowed"
                return failed(reason % (what, name, error, PURE[what]), SHORT_REMEDY, details=details)
    return passed(details=details)


@check("training.scaler")
def training_scaler(ctx: Context) -> Outcome:
    """The scaler of fp16's gradients leaves out a step whose gradients aren't finite, lowers its scale, and raises it
    again."""
    torch, scaler = ctx.torch, fp16_scaler(ctx.device)
    if scaler is None:
        return skipped("torch %s has no gradient scaler for a CPU" % torch.__version__)
    weights = torch.nn.Parameter(torch.ones(4, device=ctx.device))
    optimizer = torch.optim.SGD([weights], lr=0.5)
    moves, scales = [], [float(scaler.get_scale())]
    for step in range(10):
        optimizer.zero_grad()
        scaler.scale((weights * 2).sum()).backward()
        given = float(weights.grad[0]) / scales[-1]
        if step == 0:
            weights.grad[1] = float("inf")
        before = weights.detach().clone()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        moves.append(float((before - weights.detach()).abs().max()))
        scales.append(float(scaler.get_scale()))
    details = {"scales": scales, "moves": moves, "scaled": given}
    remedy = "this torch's scaler doesn't guard fp16: train in bf16 or float32"
    if given != 2.0:
        return failed("the scaler doesn't scale the loss by its scale", remedy, details=details)
    if moves[0] != 0.0:
        return failed("the scaler let a step with infinite gradients through", remedy, details=details)
    if not scales[1] < scales[0]:
        return failed("the scaler didn't lower its scale after infinite gradients", remedy, details=details)
    if moves[1:] != [1.0] * 9:
        return failed(
            "the scaler didn't take a step whose gradients were finite, as it should", remedy, details=details
        )
    if not scales[-1] > scales[1]:
        return failed("the scaler didn't raise its scale after finite steps", remedy, details=details)
    return passed(details=details)
