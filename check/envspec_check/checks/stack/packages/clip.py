"""stack.clip and stack.open-clip-torch: a tiny CLIP of random weights tells the text of each image."""

from __future__ import annotations

import functools
from typing import Any, Callable

from envspec_check.checks.stack.beside_float64 import beside_float64
from envspec_check.checks.stack.locked import stack_check
from envspec_check.interface import Context, Outcome, passed
from envspec_check.workloads.multimodal import clip_logits, clip_of, contrast


def tells_texts(ctx: Context, package: Any, name: str) -> Outcome:
    """A model's contrastive loss over images and texts, and its gradients, are those in float64."""
    torch = ctx.torch
    torch.manual_seed(ctx.seed)
    model, images, words = clip_of(torch, name), torch.randn(4, 3, 32, 32), torch.randint(1, 64, (4, 16))

    def loss_of(one: Any, there: Callable[[Any], Any]) -> Any:
        return contrast(clip_logits(one(there(images), there(words))))

    return passed(details={"errors": beside_float64(ctx, name, model, loss_of)})


stack_check("clip", "clip.model")(functools.partial(tells_texts, name="clip"))
stack_check("open-clip-torch", module="open_clip")(functools.partial(tells_texts, name="open_clip"))
