"""operators: what a GPU or CPU computes, beside float64 on the CPU."""

from __future__ import annotations

import contextlib
import functools
import math
from typing import Any, Callable, Iterator

from envspec_check.interface import Context, Outcome, Skip, check, failed, passed
from envspec_check.lock import numbers
from envspec_check.trainer import exact_fp32, lacks

TOLERANCES = {"fp32": 2e-5, "bf16": 2e-2, "fp16": 4e-3}
"""How far a result may be from that of float64 on the same inputs: the largest difference as a share of the largest
value. Some tens of roundings in fp32, a few in the short types (2^-8 and 2^-11 a rounding) which sum in fp32."""

SHARES = {"fp32": 1e-5, "bf16": 8e-3, "fp16": 2e-3}
"""By which share a result may be too large or too small as a whole: ten times what healthy CPUs show."""

BF16_SUMS = 8e-2
"""The same for bf16 on CPUs in torch 2.0, which sums in bf16 too where the CPU has no instructions for it."""


def dtype_of(torch: Any, name: str) -> Any:
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]


def matmul_case(torch: Any, make: Callable[..., Any], quick: bool) -> tuple[Callable[..., Any], list[Any]]:
    size = 192 if quick else 384
    return (lambda a, b: a @ b), [make(size, size // 2), make(size // 2, size)]


def convolution_case(torch: Any, make: Callable[..., Any], quick: bool) -> tuple[Callable[..., Any], list[Any]]:
    function = functools.partial(torch.nn.functional.conv2d, stride=2, padding=1)
    return function, [make(4, 8, 33, 29 if quick else 61), make(16, 8, 3, 3), make(16)]


def layer_case(torch: Any, make: Callable[..., Any], quick: bool, layer: str) -> tuple[Callable[..., Any], list[Any]]:
    wide = 96 if quick else 192
    options = {"softmax": {"dim": -1}, "layer_norm": {"normalized_shape": (wide,)}}.get(layer, {})
    return functools.partial(getattr(torch.nn.functional, layer), **options), [make(64, wide)]


OPERATORS = {
    "matmul": matmul_case,
    "convolution": convolution_case,
    **{name: functools.partial(layer_case, layer=name) for name in ("softmax", "layer_norm", "gelu")},
}


def farthest(torch: Any, result: Any, exact: Any, least: float = 0.0) -> float:
    """Return the largest difference as a share of the largest value, or of `least` where that is more; infinite where a
    value is no number."""
    result = result.detach().to("cpu", torch.float64)
    if result.shape != exact.shape or not bool(torch.isfinite(result).all()):
        return math.inf
    return float((result - exact).abs().max() / exact.abs().max().clamp(min=least))


def share_off(torch: Any, result: Any, exact: Any) -> float:
    """Give the share by which a whole result is too large or small: roundings go both ways, a wrong factor doesn't."""
    result, exact = result.detach().to("cpu", torch.float64), exact.detach()
    return abs(float((result * exact).sum() / exact.square().sum()) - 1.0)


@contextlib.contextmanager
def where_it_is(ctx: Context, name: str, precision: str) -> Iterator[None]:
    """Skip operators that an older torch doesn't have in a precision on CPUs."""
    try:
        yield
    except RuntimeError as error:
        if ctx.device == "cpu" and "not implemented for" in str(error):
            raise Skip(f"torch {ctx.torch.__version__} has no {name} in {precision} on CPUs") from None
        raise


def operator(ctx: Context, name: str, precision: str) -> Outcome:
    """An operator's result and gradients, against float64 on the CPU."""
    torch, dtype = ctx.torch, dtype_of(ctx.torch, precision)
    exact_fp32(torch)
    lacking = lacks("cuda", precision) if ctx.device == "cuda" else None
    if lacking:
        raise Skip(lacking)
    made = torch.Generator().manual_seed(ctx.seed)
    function, inputs = OPERATORS[name](
        torch, lambda *shape: torch.randn(*shape, generator=made, dtype=torch.float64), ctx.quick
    )
    short = [tensor.to(ctx.device, dtype).requires_grad_() for tensor in inputs]
    # The reference starts from the rounded inputs: what is measured is the operator, not the rounding of its inputs.
    exact = [tensor.detach().to("cpu", torch.float64).requires_grad_() for tensor in short]
    with where_it_is(ctx, name, precision):
        result = function(*short)
        weights = torch.randn(result.shape, generator=made, dtype=torch.float64).to(dtype)
        result.backward(weights.to(ctx.device))
    reference = function(*exact)
    reference.backward(weights.to(torch.float64))
    errors = {"result": farthest(torch, result, reference.detach())}
    shares = {"result": share_off(torch, result, reference)}
    for index, (measured, right) in enumerate(zip(short, exact)):
        errors["gradient %d" % index] = farthest(torch, measured.grad, right.grad)
        shares["gradient %d" % index] = share_off(torch, measured.grad, right.grad)
    limit = TOLERANCES[precision]
    if precision == "bf16" and ctx.device == "cpu" and numbers(str(torch.__version__)) < (2, 1):
        limit = BF16_SUMS
    # A gradient is a longer chain of roundings than a result.
    wrong = [key for key, value in errors.items() if not value <= limit * (1 if key == "result" else 2)]
    details = {"errors": errors, "tolerance": limit, "shares": shares}
    remedy = "this build computes wrongly on this machine: try another torch version, and report it"
    if wrong:
        worst = max(wrong, key=lambda key: errors[key])
        reason = "%s of %s in %s is off by %.2g of its largest value; %.2g is allowed"
        return failed(reason % (worst, name, precision, errors[worst], limit), remedy, details=details)
    worst, allowed = max(shares, key=lambda key: shares[key]), SHARES[precision] * limit / TOLERANCES[precision]
    if not shares[worst] <= allowed:
        reason = "%s of %s in %s is too large or too small as a whole, by %.2g; %.2g is allowed"
        return failed(reason % (worst, name, precision, shares[worst], allowed), remedy, details=details)
    return passed(details=details)


for _name in OPERATORS:
    for _precision in TOLERANCES:
        check(f"operators.{_name}.{_precision}")(functools.partial(operator, name=_name, precision=_precision))
