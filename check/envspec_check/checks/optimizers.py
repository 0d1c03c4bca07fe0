"""training.optimizers and training.schedules: torch's optimizers and learning rates beside their rules on paper.

The rules are written in Python's own floats, with the documented defaults: what torch's constructors say of themselves
isn't asked.
"""

from __future__ import annotations

import importlib
import math
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

from envspec_check.checks.recorded import move_errors, rate_errors
from envspec_check.interface import Context, Outcome, check, failed, passed, some

WEIGHTS = (1.0, -2.0, 50.0, 0.3)

GRADIENTS = (
    (0.5, -0.2, 0.9, 0.8, -0.1, 0.3, 0.4, 0.7),
    (1e-3, 2e-3, -1e-3, 4e-3, 3e-3, 1e-3, -2e-3, 1e-3),
    (1e-7, 3e-7, 2e-7, -1e-7, 5e-7, 1e-7, 2e-7, 4e-7),
    (-3.0, -2.0, -2.5, 4.0, 1.0, 0.0, 2.0, 1.0),
)
"""Of each weight, step by step; small enough ones show an optimizer's eps."""

LIMIT = 1e-5
"""How far a way may be from that on paper, as a share of it. Weights are in float64, some of what NAdam and ASGD
remember of the steps before in float32."""

LIMITS = {"Muon()": 6e-2, "Muon of its own settings": 2e-2}
"""Muon goes towards an orthogonal matrix in bfloat16."""

Rule = Callable[..., float]


def sgd(
    w: float, steps: Sequence[float], lr: float, momentum: float = 0.0, dampening: float = 0.0, nesterov: bool = False,
    weight_decay: float = 0.0, maximize: bool = False,
) -> float:  # fmt: skip
    buffer = None
    for g in steps:
        g = (-g if maximize else g) + weight_decay * w
        buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
        w -= lr * (g + momentum * buffer if nesterov else buffer if momentum else g)
    return w


def adam(
    w: float, steps: Sequence[float], lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 0.0, amsgrad: bool = False, maximize: bool = False, decoupled: bool = False,
) -> float:  # fmt: skip
    m = v = most = 0.0
    for t, g in enumerate(steps, 1):
        g = -g if maximize else g
        if decoupled:
            w *= 1 - lr * weight_decay
        else:
            g += weight_decay * w
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        most = max(most, v) if amsgrad else v
        w -= lr * m / (1 - betas[0] ** t) / (math.sqrt(most / (1 - betas[1] ** t)) + eps)
    return w


def adamw(w: float, steps: Sequence[float], weight_decay: float = 0.01, **options: Any) -> float:
    return adam(w, steps, weight_decay=weight_decay, decoupled=True, **options)


def adamax(
    w: float, steps: Sequence[float], lr: float = 2e-3, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
) -> float:
    m = u = 0.0
    for t, g in enumerate(steps, 1):
        m, u = betas[0] * m + (1 - betas[0]) * g, max(betas[1] * u, abs(g) + eps)
        w -= lr * m / (1 - betas[0] ** t) / u
    return w


def nadam(
    w: float, steps: Sequence[float], lr: float = 2e-3, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
    momentum_decay: float = 4e-3,
) -> float:  # fmt: skip
    m, v, product = 0.0, 0.0, 1.0
    for t, g in enumerate(steps, 1):
        now, later = (betas[0] * (1 - 0.5 * 0.96 ** (at * momentum_decay)) for at in (t, t + 1))
        product *= now
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        ahead = (1 - now) * g / (1 - product) + later * m / (1 - product * later)
        w -= lr * ahead / (math.sqrt(v / (1 - betas[1] ** t)) + eps)
    return w


def radam(
    w: float, steps: Sequence[float], lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
) -> float:
    m, v, longest = 0.0, 0.0, 2 / (1 - betas[1]) - 1
    for t, g in enumerate(steps, 1):
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        left = 1 - betas[1] ** t
        length, move = longest - 2 * t * betas[1] ** t / left, m / (1 - betas[0] ** t)
        if length > 5:
            sure = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            move *= math.sqrt(sure) * math.sqrt(left) / (math.sqrt(v) + eps)
        w -= lr * move
    return w


def adagrad(
    w: float, steps: Sequence[float], lr: float = 1e-2, lr_decay: float = 0.0, eps: float = 1e-10,
    initial_accumulator_value: float = 0.0,
) -> float:  # fmt: skip
    total = initial_accumulator_value
    for t, g in enumerate(steps):
        total += g * g
        w -= lr / (1 + t * lr_decay) * g / (math.sqrt(total) + eps)
    return w


