"""training.data_parallel: DataParallel, by which one process drives all GPUs, beside DistributedDataParallel."""

from __future__ import annotations

import copy
import importlib
from typing import Any, Callable, Dict, Optional

from envspec_check.checks.collectives import DDP_STEPS, flat, moved_apart, small_steps
from envspec_check.checks.ddp import even_ranks
from envspec_check.interface import Context, Outcome, Skip, check, failed, passed
from envspec_check.ranks import Rank, ranks
from envspec_check.trainer import exact_fp32
from envspec_check.workloads.base import generator

ROWS = 1024
"""Of each rank."""

RATE = 1e-3
"""Of plain SGD: a wide model's loss rises at more."""

LIMIT = 1e-4
"""The most by which both may end apart from one process, as a share of the way: at this rate it is short, and healthy
is 2e-6."""


def step_beside_one(rank: Rank, world: int, wrap: Callable[[Any], Any], number: Optional[int]) -> Dict[str, float]:
    """Train a wide model, wrapped, with a rank's rows or (None) with those of all, and alone with those of all: how far
    both ended apart, and the seconds of a step by torch's own benchmark."""
    torch, timer = rank.torch, importlib.import_module("torch.utils.benchmark").Timer
    exact_fp32(torch)
    torch.manual_seed(0)
    width = 2048 if rank.device == "cuda" else 128
    layers = torch.nn.Linear(32, width), torch.nn.GELU(), torch.nn.Linear(width, width), torch.nn.GELU()
    model = torch.nn.Sequential(*layers, torch.nn.Linear(width, 1)).to(rank.device)
    alone, start = copy.deepcopy(model), flat(torch, model)
    rows = [torch.randn(ROWS, 32, generator=generator("parallel", at)).to(rank.device) for at in range(world)]
    whole = torch.cat(rows)
    mine, called = whole if number is None else rows[number], wrap(model)
    small_steps(torch, called, mine, RATE)
    small_steps(torch, alone, whole, RATE)
    apart = moved_apart(start, flat(torch, model), flat(torch, alone))
    names = {"steps": small_steps, "torch": torch, "called": called, "rows": mine, "rate": RATE}
    took = timer("steps(torch, called, rows, rate)", globals=names).timeit(5)
    return {"apart": apart, "seconds": took.mean / DDP_STEPS}


def beside_each_other(ctx: Context, backend: str, world: int) -> Outcome:
    """Both give what one process with the whole batch gives; the samples that each takes in a second."""

    def by_ddp(rank: Rank) -> Dict[str, float]:
        on = [rank.torch.cuda.current_device()] if rank.device == "cuda" else None
        return step_beside_one(
            rank, world, lambda model: rank.torch.nn.parallel.DistributedDataParallel(model, device_ids=on), rank.rank
        )

    def by_data_parallel(rank: Rank) -> Dict[str, float]:
        return step_beside_one(rank, world, lambda model: rank.torch.nn.DataParallel(model), None)

    results = {
        "ddp": ranks(ctx, world, backend, by_ddp)[0],
        "data_parallel": ranks(ctx, 1, backend, by_data_parallel)[0],
    }
    details = {"ranks": world, "apart": {name: result["apart"] for name, result in results.items()}, "limit": LIMIT}
    figures = [
        (f"training.{name}.wide_samples_per_s", world * ROWS / result["seconds"], "samples/s")
        for name, result in results.items()
    ]
    for name, result in results.items():
        if not result["apart"] <= LIMIT:
            message = "the weights by %s differ by %.2g of their way from those of one process; %.2g is allowed"
            return failed(message % (name, result["apart"], LIMIT), "train by torchrun and DDP alone", details=details)
    return passed(details=details, figures=figures)


@check("training.data_parallel", needs="gpu")
def training_data_parallel(ctx: Context) -> Outcome:
    """DataParallel on several GPUs trains as one process does; its samples in a second stand beside those of DDP."""
    if ctx.gpus < 2:
        raise Skip("DataParallel shares a batch among GPUs, and there is one")
    if ctx.quick:
        raise Skip("DataParallel is compared without --quick")
    return beside_each_other(ctx, "nccl", even_ranks(ctx.gpus))
