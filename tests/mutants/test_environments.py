"""Environments with one file of torch broken: the check that should say so does, in the words that it should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomlkit
from support.smoke_env import run_check, with_code

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.e2e]

DATA = Path(__file__).with_name("environments.toml")
MUTANTS = tomlkit.parse(DATA.read_text(encoding="utf-8")).unwrap()["mutant"]


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(one, id=one["broken"], marks=pytest.mark.nightly if at > 2 else ())
        for at, one in enumerate(MUTANTS)
    ],
)
def test_a_broken_environment_is_told(smoke_env: Path, tmp_path: Path, mutant: dict[str, Any]) -> None:
    prefix = with_code(smoke_env, tmp_path, mutant["file"], "\n" + mutant["code"] + "\n")
    done = run_check(prefix, tmp_path, "--quick", "--device", "cpu", "--only", mutant["group"])
    assert done.status == 1
    assert mutant["check"] in done.failed, done.said
    assert mutant["words"] in done.check(mutant["check"])["reason"]
