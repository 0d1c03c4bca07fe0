"""training.ddp and training.fsdp: each workload on several processes, beside one process with the whole batch."""

from __future__ import annotations

import datetime
import functools
import importlib
import json
import math
import os
import sys
from typing import Any, Dict, List, Sequence

from envspec_check.checks.collectives import EQUAL, flat, moved_apart
from envspec_check.interface import (
    WORKLOADS,
    Context,
    Ended,
    Fault,
    Outcome,
    Skip,
    check,
    failed,
    internal,
    passed,
    run_program,
)
from envspec_check.patience import MOST
from envspec_check.process import write_whole
from envspec_check.ranks import Rank, on_the_cpu, ranks
from envspec_check.trainer import Trainer, Training, digest, percentile

STEPS = 6

QUICK_STEPS = 3

RATE = 0.05
"""Of plain SGD without clipping: an adaptive optimizer, or clipping, hides a gradient that is a multiple of the right
one."""


def by_ddp(trainer: Trainer, rank: Rank) -> None:
    """Have DistributedDataParallel sum the gradients of all ranks."""
    trainer.called = rank.torch.nn.parallel.DistributedDataParallel(
        trainer.model,
        device_ids=[trainer.device] if rank.device == "cuda" else None,
        find_unused_parameters=trainer.workload.unused,
    )


def by_fsdp(trainer: Trainer, rank: Rank) -> None:
    """Have each rank keep its share of the weights alone: of each block, and of what is left of the model."""
    mesh = importlib.import_module("torch.distributed.device_mesh").init_device_mesh(rank.device, (rank.world,))
    shard = importlib.import_module("torch.distributed.fsdp").fully_shard
    # the innermost first: what is sharded already stays as it is
    for blocks in reversed([layer for layer in trainer.model.modules() if isinstance(layer, rank.torch.nn.ModuleList)]):
        for block in blocks:
            shard(block, mesh=mesh)
    shard(trainer.model, mesh=mesh)
    trainer.optimize()  # the weights are others


BY = {"ddp": by_ddp, "fsdp": by_fsdp}


def workloads_by(ctx: Context, by: str) -> List[str]:
    """Return the workloads that ranks can share so, the target's own first. FSDP has all ranks call the same layers."""
    names = (ctx.workload, *(other for other in WORKLOADS if other != ctx.workload))
    return [name for name in names if by == "ddp" or not WORKLOADS[name].unused]


def train_shares(ctx: Context, by: str, rank: Rank) -> Dict[str, Any]:
    """Train each workload as a rank of several; the first rank also trains it alone with the shares of all, one
    after the other, so that what depends on a share's own samples (batch statistics, contrasts) is the same."""
    torch, results = rank.torch, {}
    steps = QUICK_STEPS if ctx.quick else STEPS
    for name in workloads_by(ctx, by):
        training = Training(name, steps, ctx.seed, rank.device, "fp32", dropout=False, clip=None, plain=RATE)
        trainer = Trainer(training, (rank.rank,), rank.world)
        start = flat(torch, trainer.model)
        BY[by](trainer, rank)
        trainer.run(steps)
        ended = flat(torch, trainer.model)  # buffers are each rank's own
        seconds = percentile(trainer.seconds[1:] or trainer.seconds, 0.5)
        results[name] = {"losses": trainer.losses, "weights": digest(ended), "seconds": seconds}
        if rank.rank == 0:
            alone = Trainer(training, range(rank.world), rank.world)
            alone.run(steps)
            results[name]["alone"] = alone.losses
            results[name]["apart"] = moved_apart(start, ended, flat(torch, alone.model))
    return results


@internal("rank")
def train_rank(ctx: Context, backend: str, by: str) -> int:
    """One rank of the trainings under torchrun, which says by the environment which one it is."""
    torch, dist = ctx.torch, importlib.import_module("torch.distributed")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = "cuda" if backend == "nccl" else "cpu"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=MOST * ctx.timeout))
    results = train_shares(ctx, by, Rank(torch, dist, rank, world, device))
    write_whole(str(ctx.scratch / ("rank-%d.json" % rank)), json.dumps(results))
    dist.barrier()
    dist.destroy_process_group()
    return 0


