"""Environments that are broken in one place: the check that should say so does, in the words that it should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomlkit
from support.smoke_env import copied, run_check, site_packages, with_code

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.e2e]

DATA = Path(__file__).with_name("environments.toml")
MUTANTS = tomlkit.parse(DATA.read_text(encoding="utf-8")).unwrap()["mutant"]


def broken(smoke_env: Path, folder: Path, mutant: dict[str, Any]) -> Path:
    """The environment of a mutant."""
    if "file" in mutant:
        return with_code(smoke_env, folder, mutant["file"], "\n" + mutant["code"] + "\n")
    prefix = copied(smoke_env, folder / "env")
    packages = site_packages(prefix)
    if "new" in mutant:
        path = packages / mutant["new"]
        path.parent.mkdir(exist_ok=True)
        path.write_text(mutant["code"] + "\n", encoding="utf-8")
    if "library" in mutant:
        path = packages / mutant["library"]
        content = bytearray(path.read_bytes())
        middle = len(content) // 2
        content[middle : middle + 4096] = bytes(255 - byte for byte in content[middle : middle + 4096])
        path.unlink()  # it may be a link to the file of the environment that was copied
        path.write_bytes(content)
    if "gone" in mutant:
        next(packages.glob(mutant["gone"])).unlink()
    return prefix


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(one, id=one["broken"], marks=pytest.mark.nightly if at > 2 else ())
        for at, one in enumerate(MUTANTS)
    ],
)
def test_a_broken_environment_is_told(smoke_env: Path, tmp_path: Path, mutant: dict[str, Any]) -> None:
    prefix = broken(smoke_env, tmp_path, mutant)
    words = ("--quick", "--device", "cpu", "--only", mutant["group"], *mutant.get("options", ()))
    done = run_check(prefix, tmp_path, *words, env=mutant.get("variables"))
    assert done.status == 1
    assert mutant["check"] in done.failed, done.said
    assert mutant["words"] in done.check(mutant["check"])["reason"]