def adadelta(w: float, steps: Sequence[float], lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6) -> float:
    square = moved = 0.0
    for g in steps:
        square = rho * square + (1 - rho) * g * g
        move = math.sqrt(moved + eps) / math.sqrt(square + eps) * g
        moved = rho * moved + (1 - rho) * move * move
        w -= lr * move
    return w


def rmsprop(
    w: float, steps: Sequence[float], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, momentum: float = 0.0,
    centered: bool = False,
) -> float:  # fmt: skip
    square = mean = buffer = 0.0
    for g in steps:
        square, mean = alpha * square + (1 - alpha) * g * g, alpha * mean + (1 - alpha) * g
        buffer = momentum * buffer + g / (math.sqrt(square - mean * mean if centered else square) + eps)
        w -= lr * buffer
    return w


def rprop(
    w: float, steps: Sequence[float], lr: float = 1e-2, etas: Tuple[float, float] = (0.5, 1.2),
    step_sizes: Tuple[float, float] = (1e-6, 50),
) -> float:  # fmt: skip
    before, size = 0.0, lr
    for g in steps:
        size = min(max(size * (etas[1] if g * before > 0 else etas[0] if g * before < 0 else 1.0), step_sizes[0]),
                   step_sizes[1])  # fmt: skip
        g = 0.0 if g * before < 0 else g
        w -= size * (g > 0) - size * (g < 0)
        before = g
    return w


RULES: Tuple[Tuple[str, Rule, Tuple[Dict[str, Any], ...]], ...] = (
    (
        "SGD",
        sgd,
        (
            {"lr": 0.1, "weight_decay": 0.01},
            {"lr": 0.1, "momentum": 0.9, "nesterov": True},
            {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "maximize": True},
        ),
    ),
    ("Adam", adam, ({}, {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1, "amsgrad": True})),
    ("AdamW", adamw, ({}, {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1, "maximize": True})),
    ("Adamax", adamax, ({}, {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-3})),
    ("NAdam", nadam, ({}, {"lr": 0.1, "betas": (0.8, 0.9), "momentum_decay": 0.1})),
    ("RAdam", radam, ({}, {"lr": 0.1, "betas": (0.8, 0.9)})),
    ("Adagrad", adagrad, ({}, {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.2})),
    ("Adadelta", adadelta, ({}, {"lr": 0.5, "rho": 0.8, "eps": 1e-3})),
    ("RMSprop", rmsprop, ({}, {"lr": 0.1, "alpha": 0.9, "momentum": 0.5, "centered": True, "eps": 1e-3})),
    ("Rprop", rprop, ({}, {"lr": 0.1, "etas": (0.4, 1.5), "step_sizes": (0.08, 0.2)})),
)

MODES: Tuple[Dict[str, Any], ...] = ({}, {"foreach": False}, {"foreach": True}, {"fused": True})
"""The modes of an optimizer's loop over its weights: its own choice, or a mode that not every torch has."""


def moves_by(ctx: Context, kind: Any, options: Dict[str, Any]) -> List[float]:
    """Give the move of each of WEIGHTS by its GRADIENTS, as an optimizer makes it."""
    torch = ctx.torch
    weights = torch.nn.Parameter(torch.tensor(WEIGHTS, dtype=torch.float64, device=ctx.device))
    optimizer = kind([weights], **options)
    for row in zip(*GRADIENTS):
        weights.grad = torch.tensor(row, dtype=torch.float64, device=ctx.device)
        optimizer.step()
    return [float(now) - was for now, was in zip(weights.detach().cpu(), WEIGHTS)]


def off(values: Sequence[float], right: Sequence[float]) -> float:
    """Return the largest difference, as a share of the number it should be."""
    return max(abs(value - other) / max(abs(other), 1e-12) for value, other in zip(values, right))


