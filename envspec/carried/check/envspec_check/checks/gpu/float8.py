"""operators.fp8 and figures.fp8: products of 8-bit floats, on the cards that have them."""

from __future__ import annotations

from typing import Any

from envspec_check.checks.figures import repeated
from envspec_check.checks.operators import TOLERANCES, farthest
from envspec_check.interface import Context, Outcome, Skip, check, failed, passed
from envspec_check.trainer import exactly

FIRST = (8, 9)
"""The first capability with tensor cores for FP8: Ada's."""

SIZES = (256, 512, 384)


def fp8_product(torch: Any, one: Any, other: Any, scales: Any) -> Any:
    """The product in bf16 of two float8 matrices, the second by columns, each times a scale. torch 2.1 to 2.4 gave the
    largest value with it."""
    first, second = (scale.to(one.device) for scale in scales)
    found = torch._scaled_mm(one, other, scale_a=first, scale_b=second, out_dtype=torch.bfloat16)
    return found[0] if isinstance(found, tuple) else found


def refuse_torch(torch: Any) -> None:
    if not hasattr(torch, "_scaled_mm") or not hasattr(torch, "float8_e4m3fn"):
        raise Skip(f"torch {torch.__version__} has no products in FP8")


def compared_fp8(ctx: Context) -> Outcome:
    """Beside float64's product of the same rounded numbers."""
    torch, (rows, shared, columns) = ctx.torch, SIZES
    refuse_torch(torch)
    drawn = torch.Generator().manual_seed(ctx.seed)
    one = torch.randn(rows, shared, generator=drawn).to(torch.float8_e4m3fn)
    other = torch.randn(columns, shared, generator=drawn).to(torch.float8_e4m3fn).t()
    scales = torch.tensor(0.5), torch.tensor(3.0)
    result = fp8_product(torch, one.to(ctx.device), other.to(ctx.device), scales)
    error = farthest(torch, result, (exactly(one) @ exactly(other)) * 1.5)
    limit = TOLERANCES["bf16"]
    details = {"error": error, "tolerance": limit}
    if not error <= limit:
        reason = f"a product in FP8 is off by {error:.2g} of its largest value; {limit:.2g} is allowed"
        return failed(reason, "train without FP8 until this torch is replaced", details=details)
    return passed(details=details)


def refuse_older(ctx: Context) -> None:
    own = tuple(ctx.torch.cuda.get_device_capability())
    if own < FIRST:
        raise Skip("the GPU has no FP8: its compute capability is %d.%d, and 8.9 is the first with it" % own)


@check("operators.fp8", needs="gpu")
def operators_fp8(ctx: Context) -> Outcome:
    """Products of 8-bit floats are float64's of the same numbers."""
    refuse_older(ctx)
    return compared_fp8(ctx)


@check("figures.fp8", needs="gpu")
def figures_fp8(ctx: Context) -> Outcome:
    """How fast matrices of 8-bit floats multiply."""
    refuse_older(ctx)
    torch, size = ctx.torch, 4096 if ctx.quick else 8192
    refuse_torch(torch)
    one = torch.randn(size, size, device="cuda").to(torch.float8_e4m3fn)
    scales = torch.ones((), device="cuda"), torch.ones((), device="cuda")
    seconds = repeated(ctx, lambda: fp8_product(torch, one, one.t(), scales), 0.3 if ctx.quick else 1.0)
    figures = [("figures.matmul_tflop_s.fp8", 2 * size**3 / seconds / 1e12, "TFLOP/s")]
    return passed(details={"size": size}, figures=figures)
