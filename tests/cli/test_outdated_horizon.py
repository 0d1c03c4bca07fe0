"""`envspec outdated --horizon`."""

from __future__ import annotations

import pytest
from cli_project import SPEC, Envspec, Project, pin
from test_json import valid

pytest_plugins = ["cli_fixtures"]


def test_each_targets_last_torch_and_what_leads_further(project: Project, envspec: Envspec) -> None:
    told = envspec("outdated", "specs/demo.toml", "--horizon")
    assert told.code == 0, told.err
    lines = told.out.splitlines()
    assert "cu126-volta (V100, CUDA 12.6): torch 2.9.1 is locked" in lines
    assert "    torch 2.12.0 has no CUDA 12.8 build for linux-64: the last is of torch 2.11.0" in lines
    assert "  to torch 2.13.0: CUDA 12.9" in lines
    volta = lines.index("cu126-volta (V100, CUDA 12.6): torch 2.9.1 is locked")
    assert lines[volta + 1] == "  last: torch 2.14.1" and lines[volta + 3] == "  nothing newer runs on these GPUs"


def test_as_a_document(project: Project, envspec: Envspec) -> None:
    (row,) = valid(envspec("outdated", "specs/demo.toml", "--horizon", "-t", "cu128-hopper", "--json").out)["targets"]
    assert (row["target"], row["locked"], row["last"]) == ("cu128-hopper", "2.9.1+cu128", "2.11.0")
    assert {"torch": "2.13.0", "cuda": "12.9"}.items() <= row["moves"][1].items()


def test_it_needs_no_network(project: Project, envspec: Envspec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envspec.resolve.pip.setup.pip_resolver", None)
    assert envspec("outdated", "specs/demo.toml", "--horizon").code == 0


def test_a_target_without_torch_has_none(project: Project, envspec: Envspec) -> None:
    project.spec(SPEC.replace('"torch==2.9.*"', '"lib"'))
    project.lock(lambda target: (pin("app", "1.4", direct=True), pin("lib", "2.5", direct=True)))
    told = envspec("outdated", "specs/demo.toml", "--horizon")
    assert told.code == 0 and told.out == "no target asks for a torch that envspec's tables describe\n"