def optimizer_errors(ctx: Context) -> Iterator[Tuple[str, float]]:
    for name, rule, settings in RULES:
        kind = getattr(ctx.torch.optim, name)
        for options in settings:
            right = [rule(w, row, **options) - w for w, row in zip(WEIGHTS, GRADIENTS)]
            for mode in MODES:
                try:
                    result = moves_by(ctx, kind, {**options, **mode})
                except (RuntimeError, TypeError, ValueError) as error:
                    if any(word in str(error) for word in mode):
                        continue  # this torch doesn't have it for this optimizer, or on this device
                    raise
                given = ", ".join("%s=%s" % setting for setting in {**options, **mode}.items())
                yield f"{name}({given})", off(result, right)
    if hasattr(ctx.torch.optim, "Muon"):
        yield "Muon()", muon_error(ctx, {}, 0.1, 0.95, 1e-7, (3.4445, -4.775, 2.0315), 5, 1.0)
        names = ("weight_decay", "momentum", "eps", "ns_coefficients", "ns_steps")
        settings: Sequence[Any] = (0.02, 0.5, 0.6, (2.0, -1.5, 0.5), 2)
        options = {**dict(zip(names, settings)), "nesterov": False, "adjust_lr_fn": "match_rms_adamw"}
        yield "Muon of its own settings", muon_error(ctx, options, *settings, 0.2 * math.sqrt(2))
    yield from clip_errors(ctx.torch)
    yield from move_errors(ctx)


def muon_error(
    ctx: Context, options: Dict[str, Any], decay: float, momentum: float, eps: float, by: Sequence[float], steps: int,
    share: float,
) -> float:  # fmt: skip
    """Measure the distance of Muon's steps from its rule on paper."""
    torch = ctx.torch
    rows = [[[0.5, -0.2], [0.1, 0.4]], [[-0.3, 0.8], [0.2, 0.1]], [[0.1, 0.1], [-0.6, 0.2]]]
    weights = torch.nn.Parameter(torch.ones(2, 2, device=ctx.device))
    optimizer = torch.optim.Muon([weights], lr=0.1, **options)
    right, buffer = torch.ones(2, 2, dtype=torch.float64), torch.zeros(2, 2, dtype=torch.float64)
    for row in rows:
        weights.grad = torch.tensor(row, device=ctx.device)
        optimizer.step()
        gradient = torch.tensor(row, dtype=torch.float64)
        buffer = momentum * buffer + (1 - momentum) * gradient
        near = buffer if "nesterov" in options else (1 - momentum) * gradient + momentum * buffer
        near = near / max(float(near.square().sum().sqrt()), eps)
        for _ in range(steps):
            square = near @ near.T
            near = by[0] * near + (by[1] * square + by[2] * square @ square) @ near
        right = right * (1 - 0.1 * decay) - 0.1 * share * near
    return float((weights.detach().cpu().double() - right).abs().max() / (right - 1).abs().max())


