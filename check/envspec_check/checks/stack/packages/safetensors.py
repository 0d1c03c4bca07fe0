"""stack.safetensors: weights come back from a file as they were, in every type."""

from __future__ import annotations

import importlib
from typing import Any

from envspec_check.checks.stack.locked import stack_check
from envspec_check.interface import Context, Outcome, failed, passed

TYPES = ("float64", "float32", "float16", "bfloat16", "int64", "uint8", "bool")


@stack_check("safetensors")
def stack_safetensors(ctx: Context, safetensors: Any) -> Outcome:
    """Tensors that are written and read are the same, type and bits."""
    torch, files = ctx.torch, importlib.import_module("safetensors.torch")
    rows = torch.tensor([0.0, 1.0, -2.5, 3.140625, 1e30]).reshape(5, 1)
    given = {name: rows.clamp(-9, 9).abs().to(getattr(torch, name)) for name in TYPES}
    given["bfloat16"] = rows.to(torch.bfloat16)  # of a range that float16 hasn't
    path = str(ctx.scratch / "weights.safetensors")
    files.save_file(given, path)
    loaded = files.load_file(path)
    wrong = [
        name
        for name, tensor in given.items()
        if tensor.dtype != loaded[name].dtype or not torch.equal(tensor, loaded[name])
    ]
    if wrong:
        return failed(f"tensors of {', '.join(wrong)} come back as others", "take another safetensors")
    return passed(details={"safetensors": safetensors.__version__, "types": list(TYPES)})
