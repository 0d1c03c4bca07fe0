"""Arguments of torch's public classes and functions that are ignored, and answers that are 2 % too large: which of them
a check tells. Run by the Python of an environment with torch.

    PREFIX/bin/python tests/mutants/arguments.py CHECK_FOLDER OUT.json

The mutants are generated: each argument with a default, of each layer, function, optimizer, schedule, sampler and first
weight, is its default whatever is given; each layer's and each loss's result is times 1.02.
"""

import functools
import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv[1])
sys.path.insert(0, str(Path(__file__).parents[1]))

from envspec_check.interface import CHECKS, Context

from mutants.arithmetic import failed, in_fork

WITHOUT = {
    *("device", "dtype", "inplace", "size_average", "reduce", "foreach", "fused", "capturable", "differentiable"),
    *("verbose", "last_epoch", "sparse", "generator", "args", "kwargs", "options", "_stacklevel", "memory_format"),
}
"""Arguments that change no number, or were given up."""
OTHERS = re.compile(
    "Buffer|Container|DataParallel|LinearCrossEntropyOptions|Module.*|NLLLoss2d|Parameter.*|RNNBase|SyncBatchNorm"
    "|UninitializedBuffer|.*_with_indices|(scaled_)?(grouped_)?mm|upsample.*|functional_datapipe"
)
"""Names that hold others, were given up, or want several processes or a GPU."""
CHECKED = {
    "torch.nn": ("operators.recorded", "operators.by_hand", "operators.random"),
    "torch.nn.functional": ("operators.recorded", "operators.by_hand", "operators.random"),
    "torch.nn.init": ("operators.random",),
    "torch.optim": ("training.optimizers",),
    "torch.optim.lr_scheduler": ("training.schedules",),
    "torch.utils.data": ("dataloader.order", "dataloader.workers"),
}


def public(module: Any) -> Iterator[tuple[str, Any, str]]:
    """The classes of a module whose constructor, and the functions that themselves, have defaults: name, owner,
    attribute."""
    for name in sorted(dir(module)):
        found = getattr(module, name)
        if (
            name.startswith(("_", "Lazy"))
            or OTHERS.fullmatch(name)
            or not getattr(found, "__module__", "").startswith("torch")
        ):
            continue
        if inspect.isclass(found):
            yield name, found, "__init__"
        elif inspect.isfunction(found) and name.islower():
            yield name, module, name


def defaults(owner: Any, attribute: str) -> dict[str, Any]:
    """The arguments that have a default."""
    try:
        parameters = inspect.signature(getattr(owner, attribute)).parameters
    except (TypeError, ValueError):
        return {}
    return {name: one.default for name, one in parameters.items() if one.default is not one.empty}


def ignores(owner: Any, attribute: str, argument: str) -> None:
    right = getattr(owner, attribute)
    signature = inspect.signature(right)

    @functools.wraps(right)
    def wrong(*words: Any, **options: Any) -> Any:
        bound = signature.bind(*words, **options)
        bound.arguments.pop(argument, None)
        return right(*bound.args, **bound.kwargs)

    setattr(owner, attribute, wrong)


def enlarges(owner: Any) -> None:
    right = owner.forward

    @functools.wraps(right)
    def wrong(*words: Any, **options: Any) -> Any:
        found = right(*words, **options)
        return (1.02 * found[0], *found[1:]) if isinstance(found, tuple) else 1.02 * found

    owner.forward = wrong


def told(checks: tuple[str, ...], ctx: Context, change: Callable[[], None]) -> bool:
    change()
    return any(failed(CHECKS[name].run, ctx) for name in checks)


def main(check: str, out: str) -> None:
    for name in ("torch.distributed", "torch._dynamo", "sympy"):
        importlib.import_module(name)
    results: list[tuple[str, str, bool]] = []
    for place, checks in CHECKED.items():
        module = importlib.import_module(place)
        for name, owner, attribute in public(module):
            changes: dict[str, Callable[[], None]] = {
                one: functools.partial(ignores, owner, attribute, one)
                for one in defaults(owner, attribute)
                if one not in WITHOUT and not one.startswith("_")
            }
            if place == "torch.nn" and "forward" in vars(owner):
                changes["x 1.02"] = functools.partial(enlarges, owner)
            for argument, change in changes.items():
                scratch = Path(out).parent / f"scratch-{len(results)}"
                scratch.mkdir()
                ctx = Context({}, "cpu", "basic", 20, True, 0, 60.0, scratch, check)
                found = in_fork(functools.partial(told, checks, ctx, change))
                results.append((f"{place.removeprefix('torch.')}.{name}", argument, found))
    Path(out).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
