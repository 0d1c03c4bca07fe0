"""operators.recorded: torch's layers, losses and functions, by unusual arguments, beside recorded answers.

`answers.py` has them: computed in float64 by torch 2.13, and found the same with torch 2.1. An oracle of the same
torch has the fault of a function that all types share; these are of other installations.
"""

from __future__ import annotations

import ast
import functools
import math
from typing import Any, Callable, Dict, Iterator, List, Tuple

from envspec_check.checks.answers import ANSWERS, MOVES, RATES
from envspec_check.interface import Context, Outcome, check, failed, passed, some
from envspec_check.trainer import exact_fp32

LIMIT = 1e-4
"""How far an answer in float32 may be off, as a share of it, or of 1 where that is more; healthy CPUs show 1e-6."""

WAVES = {"x": (1.5, 1.0, 0.7), "y": (1.2, 2.0, 1.3), "w": (5.0, 1.0, 0.9), "l": (1.0, 1.0, 0.7)}
"""Kinds of tensors, each a wave: how high, where it begins, and how far each element is from the one before."""


def spread(torch: Any, count: int, first: float = 1.0, by: float = 0.37) -> Any:
    """Numbers in float64 of which no two are alike."""
    return (first + by * torch.arange(count, dtype=torch.float64)).cos()


def weighted_sum(torch: Any, flat: Any) -> float:
    """Return a sum of numbers by weights that no two of them share."""
    return float((flat.detach().cpu().double() * spread(torch, len(flat))).sum())


