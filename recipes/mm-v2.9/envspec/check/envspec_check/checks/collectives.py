"""collectives: sums between processes, and equal ranks."""

from __future__ import annotations

import datetime
import hashlib
import importlib
import json
import os
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence

from envspec_check.checks.training import on_the_cpu
from envspec_check.interface import Context, Fault, Outcome, check, failed, passed
from envspec_check.machine import usable_cpus
from envspec_check.process import Leaving, ending

COLLECTIVE_BYTES = (4 << 10, 1 << 20, 16 << 20)

COLLECTIVE_BYTES_GPU = (4 << 10, 1 << 20, 64 << 20, 256 << 20)


class Rank(NamedTuple):
    """One of several processes that know each other. `device` is what its tensors are on."""

    torch: Any
    dist: Any
    rank: int
    world: int
    device: str


def ranks(ctx: Context, world: int, backend: str, work: Callable[[Rank], Any]) -> list[Any]:
    """Run `work` in as many processes as there are ranks and give what each returned. Raises Fault when one fails.

    They are forked from the check's process, which must not have used torch: neither threads nor CUDA survive a fork.
    """
    folder = ctx.scratch / uuid.uuid4().hex[:8]
    folder.mkdir()
    limit = max(5.0, ctx.timeout * 0.6)
    # One machine: the loopback interface is always there, the host's name often has no address in a container.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ.setdefault("NCCL_DEBUG", "WARN")
    children = {}
    sys.stdout.flush()
    sys.stderr.flush()
    for rank in range(world):
        pid = os.fork()
        if pid == 0:
            with Leaving():
                _run_rank(ctx, folder, rank, world, backend, work, limit)
        children[pid] = rank
    wrong: list[str] = []
    deadline = time.monotonic() + limit
    while children and time.monotonic() < deadline and not wrong:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            time.sleep(0.01)
        elif pid in children:
            rank = children.pop(pid)
            wrong += ["rank %d %s" % (rank, ending(status))] if status else []
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if not wrong and children:
        wrong = ["%d of %d ranks hadn't ended after %g s" % (len(children), world, limit)]
    if wrong:
        remedy = "read the end of the output" + ("; NCCL_DEBUG=INFO says more" if backend == "nccl" else "")
        raise Fault("{} of {} failed: {}".format(work.__name__, backend, "; ".join(wrong)), remedy)
    return [json.loads((folder / ("%d.json" % rank)).read_text(encoding="utf-8")) for rank in range(world)]


