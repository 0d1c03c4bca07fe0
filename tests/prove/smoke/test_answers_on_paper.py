"""Recorded answers of the check that no torch gave: LSTMs and causal attention by their definitions, in Python floats.

`recorded.answer` weighs all results, and all gradients, by numbers that no two of them share. A gradient so weighed is
the slope of the weighed results along the weights, here by a central difference.
"""

import math
from collections.abc import Callable, Sequence

import pytest
from envspec_check.checks.answers import ANSWERS
from envspec_check.checks.recorded import WAVES

Vector = list[float]
STEP = 1e-5


def spread(count: int, first: float = 1.0, by: float = 0.37) -> Vector:
    return [math.cos(first + by * at) for at in range(count)]


def wave(kind: str, count: int) -> Vector:
    high, first, by = WAVES[kind]
    return [high * one for one in spread(count, first, by)]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def lstm(
    given: Vector, parameters: Sequence[Vector], *, steps: int = 5, rows: int = 2
) -> list[tuple[Vector, Sequence[int]]]:
    """torch's documentation of LSTM: gates i, f, g, o of 3 inputs and 4 hidden numbers, for one or two directions. The
    outputs, and the last hidden and cell states, each with its shape."""
    wide, size, ways = 3, 4, len(parameters) // 4
    outputs = [[[0.0] * (size * ways) for _ in range(rows)] for _ in range(steps)]
    lasts: list[list[Vector]] = [[], []]
    for way in range(ways):
        inward, across, one, other = parameters[4 * way : 4 * way + 4]
        hidden, cell = ([[0.0] * size for _ in range(rows)] for _ in range(2))
        for step in reversed(range(steps)) if way else range(steps):
            for row in range(rows):
                x = given[(step * rows + row) * wide :][:wide]
                before = hidden[row]
                sums = [
                    sum(inward[k * wide + j] * x[j] for j in range(wide))
                    + sum(across[k * size + j] * before[j] for j in range(size))
                    + one[k]
                    + other[k]
                    for k in range(4 * size)
                ]
                i, f, g, o = (sums[at : at + size] for at in range(0, 4 * size, size))
                pairs = zip(cell[row], i, f, g, strict=True)
                cell[row] = [sigmoid(b) * c + sigmoid(a) * math.tanh(d) for c, a, b, d in pairs]
                hidden[row] = [sigmoid(a) * math.tanh(c) for a, c in zip(o, cell[row], strict=True)]
                outputs[step][row][way * size : way * size + size] = hidden[row]
        lasts[0] += hidden
        lasts[1] += cell
    flat = [number for step in outputs for row in step for number in row]
    state = (ways, rows, size)
    return [(flat, (steps, rows, size * ways)), *(([n for row in last for n in row], state) for last in lasts)]


def attention(query: Vector, key: Vector, value: Vector) -> list[tuple[Vector, Sequence[int]]]:
    """Query i of 3 sees the keys up to i of 5, in each of 2 heads of 4 numbers: the mask begins at the upper left."""
    found: Vector = []
    for head in range(2):
        for row in range(3):
            own = query[(head * 3 + row) * 4 :][:4]
            seen = [(head * 5 + at) * 4 for at in range(row + 1)]
            shares = [math.exp(sum(a * key[at + j] for j, a in enumerate(own)) / 2) for at in seen]
            found += [
                sum(s * value[at + j] for s, at in zip(shares, seen, strict=True)) / sum(shares) for j in range(4)
            ]
    return [(found, (1, 2, 3, 4))]


def answer(
    compute: Callable[[Sequence[Vector]], list[tuple[Vector, Sequence[int]]]], tensors: Sequence[Vector], *, layer: bool
) -> tuple[float, float]:
    def flat(own: Sequence[Vector]) -> Vector:
        return [number for numbers, shape in compute(own) for number in (*numbers, *map(float, shape))]

    def weighed(numbers: Vector) -> float:
        return math.fsum(a * b for a, b in zip(numbers, spread(len(numbers)), strict=True))

    def moved(step: float) -> float:
        along, made = iter(spread(sum(map(len, tensors)))), []
        for own in tensors:
            made.append([number + step * next(along) for number in own])
        return weighed(flat(made))

    results = flat(tensors)
    return weighed(results * 2 if layer else results), (moved(STEP) - moved(-STEP)) / (2 * STEP)


def of_lstm(ways: int) -> tuple[float, float]:
    sizes = (48, 64, 16, 16) * ways
    parameters = [[0.6 * one for one in spread(size, 2.0 + at, 0.9)] for at, size in enumerate(sizes)]
    return answer(lambda own: lstm(own[0], own[1:]), [wave("x", 30), *parameters], layer=True)


def of_attention() -> tuple[float, float]:
    given = [wave("x", 24), wave("x", 40), wave("y", 40)]
    return answer(lambda own: attention(*own), given, layer=False)


@pytest.mark.parametrize(
    ("row", "right"),
    [
        ("LSTM(3, 4) | x5,2,3", of_lstm(1)),
        ("LSTM(3, 4, bidirectional=True) | x5,2,3", of_lstm(2)),
        ("scaled_dot_product_attention(is_causal=True) | x1,2,3,4 x1,2,5,4 y1,2,5,4", of_attention()),
    ],
)
def test_a_recorded_answer_is_its_definition_s(row: str, right: tuple[float, float]) -> None:
    (line,) = [one for one in ANSWERS.splitlines() if one.startswith(f"{row} = ")]
    assert list(map(float, line.rpartition(" = ")[2].split())) == pytest.approx(right, rel=1e-6, abs=1e-6)
