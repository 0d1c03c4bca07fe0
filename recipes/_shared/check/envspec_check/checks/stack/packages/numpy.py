"""stack.numpy: tensors and arrays hold the same numbers in the same memory."""

from __future__ import annotations

from typing import Any

from envspec_check.checks.stack.locked import stack_check
from envspec_check.interface import Context, Outcome, failed, passed

TYPES = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")


@stack_check("numpy")
def stack_numpy(ctx: Context, numpy: Any) -> Outcome:
    """Tensors become arrays and arrays tensors, with nothing lost and nothing copied."""
    torch = ctx.torch
    remedy = "torch was compiled for another major version of NumPy: bound numpy in the spec, and lock again"
    for name in TYPES:
        array = numpy.arange(12).reshape(3, 4).astype(name)
        tensor = torch.from_numpy(array)
        if str(tensor.dtype) != f"torch.{name}" or tensor.tolist() != array.tolist():
            return failed(f"an array of {name} becomes another tensor", remedy)
        tensor[1, 2] = 0
        if array[1, 2] != 0 or tensor.numpy().ctypes.data != array.ctypes.data:
            return failed(f"a tensor of {name} is a copy of its array", remedy)
        back = tensor.to(ctx.torch_device).t().cpu().numpy()
        if str(back.dtype) != name or not (back == array.T).all():
            return failed(f"a tensor of {name} becomes another array", remedy)
    mixed = torch.tensor([numpy.float32(1.5), numpy.int64(2)]).tolist()
    if mixed != [1.5, 2.0] or float(numpy.asarray(torch.ones(3)).sum()) != 3.0:
        return failed("numbers of NumPy become other numbers in a tensor", remedy)
    return passed(details={"numpy": numpy.__version__, "types": list(TYPES)})
