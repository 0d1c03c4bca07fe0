"""Products of 8-bit floats on the CPU, where torch computes them too: what operators.fp8 asks of a GPU, for real."""

import subprocess
from pathlib import Path

import pytest
from support.smoke_env import CHECK

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from envspec_check import checks, workloads
from envspec_check.checks.gpu import float8
from envspec_check.interface import Context
ctx = Context({}, "cpu", "basic", 5, True, 0, 60.0, Path("."), "check")
right = float8.product
print(float8.operators_fp8(ctx).status)
float8.product = lambda torch, one, other: right(torch, one, other) * 1.05
print(float8.operators_fp8(ctx).reason)
"""


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.e2e
def test_fp8_is_compared_with_float64(smoke_env: Path) -> None:
    words = [str(smoke_env / "bin" / "python"), "-I", "-c", PROGRAM, str(CHECK)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    healthy, wrong = done.stdout.splitlines()
    assert healthy == "pass"
    assert wrong.startswith("a product in FP8 is off by 0.05")
