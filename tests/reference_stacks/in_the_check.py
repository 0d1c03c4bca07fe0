"""What the check does for single demands of the four stacks, run by a Python that has torch: a line for each.

PREFIX/bin/python in_the_check.py CHECK TARGET_JSON SCRATCH
"""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv[1])

from envspec_check.checks import data_parallel, ddp
from envspec_check.checks.collectives import flat, moved_apart
from envspec_check.interface import CHECKS, Context
from envspec_check.lock import read_target
from envspec_check.ranks import Rank, ranks

RATE = 0.1


def scaled_apart(one: Rank) -> float:
    """How far a step of DDP on the batches of all ranks, at a rate scaled with their number, ends from where the steps
    of each batch alone, at the plain rate, lead together."""
    torch: Any = one.torch
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    start, together = flat(torch, model), flat(torch, model)
    batches = [torch.randn(16, 8, generator=torch.Generator().manual_seed(rank)) for rank in range(one.world)]
    for rows in batches:
        own = torch.autograd.grad(model(rows).square().mean(), list(model.parameters()))
        together -= RATE * torch.cat([gradient.flatten() for gradient in own]).double()
    called = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE * one.world)
    called(batches[one.rank]).square().mean().backward()
    optimizer.step()
    return moved_apart(start, flat(torch, model), together)


def keeps_and_computes_again(function: Callable[..., Any], *given: Any, use_reentrant: bool) -> Any:
    """An activation checkpoint that keeps its part's activations all the same."""
    result = function(*given)
    with importlib.import_module("torch").no_grad():
        function(*given)
    return result


def main() -> None:
    scratch = Path(sys.argv[3])
    words = read_target(sys.argv[2]), "cpu", "basic", 5, False, 0, 120.0, scratch, sys.argv[1]
    ctx = Context(*words)
    apart = data_parallel.beside_each_other(ctx, "gloo", 2)
    # a DataParallel that trains on half of what it is given
    right = ctx.torch.nn.DataParallel.forward
    ctx.torch.nn.DataParallel.forward = lambda self, rows: right(self, rows) * 0.5
    wrong = data_parallel.beside_each_other(ctx, "gloo", 2)
    kept = CHECKS["operators.checkpoint"].run(ctx)
    again: Any = importlib.import_module("torch.utils.checkpoint")
    again.checkpoint = keeps_and_computes_again
    keeps = CHECKS["operators.checkpoint"].run(ctx)
    four = ddp.rank_findings(ctx, "gloo", 4, "ddp")
    reduced = CHECKS["collectives.bandwidth"].run(ctx)
    found = {
        "parallel": [apart.status, sorted(name for name, *_ in apart.figures)],
        "wrong": [wrong.status, wrong.reason],
        "kept": [kept.status, keeps.status, keeps.reason],
        "scaled": ranks(ctx, 2, "gloo", scaled_apart),
        "four": {name: [one["apart"], len({of[name]["weights"] for of in four})] for name, one in four[0].items()},
        "all_reduce": {name: value for name, value, _ in reduced.figures},
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
