"""A tiny model of a framework on the device, beside a copy of it in float64 on the CPU."""

from __future__ import annotations

import copy
from typing import Any, Callable, Dict, Iterable, List, NamedTuple

from envspec_check.checks.reference import far
from envspec_check.interface import Context, Fault, Outcome, failed, passed
from envspec_check.trainer import exact_fp32, exactly

LIMIT = 1e-3
"""The most by which a loss or all gradients may differ, as a share. Frameworks make tables of positions and
normalisations in float32 whatever the model's type: more is kept of them than of `training.reference`."""

REMEDY = "bound this package to a release that was tested with this torch, and lock again"


def beside_float64(
    ctx: Context, name: str, model: Any, loss_of: Callable[[Any, Callable[[Any], Any]], Any]
) -> Dict[str, float]:
    """Measure how far a model's loss and gradients are from those in float64. `loss_of` takes the model and a function
    that brings a tensor to its device and width, and gives the loss. The gradients are left on the model.

    Raises Fault where they are too far.
    """
    torch = ctx.torch
    exact_fp32(torch)
    exact = copy.deepcopy(model).to("cpu").double()
    model.to(ctx.torch_device)

    def put(tensor: Any) -> Any:
        return tensor.to(ctx.torch_device)

    def wide(tensor: Any) -> Any:
        return tensor.double() if tensor.is_floating_point() else tensor

    loss, right = loss_of(model, put), loss_of(exact, wide)
    loss.backward()
    right.backward()
    pairs = [pair for pair in zip(model.parameters(), exact.parameters()) if pair[1].grad is not None]
    if not pairs:
        raise Fault(f"a tiny model of {name} has no gradients", REMEDY)
    mine = torch.cat(
        [exactly(torch.zeros_like(weights) if weights.grad is None else weights.grad).flatten() for weights, _ in pairs]
    )
    theirs = torch.cat([exact.grad.flatten() for _, exact in pairs])
    errors = {"loss": far(exactly(loss), exactly(right)), "gradient": far(mine, theirs)}
    for what, error in errors.items():
        if not error <= LIMIT:
            reason = (
                f"the {what} of a tiny model of {name} differs from float64's by {error:.2g}; {LIMIT:.2g} is allowed"
            )
            raise Fault(reason, REMEDY, details={"errors": errors, "limit": LIMIT})
    return errors


class Plain(NamedTuple):
    """A small classifier and some steps of SGD: by a framework, and by torch alone in float64 on the CPU."""

    torch: Any
    model: Any
    optimizer: Any
    exact: Any
    rows: Any
    labels: Any

    def loss(self, model: Any, rows: Any, labels: Any) -> Any:
        return self.torch.nn.functional.cross_entropy(model(rows), labels)

    def far(self, weights: Iterable[Any], batches: List[slice], optimizer: Any = None) -> float:
        """Return the weights' greatest distance from those after a step in float64 with each of these rows: of SGD, or
        of another optimizer of the exact model."""
        optimizer = optimizer or self.torch.optim.SGD(self.exact.parameters(), lr=0.1)
        for rows in batches:
            optimizer.zero_grad()
            self.loss(self.exact, self.rows[rows].double(), self.labels[rows]).backward()
            optimizer.step()
        return max(far(exactly(weight), exactly(other)) for weight, other in zip(weights, self.exact.parameters()))


def plain_training(ctx: Context) -> Plain:
    torch = ctx.torch
    exact_fp32(torch)
    torch.manual_seed(ctx.seed)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
    optimizer, exact = torch.optim.SGD(model.parameters(), lr=0.1), copy.deepcopy(model).double()
    return Plain(torch, model, optimizer, exact, torch.randn(32, 16), torch.randint(4, (32,)))


def judged_steps(name: str, version: str, error: float, limit: float = LIMIT) -> Outcome:
    details = {name: version, "error": error, "limit": limit}
    if error <= limit:
        return passed(details=details)
    reason = f"weights after steps by {name} differ from float64's by {error:.2g}; {limit:.2g} is allowed"
    return failed(reason, REMEDY, details=details)
