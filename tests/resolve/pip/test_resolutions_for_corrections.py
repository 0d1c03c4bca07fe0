"""How often uv solves a large stack that breaks many corrections: once, and at most twice more."""

from collections.abc import Sequence
from typing import Any

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel

from envspec.resolve.uv.program import Uv

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SEVEN = {
    "opencv-python": "4.9.0.80",
    "opencv-python-headless": "4.9.0.80",
    "scikit-image": "0.22.0",
    "matplotlib": "3.7.2",
    "pandas": "2.1.1",
    "h5py": "3.10.0",
    "numexpr": "2.9.0",
}
"""Packages of which a correction says `numpy<2`."""


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """uv's resolutions, each with its command."""
    asked: list[list[str]] = []
    real = Uv.run

    def run(self: Uv, command: Sequence[str], **options: Any) -> Any:
        if [*command][:2] == ["pip", "compile"]:
            asked.append([*command])
        return real(self, command, **options)

    monkeypatch.setattr(Uv, "run", run)
    return asked


def stack(index: Index, requirement: str) -> tuple[str, ...]:
    """Ninety-two small packages that require each other, the seven, NumPy of both kinds."""
    index.add(wheel("numpy", "1.26.4"), wheel("numpy", "2.2.6"))
    names = [f"part-{number}" for number in range(92)]
    for name, following in zip(names, [*names[1:], ""], strict=True):
        index.add(wheel(name, "1.0", *filter(None, (following, "numpy"))))
    for name, version in SEVEN.items():
        index.add(wheel(name, version, *filter(None, (requirement,))))
    return ("part-0", "numpy", *SEVEN)


@pytest.mark.parametrize(
    "requirement", ["numpy>=1.17", pytest.param("", marks=pytest.mark.nightly)], ids=["named-in-metadata", "not-named"]
)
def test_a_hundred_packages_and_seven_corrections(
    machine: Machine, index: Index, runs: list[list[str]], requirement: str
) -> None:
    ran = machine.envspec("lock", machine.spec(cpu(*stack(index, requirement))), status=0)
    versions = machine.versions("cpu")
    assert (len(versions), versions["numpy"]) == (100, "1.26.4")
    assert ran.err.count("numpy<2 added, because") == 7
    # numpy is older than its page offers, as the corrections say themselves
    assert len(runs) == 1
    assert "is locked, not" not in ran.err


def test_between_packages_that_nothing_brings_together_once_more(
    machine: Machine, index: Index, runs: list[list[str]]
) -> None:
    """No METADATA of the seven names NumPy, and the spec doesn't ask for it: only a solution has both."""
    first, _, *seven = stack(index, "")
    machine.envspec("lock", machine.spec(cpu(first, *seven)), status=0)
    assert machine.versions("cpu")["numpy"] == "1.26.4"
    assert len(runs) == 2
