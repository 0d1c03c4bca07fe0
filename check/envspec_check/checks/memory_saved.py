"""Ways of training that save memory and time, beside the plain one: channels last, activation checkpoints."""

from __future__ import annotations

import copy
import functools
import importlib
from typing import Any, Dict, List

from envspec_check.checks.operators import TOLERANCES, farthest
from envspec_check.interface import Context, Outcome, check, failed, passed
from envspec_check.trainer import exact_fp32, exactly

REMEDY = "do without it in training until this torch is replaced"


@check("operators.channels_last")
def operators_channels_last(ctx: Context) -> Outcome:
    """Convolutions and normalisations with the channels last give what float64 gives, and leave them last."""
    torch = ctx.torch
    exact_fp32(torch)
    torch.manual_seed(ctx.seed)
    layers = torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.GELU(), torch.nn.Conv2d(16, 8, 1)
    model = torch.nn.Sequential(*layers)
    exact = copy.deepcopy(model).double()
    images = torch.randn(4, 8, 12, 20)
    last = torch.channels_last
    result = model.to(ctx.device, memory_format=last)(images.to(ctx.device).contiguous(memory_format=last))
    right = exact(images.double())
    for output in (result, right):
        output.square().mean().backward()
    pairs = [
        (result, right),
        *((weights.grad, other.grad) for weights, other in zip(model.parameters(), exact.parameters())),
    ]
    # A bias before a normalisation has no gradient but rounding.
    errors = [farthest(torch, value, other) for value, other in pairs if float(other.detach().abs().max()) > 1e-9]
    details = {"errors": errors, "tolerance": TOLERANCES["fp32"]}
    if not max(errors) <= TOLERANCES["fp32"]:
        return failed(f"with channels last results differ by {max(errors):.2g} from float64's", REMEDY, details=details)
    if not result.is_contiguous(memory_format=last):
        return failed("a convolution of channels-last images doesn't leave the channels last", REMEDY, details=details)
    return passed(details=details)


def size_and_keep(sizes: List[int], tensor: Any) -> Any:
    sizes.append(tensor.numel() * tensor.element_size())
    return tensor


@check("operators.checkpoint")
def operators_checkpoint(ctx: Context) -> Outcome:
    """Activation checkpoints compute again what they didn't keep, with the same dropout, for the same gradients."""
    torch = ctx.torch
    exact_fp32(torch)
    again = importlib.import_module("torch.utils.checkpoint").checkpoint
    torch.manual_seed(ctx.seed)
    layers = [torch.nn.Linear(24, 32), torch.nn.GELU(), torch.nn.Dropout(0.3), torch.nn.Linear(32, 24)]
    model, rows = torch.nn.Sequential(*layers).to(ctx.device), torch.randn(16, 24)
    calls: List[int] = []
    model.register_forward_pre_hook(lambda *_: calls.append(1))  # computing again stops before the end of the part
    results: Dict[str, List[Any]] = {}
    saved: Dict[str, int] = {}
    for how in ("plain", "kept out", "reentrant"):
        torch.manual_seed(ctx.seed)
        model.zero_grad()
        calls.clear()
        given = rows.clone().to(ctx.device).requires_grad_()
        sizes: List[int] = []
        keep = functools.partial(size_and_keep, sizes)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            result = model(given) if how == "plain" else again(model, given, use_reentrant=how == "reentrant")
        saved[how] = sum(sizes)
        result.square().mean().backward()
        results[how] = [exactly(result), *(exactly(tensor.grad) for tensor in (given, *model.parameters()))]
        if len(calls) != (1 if how == "plain" else 2):
            reason = "an activation checkpoint computed its part %d times, not twice" % len(calls)
            return failed(reason, REMEDY)
    errors = [farthest(torch, value, right) for how in results for value, right in zip(results[how], results["plain"])]
    details = {"errors": errors, "tolerance": TOLERANCES["fp32"], "kept_bytes": saved}
    if not max(saved["kept out"], saved["reentrant"]) < saved["plain"] / 2:
        return failed("an activation checkpoint keeps its part's activations all the same", REMEDY, details=details)
    if not max(errors) <= TOLERANCES["fp32"]:
        return failed(f"gradients by activation checkpoints differ by {max(errors):.2g}", REMEDY, details=details)
    return passed(details=details)
