"""operators.fp32_modes and operators.gemm: what float32's products may be rounded to, and large products."""

from __future__ import annotations

import os
from typing import Any

from envspec_check.checks.operators import TOLERANCES, dtype_of, farthest
from envspec_check.interface import Context, Outcome, check, failed, passed
from envspec_check.machine import from_ampere
from envspec_check.trainer import exact_fp32, exactly, lacks

KINDS = {"float32": 2e-5, "TF32": 9e-4, "bfloat16": 2e-2}
"""What products may be computed in, by the most that they may be off as a share of the largest value. For 512 sums of
normal numbers it is 1e-6, 3e-4 (10 bits) and 2e-3 (7 bits)."""

REPORT = "this build computes wrongly on this machine: try another torch version, and report it"

STRIDE = 127
"""Every so many rows of a product are compared: a kernel's tile has at least 128, so some of each tile are."""


@check("operators.fp32_modes")
def operators_fp32_modes(ctx: Context) -> Outcome:
    """float32's products are float32's unless less is allowed, and on GPUs from Ampere on TF32's where that is."""
    torch, drawn, modes = ctx.torch, ctx.torch.Generator().manual_seed(ctx.seed), []
    first, second = (torch.randn(512, 512, generator=drawn) for _ in range(2))
    right, first, second = exactly(first) @ exactly(second), first.to(ctx.device), second.to(ctx.device)
    details = {"modes": modes, "NVIDIA_TF32_OVERRIDE": os.environ.get("NVIDIA_TF32_OVERRIDE")}
    for mode in ("highest", "high", "medium", "highest"):
        torch.set_float32_matmul_precision(mode)
        error = farthest(torch, first @ second, right)
        kind = next((name for name, limit in KINDS.items() if error <= limit), None)
        modes.append((mode, kind, error))
        reason = f"with float32's precision {mode!r} products are off by {error:.2g} of the largest value"
        if kind is None:
            return failed(reason, REPORT, details=details)
        if kind != "float32" and mode == "highest":
            remedy = "unset NVIDIA_TF32_OVERRIDE, and look for what sets this precision"
            return failed(f"{reason}, as {kind}'s are", remedy, details=details)
        if kind != "TF32" and mode == "high" and from_ampere(torch, ctx.device):
            remedy = "unset NVIDIA_TF32_OVERRIDE: training that allows TF32 gets none of its speed"
            return failed(f"{reason}, as {kind}'s are and not TF32's", remedy, details=details)
    return passed(details=details)


def largest(ctx: Context) -> int:
    """Return the rows of the products: 8192 as on a Hopper, fewer where memory or time is short."""
    if ctx.device != "cuda":
        return 640 if ctx.quick else 1100
    fits = ctx.torch.cuda.mem_get_info()[0] // 4 // (3 * 4)  # of three matrices in float32
    return next((size for size in (8192, 4096, 2048) if size**2 <= fits and not (ctx.quick and size > 4096)), 1024)


def off_by(torch: Any, first: Any, second: Any, product: Any) -> float:
    """Return the distance of some rows of a product from float64's, a few columns at a time."""
    rows, product, at = exactly(first[::STRIDE]), product[::STRIDE], range(0, second.shape[1], 2048)
    return max(farthest(torch, product[:, i : i + 2048], rows @ exactly(second[:, i : i + 2048])) for i in at)


@check("operators.gemm")
def operators_gemm(ctx: Context) -> Outcome:
    """Products of large matrices are float64's, in each type: kernels differ by the size."""
    torch, size, errors = ctx.torch, largest(ctx), {}
    exact_fp32(torch)
    torch.manual_seed(ctx.seed)
    for precision, limit in TOLERANCES.items():
        # CPUs emulate fp16, at a thousandth of the speed
        if precision == "fp16" if ctx.device == "cpu" else lacks("cuda", precision):
            continue
        first, second = (torch.randn(size, size, device=ctx.device).to(dtype_of(torch, precision)) for _ in range(2))
        errors[precision] = error = off_by(torch, first, second, first @ second)
        if not error <= limit:
            reason = "a product of %d rows and columns in %s is off by %.2g of its largest value; %.2g is allowed"
            return failed(reason % (size, precision, error, limit), REPORT, details={"size": size, "errors": errors})
    return passed(details={"size": size, "errors": errors})