def under_torchrun(ctx: Context, world: int, *words: str) -> Ended:
    """Run an internal command in as many processes as there are ranks. Raises Fault when they take too long."""
    # The loopback address throughout: in a container the host's name often has no address.
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", "--nproc_per_node=%d" % world]
    command += ["--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:0", "--local_addr=127.0.0.1"]
    limit = ctx.timeout * 0.8
    late = Fault("torchrun hadn't ended after %g s" % limit, "the end of its output says where its ranks wait")
    env = {"GLOO_SOCKET_IFNAME": "lo", **os.environ}
    return run_program([*command, *ctx.again(*words)[1:]], env, str(ctx.scratch), limit, late)


def even_ranks(gpus: int) -> int:
    """Return the most ranks that share a batch evenly; all batches are powers of two."""
    return 1 << (gpus.bit_length() - 1)


def apart(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the greatest relative difference of two rows of losses; infinite when one is shorter or they aren't
    numbers."""
    if len(first) != len(second) or not all(map(math.isfinite, (*first, *second))):
        return math.inf
    return max((abs(a - b) / max(abs(a), abs(b), 1e-12) for a, b in zip(first, second)), default=0.0)


def rank_findings(ctx: Context, backend: str, world: int, by: str) -> List[Dict[str, Any]]:
    """Give each rank's results: under torchrun, or, where time is short, in forks, which needn't import torch. Raises
    Fault."""
    if ctx.quick:
        return ranks(ctx, world, backend, functools.partial(train_shares, ctx, by))
    ended = under_torchrun(ctx, world, "rank", backend, by)
    if ended.code:
        print(ended.output)
        remedy = "the end of its output names the rank that failed first"
        raise Fault("torchrun ended with status %d" % ended.code, remedy)
    return [json.loads((ctx.scratch / ("rank-%d.json" % rank)).read_text()) for rank in range(world)]


def beside_one_process(ctx: Context, by: str) -> Outcome:
    """Ranks that share each batch train every workload as one process with the whole batch does."""
    backend, world = ("nccl", even_ranks(ctx.gpus)) if ctx.gpus > 1 else ("gloo", 2)
    results = rank_findings(ctx, backend, world, by)
    details: dict[str, Any] = {"backend": backend, "ranks": world, "limit": EQUAL, "apart": {}}
    curves: Dict[str, List[float]] = {}
    slowest: List[str] = []
    for name, first in results[0].items():
        losses = [sum(row) / world for row in zip(*(result[name]["losses"] for result in results))]
        differs = {"losses": apart(first["alone"], losses), "weights": first["apart"]}
        details["apart"][name] = differs
        slowest.append("rank %d" % max(range(world), key=lambda rank: float(results[rank][name]["seconds"])))
        curves = curves or {f"training.{by}": losses}
        if len({result[name]["weights"] for result in results}) > 1:
            reason = "the ranks have different weights after %d steps of %s" % (len(losses), name)
            return failed(
                reason, "see the collectives checks; NCCL_DEBUG=INFO says more", details=details, curves=curves
            )
        what = max(differs, key=lambda key: differs[key])
        if not differs[what] <= EQUAL:
            reason = "the %s of %s by %s differ by %.2g from those of one process with the whole batch; %.2g is allowed"
            remedy = "gradients are lost, scaled or counted twice; see the collectives checks"
            message = reason % (what, name, by.upper(), differs[what], EQUAL)
            return failed(message, remedy, details=details, curves=curves)
    seconds = max(result[next(iter(result))]["seconds"] for result in results)
    figures = [(f"training.{by}.step_ms", 1000 * seconds, "ms")]
    details["slowest"] = slowest[0]
    return passed(reason=on_the_cpu(ctx, backend), details=details, figures=figures, curves=curves)


check("training.ddp")(functools.partial(beside_one_process, by="ddp"))


@check("training.fsdp")
def training_fsdp(ctx: Context) -> Outcome:
    """The same with FSDP2's fully_shard, by which each rank has a share of the weights."""
    torch = ctx.torch
    if ctx.quick:
        raise Skip("FSDP is compared without --quick")
    if not hasattr(importlib.import_module("torch.distributed.fsdp"), "fully_shard"):
        raise Skip("torch %s has no fully_shard" % torch.__version__)
    if ctx.device == "cpu" and not hasattr(torch.cpu.Stream, "record_event"):
        raise Skip("torch %s shards on GPUs alone" % torch.__version__)
    if not workloads_by(ctx, "fsdp"):
        raise Skip("the ranks of %s don't call the same layers" % ctx.workload)
    return beside_one_process(ctx, "fsdp")
