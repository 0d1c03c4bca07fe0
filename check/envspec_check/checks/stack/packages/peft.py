"""stack.peft: an adapter trains, and can be merged."""

from __future__ import annotations

from typing import Any, Callable

from envspec_check.checks.stack.beside_float64 import REMEDY, beside_float64
from envspec_check.checks.stack.locked import stack_check
from envspec_check.interface import Context, Outcome, failed, passed


@stack_check("peft")
def stack_peft(ctx: Context, peft: Any) -> Outcome:
    """LoRA trains its own weights alone, as in float64, and what is merged gives what the adapter gave."""
    torch = ctx.torch
    torch.manual_seed(ctx.seed)
    plain = torch.nn.Sequential(torch.nn.Linear(24, 32), torch.nn.GELU(), torch.nn.Linear(32, 8))
    settings = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["0", "2"], init_lora_weights=False)
    model = peft.get_peft_model(plain, settings)
    rows, labels = torch.randn(16, 24), torch.randint(8, (16,))

    def loss_of(network: Any, put: Callable[[Any], Any]) -> Any:
        return torch.nn.functional.cross_entropy(network(put(rows)), put(labels))

    errors = beside_float64(ctx, "peft", model, loss_of)
    unexpected = [name for name, weights in model.named_parameters() if (weights.grad is not None) != ("lora_" in name)]
    if unexpected:
        return failed(f"LoRA trains what it shouldn't, or not what it should: {unexpected[0]}", REMEDY)
    model.eval()
    with torch.no_grad():
        by_adapter = model(rows.to(ctx.torch_device))
        merged = model.merge_and_unload()(rows.to(ctx.torch_device))
    if not torch.allclose(by_adapter, merged, rtol=1e-3, atol=1e-5):
        return failed("a merged adapter gives other numbers than it gave before", REMEDY)
    return passed(details={"peft": peft.__version__, "errors": errors})
