"""figures: throughput, copies and how busy the GPU is."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from typing import Any, Callable

from envspec_check.checks.operators import dtype_of
from envspec_check.interface import MIB, Context, Outcome, check, passed
from envspec_check.machine import from_ampere, pci_address
from envspec_check.nvml import nvml
from envspec_check.trainer import lacks


class Sampler:
    """GPU utilisation while a block runs, sampled through NVML in a thread of its own."""

    def __init__(self, ctx: Context) -> None:
        self.samples: list[int] = []
        self.library = nvml() if ctx.device == "cuda" else None
        self.device = self.library.device_at(pci_address(ctx.torch)) if self.library else None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._sample, daemon=True)

    def _sample(self) -> None:
        while self.library and self.device and not self.ended.wait(0.02):
            utilisation = self.library.utilisation(self.device)
            if utilisation is not None:
                self.samples.append(utilisation)

    def __enter__(self) -> Sampler:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()

    @property
    def mean(self) -> float | None:
        return sum(self.samples) / len(self.samples) if self.samples else None


def median_seconds(ctx: Context, work: Callable[[], Any], seconds: float) -> float:
    """Return the median seconds of a piece of work, repeated for some time after a warm-up."""
    taken: list[float] = []
    work()
    ctx.synchronize()
    end = time.perf_counter() + seconds
    while len(taken) < 3 or (time.perf_counter() < end and len(taken) < 200):
        began = time.perf_counter()
        work()
        ctx.synchronize()
        taken.append(time.perf_counter() - began)
    return sorted(taken)[len(taken) // 2]


@check("figures.matmul")
def figures_matmul(ctx: Context) -> Outcome:
    """Speed of matrix products, by type."""
    torch, figures, without = ctx.torch, [], []
    cuda = ctx.device == "cuda"
    size = (4096 if ctx.quick else 8192) if cuda else (256 if ctx.quick else 512)
    for precision in ("fp32", "tf32", "bf16", "fp16"):
        if precision == "tf32" and not from_ampere(torch, ctx.device):
            continue  # older cards would multiply in fp32 and say nothing
        if cuda and precision != "tf32" and lacks("cuda", precision):
            without.append(precision)
            continue
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        dtype = dtype_of(torch, "fp32" if precision == "tf32" else precision)
        try:
            matrix = torch.randn(size, size, device=ctx.device).to(dtype)
            seconds = median_seconds(ctx, functools.partial(torch.mm, matrix, matrix), 0.3 if ctx.quick else 1.0)
        except RuntimeError as error:
            if "not implemented for" not in str(error):
                raise
            without.append(precision)
            continue
        figures.append((f"figures.matmul_tflop_s.{precision}", 2 * size**3 / seconds / 1e12, "TFLOP/s"))
    return passed(details={"size": size, "without": without}, figures=figures)


@check("figures.copy")
def figures_copy(ctx: Context) -> Outcome:
    """Speed of copies in memory; on a GPU also from and to the host."""
    torch, cuda, figures = ctx.torch, ctx.device == "cuda", []
    size = (256 if ctx.quick else 1024) * MIB if cuda else 128 * MIB
    source = torch.ones(size // 4, device=ctx.device)
    target = torch.empty_like(source)
    # A copy reads and writes.
    rate = 2 * size / median_seconds(ctx, lambda: target.copy_(source), 0.5) / 1e9
    figures.append(("figures.copy_gb_s", rate, "GB/s"))
    details: dict[str, Any] = {"bytes": size}
    if cuda:
        host = torch.ones(64 * MIB // 4).pin_memory()
        on_gpu = torch.empty_like(host, device="cuda")
        for name, work in (("h2d", lambda: on_gpu.copy_(host)), ("d2h", lambda: host.copy_(on_gpu))):
            figures.append((f"figures.{name}_gb_s", 64 * MIB / median_seconds(ctx, work, 0.3) / 1e9, "GB/s"))
    return passed(details=details, figures=figures)


@check("figures.steps")
def figures_steps(ctx: Context) -> Outcome:
    """Step times of a small transformer that doesn't wait for data, its peak memory, and how busy it keeps the GPU."""
    torch, cuda = ctx.torch, ctx.device == "cuda"
    torch.manual_seed(ctx.seed)
    width, batch, length = (1024, 16, 512) if cuda else (128, 4, 64)
    layer = torch.nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 4 if cuda else 2, enable_nested_tensor=False).to(ctx.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    inputs = torch.randn(batch, length, width, device=ctx.device)
    precision = ("bf16" if from_ampere(torch, ctx.device) else "fp16") if cuda else "fp32"
    taken: list[float] = []

    def step() -> None:
        began = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(ctx.device, dtype_of(torch, precision)) if cuda else contextlib.nullcontext():
            loss = (model(inputs) - inputs).float().square().mean()
        loss.backward()
        optimizer.step()
        ctx.synchronize()
        taken.append(time.perf_counter() - began)

    for _ in range(3):
        step()
    taken.clear()
    with Sampler(ctx) as sampler:
        end = time.perf_counter() + (1.0 if ctx.quick else 4.0)
        while len(taken) < 10 or (time.perf_counter() < end and len(taken) < 500):
            step()
    taken.sort()
    figures = [
        ("figures.step_ms.p%d" % share, 1000 * taken[min(len(taken) - 1, len(taken) * share // 100)], "ms")
        for share in (50, 90, 99)
    ]
    if cuda:
        figures.append(("figures.peak_memory_gib", torch.cuda.max_memory_allocated() / 2**30, "GiB"))
    if sampler.mean is not None:
        figures.append(("figures.gpu_utilisation", sampler.mean, "%"))
    details = {"steps": len(taken), "samples": len(sampler.samples), "precision": precision}
    return passed(details=details, figures=figures)
