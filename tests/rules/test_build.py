"""A build against a machine where no row of the tables shows it: PTX under minor-version compatibility."""

import ast
from pathlib import Path

import pytest
from msgspec.structs import replace

from envspec.rules import build
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
    newer = replace(BUILD, variant="cu134", cuda="13.4")
    case = of_target("linux-64", "3.12", "13.4", ["B200"], driver, "2.28")
    assert [problem.code for problem in architecture(newer, case)] == [expected]


def test_the_codes_of_builds_are_those_of_their_rules() -> None:
    """A lock tells them of its pins alone, where it has a torch."""
    tree = ast.parse(Path(build.__file__).read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Finding"]
    codes = {one.value for call in calls for one in ast.walk(call.args[1]) if isinstance(one, ast.Constant)}
    assert {one for one in codes if isinstance(one, str)} == build.OF_BUILDS
