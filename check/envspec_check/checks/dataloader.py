"""dataloader: workers, shared memory, pinned memory."""

from __future__ import annotations

import importlib
import random
import re
import traceback
from typing import Any, Iterator, List, Sequence, Tuple

from envspec_check.interface import MIB, Context, Fault, Outcome, check, failed, passed, some
from envspec_check.machine import SHM_REMEDY, shm_bytes
from envspec_check.process import unheard

WORKERS = 2

SHM_LEAST = 64 * MIB
"""What two workers need in /dev/shm: each holds two batches ahead, and batches of images are several MiB."""

LOST = 5.0
"""Seconds in which a worker that was killed ends; one that waits in the kernel doesn't."""


class Numbered:
    """A data set of tensors that say which they are: (index, worker, first value a seed gave)."""

    first = 0
    """The first worker's number."""

    def __init__(self, length: int, size: int) -> None:
        self.length, self.size = length, size

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < self.length:
            raise IndexError(index)
        torch = importlib.import_module("torch")
        worker = torch.utils.data.get_worker_info()
        sample = torch.full((self.size,), float(index))
        sample[1] = -1.0 if worker is None else float(self.first + worker.id)
        sample[2] = random.random() if index % 2 else torch.rand(())
        return sample


def from_five(worker: int) -> None:
    Numbered.first = 5


def load_all(ctx: Context, length: int, size: int, **options: Any) -> list[Any]:
    """Return all batches of a loader with workers. Raises Fault where a worker hangs, dies or has no shared memory."""
    torch = ctx.torch
    limit = max(2.0, min(30.0, ctx.timeout / 3))
    torch.manual_seed(ctx.seed)
    options = {"batch_size": 4, "num_workers": WORKERS, "prefetch_factor": 2, "timeout": limit, **options}
    try:
        return list(torch.utils.data.DataLoader(Numbered(length, size), **options))
    except RuntimeError as error:
        text = str(error)
        if re.search(r"shared memory|Bus error|No space left|shm_open|unable to (mmap|resize|allocate)", text):
            traceback.print_exc()
            total = shm_bytes()
            size_words = "there is no /dev/shm" if total is None else "/dev/shm has %.1f MiB" % (total / MIB)
            raise Fault(f"workers ran out of shared memory: {size_words}", SHM_REMEDY) from None
        if "timed out" in text:
            traceback.print_exc()
            with unheard():
                for child in importlib.import_module("multiprocessing").active_children():
                    child.kill()  # the loader would wait for each of them
                    child.join(LOST)
            remedy = "look at what it waits for (py-spy dump); locks and threads of the parent don't survive a fork"
            raise Fault(f"a worker gave nothing for {limit:g} s: it hangs", remedy) from None
        raise


def wrong_batches(torch: Any, batches: Sequence[Any], length: int) -> str | None:
    """Name the fault in the batches of a Numbered of some length, or None."""
    whole = torch.cat(list(batches))
    if whole[:, 0].tolist() != [float(index) for index in range(length)]:
        return "items are missing, doubled or out of order"
    if not torch.equal(whole[:, 3:], whole[:, :1].expand(-1, whole.shape[1] - 3)):
        return "items aren't what the workers made"
    if sorted(set(whole[:, 1].tolist())) != [float(worker) for worker in range(WORKERS)]:
        return "not every worker worked"
    if len(set(whole[:, 2].tolist())) < length:
        return "workers made the same random numbers"
    return None


@check("dataloader.workers")
def dataloader_workers(ctx: Context) -> Outcome:
    """Workers give every item once, in order, each with random numbers of its own, of torch and of Python, and the
    same at every start."""
    torch, length = ctx.torch, 32
    batches = load_all(ctx, length, 64)
    wrong = wrong_batches(torch, batches, length)
    again = torch.cat(load_all(ctx, length, 64, persistent_workers=True))
    if wrong is None and not torch.equal(torch.cat(batches), again):
        wrong = "the same seed gave other items"
    details = {
        "workers": WORKERS,
        "items": length,
        "start": str(importlib.import_module("multiprocessing").get_start_method()),
    }
    if wrong:
        return failed(wrong, "this torch's DataLoader doesn't work here: train with num_workers=0", details=details)
    return passed(details=details)


