"""The mutations themselves: what they make can be made again, stays short, and is what their names say."""

import time
from random import Random

import pytest
from fuzz_mutate import CHANGES, LONGEST, TOKENS, Change, cut, inserted, mutated, repeated, smallest, spliced, swapped

EXAMPLES = (b"alpha==1\nbeta>=2\n", b'{"a": [1, 2]}')


@pytest.mark.parametrize("change", [*dict.fromkeys(CHANGES)], ids=lambda change: change.__name__)
@pytest.mark.parametrize("data", [b"", b"x", EXAMPLES[0], bytes(range(256))])
def test_every_change_takes_any_bytes(change: Change, data: bytes) -> None:
    found = {change(data, EXAMPLES, Random(seed)) for seed in range(50)}
    assert data == b"" or found - {data} or change is swapped


def test_the_same_seed_gives_the_same_input() -> None:
    assert [mutated(EXAMPLES, Random(n)) for n in range(99)] == [mutated(EXAMPLES, Random(n)) for n in range(99)]
    assert len({mutated(EXAMPLES, Random(n)) for n in range(99)}) > 80


def test_inputs_stay_short() -> None:
    assert len(mutated((b"x" * 10 * LONGEST,), Random(1))) <= LONGEST


@pytest.mark.parametrize("seed", range(20))
def test_what_changes_do(seed: int) -> None:
    data, other = EXAMPLES
    assert len(cut(data, EXAMPLES, Random(seed))) <= len(data)
    assert len(repeated(data, EXAMPLES, Random(seed))) >= len(data)
    assert sorted(swapped(data, EXAMPLES, Random(seed)).split(b"\n")) == sorted(data.split(b"\n"))
    at = Random(seed).randint(0, len(data))
    made = inserted(data, EXAMPLES, Random(seed))
    assert made.startswith(data[:at]) and made.endswith(data[at:]) and made[at : len(made) - len(data) + at] in TOKENS
    assert set(spliced(data, (other,), Random(seed))) <= set(data + other)


def test_a_failing_input_shrinks_to_what_fails() -> None:
    assert smallest(b"a" * 1000 + b"\0" + b"b" * 1000, lambda data: b"\0" in data) == b"\0"
    assert smallest(b"(" * 64, lambda data: data.count(b"(") >= 7) == b"(" * 7


def test_shrinking_ends() -> None:
    asked: list[bytes] = []

    def never(data: bytes) -> bool:
        asked.append(data)
        return False

    assert smallest(b"x" * 5000, never, tries=50) == b"x" * 5000
    assert len(asked) == 50


def test_shrinking_takes_no_longer_than_it_may() -> None:
    asked: list[bytes] = []

    def slow(data: bytes) -> bool:
        asked.append(data)
        time.sleep(0.05)
        return False

    assert smallest(b"x" * 5000, slow, seconds=0.2) == b"x" * 5000
    assert len(asked) <= 5
