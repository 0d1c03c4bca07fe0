"""Arguments of torch's public names that are ignored, and answers that are too large, are told by the check, but for
those of untold.toml, each of which has its reason."""

import json
import subprocess
from pathlib import Path

import pytest
import tomli
from support.smoke_env import CHECK

UNTOLD = Path(__file__).with_name("untold.toml")


@pytest.mark.network
@pytest.mark.e2e
@pytest.mark.nightly
def test_each_argument_that_is_ignored_is_told_or_has_its_reason(smoke_env: Path, tmp_path: Path) -> None:
    program, out = Path(__file__).with_name("arguments.py"), tmp_path / "found.json"
    words = [str(smoke_env / "bin/python"), str(program), str(CHECK), str(out)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())
    reasons = [name for names in tomli.loads(UNTOLD.read_text(encoding="utf-8")).values() for name in names]
    assert sorted(f"{name} {argument}" for name, argument, told in results if not told) == sorted(reasons)
    assert len(results) >= 758