def order_faults(ctx: Context) -> Iterator[Tuple[str, bool]]:
    """Yield the promises of loaders, samplers and data sets on their order, each with whether it holds."""
    torch, data = ctx.torch, ctx.torch.utils.data
    items = data.TensorDataset(torch.arange(10), 10 * torch.arange(10))

    class Counted(data.IterableDataset):  # type: ignore[misc]
        def __init__(self, length: int) -> None:
            self.length = length

        def __iter__(self) -> Iterator[int]:
            return iter(range(self.length))

    def seeded(number: int) -> Any:
        return torch.Generator().manual_seed(number)

    def firsts(source: Any = items, **options: Any) -> List[List[int]]:
        return [first.tolist() for first, *_ in data.DataLoader(source, **options)]

    def batches_of(source: Any, *words: Any, **options: Any) -> List[List[int]]:
        return [batch.tolist() for batch in data.DataLoader(source, *words, **options)]

    whole = list(range(10))
    yield "the last batch is a smaller one", firsts(batch_size=4) == [whole[:4], whole[4:8], whole[8:]]
    yield "drop_last leaves it out", firsts(batch_size=4, drop_last=True) == [whole[:4], whole[4:8]]
    yield "drop_last leaves a whole one in", firsts(batch_size=5, drop_last=True) == [whole[:5], whole[5:]]
    yield "tensors of an item belong together", items[7][0] == 7 and items[7][1] == 70
    first, again, other = (firsts(batch_size=10, shuffle=True, generator=seeded(seed))[0] for seed in (1, 1, 2))
    yield "shuffle gives each item once", sorted(first) == whole and first != whole
    yield "shuffle obeys its seed", first == again and first != other
    torch.manual_seed(1)
    loader = data.DataLoader(items, shuffle=True)
    epochs = [[int(first) for first, _ in loader] for _ in range(2)]
    yield "each epoch has another order", epochs[0] != epochs[1] and sorted(epochs[1]) == whole
    torch.manual_seed(1)
    yield "torch's seed gives the same order again", [int(first) for first, _ in loader] == epochs[0]
    few = list(data.RandomSampler(items, replacement=True, num_samples=200, generator=seeded(1)))
    yield "with replacement there are as many as were asked for", len(few) == 200 and len(set(few[:10])) < 10
    yield "num_samples is obeyed", len(set(data.RandomSampler(items, num_samples=4, generator=seeded(1)))) == 4
    part = list(data.SubsetRandomSampler([5, 1, 9, 3, 7, 2], generator=seeded(1)))
    yield "a subset is shuffled", sorted(part) == [1, 2, 3, 5, 7, 9] and part != [5, 1, 9, 3, 7, 2]
    heavy = list(data.WeightedRandomSampler([0.0, 1.0, 3.0], 4000, generator=seeded(1)))
    yield "weights are obeyed", len(heavy) == 4000 and heavy.count(0) == 0 and 2800 < heavy.count(2) < 3200
    left = list(data.WeightedRandomSampler([1.0, 1.0, 3.0, 0.0], 3, replacement=False, generator=seeded(1)))
    yield "weights are obeyed without replacement", sorted(left) == [0, 1, 2]
    yield "a sampler in order gives each item", list(data.SequentialSampler(items)) == whole
    part = data.Subset(items, [8, 2, 5])
    yield "a subset keeps its own order", [int(part[at][0]) for at in (0, 1, 2, -1)] == [8, 2, 5, 5]
    joined = data.ConcatDataset([data.Subset(items, [0, 1, 2]), data.Subset(items, [3, 4]), data.Subset(items, [5, 6])])
    yield "sets that are joined follow each other", [int(first) for first, _ in joined] == whole[:7]
    split = data.random_split(items, [7, 3], generator=seeded(1))
    yield "parts of a split share nothing", sorted(int(first) for part in split for first, _ in part) == whole
    again = data.random_split(items, [0.75, 0.25], generator=seeded(1))
    yield (
        "a split obeys its seed, and takes shares",
        [list(part.indices) for part in again]
        == [
            [*split[0].indices, split[1].indices[0]],
            list(split[1].indices[1:]),
        ],
    )
    if hasattr(data, "StackDataset"):  # from torch 2.1
        stacked = data.StackDataset(one=items, two=data.Subset(items, whole[::-1]))
        yield (
            "sets beside each other give an item of each",
            [int(stacked[2][name][0]) for name in ("one", "two")] == [2, 7],
        )
    rest, batches = Counted(10), [[3, 1], [4], [1, 5, 9]]
    yield "a stream's last batch is a smaller one", batches_of(rest, batch_size=4) == [whole[:4], whole[4:8], whole[8:]]
    yield "drop_last leaves a stream's out", batches_of(rest, batch_size=4, drop_last=True) == [whole[:4], whole[4:8]]
    yield "batches of one's own are taken", batches_of(whole, batch_sampler=batches) == batches
    yield "a sampler of one's own is taken", batches_of(whole, batch_size=2, sampler=[7, 3, 5]) == [[7, 3], [5]]
    yield "items are put together by one's own function", list(data.DataLoader(whole, 5, collate_fn=sum)) == [10, 35]
    yield "without a batch size items come one by one", list(data.DataLoader(whole, batch_size=None)) == whole
    counts = (
        len(data.DataLoader(items, 4)),
        len(data.DataLoader(items, 4, drop_last=True)),
        len(data.BatchSampler(whole, 3, False)),
    )
    yield "a loader's length is its number of batches", counts == (3, 2, 4)
    chained = data.ChainDataset([Counted(3), Counted(4)])
    yield "streams that are chained follow each other", list(chained) == [0, 1, 2, 0, 1, 2, 3]
    for drop, each in ((False, 3), (True, 2)):
        rows = [list(data.DistributedSampler(items, 4, rank, seed=5, drop_last=drop)) for rank in range(4)]
        every = [index for row in rows for index in row]
        once = set(every) == set(whole) if not drop else len(set(every)) == 8
        yield "ranks share the items, drop_last %s" % drop, once and {len(row) for row in rows} == {each}
        lengths = {len(data.DistributedSampler(items, 4, rank, drop_last=drop)) for rank in range(4)}
        yield "a rank's length is its number of items, drop_last %s" % drop, lengths == {each}
    sampler = data.DistributedSampler(items, 2, 0, seed=5)
    orders = {tuple(data.DistributedSampler(items, 2, 0, seed=7))}
    for epoch in (0, 1, 5):
        sampler.set_epoch(epoch)
        orders.add(tuple(sampler))
    yield "ranks have another order in each epoch, and by another seed", len(orders) == 4
    straight = list(data.DistributedSampler(items, 2, 1, shuffle=False))
    yield "ranks without shuffle take turns", straight == [1, 3, 5, 7, 9]
    torch.manual_seed(1)
    loader = data.DataLoader(Numbered(4, 3), num_workers=WORKERS, batch_size=None, worker_init_fn=from_five)
    drawn = [[sample.tolist() for sample in loader] for _ in range(2)]
    again = {sample[2] for sample in drawn[0]} & {sample[2] for sample in drawn[1]}
    yield "workers have other random numbers in each epoch", not again
    yield "workers begin by one's own function", {int(sample[1]) for sample in drawn[0]} == {5, 6}
    pair = data.default_collate([{"a": 1, "b": (2.0, "x")}, {"a": 3, "b": (4.0, "y")}])
    right = pair["a"].tolist() == [1, 3] and pair["b"][0].tolist() == [2.0, 4.0] and list(pair["b"][1]) == ["x", "y"]
    yield "batches of nested items are nested", right
    kinds = {number: data.default_collate([number, number]).dtype for number in (1.5, 2, True)}
    yield "numbers keep their digits", list(kinds.values()) == [torch.float64, torch.int64, torch.bool]
    try:
        nested = data.default_convert({"a": [torch.ones(2).numpy(), 4]})
    except RuntimeError:  # without NumPy
        return
    yield "arrays become tensors wherever they lie", isinstance(nested["a"][0], torch.Tensor)


