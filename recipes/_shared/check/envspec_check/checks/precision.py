"""The rules for short types: autocast computes in the type that was asked for, near float32, and the scaler of
gradients skips steps and backs off."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from envspec_check.interface import Context, Fault, Outcome, check, failed, passed, skipped
from envspec_check.trainer import TYPES, Trainer, Training, fp16_scaler

FEW = 8
"""Steps of a training that is compared step by step with float32's."""

NEAR = {"bf16": 5e-2, "fp16": 1e-2}
"""The most by which a loss of the first steps may differ from float32's, as a share."""

SHORT_REMEDY = "train in float32 until this torch is replaced, and see the operators checks"


def computed_types(model: Any, torch: Any) -> Dict[str, List[str]]:
    """The types in which a model's layers give their results from now on, by the kind of layer; it fills as they are
    called."""
    found: Dict[str, List[str]] = {}

    def note(layer: Any, _: Any, result: Any) -> None:
        types = found.setdefault(type(layer).__name__, [])
        name = str(result.dtype).replace("torch.", "")
        if name not in types:
            types.append(name)

    for layer in model.modules():
        if isinstance(layer, (torch.nn.Linear, torch.nn.Conv2d, torch.nn.Conv3d)):
            layer.register_forward_hook(note)
    return found


def beside_fp32(ctx: Context, precision: str) -> Tuple[Dict[str, Any], List[float]]:
    """The workload's first steps in a short type, compared with float32's: details, and the losses. Raises Fault where
    layers compute in another type, or the losses are far from float32's."""
    training = Training(ctx.workload, FEW, ctx.seed, ctx.device, precision, dropout=False)
    short, whole = Trainer(training), Trainer(Training(ctx.workload, FEW, ctx.seed, ctx.device, "fp32", dropout=False))
    types = computed_types(short.model, ctx.torch)
    short.run(FEW)
    whole.run(FEW)
    differs = [abs(one - other) / max(abs(other), 1e-12) for one, other in zip(short.losses, whole.losses)]
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
