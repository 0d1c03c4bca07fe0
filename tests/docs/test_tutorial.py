"""The tutorial's console blocks, one after the other in an empty folder, against the real PyPI.

`envspec run`, `smoke` and the image have tests of their own: tests/e2e/test_cpu_py311_builds.py and
test_smoke_apptainer.py.
"""

from pathlib import Path

import pytest
from console_blocks import TUTORIAL, fits, of, shown


@pytest.mark.network
def test_the_tutorial(tmp_path: Path) -> None:
    blocks = of(TUTORIAL)
    assert len(blocks) > 3
    for block in blocks:
        told = shown(block, tmp_path)
        assert fits(block, told), told
