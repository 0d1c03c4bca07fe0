"""`envspec check --imports`: what a project's sources import beside what the lock's wheels hold."""

import pytest
from cli_project import SPEC, Envspec, Project, changed, demo_pins, without
from support.documents import valid
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel

pytest_plugins = ["cli_fixtures"]


@pytest.mark.e2e
def test_wheels_bring_what_their_records_have(machine: Machine, index: Index) -> None:
    """beta brings a module of another name, which no name tells: the RECORD that `lock` read does."""
    index.add(wheel("alpha", "1.0", "beta"), wheel("beta", "1.0", files={"odd_name/__init__.py": b""}))
    machine.locked(spec=cpu("alpha"))
    root = machine.lock_path().parents[2]
    (root / "train.py").write_text("import alpha, odd_name, nltk\ntry:\n    import fast\nexcept ImportError: ...\n")
    (root / "requirements-eval.txt").write_text("nltk>=3\n")
    index.asked.clear()
    ran = machine.envspec("check", "--imports", "specs/demo.toml", status=1)
    assert "nltk is imported by 1 file (train.py), and no package of the lock brings it; " in ran.out
    assert "nltk is declared in requirements-eval.txt  [import-unlocked]" in ran.out
    assert "imported only in a try-block or a function, and no package of the lock brings it: fast" in ran.out
    assert "odd_name" not in ran.out and "alpha" not in ran.out and "envspec add specs/demo.toml nltk" in ran.err
    assert index.asked == []
    (root / "train.py").write_text("import alpha, odd_name\n")
    machine.envspec("check", "--imports", "specs/demo.toml", status=0)


def test_a_cuda_target_without_torch_is_a_finding(project: Project, envspec: Envspec) -> None:
    project.spec(SPEC.replace('"app>=1", "torch==2.9.*"', '"ping"'))
    pins = without(demo_pins("cpu"), "app", "lib", "speedup", "torch")
    project.lock(lambda target: changed(pins, "ping", direct=True))
    (project.folder / "train.py").write_text("import torch\n")
    assert envspec("check").code == 0
    ran = envspec("check", "--imports", "--json")
    assert ran.code == 1
    (spec,) = valid(ran.out, "check")["specs"]
    found = {one["code"]: one["targets"] for one in spec["reasons"]}
    assert found == {"import-unlocked": ["cpu"], "cuda-without-torch": ["cu126-volta", "cu128-hopper"]}


def test_sources_that_the_lock_suffices_for_are_fresh(project: Project, envspec: Envspec) -> None:
    (project.folder / "train.py").write_text("import app, torch, lib\n")
    assert envspec("check", "--imports").code == 0
    (project.folder / "train.py").write_text("import app, no_such_thing\n")
    ran = envspec("check", "--imports")
    assert ran.code == 1 and "specs/demo.toml: lacking\n" in ran.out and "no file declares it" in ran.out
    assert "that PyPI has a package of that name proves nothing" in ran.err
