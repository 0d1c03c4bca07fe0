"""Several processes that know each other."""

from __future__ import annotations

import datetime
import functools
import importlib
import os
import signal
import time
import traceback
import uuid
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, NamedTuple

from envspec_check.failures import explain
from envspec_check.interface import Context, Fault
from envspec_check.machine import usable_cpus
from envspec_check.patience import MOST, Patience
from envspec_check.process import Answer, ending, fork, give_up

ANSWERS = 0.5
"""The seconds that a rank has to say where it is, before it is ended."""


def _untold(step: str) -> None:
    pass


class Rank(NamedTuple):
    """One of several processes that know each other. `device` is what its tensors are on; `begin` says what it is about
    to do with the others, which is told of a rank that fails there or never ends."""

    torch: Any
    dist: Any
    rank: int
    world: int
    device: str
    begin: Callable[[str], None] = _untold


class Whereabouts:
    """The step that a rank is about to do, for its parent to read, in memory that both have.

    A process that waits in C++ for another one never gets to Python's handlers of signals; one that is kept from a
    collective by Python does, and so tells that the others wait for it.
    """

    def __init__(self) -> None:
        self.memory = Answer()
        self.now: Dict[str, Any] = {"number": 0, "step": "", "in_python": False, "failed": 0.0}

    def begin(self, step: str) -> None:
        self._leave(number=self.now["number"] + 1, step=step)

    def failed(self) -> None:
        self._leave(failed=time.monotonic())

    def answer(self) -> None:
        """Have this process answer the signal by which its parent asks where it is."""
        signal.signal(signal.SIGUSR1, self._in_python)

    def _in_python(self, number: int, frame: Any) -> None:
        traceback.print_stack(frame)
        self._leave(in_python=True)

    def _leave(self, **changed: Any) -> None:
        self.now.update(changed)
        self.memory.leave(self.now)

    def last(self) -> Dict[str, Any]:
        """Return the last answer of a process that has ended."""
        return {**self.now, **self.memory.take()}


def ranks(ctx: Context, world: int, backend: str, work: Callable[[Rank], Any]) -> list[Any]:
    """Run `work` in as many processes as there are ranks and give what each returned. Raises Fault when one fails.

    They are forked from the check's process, which must not have used torch: neither threads nor CUDA survive a fork.
    """
    folder = ctx.scratch / uuid.uuid4().hex[:8]
    folder.mkdir()
    limit = limit_of(ctx)
    # One machine: the loopback interface is always there, the host's name often has no address in a container.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ.setdefault("NCCL_DEBUG", "WARN")
    places = [Whereabouts() for _ in range(world)]
    started = [
        fork(functools.partial(_run_rank, ctx, folder, rank, world, backend, work, places[rank]))
        for rank in range(world)
    ]
    children = {pid: rank for rank, (pid, _) in enumerate(started)}
    ended: dict[int, int] = {}
    patience, looked = Patience(os.getpid(), limit), 0.0
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            if any(ended.values()):
                break
            if time.monotonic() - looked > 1:
                looked = time.monotonic()
                if patience.over():
                    break
            time.sleep(0.01)
        elif pid in children:
            ended[children.pop(pid)] = status
    if children and not any(ended.values()):
        for pid in children:
            os.kill(pid, signal.SIGUSR1)
        time.sleep(ANSWERS)
    for pid in children:
        os.kill(pid, signal.SIGKILL)  # all at once: whoever waits for one that is gone would get on
    for pid in children:
        give_up(pid)
    last = [place.last() for place in places]
    remedy = "read the end of the output" + ("; NCCL_DEBUG=INFO says more" if backend == "nccl" else "")
    wrong = None
    if any(ended.values()):
        # where one fails, its sockets close, and the others fail after it
        first = min((rank for rank in ended if ended[rank]), key=lambda rank: float(last[rank]["failed"]))
        error = started[first][1].take().get("error")
        reason, known = explain(error) if error else (ending(ended[first]), None)
        step, remedy = last[first]["step"], known or remedy
        wrong = "rank %d%s%s" % (first, ": %s: " % step if step else ": " if error else " ", reason)
    elif children:
        wrong = _late({rank: last[rank] for rank in children.values()}, limit)
    if wrong:
        raise Fault("{} of {} failed: {}".format(getattr(work, "__name__", "work"), backend, wrong), remedy)
    return [answer.take()["value"] for _, answer in started]


def _late(left: Mapping[int, Dict[str, Any]], limit: float) -> str:
    """Name the ranks that hadn't ended a step: of those that Python keeps, or of all, the ranks behind the rest."""
    in_python = [rank for rank, place in left.items() if place["in_python"]] or list(left)
    behind = min(left[rank]["number"] for rank in in_python)
    late = sorted(rank for rank in in_python if left[rank]["number"] == behind)
    named = "rank%s %s" % ("s" * (len(late) > 1), " and ".join(map(str, late)))
    step = left[late[0]]["step"]
    ahead = ["rank %d is at %s" % (rank, left[rank]["step"] or "the end") for rank in left if rank not in late]
    return "; ".join(["%s hadn't ended%s after %g s" % (named, step and " " + step, limit), *ahead[:1]])


def _run_rank(
    ctx: Context, folder: Path, rank: int, world: int, backend: str, work: Callable[[Rank], Any], place: Whereabouts
) -> Any:
    torch = ctx.torch
    dist = importlib.import_module("torch.distributed")
    torch.set_num_threads(max(1, usable_cpus() // world))
    if backend == "nccl":
        torch.cuda.set_device(rank)
    place.answer()
    store, limit = "file://%s" % (folder / "store"), datetime.timedelta(seconds=MOST * limit_of(ctx))
    dist.init_process_group(backend, init_method=store, rank=rank, world_size=world, timeout=limit)
    try:
        result = work(Rank(torch, dist, rank, world, "cuda" if backend == "nccl" else "cpu", place.begin))
        place.begin("")
        dist.barrier()
    except Exception:
        place.failed()
        raise
    dist.destroy_process_group()
    return result


def limit_of(ctx: Context) -> float:
    """Return the seconds that ranks have, of those of their check."""
    return max(5.0, ctx.timeout * 0.6)


def backend_of(ctx: Context) -> tuple[str, int]:
    """NCCL between several GPUs, else Gloo between two processes on the CPU."""
    return ("nccl", ctx.gpus) if ctx.gpus > 1 else ("gloo", 2)


def on_the_cpu(ctx: Context, backend: str) -> str | None:
    """Explain ranks that ran on the CPU where the report is about a GPU; None elsewhere."""
    if ctx.device == "cpu" or backend == "nccl":
        return None
    return "on the CPU, by Gloo: there is %s" % ("one GPU" if ctx.gpus else "no GPU")
