"""stack.transformers: a tiny language model trains and writes."""

from __future__ import annotations

from typing import Any, Callable

from envspec_check.checks.stack.beside_float64 import REMEDY, beside_float64
from envspec_check.checks.stack.locked import stack_check
from envspec_check.interface import Context, Outcome, failed, passed


@stack_check("transformers")
def stack_transformers(ctx: Context, transformers: Any) -> Outcome:
    """A Llama of two layers trains as in float64, and writes the same words with its cache as without."""
    torch = ctx.torch
    torch.manual_seed(ctx.seed)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 64}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
    ends = {"bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **heads, **ends))
    words = torch.randint(2, 64, (2, 24))

    def loss_of(network: Any, put: Callable[[Any], Any]) -> Any:
        return network(input_ids=put(words), labels=put(words)).loss

    errors = beside_float64(ctx, "transformers", model, loss_of)
    model.eval()
    start = words[:1, :8].to(ctx.torch_device)
    written = [
        model.generate(start, attention_mask=torch.ones_like(start), max_new_tokens=8, do_sample=False, use_cache=cache)
        for cache in (True, False)
    ]
    if written[0].shape != (1, 16) or not torch.equal(*written):
        return failed("a tiny model of transformers writes other words with its cache than without", REMEDY)
    return passed(details={"transformers": transformers.__version__, "errors": errors})
