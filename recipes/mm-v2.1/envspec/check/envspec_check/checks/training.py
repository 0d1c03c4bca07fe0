"""training: the workload in each precision, and on several processes."""

from __future__ import annotations

import datetime
import functools
import importlib
import json
import math
import os
import subprocess
import sys
from typing import Any, Sequence

from envspec_check.interface import WORKLOADS, Context, Ended, Fault, Outcome, check, failed, internal, passed, skipped
from envspec_check.process import write_whole
from envspec_check.trainer import Trainer, Training, digest, lacks, peak_memory, percentile
from envspec_check.workloads.base import fall, stated_fall

NOT_FINITE = "see which operators check fails; a kernel that gives NaN is most often a build for another architecture"

NOT_FALLING = "see the operators checks; with other steps than the spec's, give --steps more"


def judge_losses(losses: Sequence[float], precision: str, falls: float, enough: int, steps: int) -> Outcome | None:
    """What is wrong with the losses of a training, or None."""
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
    trainer = Trainer(Training(ctx.workload, ctx.steps, ctx.seed, ctx.device, precision))
    trainer.run(ctx.steps)
    made, losses = trainer.workload, trainer.losses
    curves = {"training.%s" % precision: losses}
    details: dict[str, Any] = {"steps": len(losses), "batch": trainer.count, "fall": fall(losses)}
    details["least_fall"] = stated_fall(made.falls, made.enough, ctx.steps)
    wrong = judge_losses(losses, precision, made.falls, made.enough, ctx.steps)
    if wrong:
        return wrong._replace(details=details, curves=curves)
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

DDP_STEPS = 20

SHARED = ("llm", "dynamic")
"""The workloads that are trained by several processes too."""


@internal("rank")
def train_rank(ctx: Context, backend: str, steps: str) -> int:
    """One rank of a training under torchrun, which says by the environment which one it is."""
    torch, dist = ctx.torch, importlib.import_module("torch.distributed")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = "cuda" if backend == "nccl" else "cpu"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=max(5.0, ctx.timeout * 0.6)))
    trainer = Trainer(Training(ctx.workload, int(steps), ctx.seed, device, "fp32"), rank, world)
    trainer.called = torch.nn.parallel.DistributedDataParallel(
        trainer.model,
        device_ids=[trainer.device] if device == "cuda" else None,
        find_unused_parameters=trainer.workload.unused,
    )
    trainer.run(int(steps))
    found = {"losses": trainer.losses, "weights": digest(trainer.model.state_dict()), "batch": trainer.count}
    write_whole(str(ctx.scratch / ("rank-%d.json" % rank)), json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()
    return 0


def under_torchrun(ctx: Context, world: int, *words: str) -> Ended:
    """Run an internal command in as many processes as there are ranks. Raises Fault when they take too long."""
    # The loopback address throughout: in a container the host's name often has no address.
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", "--nproc_per_node=%d" % world]
    command += ["--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:0", "--local_addr=127.0.0.1"]
    limit = ctx.timeout * 0.8
    try:
        done = subprocess.run(
            [*command, *ctx.again(*words)[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"GLOO_SOCKET_IFNAME": "lo", **os.environ},
            cwd=str(ctx.scratch),
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        print((error.stdout or b"").decode("utf-8", "replace"))
        raise Fault(
            "torchrun hadn't ended after %g s" % limit, "the end of its output says where its ranks wait"
        ) from None
    return Ended(done.returncode, done.stdout.decode("utf-8", "replace"))


def whole_batches(ctx: Context, device: str, steps: int) -> list[float]:
    """The losses of a training of one process, whose DataParallel splits each batch among the GPUs."""
    torch = ctx.torch
    trainer = Trainer(Training(ctx.workload, steps, ctx.seed, device, "fp32"))
    if device == "cuda":
        trainer.called = torch.nn.DataParallel(trainer.model, list(range(even_ranks(ctx.gpus))))
    elif not torch.cuda.is_available():  # else it would take the GPUs
        trainer.called = torch.nn.DataParallel(trainer.model)
    trainer.run(steps)
    return trainer.losses


def on_the_cpu(ctx: Context, backend: str) -> str | None:
    """What to say of ranks that ran on the CPU where the report is about a GPU; None where there is nothing to say."""
    if ctx.device == "cpu" or backend == "nccl":
        return None
    return "on the CPU, by Gloo: there is %s" % ("one GPU" if ctx.gpus else "no GPU")


def even_ranks(gpus: int) -> int:
    """The most ranks that share a batch evenly; all batches are powers of two."""
    return 1 << (gpus.bit_length() - 1)


def apart(one: Sequence[float], other: Sequence[float]) -> float:
    """The greatest relative difference of two rows of losses; infinite when one is shorter or they aren't numbers."""
    if len(one) != len(other) or not all(map(math.isfinite, (*one, *other))):
        return math.inf
    return max((abs(a - b) / max(abs(a), abs(b), 1e-12) for a, b in zip(one, other)), default=0.0)


@check("training.ddp")
def training_ddp(ctx: Context) -> Outcome:
    """Train under torchrun: the loss falls and the ranks stay equal; `dynamic` trains as DataParallel does."""
    if ctx.workload not in SHARED:
        return skipped("%s is trained by one process; %s by several" % (ctx.workload, " and ".join(SHARED)))
    backend, world = ("nccl", even_ranks(ctx.gpus)) if ctx.gpus > 1 else ("gloo", 2)
    where = on_the_cpu(ctx, backend)
    steps, made = min(ctx.steps, DDP_STEPS), WORKLOADS[ctx.workload]()
    ended = under_torchrun(ctx, world, "rank", backend, str(steps))
    if ended.code:
        print(ended.output)
        return failed(
            "torchrun ended with status %d" % ended.code, "the end of its output names the rank that failed first"
        )
    ranks = [json.loads((ctx.scratch / ("rank-%d.json" % rank)).read_text()) for rank in range(world)]
    losses = [sum(row) / world for row in zip(*(one["losses"] for one in ranks))]
    details: dict[str, Any] = {"backend": backend, "ranks": world, "steps": steps, "fall": fall(losses)}
    curves = {"training.ddp": losses}
    wrong = judge_losses(losses, "DDP", made.falls, made.enough, steps)
    if wrong:
        return wrong._replace(details=details, curves=curves)
    if len({one["weights"] for one in ranks}) > 1:
        reason = "the ranks have different weights after %d steps" % steps
        return failed(reason, "see the collectives checks; NCCL_DEBUG=INFO says more", details=details, curves=curves)
    if ctx.workload == "dynamic":
        # Once weights have moved far, rounding has too: the first steps are compared.
        few = min(steps, 8)
        whole = whole_batches(ctx, "cuda" if backend == "nccl" else "cpu", steps)[:few]
        details["data_parallel"] = apart(whole, losses[:few])
        if details["data_parallel"] > 1e-3:
            reason = "the losses of DataParallel and DDP differ by up to %.3g (relative), more than 0.001"
            remedy = "gradients are lost or counted twice; see the collectives checks"
            return failed(reason % details["data_parallel"], remedy, details=details, curves=curves)
    return passed(reason=where, details=details, curves=curves)
