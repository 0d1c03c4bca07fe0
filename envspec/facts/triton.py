"""triton's releases and the compiler in their wheels: what torch.compile can compile for."""

from __future__ import annotations

import re
from functools import cache

from msgspec import Struct

from envspec.facts.tables import read, records
from envspec.packages.version_numbers import numbers

FIRST_OF_ITS_OWN = (10, 0)
"""From this capability on triton takes `ptxas-blackwell`, where a release has one."""

LEAST = (7, 0)
"""The least capability that torch.compile takes. Source: `has_triton` of torch/utils/_triton.py."""


class TritonRelease(
    Struct, frozen=True, rename={"blackwell": "ptxas-blackwell", "capabilities": "sm", "sources": "source"}
):
    """A release on PyPI. `ptxas` and `blackwell` are the CUDA of its compilers; `capabilities` what it compiles for,
    from 7.0 on, the least that torch.compile takes."""

    version: str
    ptxas: str
    blackwell: str | None
    capabilities: tuple[str, ...]
    sources: tuple[str, ...]

    def compiles_for(self, capability: str) -> bool:
        """Return whether its ptxas knows a capability by the name that triton gives it (11.0 isn't 10.1 here)."""
        return capability in self.capabilities

    def cuda_for(self, capability: str) -> str:
        """The CUDA of the compiler that it takes for a capability."""
        return self.blackwell if self.blackwell and numbers(capability) >= FIRST_OF_ITS_OWN else self.ptxas

    def variable_for(self, capability: str) -> str:
        """The environment variable that gives it another compiler for a capability."""
        own = self.blackwell and numbers(capability) >= FIRST_OF_ITS_OWN
        return "TRITON_PTXAS_BLACKWELL_PATH" if own else "TRITON_PTXAS_PATH"


@cache
def releases() -> tuple[TritonRelease, ...]:
    """Every release in the table, oldest first."""
    return records(TritonRelease, read("triton")["releases"])


def release(version: str) -> TritonRelease | None:
    """Find a release by its version, or the newest that `~=3.8.0` admits; ignores a local part. None if none does."""
    plain = version.partition("+")[0]
    if version.startswith("~=") and (bound := re.match(r"[\d.]+", version[2:].lstrip())):
        least = numbers(bound[0])
        admitted = [
            row for row in releases() if numbers(row.version)[:2] == least[:2] and numbers(row.version) >= least
        ]
        return admitted[-1] if admitted else None
    return next((row for row in releases() if row.version == plain), None)


def is_newer(version: str) -> bool:
    """Return whether a release, or the least that a range admits, is newer than the table."""
    number = re.search(r"\d+(\.\d+)*", version)
    return number is not None and numbers(number[0]) > numbers(releases()[-1].version)


def first_for(capability: str, after: str) -> TritonRelease | None:
    """Find the first release after one that compiles for a capability; None if the table has none."""
    newer = (row for row in releases() if numbers(row.version) > numbers(after))
    return next((row for row in newer if row.compiles_for(capability)), None)
