"""collectives: what goes between processes arrives as it was sent, and is summed as it should be."""

from __future__ import annotations

import copy
import math
import socket
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from envspec_check.interface import Context, Outcome, check, failed, passed
from envspec_check.ranks import Rank, backend_of, on_the_cpu, ranks
from envspec_check.trainer import digest, exact_fp32
from envspec_check.workloads.base import generator

COLLECTIVE_BYTES = (4 << 10, 1 << 20, 16 << 20)

COLLECTIVE_BYTES_GPU = (4 << 10, 1 << 20, 64 << 20, 256 << 20)

COUNTS = (3, 1023, 1 << 17)
"""Numbers that each rank gives to each other one."""

SUMS = 1e-6
"""How far a sum of a few floats may be from the exact one, as a share of the largest: some roundings of float32."""

EQUAL = 1e-5
"""The most by which ranks may differ from one process with the whole batch, as a share; healthy is 2e-7."""

DDP_STEPS = 8

LATE = 1.5
"""How many times as long as the median a rank may take for work of its own."""


def all_reduce_exact(rank: Rank) -> str | None:
    """Check that sums of whole numbers are exact, whatever the order and the size. Gives the first fault, or None. A
    rank that sees a fault goes on, as the other ranks do, which may see none."""
    wrong = []
    for count in (1, 1023, 1 << 18):
        base = rank.torch.arange(count, dtype=rank.torch.int64, device=rank.device)
        mine = base * (rank.rank + 1) + rank.rank
        rank.begin("the sum of %d whole numbers" % count)
        rank.dist.all_reduce(mine)
        right = base * (rank.world * (rank.world + 1) // 2) + rank.world * (rank.world - 1) // 2
        if not rank.torch.equal(mine, right):
            wrong.append("rank %d: the sum of %d whole numbers is wrong" % (rank.rank, count))
    return wrong[0] if wrong else None


def draw(rank: Rank, number: int, count: int) -> Any:
    """Return a rank's floats, which every rank can draw."""
    return rank.torch.randn(rank.world * count, generator=generator("collective", number, count))


class Exchange:
    """Every collective once, with so many floats from each rank to each, beside what must come of it."""

    def __init__(self, rank: Rank, count: int) -> None:
        self.rank, self.count = rank, count
        self.all = [draw(rank, number, count) for number in range(rank.world)]
        self.sum = rank.torch.stack([rows.double() for rows in self.all]).sum(0)

    def mine(self) -> Any:
        return self.all[self.rank.rank].to(self.rank.device)

    def empty(self, count: int) -> Any:
        return self.rank.torch.full((count,), math.nan, device=self.rank.device)

    def part(self, rows: Any, rank: int) -> Any:
        return rows[rank * self.count : (rank + 1) * self.count]

    def same(self, received: Any, right: Any) -> bool:
        return bool(self.rank.torch.equal(received.cpu(), right))

    def sums(self, received: Any, right: Any) -> bool:
        return bool((received.cpu().double() - right).abs().max() <= SUMS * self.rank.world * float(right.abs().max()))

    def all_reduce(self) -> bool:
        values = self.mine()
        self.rank.dist.all_reduce(values)
        return self.sums(values, self.sum)

    def reduce_scatter(self) -> bool:
        received = self.empty(self.count)
        self.rank.dist.reduce_scatter_tensor(received, self.mine())
        return self.sums(received, self.part(self.sum, self.rank.rank))

    def broadcast(self) -> bool:
        last, values = self.rank.world - 1, self.mine()
        self.rank.dist.broadcast(values, last)
        return self.same(values, self.all[last])

    def all_gather(self) -> bool:
        received = [self.empty(self.rank.world * self.count) for _ in self.all]
        self.rank.dist.all_gather(received, self.mine())
        return all(self.same(rows, right) for rows, right in zip(received, self.all))

    def all_gather_into_tensor(self) -> bool:
        received = self.empty(self.rank.world * self.rank.world * self.count)
        self.rank.dist.all_gather_into_tensor(received, self.mine())
        return self.same(received, self.rank.torch.cat(self.all))

    def all_to_all(self) -> bool:
        received = self.empty(self.rank.world * self.count)
        self.rank.dist.all_to_all_single(received, self.mine())
        return self.same(received, self.rank.torch.cat([self.part(rows, self.rank.rank) for rows in self.all]))

    def send_and_receive(self) -> bool:
        dist, world = self.rank.dist, self.rank.world
        if world == 1:
            return True
        before, received = (self.rank.rank - 1) % world, self.empty(world * self.count)
        send = dist.P2POp(dist.isend, self.mine(), (self.rank.rank + 1) % world)
        for work in dist.batch_isend_irecv([send, dist.P2POp(dist.irecv, received, before)]):
            work.wait()
        return self.same(received, self.all[before])


OPERATIONS = (
    *("all_reduce", "reduce_scatter", "broadcast", "all_gather"),
    *("all_gather_into_tensor", "all_to_all", "send_and_receive"),
)


def exchange(rank: Rank) -> Dict[str, List[str]]:
    """Floats of unlike seeds through every collective: the `wrong` ones, and those that the backend is `without`."""
    faults: Dict[str, List[str]] = {"wrong": [], "without": []}
    for name in OPERATIONS:
        wrong = []
        for count in COUNTS:
            # a rank that alone goes without is no longer where the others are
            without = "".join(", without " + other for other in faults["without"])
            rank.begin("%s of %d floats%s" % (name, count, without))
            try:
                right = getattr(Exchange(rank, count), name)()
            except (RuntimeError, NotImplementedError, AttributeError) as error:
                if not any(word in str(error) for word in ("support", "not implemented", "has no attribute")):
                    raise
                faults["without"].append(name)
                break
            if not right:
                # the other ranks, who may see nothing, go on with the next count: so does this one
                wrong.append("rank %d: %s of %d floats is wrong" % (rank.rank, name, count))
        faults["wrong"] += wrong[:1]
    return faults


def small_model(torch: Any) -> Any:
    return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 1))