def _run_rank(
    ctx: Context, folder: Path, rank: int, world: int, backend: str, work: Callable[[Rank], Any], limit: float
) -> None:
    torch = ctx.torch
    dist = importlib.import_module("torch.distributed")
    torch.set_num_threads(max(1, usable_cpus() // world))
    if backend == "nccl":
        torch.cuda.set_device(rank)
    store = "file://%s" % (folder / "store")
    dist.init_process_group(
        backend, init_method=store, rank=rank, world_size=world, timeout=datetime.timedelta(seconds=limit)
    )
    found = work(Rank(torch, dist, rank, world, "cuda" if backend == "nccl" else "cpu"))
    (folder / ("%d.json" % rank)).write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def all_reduce_exact(one: Rank) -> str | None:
    """Sums of whole numbers are exact, whatever the order and the size. What is wrong, or None."""
    for count in (1, 1023, 1 << 18):
        base = one.torch.arange(count, dtype=one.torch.int64, device=one.device)
        mine = base * (one.rank + 1) + one.rank
        one.dist.all_reduce(mine)
        right = base * (one.world * (one.world + 1) // 2) + one.world * (one.world - 1) // 2
        if not one.torch.equal(mine, right):
            return "rank %d: the sum of %d whole numbers is wrong" % (one.rank, count)
    return None


def ddp_steps(one: Rank) -> dict[str, Any]:
    """Train a small model with data of the rank's own: the first and last loss, and a digest of the weights."""
    torch = one.torch
    torch.manual_seed(one.rank)  # DDP has to make the ranks start alike
    layers = torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 1)
    model = torch.nn.Sequential(*layers).to(one.device)
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[one.rank] if one.device == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    made = torch.Generator().manual_seed(1000 + one.rank)
    inputs = torch.randn(128, 32, generator=made).to(one.device)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    flat = torch.cat([weights.detach().flatten().cpu() for weights in model.parameters()])
    weights = hashlib.sha256(bytes(flat.view(torch.uint8).tolist())).hexdigest()
    return {"first": losses[0], "last": losses[-1], "weights": weights}


def timed_all_reduce(one: Rank, sizes: Sequence[int] = (), repeats: int = 20) -> dict[str, float]:
    """The median seconds of an all-reduce, by its bytes."""
    found = {}
    for size in sizes:
        values, taken = one.torch.ones(size // 4, device=one.device), []
        for _ in range(repeats + 3):
            one.dist.barrier()
            began = time.perf_counter()
            one.dist.all_reduce(values)
            if one.device == "cuda":
                one.torch.cuda.synchronize()
            taken.append(time.perf_counter() - began)
            values.fill_(1)
        found[str(size)] = sorted(taken[3:])[repeats // 2]
    return found


def judge_sums(wrong: Sequence[str | None], details: dict[str, Any]) -> Outcome:
    told = [one for one in wrong if one]
    if told:
        return failed("; ".join(told), "no training across these ranks can be trusted", details=details)
    return passed(details=details)


@check("collectives.all_reduce")
def collectives_all_reduce(ctx: Context) -> Outcome:
    """Two processes sum whole numbers exactly, by Gloo on the CPU."""
    return judge_sums(ranks(ctx, 2, "gloo", all_reduce_exact), {"backend": "gloo", "ranks": 2})


@check("collectives.nccl", needs="gpu")
def collectives_nccl(ctx: Context) -> Outcome:
    """All GPUs of this machine sum whole numbers exactly, by NCCL. One GPU is a world of its own."""
    return judge_sums(ranks(ctx, ctx.gpus, "nccl", all_reduce_exact), {"backend": "nccl", "ranks": ctx.gpus})


def backend_of(ctx: Context) -> tuple[str, int]:
    """NCCL between several GPUs, else Gloo between two processes on the CPU."""
    return ("nccl", ctx.gpus) if ctx.gpus > 1 else ("gloo", 2)


@check("collectives.ddp")
def collectives_ddp(ctx: Context) -> Outcome:
    """Ranks that train on data of their own have the same weights afterwards. One GPU trains by NCCL too, alone."""
    backend, world = backend_of(ctx)
    found = ranks(ctx, world, backend, ddp_steps)
    details = {"backend": backend, "ranks": world, "first": found[0]["first"], "last": found[0]["last"]}
    alone = ranks(ctx, 1, "nccl", ddp_steps) if ctx.gpus == 1 else []
    if alone:
        details["nccl_alone"] = {"first": alone[0]["first"], "last": alone[0]["last"]}
    if len({one["weights"] for one in found}) > 1:
        reason = "the ranks have different weights after 8 steps of DistributedDataParallel"
        return failed(reason, "run collectives.all_reduce and collectives.nccl; set NCCL_DEBUG=INFO", details=details)
    if not all(one["last"] < one["first"] for one in (*found, *alone)):
        return failed("the loss didn't fall", "see the training checks", details=details)
    return passed(reason=on_the_cpu(ctx, backend), details=details)


@check("collectives.bandwidth")
def collectives_bandwidth(ctx: Context) -> Outcome:
    """Measure how long all-reduces take; it can't fail."""
    backend, world = backend_of(ctx)
    sizes: Sequence[int] = COLLECTIVE_BYTES_GPU if backend == "nccl" else COLLECTIVE_BYTES
    sizes = sizes[:2] if ctx.quick else sizes

    def all_reduces(one: Rank) -> dict[str, float]:
        return timed_all_reduce(one, sizes)

    taken = ranks(ctx, world, backend, all_reduces)
    figures = []
    for size in sizes:
        seconds = max(one[str(size)] for one in taken)
        figures.append(("collectives.all_reduce_us.%d" % size, seconds * 1e6, "us"))
        figures.append(("collectives.bus_gb_s.%d" % size, 2 * (world - 1) / world * size / seconds / 1e9, "GB/s"))
    return passed(reason=on_the_cpu(ctx, backend), details={"backend": backend, "ranks": world}, figures=figures)
