"""Mutants of a module: each is a program, another one, and changes what it says it does."""

import ast

import pytest

from tools.mutate import MUTATED, ROOT, MutantFinder

TEXT = '''
def f(a: int = 1, *, b: str = "two words") -> bool:
    """A docstring: 2"""
    if not a and b in ("x", b"y".decode()):
        raise ValueError(f"{a + 1} in words")
    return [one for one in range(a, 9) if one > 3][1:] != g(a, key=True)
'''


def made(text: str) -> dict[tuple[str, str], str]:
    places = MutantFinder("m.py", text)
    places.visit(ast.parse(text))
    data = text.encode()
    found = {}
    for (_, _, _, kind, old, new), (start, end) in places.found:
        assert data[start:end].decode() == old
        whole = (data[:start] + new.encode() + data[end:]).decode()
        assert ast.dump(ast.parse(whole)) != ast.dump(ast.parse(text)), (old, new)
        found[kind, new] = whole
    return found


def test_each_is_another_program() -> None:
    found = made(TEXT)
    kinds = {kind for kind, _ in found}
    assert kinds > {"comparison swapped", "and/or swapped", "operand dropped", "not dropped", "constant", "returned"}
    assert kinds > {"statement deleted", "argument dropped", "condition dropped", "bound dropped"}
    assert ("argument dropped", "(g(a))") in found and ("constant", "(0)") in found
    assert not any("docstring" in new or "words" in new for _, new in found if new != "pass"), "no text is changed"


@pytest.mark.parametrize("part", MUTATED)
def test_what_is_mutated_is_there(part: str) -> None:
    assert (ROOT / "envspec" / part).exists()