def small_steps(torch: Any, model: Any, inputs: Any, rate: float = 0.05) -> List[float]:
    """Train on the same inputs by plain SGD, which hides no wrong scale of a gradient. The losses."""
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=rate), []
    for _ in range(DDP_STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def flat(torch: Any, model: Any) -> Any:
    """Return all weights of a model in one row of float64, on the CPU; those that ranks have shares of, whole."""
    whole = [weights.full_tensor() if hasattr(weights, "full_tensor") else weights for weights in model.parameters()]
    return torch.cat([weights.detach().flatten().cpu() for weights in whole]).double()


def moved_apart(start: Any, first: Any, second: Any) -> float:
    """Measure the distance between the ends of two trainings from one start, as a share of the second's own way."""
    share = float((first - second).norm()) / max(float((second - start).norm()), 1e-30)
    return share if math.isfinite(share) else math.inf


def ddp_steps(rank: Rank) -> dict[str, Any]:
    """Train a small model with data of the rank's own, and alone with that of all ranks: the first and last loss, a
    digest of the weights, and how far they are from those of the one process."""
    torch = rank.torch
    exact_fp32(torch)
    torch.manual_seed(rank.rank)  # DDP has to make the ranks start alike
    model = small_model(torch).to(rank.device)
    model.register_buffer("turn", torch.zeros(1, device=rank.device))
    on = [torch.cuda.current_device()] if rank.device == "cuda" else None
    called = torch.nn.parallel.DistributedDataParallel(model, device_ids=on)
    alone, start = copy.deepcopy(model), flat(torch, model)
    model.turn.fill_(rank.rank)  # buffers are the first rank's
    turned = [called.train(mode).training == model.training == mode for mode in (False, True)]
    rows = [torch.randn(128, 32, generator=generator("ddp", number)).to(rank.device) for number in range(rank.world)]
    losses = small_steps(torch, called, rows[rank.rank])
    small_steps(torch, alone, torch.cat(rows))
    apart = moved_apart(start, flat(torch, model), flat(torch, alone)) if all(turned) else math.inf
    return {"first": losses[0], "last": losses[-1], "weights": digest(model.state_dict()), "apart": apart}


def wrong_ddp(results: Sequence[Dict[str, Any]]) -> Optional[str]:
    """Name the fault in the results of `ddp_steps`, or None."""
    if len({result["weights"] for result in results}) > 1:
        return "the ranks have different weights after %d steps of DistributedDataParallel" % DDP_STEPS
    apart = max(result["apart"] for result in results)
    if not apart <= EQUAL:
        message = (
            "DistributedDataParallel's weights are %.2g of their way from those of one process with the whole batch"
        )
        return message % apart + "; %.2g is allowed" % EQUAL
    return None if all(result["last"] < result["first"] for result in results) else "the loss didn't fall"


def timed_all_reduce(rank: Rank, sizes: Sequence[int] = (), repeats: int = 50) -> dict[str, float]:
    """The seconds of an all-reduce, by its bytes, as nccl-tests take them: in place, many one after the other between
    two events of the device, the mean of them and of the ranks."""
    times = {}
    for size in sizes:
        values = rank.torch.zeros(size // 4, device=rank.device)
        for _ in range(5):
            rank.dist.all_reduce(values)
        rank.dist.barrier()
        began = mark(rank)
        for _ in range(repeats):
            rank.dist.all_reduce(values)
        seconds = between(rank, began, mark(rank)) / repeats
        mean = rank.torch.tensor([seconds / rank.world], dtype=rank.torch.float64, device=rank.device)
        rank.dist.all_reduce(mean)
        times[str(size)] = float(mean)
    return times


def mark(rank: Rank) -> Any:
    """Return a moment in the device's own order of work; on a CPU, by its clock."""
    if rank.device != "cuda":
        return time.perf_counter()
    event = rank.torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def between(rank: Rank, first: Any, last: Any) -> float:
    """Return the seconds between two moments; it waits for the second."""
    if rank.device != "cuda":
        return float(last - first)
    last.synchronize()
    return float(first.elapsed_time(last)) / 1000


def own_seconds(rank: Rank) -> List[Tuple[str, float]]:
    """Give each rank's host, and its seconds for work that waits for no other rank: the fastest of eight runs."""
    values, taken = rank.torch.ones((2048 if rank.device == "cuda" else 256,) * 2, device=rank.device), []
    for _ in range(8):
        began = time.perf_counter()
        for _ in range(10):
            values = values @ values / len(values)
        values.sum().item()  # waits for the device
        taken.append(time.perf_counter() - began)
    # as a tensor: torch gathers objects by NumPy, which an environment with torch alone hasn't
    host = socket.gethostname().encode()[:255].ljust(255, b"\0")
    own = rank.torch.tensor([min(taken), *host], dtype=rank.torch.float64, device=rank.device)
    every = [rank.torch.empty_like(own) for _ in range(rank.world)]
    rank.dist.all_gather(every, own)
    rows = [gathered.tolist() for gathered in every]
    return [(bytes(int(letter) for letter in row[1:] if letter).decode(errors="replace"), row[0]) for row in rows]


def stragglers(times: Sequence[Tuple[str, float]]) -> Tuple[Dict[str, Any], List[str]]:
    """Give each rank's time, each node's (that of its slowest rank), and the ranks that all the rest wait for."""
    usual = sorted(seconds for _, seconds in times)[(len(times) - 1) // 2]
    nodes = {node: max(seconds for other, seconds in times if other == node) for node, _ in times}
    late = "rank %d on %s takes %.1f times as long as the others for the same work: all wait for it"
    messages = [late % (rank, node, took / usual) for rank, (node, took) in enumerate(times) if took > LATE * usual]
    return {"seconds_by_rank": [seconds for _, seconds in times], "seconds_by_node": nodes}, messages


def bus_gb_s(world: int, size: int, seconds: float) -> float:
    """Give an all-reduce's bandwidth on the wires, as nccl-tests compute it."""
    return 2 * (world - 1) / world * size / seconds / 1e9


def judge_sums(wrong: Sequence[str | None], details: dict[str, Any]) -> Outcome:
    faults = [fault for fault in wrong if fault]
    if faults:
        return failed("; ".join(faults), "no training across these ranks can be trusted", details=details)
    return passed(details=details)


def judge_exchange(results: Sequence[Dict[str, List[str]]], details: dict[str, Any]) -> Outcome:
    details["without"] = results[0]["without"]
    alone = [
        "rank %d: there is no %s, which other ranks have" % (rank, name)
        for rank, result in enumerate(results)
        for name in result["without"]
        if any(name not in other["without"] for other in results)
    ]
    return judge_sums([*alone, *(wrong for result in results for wrong in result["wrong"])], details)


def both(rank: Rank) -> Dict[str, Any]:
    return {"whole": all_reduce_exact(rank), "floats": exchange(rank)}


def sums(ctx: Context, backend: str, world: int) -> Outcome:
    results, details = ranks(ctx, world, backend, both), {"backend": backend, "ranks": world}
    wrong = judge_sums([result["whole"] for result in results], details)
    return wrong if wrong.status == "fail" else judge_exchange([result["floats"] for result in results], details)


@check("collectives.all_reduce")
def collectives_all_reduce(ctx: Context) -> Outcome:
    """Two processes sum whole numbers exactly and exchange floats by every collective, by Gloo on the CPU."""
    return sums(ctx, "gloo", 2)


@check("collectives.nccl", needs="gpu")
def collectives_nccl(ctx: Context) -> Outcome:
    """The same between all GPUs of this machine, by NCCL. One GPU is a world of its own."""
    return sums(ctx, "nccl", ctx.gpus)


@check("collectives.ddp")
def collectives_ddp(ctx: Context) -> Outcome:
    """Ranks that train on data of their own end as one process with all of it. One GPU trains by NCCL too, alone."""
    backend, world = backend_of(ctx)
    results = ranks(ctx, world, backend, ddp_steps)
    details = {"backend": backend, "ranks": world, "first": results[0]["first"], "last": results[0]["last"]}
    details["apart"] = max(result["apart"] for result in results)
    alone = ranks(ctx, 1, "nccl", ddp_steps) if ctx.gpus == 1 else []
    if alone:
        details["nccl_alone"] = {"first": alone[0]["first"], "last": alone[0]["last"]}
    wrong = wrong_ddp(results) or (wrong_ddp(alone) if alone else None)
    if wrong:
        remedy = "run collectives.all_reduce and collectives.nccl; set NCCL_DEBUG=INFO"
        return failed(wrong, remedy, details=details)
    return passed(reason=on_the_cpu(ctx, backend), details=details)


@check("collectives.bandwidth")
def collectives_bandwidth(ctx: Context) -> Outcome:
    """Measure how long all-reduces take; it can't fail."""
    backend, world = backend_of(ctx)
    sizes: Sequence[int] = COLLECTIVE_BYTES_GPU if backend == "nccl" else COLLECTIVE_BYTES
    sizes = sizes[:2] if ctx.quick else sizes

    def all_reduces(rank: Rank) -> tuple[list[tuple[str, float]], dict[str, float]]:
        return own_seconds(rank), timed_all_reduce(rank, sizes)

    own, taken = ranks(ctx, world, backend, all_reduces)[0]
    times, late = stragglers(own)
    figures = []
    for size in sizes:
        seconds = taken[str(size)]
        figures.append(("collectives.all_reduce_us.%d" % size, seconds * 1e6, "us"))
        figures.append(("collectives.bus_gb_s.%d" % size, bus_gb_s(world, size, seconds), "GB/s"))
    details = {"backend": backend, "ranks": world, **times}
    late = late if backend == "nccl" else []  # on the CPU the ranks hold each other up
    return passed(reason=on_the_cpu(ctx, backend), details=details, figures=figures, slow=late)
