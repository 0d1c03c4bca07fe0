"""What a library covers: its modules, by the rule of tests/facts/test_compute_capability.py for their code."""

import pytest

from envspec.binaries.fatbin import Code, Kind
from envspec.binaries.library import Library, ModuleCoverage, merge
from envspec.facts.compute_capability import Architecture, read_capability


def sass(name: str) -> Code:
    return Code(Kind.SASS, read_capability(f"sm_{name}"))


def ptx(name: str) -> Code:
    return Code(Kind.PTX, read_capability(f"sm_{name}"))


@pytest.mark.parametrize(
    ("code", "capability", "runs"),
    [
        (sass("100f"), "10.3", True),
        (sass("80"), "9.0", False),
        (ptx("50"), "12.0", True),
        (ptx("90"), "8.9", False),
        (Code(Kind.LTO, read_capability("9.0")), "9.0", False),
        (Code(Kind.OTHER, read_capability("9.0")), "9.0", False),
    ],
    ids=lambda value: value.name if isinstance(value, Code) else str(value),
)
def test_runs_on(code: Code, capability: str, runs: bool) -> None:
    assert code.runs_on(read_capability(capability)) is runs


def test_coverage_counts_modules() -> None:
    library = Library(
        "lib.so",
        1,
        {frozenset({sass("80"), sass("90"), ptx("90")}): 10, frozenset({sass("90a")}): 2, frozenset({ptx("70")}): 3},
    )
    assert library.module_count == 15
    assert library.architectures(Kind.SASS) == {
        read_capability("8.0"): 10,
        read_capability("9.0"): 10,
        Architecture(90, "a"): 2,
    }
    assert library.architectures(Kind.PTX) == {read_capability("7.0"): 3, read_capability("9.0"): 10}
    assert library.coverage(read_capability("9.0")) == ModuleCoverage(native=12, jit=3, none=0)
    assert library.coverage(read_capability("8.6")) == ModuleCoverage(native=10, jit=3, none=2)
    assert library.coverage(read_capability("12.0")) == ModuleCoverage(native=0, jit=13, none=2)
    assert library.coverage(read_capability("6.1")) == ModuleCoverage(native=0, jit=0, none=15)
    verdicts = {
        capability: library.coverage(read_capability(capability)).verdict
        for capability in ("9.0", "8.6", "12.0", "6.1")
    }
    assert verdicts == {"9.0": "native", "8.6": "native", "12.0": "jit", "6.1": "no"}


def test_merge_adds_up() -> None:
    one = Library("a/1.cubin", 5, {frozenset({sass("90")}): 1})
    two = Library("a/2.cubin", 7, {frozenset({sass("90")}): 1, frozenset({sass("80")}): 1}, complete=False)
    expected = Library(
        "a/*.cubin", 12, {frozenset({sass("90")}): 2, frozenset({sass("80")}): 1}, complete=False, files=2
    )
    assert merge("a/*.cubin", [one, two]) == expected