def clip_errors(torch: Any) -> Iterator[Tuple[str, float]]:
    """Gradients that are cut by their norm or their values, and the average of weights."""
    weights, values = torch.nn.Parameter(torch.zeros(4)), (3.0, -4.0, 0.5, -0.25)
    for kind in (1.0, 2.0, 3.0, math.inf):
        size = max(map(abs, values)) if kind == math.inf else sum(abs(g) ** kind for g in values) ** (1 / kind)
        for most in (0.5, 100.0):
            weights.grad = torch.tensor(values)
            norm = torch.nn.utils.clip_grad_norm_([weights], most, norm_type=kind)
            right = [g * min(1.0, most / size) for g in values]
            name = f"clip_grad_norm_({most}, norm_type={kind})"
            yield name, off([float(norm), *weights.grad.tolist()], [size, *right])
    weights.grad = torch.tensor(values)
    torch.nn.utils.clip_grad_value_([weights], 2.0)
    yield "clip_grad_value_(2.0)", off(weights.grad.tolist(), [2.0, -2.0, 0.5, -0.25])
    model, swa = torch.nn.BatchNorm1d(1), importlib.import_module("torch.optim.swa_utils")
    averages: List[Dict[str, Any]] = [{"use_buffers": True}, {"avg_fn": lambda old, new, _: 0.75 * old + 0.25 * new}]
    if hasattr(swa, "get_ema_multi_avg_fn"):  # from torch 2.1
        averages += [{"multi_avg_fn": swa.get_swa_multi_avg_fn()}, {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.75)}]
    averaged = [swa.AveragedModel(model, **options) for options in averages]
    for value in (1.0, 2.0, 6.0):
        model.weight.data.fill_(value)
        model.running_mean.fill_(value)
        for average in averaged:
            average.update_parameters(model)
    means = [float(average.module.weight.detach()) for average in averaged]
    yield "AveragedModel", off(means, [3.0, 0.75 * 1.25 + 1.5] * (len(averages) // 2))
    yield "AveragedModel's buffers", off([float(average.module.running_mean) for average in averaged[:2]], [3.0, 6.0])
    model(torch.tensor([[3.0], [4.0]]))  # which is to be forgotten
    swa.update_bn([torch.tensor([[1.0], [5.0]]), torch.tensor([[2.0], [8.0]])], model)
    yield "update_bn", off([float(model.running_mean), float(model.running_var)], [4.0, 13.0])
    calls: List[int] = []
    optimizer = torch.optim.SGD([weights], lr=0.1)
    names = [name for name in dir(optimizer) if name.startswith("register_") and name.endswith("_hook")]
    for name in names:
        getattr(optimizer, name)(lambda *_: calls.append(1))
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    yield "hooks of an optimizer", float(len(names) - len(calls))


def schedule_cases(schedules: Any) -> Iterator[Tuple[str, Callable[[Any], Any], Callable[[int], float]]]:
    """Schedules by name, how they are made, and their rates on paper: from 1.0, step by step."""

    def cosine(share: float) -> float:
        return 0.5 * (1 + math.cos(math.pi * share))

    yield "LambdaLR", lambda o: schedules.LambdaLR(o, lambda s: 1 / (1 + s)), lambda s: 1 / (1 + s)
    averages = importlib.import_module("torch.optim.swa_utils")
    yield "SWALR", lambda o: averages.SWALR(o, 0.1, anneal_epochs=4), lambda s: 0.1 + 0.9 * cosine(min(s / 4, 1.0))
    yield (
        "CyclicLR of its own scale",
        lambda o: schedules.CyclicLR(
            o, 0.1, 1.0, 3, scale_fn=lambda s: 1 / (1 + s), scale_mode="iterations", cycle_momentum=False
        ),
        lambda s: 0.1 + 0.9 * (1 - abs(s % 6 - 3) / 3) / (1 + s),
    )
    yield "MultiplicativeLR", lambda o: schedules.MultiplicativeLR(o, lambda s: 0.9), lambda s: 0.9**s
    yield (
        "SequentialLR",
        lambda o: schedules.SequentialLR(
            o, [schedules.ConstantLR(o, total_iters=9), schedules.LambdaLR(o, lambda s: 1 / (1 + s))], [3]
        ),
        lambda s: 1 / 3 if s < 3 else 1 / (s - 2),
    )
    yield (
        "ChainedScheduler",
        lambda o: schedules.ChainedScheduler([schedules.ConstantLR(o), schedules.ExponentialLR(o, 0.9)]),
        lambda s: (1 / 3 if s < 5 else 1.0) * 0.9**s,
    )


def schedule_errors(ctx: Context) -> Iterator[Tuple[str, float]]:
    torch = ctx.torch

    def optimizer() -> Any:
        return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)

    for name, make, rate in schedule_cases(torch.optim.lr_scheduler):
        made = optimizer()
        schedule, rates = make(made), []
        for at in range(12):
            rates.append(made.param_groups[0]["lr"])
            made.step()
            schedule.step()
            if at == 5:  # another goes on from what this one saved
                saved, rate_of_now, made = schedule.state_dict(), made.state_dict(), optimizer()
                schedule = make(made)
                made.load_state_dict(rate_of_now)
                schedule.load_state_dict(saved)
        yield name, off(rates, [rate(step) for step in range(12)])
    yield from rate_errors(ctx)


def on_paper(errors: Iterator[Tuple[str, float]], what: str) -> Outcome:
    by_name = dict(errors)
    wrong = ["%s by %.2g" % (name, error) for name, error in by_name.items() if not error <= LIMITS.get(name, LIMIT)]
    details = {"errors": by_name, "limit": LIMIT}
    if wrong:
        reason = f"{what} differs from that on paper, as a share of it: {some(wrong)}"
        return failed(reason, "something patches torch.optim, or this torch is wrong: report it", details=details)
    return passed(details=details)


@check("training.optimizers")
def training_optimizers(ctx: Context) -> Outcome:
    """Each optimizer goes the way that its rule has on paper, by its documented defaults and by other settings."""
    return on_paper(optimizer_errors(ctx), "the way of the weights")


@check("training.schedules")
def training_schedules(ctx: Context) -> Outcome:
    """Each schedule of the learning rate has the rates that its rule has on paper."""
    return on_paper(schedule_errors(ctx), "the learning rate")
