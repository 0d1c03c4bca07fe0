"""A spec of a repository that is a link to a file of the user's elsewhere: no byte of that file is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.machine import Machine, cpu

COMMANDS = ("check", "lock", "diff", "tree", "doctor", "report -o page.html", "export --format requirements -o -")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("by", ["the spec", "its folder"])
def test_a_link_out_of_the_repository(machine: Machine, tmp_path: Path, command: str, by: str) -> None:
    (machine.folder / ".git").mkdir(parents=True)
    secret = tmp_path / "elsewhere" / "demo.toml"
    secret.parent.mkdir()
    secret.write_text('[env]\npython = "hunter2-Zq"\n[token]\nvalue = "hunter2-Zq"\n')
    specs = machine.folder / "specs"
    if by == "the spec":
        specs.mkdir(exist_ok=True)
        (specs / "demo.toml").symlink_to(secret)
    else:
        specs.rmdir()
        specs.symlink_to(secret.parent)
    name, *options = command.split()
    ran = machine.envspec(name, "specs/demo.toml", *options)
    assert ran.status == 2 and "a link leads from here out of" in ran.err, ran.err
    assert "hunter2" not in ran.err + ran.out and "hunter2" not in machine.envspec(name, *options).err


def test_a_link_within_is_followed(machine: Machine) -> None:
    (machine.folder / ".git").mkdir(parents=True)
    real = machine.folder / machine.spec(cpu("alpha"))
    (real.parent / "other.toml").symlink_to(real)
    assert "a link leads" not in machine.envspec("check", "specs/other.toml").err
