"""stack.clip and stack.open-clip-torch: a tiny CLIP of random weights tells the text of each image."""

from __future__ import annotations

import functools
from typing import Any, Callable

from envspec_check.checks.stack.beside_float64 import beside_float64
from envspec_check.checks.stack.locked import stack_check
from envspec_check.interface import Context, Outcome, passed
from envspec_check.workloads.multimodal import clip_logits, clip_of, contrast


def by_hand(torch: Any, model: Any, images: Any, words: Any, heads: int, quick: bool) -> Any:
    """Return the logits of a model's weights as CLIP's paper has them (Radford and others, 2021), without the package's
    code. An image's attention has `heads`; `quick` is OpenAI's own GELU."""
    own, parts = dict(model.named_parameters()), torch.nn.functional

    def linear(name: str, x: Any) -> Any:
        return parts.linear(x, own[name + ".weight"], own[name + ".bias"])

    def normalise(name: str, x: Any) -> Any:
        return parts.layer_norm(x, x.shape[-1:], own[name + ".weight"], own[name + ".bias"])

    def blocks(name: str, x: Any, heads: int, causal: bool) -> Any:
        for at in range(2):
            here = f"{name}transformer.resblocks.{at}."
            three = own[here + "attn.in_proj_weight"], own[here + "attn.in_proj_bias"]
            three = (
                parts.linear(normalise(here + "ln_1", x), *three).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
            )
            seen = parts.scaled_dot_product_attention(*three, is_causal=causal).transpose(1, 2).flatten(2)
            x = x + linear(here + "attn.out_proj", seen)
            rows = linear(here + "mlp.c_fc", normalise(here + "ln_2", x))
            x = x + linear(here + "mlp.c_proj", rows * torch.sigmoid(1.702 * rows) if quick else parts.gelu(rows))
        return x

    patches = parts.conv2d(images, own["visual.conv1.weight"], stride=8).flatten(2).transpose(1, 2)
    rows = torch.cat([own["visual.class_embedding"].expand(len(images), 1, -1), patches], 1)
    rows = normalise("visual.ln_pre", rows + own["visual.positional_embedding"])
    image = normalise("visual.ln_post", blocks("visual.", rows, heads, False)[:, 0]) @ own["visual.proj"]
    rows = blocks("", own["token_embedding.weight"][words] + own["positional_embedding"], 2, True)
    text = normalise("ln_final", rows)[torch.arange(len(words)), words.argmax(1)] @ own["text_projection"]
    return own["logit_scale"].exp() * parts.normalize(image, dim=-1) @ parts.normalize(text, dim=-1).t()


def tells_texts(ctx: Context, package: Any, name: str) -> Outcome:
    """A model's contrastive loss over images and texts, and its gradients, are those that are written out here in
    float64."""
    torch = ctx.torch
    torch.manual_seed(ctx.seed)
    model, images, words = clip_of(torch, name), torch.randn(4, 3, 32, 32), torch.randint(1, 64, (4, 16))
    shape = {"heads": 1, "quick": True} if name == "clip" else {"heads": 2, "quick": False}

    def loss_of(network: Any, put: Callable[[Any], Any]) -> Any:
        if network is model:
            return contrast(clip_logits(network(put(images), put(words))))
        return contrast(by_hand(torch, network, put(images), put(words), **shape))

    return passed(details={"errors": beside_float64(ctx, name, model, loss_of)})


stack_check("clip", "clip.model")(functools.partial(tells_texts, name="clip"))
stack_check("open-clip-torch", module="open_clip")(functools.partial(tells_texts, name="open_clip"))
