"""stack.clip and stack.open-clip-torch: a tiny CLIP of random weights tells the text of each image."""

from __future__ import annotations

import importlib
from typing import Any, Callable

from envspec_check.checks.stack.beside_float64 import beside_float64
from envspec_check.checks.stack.locked import stack_check
from envspec_check.interface import Context, Outcome, passed


def tells_texts(ctx: Context, name: str, model: Any, logits: Callable[[Any], Any]) -> Outcome:
    """A model's contrastive loss over images and texts, both ways, and its gradients are those in float64. `logits`
    takes what the model gives, to rows of images and columns of texts."""
    torch = ctx.torch
    images, words, own = torch.randn(4, 3, 32, 32), torch.randint(1, 64, (4, 16)), torch.arange(4)

    def loss_of(one: Any, there: Callable[[Any], Any]) -> Any:
        close, right = logits(one(there(images), there(words))), there(own)
        loss = torch.nn.functional.cross_entropy
        return (loss(close, right) + loss(close.t(), right)) / 2

    return passed(details={"errors": beside_float64(ctx, name, model, loss_of)})


@stack_check("clip", "clip.model")
def stack_clip(ctx: Context, clip: Any) -> Outcome:
    """OpenAI's own, which has no release but its repository's."""
    parts = importlib.import_module("clip.model")
    # Its own normalises in float32 whatever the weights are, those of the reference too.
    parts.LayerNorm.forward = ctx.torch.nn.LayerNorm.forward
    ctx.torch.manual_seed(ctx.seed)
    image = {"image_resolution": 32, "vision_layers": 2, "vision_width": 64, "vision_patch_size": 8}
    text = {"context_length": 16, "vocab_size": 64, "transformer_width": 64, "transformer_heads": 2}
    model = parts.CLIP(embed_dim=32, transformer_layers=2, **image, **text)
    return tells_texts(ctx, "clip", model, lambda found: found[0])


@stack_check("open-clip-torch", module="open_clip")
def stack_open_clip(ctx: Context, open_clip: Any) -> Outcome:
    """OpenCLIP's."""
    ctx.torch.manual_seed(ctx.seed)
    image = {"image_size": 32, "patch_size": 8, "width": 64, "layers": 2, "head_width": 32}
    text = {"context_length": 16, "vocab_size": 64, "width": 64, "heads": 2, "layers": 2}
    model = open_clip.CLIP(embed_dim=32, vision_cfg=image, text_cfg=text)
    return tells_texts(ctx, "open_clip", model, lambda found: found[2] * found[0] @ found[1].t())