@check("dataloader.order")
def dataloader_order(ctx: Context) -> Outcome:
    """Loaders, samplers and sets of data keep their promises: which items, in which order, by which seed."""
    promises = dict(order_faults(ctx))
    wrong = [name for name, holds in promises.items() if not holds]
    if wrong:
        remedy = "something patches torch.utils.data, or this torch is wrong: report it"
        return failed(f"this isn't so: {some(wrong)}", remedy, details={"promises": len(promises), "wrong": wrong})
    return passed(details={"promises": len(promises)})


@check("dataloader.shared_memory")
def dataloader_shared_memory(ctx: Context) -> Outcome:
    """/dev/shm is large enough for the batches that workers hold ahead."""
    torch, total = ctx.torch, shm_bytes()
    details = {"shm_bytes": total, "least_bytes": SHM_LEAST, "strategy": torch.multiprocessing.get_sharing_strategy()}
    if total is not None and total < SHM_LEAST:
        reason = "/dev/shm has %.1f MiB; %d workers need %d" % (total / MIB, WORKERS, SHM_LEAST // MIB)
        try:
            load_all(ctx, 8, 2 * MIB, batch_size=1)
        except Fault as fault:
            reason += f", and {fault}"
        return failed(reason, SHM_REMEDY, details=details)
    batches = load_all(ctx, 8, 2 * MIB, batch_size=1)
    details["passed_bytes"] = sum(batch.numel() * batch.element_size() for batch in batches)
    wrong = wrong_batches(torch, batches, 8)
    return failed(wrong, SHM_REMEDY, details=details) if wrong else passed(details=details)


@check("dataloader.pinned", needs="gpu")
def dataloader_pinned(ctx: Context) -> Outcome:
    """Pinned batches reach the GPU whole, while it works."""
    torch, length, sums = ctx.torch, 32, []
    batches = load_all(ctx, length, 1 << 16, pin_memory=True)
    if not all(batch.is_pinned() for batch in batches):
        return failed("batches aren't in pinned memory", "look at ulimit -l, and at the container's memlock limit")
    stream, current = torch.cuda.Stream(), torch.cuda.current_stream()
    for batch in batches:
        with torch.cuda.stream(stream):
            on_gpu = batch.to("cuda", non_blocking=True)
        current.wait_stream(stream)
        on_gpu.record_stream(current)  # else the next batch may take its memory while it's still summed
        sums.append(on_gpu[:, 3:].double().sum())
    right = [float(batch[:, 3:].double().sum()) for batch in batches]
    if [float(total) for total in sums] != right:
        return failed(
            "batches on the GPU aren't those of the workers", "run the device checks; look for Xid errors in dmesg"
        )
    return passed(details={"batches": len(batches)})
