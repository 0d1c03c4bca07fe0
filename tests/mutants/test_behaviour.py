"""Public functions of torch that do another thing than they say are told, each by its check, and no sound torch is."""

import json
import subprocess
from pathlib import Path

import pytest
from support.smoke_env import CHECK

MUTANTS = Path(__file__).with_name("behaviour.py")


@pytest.mark.network
@pytest.mark.e2e
@pytest.mark.nightly
def test_each_function_that_does_another_thing_is_told(smoke_env: Path, tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    command = [str(smoke_env / "bin/python"), str(MUTANTS), str(CHECK), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())
    wrong = [one for one in results if one["told"] is not bool(one["code"])]
    assert not wrong, "\n".join("{}: {}".format(one["check"], one.get("broken", "nothing is wrong")) for one in wrong)
    assert sum("broken" in one for one in results) >= 156
