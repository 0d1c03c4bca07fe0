"""operators.sdpa: each backend of torch's attention by its name, beside float64 on the CPU."""

from __future__ import annotations

import functools
import importlib
from typing import Any, List

from envspec_check.checks.operators import TOLERANCES, dtype_of, farthest
from envspec_check.interface import Context, Outcome, Skip, check, failed, passed
from envspec_check.machine import from_ampere
from envspec_check.trainer import exact_fp32, exactly

BACKENDS = {
    "math": "MATH",
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
}

SHAPES = ((2, 2, 96, 32), (1, 2, 264, 64), (1, 2, 288, 128))
"""Batch, heads, length, width of a head: fused kernels differ by the last two."""


def operator_names(torch: Any) -> Any:
    """Return a mode that keeps the names of the operators that are dispatched while it is on."""
    mode: Any = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode

    class Named(mode):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.names: List[str] = []

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.names.append(str(function))
            return function(*args, **(kwargs or {}))

    return Named()


def attention_by(ctx: Context, backend: str) -> Outcome:
    """A backend's results and gradients are float64's, causal and not; it is that backend which computes them."""
    torch = ctx.torch
    exact_fp32(torch)
    chosen = importlib.import_module("torch.nn.attention") if hasattr(torch.nn, "attention") else None
    kind = getattr(getattr(chosen, "SDPBackend", None), BACKENDS[backend], None)
    if chosen is None or kind is None or not hasattr(chosen, "sdpa_kernel"):
        raise Skip(f"torch {torch.__version__} can't be asked for its {backend} attention")
    cuda = ctx.device == "cuda"
    if not cuda and backend in ("efficient", "cudnn"):
        raise Skip(f"CPUs have no {backend} attention")
    # The fused kernels of flash and cuDNN know short types alone.
    short = "bf16" if cuda and from_ampere(torch, "cuda") else "fp16"
    precision = short if cuda and backend != "math" else "fp32"
    drawn, worst = torch.Generator().manual_seed(ctx.seed), 0.0
    for shape in SHAPES:
        for causal in (False, True):
            given = [torch.randn(*shape, generator=drawn).to(ctx.device, dtype_of(torch, precision)) for _ in range(3)]
            own = [tensor.requires_grad_() for tensor in given]
            right = [exactly(tensor).requires_grad_() for tensor in own]
            attend = functools.partial(torch.nn.functional.scaled_dot_product_attention, is_causal=causal)
            ran = operator_names(torch)
            try:
                with chosen.sdpa_kernel([kind]), ran:
                    result = attend(*own)
                    result.sum().backward()
            except RuntimeError as error:
                if "No available kernel" in str(error) or "No viable backend" in str(error):
                    raise Skip(f"this torch has no {backend} attention for this device") from None
                raise
            fused = [name for name in ran.names if "_scaled_dot_product_" in name and "backward" not in name]
            if any(backend not in name for name in fused) or (backend != "math" and not fused):
                by = ", ".join(sorted(set(fused))) or "none that is fused"
                reason = f"attention was asked of {backend}, and {by} computed it"
                return failed(reason, "look for what patches torch.nn.attention")
            exact = attend(*right)
            exact.sum().backward()
            pairs = [(result, exact), *((tensor.grad, other.grad) for tensor, other in zip(own, right))]
            worst = max(worst, *(farthest(torch, value, other.detach()) for value, other in pairs))
    limit = 2 * TOLERANCES[precision]
    details = {"precision": precision, "error": worst, "tolerance": limit, "shapes": [list(shape) for shape in SHAPES]}
    if not worst <= limit:
        reason = (
            f"{backend} attention in {precision} is off by {worst:.2g} of its largest value; {limit:.2g} is allowed"
        )
        remedy = f"leave it out (torch.nn.attention.sdpa_kernel, without {BACKENDS[backend]}) and report it"
        return failed(reason, remedy, details=details)
    return passed(details=details)


for _backend in BACKENDS:
    check(f"operators.sdpa.{_backend}")(functools.partial(attention_by, backend=_backend))
