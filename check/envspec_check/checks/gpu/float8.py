"""operators.fp8 and figures.fp8: products of 8-bit floats, on the cards that have them."""

from __future__ import annotations

from typing import Any

from envspec_check.checks.figures import median_seconds
from envspec_check.checks.operators import TOLERANCES, farthest
from envspec_check.interface import Context, Outcome, Skip, check, failed, passed
from envspec_check.trainer import exactly


def product(torch: Any, first: Any, second: Any) -> Any:
    """Return the product in bf16 of two float8 matrices, times 1.5. torch 2.1 to 2.4 gave the largest value with it."""
    scales = {"scale_a": torch.tensor(0.5, device=first.device), "scale_b": torch.tensor(3.0, device=first.device)}
    result = torch._scaled_mm(first, second, out_dtype=torch.bfloat16, **scales)
    return result[0] if isinstance(result, tuple) else result


def matrix(ctx: Context, rows: int, columns: int) -> Any:
    """Raises Skip where torch or the GPU has no FP8."""
    torch = ctx.torch
    if not hasattr(torch, "_scaled_mm") or not hasattr(torch, "float8_e4m3fn"):
        raise Skip(f"torch {torch.__version__} has no products in FP8")
    own = tuple(torch.cuda.get_device_capability()) if ctx.device == "cuda" else (8, 9)
    if own < (8, 9):
        raise Skip("the GPU has no FP8: its compute capability is %d.%d, and 8.9 is the first with it" % own)
    drawn = torch.Generator().manual_seed(ctx.seed + rows)
    return torch.randn(rows, columns, generator=drawn).to(torch.float8_e4m3fn).to(ctx.device)


@check("operators.fp8", needs="gpu")
def operators_fp8(ctx: Context) -> Outcome:
    """Products of 8-bit floats are float64's of the same numbers."""
    first, second = matrix(ctx, 256, 512), matrix(ctx, 384, 512).t()
    error = farthest(ctx.torch, product(ctx.torch, first, second), exactly(first) @ exactly(second) * 1.5)
    details = {"error": error, "tolerance": TOLERANCES["bf16"]}
    if not error <= TOLERANCES["bf16"]:
        reason = "a product in FP8 is off by %.2g of its largest value; %.2g is allowed" % (error, TOLERANCES["bf16"])
        return failed(reason, "train without FP8 until this torch is replaced", details=details)
    return passed(details=details)


@check("figures.fp8", needs="gpu")
def figures_fp8(ctx: Context) -> Outcome:
    """Speed of products of matrices of 8-bit floats."""
    size = 4096 if ctx.quick else 8192
    factor = matrix(ctx, size, size)
    seconds = median_seconds(ctx, lambda: product(ctx.torch, factor, factor.t()), 0.3 if ctx.quick else 1.0)
    return passed(figures=[("figures.matmul_tflop_s.fp8", 2 * size**3 / seconds / 1e12, "TFLOP/s")])