def input_of(torch: Any, word: str, device: str, dtype: Any) -> Any:
    """Return a tensor by its word: `i` and its numbers; else its kind and its shape, as `x2,3`. Waves are x, y, w; l
    are logarithms of shares, p shares, s signs; c5 are classes below 5, n5 multiples of 5."""
    kind, (most, _, shape) = word[0], word[1:].rpartition(":")
    sizes = [int(size) for size in shape.split(",")]
    if kind == "i":
        return torch.tensor(sizes, device=device)
    at = torch.arange(math.prod(sizes))
    if kind in "cn":
        return ((3 * at + 3 + at // 5) % int(most) if kind == "c" else int(most) * at).reshape(sizes).to(device)
    high, first, by = WAVES.get(kind, (0.45, 3.0, 1.1))
    made = (high * spread(torch, len(at), first, by)).reshape(sizes)
    made = made - made.exp().sum(-1, keepdim=True).log() if kind == "l" else made
    made = {"p": made + 0.5, "s": made.sign()}.get(kind, made).to(device, dtype)
    return made if kind in "ps" else made.requires_grad_()


class Lacking(Exception):
    """This torch has no such name, or the name no such argument."""


def build(place: Any, text: str, *first: Any, read: Callable[[Any], Any] = lambda value: value) -> Any:
    """Make the call that a row has as text: its arguments are literals, and come after the first ones."""
    call: Any = ast.parse(text, mode="eval").body
    own = [read(ast.literal_eval(argument)) for argument in call.args]
    named = {str(keyword.arg): read(ast.literal_eval(keyword.value)) for keyword in call.keywords}
    if not hasattr(place, call.func.id):
        raise Lacking(text)
    try:
        return getattr(place, call.func.id)(*first, *own, **named)
    except TypeError as error:
        if "unexpected keyword" in str(error):
            raise Lacking(text) from None
        raise


def flatten(torch: Any, result: Any) -> Any:
    """Return all numbers of tensors, which may lie in tuples, and their shapes."""
    if isinstance(result, (tuple, list)):
        return torch.cat([flatten(torch, part) for part in result if part is not None])
    result = result if result.is_floating_point() else result.double()
    return torch.cat([result.flatten(), result.new_tensor(result.shape)])


def answer(torch: Any, row: str, device: str, dtype: Any) -> Tuple[float, float]:
    """Return a row's results, of a layer in training and in use, and its gradients, each as one number."""
    text, words, more = ([part.strip() for part in row.split("|")] + [""])[:3]
    put = functools.partial(input_of, torch, device=device, dtype=dtype)
    inputs, parameters = [put(word) for word in words.split()], []
    pairs = (word.partition("=") for word in more.split())
    options = {name: put(value).detach() if value[0] in "xp" else ast.literal_eval(value) for name, _, value in pairs}

    def read(value: Any) -> Any:
        return torch.tensor(value, device=device, dtype=dtype) if isinstance(value, list) else value

    if hasattr(torch.nn, text.partition("(")[0]):
        layer = build(torch.nn, text, read=read).to(device, dtype)
        parameters = list(layer.parameters())
        with torch.no_grad():
            for at, parameter in enumerate(parameters):
                parameter.copy_(0.6 * spread(torch, parameter.numel(), 2.0 + at, 0.9).reshape(parameter.shape))
        flat = flatten(torch, layer(*inputs, **options))
    else:
        layer, flat = None, flatten(torch, build(torch.nn.functional, text, *inputs, read=read))
    if flat.requires_grad:
        (flat * spread(torch, len(flat)).to(device, dtype)).sum().backward()
    results = flat.detach()
    if layer is not None:
        with torch.no_grad():  # one that is only used may take another path
            results = torch.cat([results, flatten(torch, layer.eval()(*inputs, **options))])
    grads = [tensor.grad.flatten() for tensor in (*inputs, *parameters) if tensor.grad is not None]
    return weighted_sum(torch, results), weighted_sum(torch, torch.cat(grads) if grads else results[:0])


def move(torch: Any, text: str, device: str) -> float:
    """Return where six steps of an optimizer along a smooth loss move two tensors, as one number. The first tensor has
    a rate of its own, and after three steps a second optimizer goes on from the saved state of the first."""
    shapes = (3, 4), (1, 3)
    weights = [torch.nn.Parameter(spread(torch, a * b, 2.0, 0.9).reshape(a, b).to(device)) for a, b in shapes]
    pull = spread(torch, 15, 2.5, 1.1).to(device)
    groups = [{"params": weights[:1], "lr": 0.05}, {"params": weights[1:]}]
    groups = weights if text.startswith("LBFGS") else groups  # which has one group alone
    optimizer = build(torch.optim, text, groups)

    def loss() -> Any:
        flat = torch.cat([weight.flatten() for weight in weights])
        total = (pull * flat + 0.5 * (flat - 0.3) ** 4).sum()
        for weight, slope in zip(weights, torch.autograd.grad(total, weights)):
            weight.grad = slope.to_sparse() if text.startswith("Sparse") else slope
        return total

    for at in range(6):
        if optimizer.step(loss) is None:
            return math.inf
        if at == 2:
            saved, optimizer = optimizer.state_dict(), build(torch.optim, text, groups)
            optimizer.load_state_dict(saved)
    means = [state["ax"] for state in optimizer.state.values() if "ax" in state]  # ASGD's, which it doesn't step by
    return weighted_sum(torch, torch.cat([tensor.flatten() for tensor in (*weights, *means)]))


def rates(torch: Any, text: str) -> float:
    """Return the rates and momenta of twelve steps. After six of them a second schedule goes on from what the first
    saved."""

    def begin() -> Tuple[Any, Any]:
        groups = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": rate} for rate in (1.0, 0.5)]
        optimizer = torch.optim.SGD(groups, lr=1.0, momentum=0.9)
        return optimizer, build(torch.optim.lr_scheduler, text, optimizer)

    optimizer, schedule = begin()
    values: List[float] = []
    for at in range(12):
        values += [group[name] for group in optimizer.param_groups for name in ("lr", "momentum")]
        optimizer.step()
        schedule.step(*([0.95**at] if text.startswith("ReduceLROnPlateau") else []))
        if at == 5:
            saved = optimizer.state_dict(), schedule.state_dict()
            optimizer, schedule = begin()
            optimizer.load_state_dict(saved[0])
            schedule.load_state_dict(saved[1])
    return weighted_sum(torch, torch.tensor(values, dtype=torch.float64))


def errors(rows: str, computed: Callable[[str], Any]) -> Iterator[Tuple[str, float]]:
    """Yield each row with its distance from its answer, but for rows with names or arguments that this torch lacks."""
    for line in rows.strip().splitlines():
        row, _, numbers = line.rpartition(" = ")
        try:
            result = computed(row)
        except Lacking:
            continue
        pairs = zip(result if isinstance(result, tuple) else (result,), map(float, numbers.split()))
        far = [abs(value - right) / max(1.0, abs(right)) for value, right in pairs]
        yield row, max(far) if all(map(math.isfinite, far)) else math.inf


def move_errors(ctx: Context) -> Iterator[Tuple[str, float]]:
    return errors(MOVES, lambda row: move(ctx.torch, row, ctx.device))


def rate_errors(ctx: Context) -> Iterator[Tuple[str, float]]:
    return errors(RATES, lambda row: rates(ctx.torch, row))


@check("operators.recorded")
def operators_recorded(ctx: Context) -> Outcome:
    """Layers, losses and functions, by unusual arguments, give what was recorded of them, and such gradients."""
    torch = ctx.torch
    torch.set_num_threads(1)  # the tensors are tiny
    exact_fp32(torch)
    distances: Dict[str, float] = dict(errors(ANSWERS, lambda row: answer(torch, row, ctx.device, torch.float32)))
    wrong = ["%s is off by %.2g" % (row, far) for row, far in distances.items() if not far <= LIMIT]
    details = {"answers": len(distances), "error": max(distances.values()), "limit": LIMIT, "wrong": wrong}
    remedy = "something patches torch, or this torch is wrong on this machine: try another version, and report it"
    return failed(some(wrong, 3), remedy, details=details) if wrong else passed(details=details)
