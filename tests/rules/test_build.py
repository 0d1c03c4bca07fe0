"""A build against a machine where no row of the tables shows it: PTX under minor-version compatibility."""

from dataclasses import replace

import pytest

from envspec.rules.build import architecture
from envspec.rules.case import CandidateBuild, of_target

BUILD = CandidateBuild("9.0", "cu129", "12.9", ("8.0",), ("9.0",), (), None, None, "high", "pip")


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        (None, "ptx-only"),
        ("575.57.08", "ptx-only"),
        ("570.86.10", "ptx-newer-than-driver"),
        ("572.61", "ptx-newer-than-driver"),
        ("577.00", "ptx-only"),
    ],
)
def test_a_driver_compiles_no_ptx_that_is_newer_than_its_cuda(driver: str | None, expected: str) -> None:
    """NVIDIA, CUDA Compatibility; 572 and 577 are Windows's numbers, as under WSL."""
    case = of_target("linux-64", "3.12", "12.9", ["B200"], driver, "2.28")
    assert [problem.code for problem in architecture(BUILD, case)] == [expected]


@pytest.mark.parametrize(
    ("driver", "expected"), [("595.45.04", "ptx-newer-than-driver"), ("610.43.02", "ptx-only"), (None, "ptx-only")]
)
def test_a_cuda_without_a_driver_of_its_own_is_no_older_than_the_one_before(driver: str | None, expected: str) -> None:
    """NVIDIA names none for 13.4; R595 is older than 13.3's already."""
    build = replace(BUILD, variant="cu134", cuda="13.4")
    case = of_target("linux-64", "3.12", "13.4", ["B200"], driver, "2.28")
    assert [problem.code for problem in architecture(build, case)] == [expected]
