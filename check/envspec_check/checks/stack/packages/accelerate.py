"""stack.accelerate: a prepared training is the plain one."""

from __future__ import annotations

from typing import Any

from envspec_check.checks.stack.beside_float64 import REMEDY, judged_steps, plain_training
from envspec_check.checks.stack.locked import stack_check
from envspec_check.interface import Context, Outcome, failed


@stack_check("accelerate")
def stack_accelerate(ctx: Context, accelerate: Any) -> Outcome:
    """An Accelerator's model takes the steps that plain torch takes in float64."""
    torch, plain, taken = ctx.torch, plain_training(ctx), []
    items = torch.utils.data.TensorDataset(plain.rows, plain.labels)
    accelerator = accelerate.Accelerator(cpu=ctx.device == "cpu", mixed_precision="no")
    model, optimizer, batches = accelerator.prepare(
        plain.model, plain.optimizer, torch.utils.data.DataLoader(items, batch_size=8)
    )
    for rows, labels in batches:
        optimizer.zero_grad()
        accelerator.backward(plain.loss(model, rows, labels))
        optimizer.step()
        taken.append(slice(8 * len(taken), 8 * len(taken) + 8))
    if len(taken) != 4:
        return failed("a loader of 4 batches gives %d when accelerate prepared it" % len(taken), REMEDY)
    weights = accelerator.unwrap_model(model).parameters()
    return judged_steps("accelerate", accelerate.__version__, plain.far(weights, taken))
