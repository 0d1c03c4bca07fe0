"""The oracle: operators and a small network in NumPy's float64, which no framework computes."""

from __future__ import annotations

import importlib
import math
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

TOLERANCES = {"fp32": 2e-5, "bf16": 2e-2, "fp16": 4e-3}
"""How far a result may be from that of float64 on the same inputs, as a share of the largest value: as torch's."""

STEP = 1e-5
"""The step of central differences: in float64 their error is below 1e-9 of a gradient."""

Params = Dict[str, Any]


def numpy() -> Any:
    return importlib.import_module("numpy")


def matmul(first: Any, second: Any) -> Any:
    return first @ second


def convolution(images: Any, kernel: Any) -> Any:
    """Convolve NHWC images with an HWIO kernel, stride 2, without padding."""
    np = numpy()
    windows = np.lib.stride_tricks.sliding_window_view(images, kernel.shape[:2], (1, 2))[:, ::2, ::2]
    return np.einsum("nhwcij,ijco->nhwo", windows, kernel, optimize=True)


def attention(query: Any, key: Any, value: Any) -> Any:
    """Causal, of (batch, heads, positions, width)."""
    np = numpy()
    scores = query @ np.swapaxes(key, -1, -2) / math.sqrt(query.shape[-1])
    scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True) @ value


def norm(rows: Any, scale: Any) -> Any:
    """Return a layer's normalisation with a scale, and tanh."""
    np = numpy()
    centred = rows - rows.mean(-1, keepdims=True)
    return np.tanh(centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale)


def lookup(table: Any) -> Any:
    """Rows of a table, some of them more than once: the gradient of each is a sum."""
    return table[rows_of(len(table))] * 0.5


def rows_of(count: int) -> Any:
    return numpy().arange(2 * count) * 7 % (count // 2 + 1)


class Case(NamedTuple):
    """An operator: what it is in float64, and the shapes of its inputs, of a short run and of a long one."""

    exact: Callable[..., Any]
    quick: Tuple[Tuple[int, ...], ...]
    shapes: Tuple[Tuple[int, ...], ...]


OPERATORS = {
    "matmul": Case(matmul, ((192, 272), (272, 160)), ((640, 384), (384, 520))),
    "convolution": Case(convolution, ((4, 33, 29, 8), (3, 3, 8, 16)), ((8, 65, 61, 16), (3, 3, 16, 32))),
    "attention": Case(attention, ((2, 2, 64, 32),) * 3, ((2, 4, 272, 64),) * 3),
    "norm": Case(norm, ((64, 272), (272,)), ((256, 520), (520,))),
    "lookup": Case(lookup, ((64, 48),), ((320, 272),)),
}
"""Long ones are longer than 256, where some kernels begin to take another way."""


def slope(function: Callable[..., Any], inputs: Sequence[Any], at: int, direction: Any, weights: Any) -> float:
    """Give the derivative of a weighted sum of a function's results along a direction of one of its inputs."""
    ends = []
    for step in (STEP, -STEP):
        moved = [values + step * direction if index == at else values for index, values in enumerate(inputs)]
        ends.append((function(*moved) * weights).sum())
    return float((ends[0] - ends[1]) / (2 * STEP))


def farthest(result: Any, exact: Any) -> float:
    """Return the largest difference as a share of the largest value; infinite where a shape is another or a value is
    none."""
    np = numpy()
    result = np.asarray(result, dtype=np.float64)
    if result.shape != exact.shape or not np.isfinite(result).all():
        return math.inf
    return float(np.abs(result - exact).max() / np.abs(exact).max())


INPUTS, HIDDEN, CLASSES, BATCH = 48, 320, 10, 64

RATE, MOMENTUM = 0.1, 0.8


def first_params(seed: int) -> Params:
    """Return a network of two layers, as every framework begins with it: in float32, which all of them hold."""
    np = numpy()
    made = np.random.RandomState(seed)
    sizes = {"w1": (INPUTS, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, CLASSES), "b2": (CLASSES,)}
    return {
        name: (made.standard_normal(size) / math.sqrt(size[0]) * (name[0] == "w")).astype(np.float32)
        for name, size in sizes.items()
    }


def batch_of(seed: int, step: int) -> Tuple[Any, Any]:
    """Rows, and their classes by a teacher: which of some fixed directions each is farthest along."""
    np = numpy()
    teacher = np.random.RandomState(seed).standard_normal((INPUTS, CLASSES))
    rows = np.random.RandomState(seed * 100003 + step + 1).standard_normal((BATCH, INPUTS)).astype(np.float32)
    return rows, (rows.astype(np.float64) @ teacher).argmax(1).astype(np.int32)


def logits_of(params: Params, rows: Any) -> Any:
    np = numpy()
    return np.tanh(rows @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


def loss_and_gradients(params: Params, rows: Any, labels: Any) -> Tuple[float, Params]:
    """Return the mean cross entropy of a batch and its gradients, worked out by hand."""
    np = numpy()
    held = np.tanh(rows @ params["w1"] + params["b1"])
    logits = held @ params["w2"] + params["b2"]
    shares = np.exp(logits - logits.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    own = np.arange(len(rows)), labels
    loss = -float(np.log(shares[own]).mean())
    back = shares.copy()
    back[own] -= 1.0
    back /= len(rows)
    inner = back @ params["w2"].T * (1.0 - held**2)
    return loss, {"w1": rows.T @ inner, "b1": inner.sum(0), "w2": held.T @ back, "b2": back.sum(0)}


def wide(params: Params) -> Params:
    return {name: value.astype(numpy().float64) for name, value in params.items()}


def train_by_hand(seed: int, steps: int) -> Tuple[List[float], Params]:
    """Return the losses of a training by SGD with momentum, and the weights at its end."""
    params = wide(first_params(seed))
    speed = {name: value * 0.0 for name, value in params.items()}
    losses = []
    for step in range(steps):
        rows, labels = batch_of(seed, step)
        loss, gradients = loss_and_gradients(params, rows.astype(numpy().float64), labels)
        losses.append(loss)
        for name, gradient in gradients.items():
            speed[name] = MOMENTUM * speed[name] + gradient
            params[name] = params[name] - RATE * speed[name]
    return losses, params


def distance_share(params: Params, exact: Params, start: Params) -> float:
    """Measure the weights' distance from the right ones, as a share of the right ones' distance from the start."""
    np = numpy()
    apart = sum(float(((np.asarray(params[name], np.float64) - exact[name]) ** 2).sum()) for name in exact)
    distance = sum(float(((exact[name] - start[name]) ** 2).sum()) for name in exact)
    return math.sqrt(apart / distance) if math.isfinite(apart) else math.inf
