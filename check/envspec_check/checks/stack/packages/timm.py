"""stack.timm: a tiny vision transformer trains."""

from __future__ import annotations

from typing import Any, Callable

from envspec_check.checks.stack.beside_float64 import beside_float64
from envspec_check.checks.stack.locked import stack_check
from envspec_check.interface import Context, Outcome, passed


@stack_check("timm", "timm.models.vision_transformer")
def stack_timm(ctx: Context, timm: Any) -> Outcome:
    """A vision transformer of two blocks trains as in float64."""
    torch = ctx.torch
    torch.manual_seed(ctx.seed)
    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 3, "num_classes": 10}
    model = timm.models.vision_transformer.VisionTransformer(**sizes)
    images, labels = torch.randn(4, 3, 32, 32), torch.randint(10, (4,))

    def loss_of(network: Any, put: Callable[[Any], Any]) -> Any:
        return torch.nn.functional.cross_entropy(network(put(images)), put(labels))

    errors = beside_float64(ctx, "timm", model, loss_of)
    return passed(details={"timm": timm.__version__, "errors": errors})
