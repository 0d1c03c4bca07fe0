"""Several processes that know each other."""

from __future__ import annotations

import datetime
import functools
import importlib
import os
import time
import uuid
from pathlib import Path
from typing import Any, Callable, NamedTuple

from envspec_check.failures import explain
from envspec_check.interface import Context, Fault
from envspec_check.machine import usable_cpus
from envspec_check.patience import MOST, Patience
from envspec_check.process import ending, fork, give_up


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
    started = [
        fork(functools.partial(_run_rank, ctx, folder, rank, world, backend, work, limit)) for rank in range(world)
    ]
    children = {pid: rank for rank, (pid, _) in enumerate(started)}
    wrong: list[str] = []
    remedy = "read the end of the output" + ("; NCCL_DEBUG=INFO says more" if backend == "nccl" else "")
    patience, looked = Patience(os.getpid(), limit), 0.0
    while children and not wrong:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            if time.monotonic() - looked > 1:
                looked = time.monotonic()
                if patience.over():
                    break
            time.sleep(0.01)
        elif pid in children:
            rank = children.pop(pid)
            if status:
                error = started[rank][1].take().get("error")
                reason, known = explain(error) if error else (ending(status), None)
                wrong.append("rank %d %s" % (rank, reason) if not error else "rank %d: %s" % (rank, reason))
                remedy = known or remedy
    for pid in children:
        give_up(pid)
    if not wrong and children:
        wrong = ["%d of %d ranks hadn't ended after %g s" % (len(children), world, limit)]
    if wrong:
        raise Fault("{} of {} failed: {}".format(getattr(work, "__name__", "work"), backend, "; ".join(wrong)), remedy)
    return [answer.take()["value"] for _, answer in started]


def _run_rank(
    ctx: Context, folder: Path, rank: int, world: int, backend: str, work: Callable[[Rank], Any], limit: float
) -> Any:
    torch = ctx.torch
    dist = importlib.import_module("torch.distributed")
    torch.set_num_threads(max(1, usable_cpus() // world))
    if backend == "nccl":
        torch.cuda.set_device(rank)
    store = "file://%s" % (folder / "store")
    dist.init_process_group(
        backend, init_method=store, rank=rank, world_size=world, timeout=datetime.timedelta(seconds=MOST * limit)
    )
    found = work(Rank(torch, dist, rank, world, "cuda" if backend == "nccl" else "cpu"))
    dist.barrier()
    dist.destroy_process_group()
    return found


def backend_of(ctx: Context) -> tuple[str, int]:
    """NCCL between several GPUs, else Gloo between two processes on the CPU."""
    return ("nccl", ctx.gpus) if ctx.gpus > 1 else ("gloo", 2)


def on_the_cpu(ctx: Context, backend: str) -> str | None:
    """What to say of ranks that ran on the CPU where the report is about a GPU; None where there is nothing to say."""
    if ctx.device == "cpu" or backend == "nccl":
        return None
    return "on the CPU, by Gloo: there is %s" % ("one GPU" if ctx.gpus else "no GPU")
