"""dataloader: workers, shared memory, pinned memory."""

from __future__ import annotations

import importlib
import re
import traceback
from typing import Any, Sequence

from envspec_check.interface import MIB, Context, Fault, Outcome, check, failed, passed
from envspec_check.machine import SHM_REMEDY, shm_bytes
from envspec_check.process import unheard

WORKERS = 2

SHM_LEAST = 64 * MIB
"""What two workers need in /dev/shm: each holds two batches ahead, and batches of images are several MiB."""

LOST = 5.0
"""Seconds in which a worker that was killed ends; one that waits in the kernel doesn't."""


class Numbered:
    """A data set of tensors that say which they are: (index, worker, first value a seed gave)."""

    def __init__(self, length: int, size: int) -> None:
        self.length, self.size = length, size

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < self.length:
            raise IndexError(index)
        torch = importlib.import_module("torch")
        worker = torch.utils.data.get_worker_info()
        item = torch.full((self.size,), float(index))
        item[1] = -1.0 if worker is None else float(worker.id)
        item[2] = torch.rand(())
        return item


def load_all(ctx: Context, length: int, size: int, **options: Any) -> list[Any]:
    """All batches of a loader with workers. Raises Fault where a worker hangs, dies or has no shared memory."""
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
    """What is wrong with the batches of a Numbered of some length, in order."""
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
    """Workers give every item once, in order, each with random numbers of its own, and the same at every start."""
    torch, length = ctx.torch, 32
    batches = load_all(ctx, length, 64)
    wrong = wrong_batches(torch, batches, length)
    again = torch.cat(load_all(ctx, length, 64, persistent_workers=True))
    if wrong is None and not torch.equal(torch.cat(batches), again):
        wrong = "the same seed gave other items"
    details = {"workers": WORKERS, "items": length, "start": start_method()}
    if wrong:
        return failed(wrong, "this torch's DataLoader doesn't work here: train with num_workers=0", details=details)
    return passed(details=details)


def start_method() -> str:
    return str(importlib.import_module("multiprocessing").get_start_method())


@check("dataloader.shared_memory")
def dataloader_shared_memory(ctx: Context) -> Outcome:
    """/dev/shm is large enough for the batches that workers hold ahead."""
    torch, total = ctx.torch, shm_bytes()
    details = {"shm_bytes": total, "least_bytes": SHM_LEAST, "strategy": torch.multiprocessing.get_sharing_strategy()}
    if total is not None and total < SHM_LEAST:
        told = "/dev/shm has %.1f MiB; %d workers need %d" % (total / MIB, WORKERS, SHM_LEAST // MIB)
        try:
            load_all(ctx, 8, 2 * MIB, batch_size=1)
        except Fault as fault:
            told += f", and {fault}"
        return failed(told, SHM_REMEDY, details=details)
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
            there = batch.to("cuda", non_blocking=True)
        current.wait_stream(stream)
        there.record_stream(current)  # else the next batch may take its memory while it's still summed
        sums.append(there[:, 3:].double().sum())
    right = [float(batch[:, 3:].double().sum()) for batch in batches]
    if [float(one) for one in sums] != right:
        return failed(
            "batches on the GPU aren't those of the workers", "run the device checks; look for Xid errors in dmesg"
        )
    return passed(details={"batches": len(batches)})
