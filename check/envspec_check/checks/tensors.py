"""Tensors outside torch.nn, for operators.by_hand: sums into places, orders, distances, equations, transforms, complex
and sparse products, casts. The answers are written out in Python's own numbers."""

from __future__ import annotations

import cmath
import math
from typing import Any, Iterator, List, Tuple

ROWS = ((0.3, -1.2, 2.1), (0.5, -1.0, 0.4), (2.0, 0.1, -0.4))


def points(count: int, first: float) -> List[Tuple[float, float]]:
    """Points of which none is near another one's."""
    return [(first + 0.7 * at, math.cos(first * at)) for at in range(count)]


def of_places(torch: Any, device: str) -> Iterator[Tuple[str, Any, Any]]:
    """Numbers that go to places, some of which are the same."""
    zeros, at = torch.zeros(3, device=device), torch.tensor([0, 2, 0, 2], device=device)
    given, right = torch.tensor([1.0, 2.0, 4.0, 8.0], device=device), [5.0, 0.0, 10.0]
    yield "index_add", zeros.index_add(0, at, given), right
    yield "index_put that accumulates", zeros.index_put((at,), given, accumulate=True), right
    yield "scatter_add", zeros.scatter_add(0, at, given), right
    yield "scatter_reduce by the largest", zeros.scatter_reduce(0, at, given, "amax"), [4.0, 0.0, 8.0]
    keys = [at % 3 for at in range(64)]
    order = torch.sort(torch.tensor(keys, device=device), stable=True).indices
    yield "the order of a stable sort", order, sorted(range(64), key=keys.__getitem__)
    places = torch.tensor([[0, 1, 0], [1, 0, 1]], device=device)
    given = torch.tensor([2.0, 3.0, 4.0], device=device)
    sparse = torch.sparse_coo_tensor(places, given, (2, 2), check_invariants=True)
    dense = torch.tensor([[1.0, 10.0], [100.0, 1000.0]], device=device)
    yield "sparse.mm with a place twice", torch.sparse.mm(sparse, dense), [[600.0, 6000.0], [3.0, 30.0]]


def of_algebra(torch: Any, device: str) -> Iterator[Tuple[str, Any, Any]]:
    """Distances, equations, transforms and complex products."""
    first, second = points(30, 0.4), points(28, 1.3)
    distances = torch.cdist(*(torch.tensor(rows, device=device) for rows in (first, second)))
    yield "cdist of more than 25 rows", distances, [[math.dist(a, b) for b in second] for a in first]
    matrix = torch.tensor([[4.0, 1.0], [2.0, 3.0]], device=device)
    yield "linalg.solve", torch.linalg.solve(matrix, torch.tensor([6.0, 8.0], device=device)), [1.0, 2.0]
    for norm, scale in (("backward", 1.0), ("ortho", 3**-0.5), ("forward", 1 / 3)):
        waves = [[cmath.exp(-2j * math.pi * k * n / 3) * scale for n in range(3)] for k in range(3)]
        right = [sum(wave * x for wave, x in zip(row, ROWS[0])) for row in waves]
        spectrum = torch.fft.fft(torch.tensor(ROWS[0], device=device), norm=norm)
        yield f"fft by {norm}", torch.view_as_real(spectrum), [[z.real, z.imag] for z in right]
    left, right = [[1 + 2j, 0.5 - 1j], [-1j, 2 + 1j]], [[2 - 1j, 1j], [0.5 + 1j, -1 + 0.5j]]
    result = torch.tensor(left, device=device).conj() @ torch.tensor(right, device=device)
    product = [[sum(a.conjugate() * row[n] for a, row in zip(own, right)) for n in (0, 1)] for own in left]
    yield "a product with a conjugate", torch.view_as_real(result), [[[z.real, z.imag] for z in row] for row in product]


def of_casts(torch: Any, device: str) -> Iterator[Tuple[str, Any, Any]]:
    """Casts, and sums of short types, which are summed in float32."""
    given = torch.tensor([-1.7, -0.2, 1.7, 2.0], device=device)
    yield "a cast to whole numbers", given.to(torch.int64), [-1, 0, 1, 2]
    ones = torch.ones(4096, dtype=torch.bfloat16, device=device)
    yield "the sum of 4096 ones in bf16", ones.sum(), 4096.0
    yield "the mean of 4096 ones in bf16", ones.mean(), 1.0
    if hasattr(torch, "float8_e4m3fn"):
        near = torch.tensor([1.1, 1.2, -1.1, 0.9], device=device).to(torch.float8_e4m3fn).float()
        yield "a cast to float8", near, [1.125, 1.25, -1.125, 0.875]


def promises_of_autograd(torch: Any) -> Iterator[Tuple[str, bool]]:
    """Yield the promises of autograd, each with whether it holds."""
    weight = torch.ones(2, requires_grad=True)
    for _ in range(2):
        (3 * weight).sum().backward()
    yield "gradients of two steps are added", weight.grad.tolist() == [6.0, 6.0]
    saved = weight.exp()
    saved.add_(1)
    try:
        saved.sum().backward()
        refused = False
    except RuntimeError as error:
        refused = "inplace" in str(error)
    yield "a saved tensor that was changed in place is refused", refused
