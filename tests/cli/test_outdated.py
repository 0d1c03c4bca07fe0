"""`envspec outdated`: what is newer, and what holds it back."""

import json
from typing import Any

import pytest
from cli_project import SPEC, Envspec, Project, pin
from support.index import Index, status
from support.machine import Machine, cpu
from support.packages import wheel
from test_json import valid


@pytest.fixture
def demo(machine: Machine, index: Index) -> Machine:
    index.add(
        wheel("app", "1.0", "lib<2", "old"),
        wheel("lib", "1.0"),
        wheel("old", "1.0"),
        wheel("bound", "1.0"),
        wheel("free", "1.0"),
    )
    machine.locked(spec=cpu("app", "bound<2", "free", "free2; sys_platform == 'win32'"))
    index.add(
        wheel("lib", "2.0"),
        wheel("old", "2.0a1"),
        wheel("bound", "2.0"),
        wheel("free", "1.1"),
        wheel("free", "1.2", requires_python=">=3.13"),
    )
    return machine


def newer(machine: Machine, *options: str) -> dict[str, Any]:
    ran = machine.envspec("outdated", "specs/demo.toml", "--json", *options, status=0)
    return {one["name"]: one for one in valid(ran.out)["newer"]}


def reasons(one: dict[str, Any]) -> list[str]:
    return [hold["reason"] for hold in one["holds"]]


@pytest.mark.slow
def test_who_holds_what_back(demo: Machine) -> None:
    found = newer(demo, "--all")
    assert sorted(found) == ["bound", "free", "lib"], "a pre-release is no news"
    assert reasons(found["lib"]) == ["app 1.0 asks for lib<2"] and found["lib"]["holds"][0]["path"] == ["app"]
    assert reasons(found["bound"]) == ["the spec asks for bound<2"]
    assert [found[name]["holds"][0]["kind"] for name in sorted(found)] == ["requirement", "target", "requirement"]
    assert found["free"]["newest"] == "1.2" and reasons(found["free"]) == ["it needs Python >=3.13"]
    assert (found["free"]["locked"], found["free"]["upgrade"]) == ("1.0", "1.1"), "a part of the way is free"
    assert sorted(newer(demo)) == sorted(newer(demo, "--direct")) == ["bound", "free"], "the spec's own by default"


@pytest.mark.slow
def test_for_people(demo: Machine) -> None:
    before = demo.files()
    ran = demo.envspec("outdated", "specs/demo.toml", "--all")
    rows = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert "lib 1.0 2.0 2.0 app 1.0 asks for lib<2 cpu" in rows
    assert "free 1.0 1.2 1.2 1.1 comes; then it needs Python >=3.13 cpu" in rows
    assert rows[-1] == "3 of 5 packages have newer releases; `envspec upgrade` moves 1 of them"
    assert demo.files() == before


@pytest.mark.slow
def test_offline_takes_the_pages_as_they_were_read(demo: Machine) -> None:
    assert newer(demo, "--offline") == {}
    found = newer(demo)
    assert newer(demo, "--offline") == found


def test_a_page_that_cant_be_read_is_named(demo: Machine, index: Index) -> None:
    index.fail("^/simple/lib/", status(500))
    ran = demo.envspec("outdated", "specs/demo.toml", "--json", "--all")
    assert ran.status == 3 and {one["package"] for one in json.loads(ran.out)["unread"]} == {"lib"}


def bounded(day: str) -> str:
    return cpu("app", "lib").replace("[env]", f'[env]\nexclude-newer = "{day}"')


@pytest.fixture
def later(machine: Machine, index: Index) -> Machine:
    """A lock of a month ago, with a bound that has moved since."""
    index.add(wheel("app", "1.0", "lib<2"), wheel("lib", "1.0"), uploaded="2026-01-01T00:00:00Z")
    machine.spec(bounded("2026-02-01"))
    machine.locked()
    index.add(wheel("app", "2.0", "lib<3"), wheel("lib", "2.0"), uploaded="2026-02-15T00:00:00Z")
    index.add(wheel("app", "2.1", "lib<3"), wheel("lib", "3.0"), uploaded="2026-03-15T00:00:00Z")
    return machine


def test_the_bound_is_one_reason_and_has_the_newest_within(later: Machine) -> None:
    found = newer(later)
    assert {name: (one["within"], one["newest"], one["upgrade"]) for name, one in found.items()} == {
        "app": ("1.0", "2.1", "1.0"),
        "lib": ("1.0", "3.0", "1.0"),
    }
    assert [hold["kind"] for one in found.values() for hold in one["holds"]] == ["bound", "bound"]


@pytest.mark.slow
def test_what_the_old_pins_alone_hold_back_is_held_by_nothing(later: Machine) -> None:
    """app 1.0 asks for lib<2, and app itself may move: a consequence of the lock isn't what holds lib."""
    later.spec(bounded("2026-03-01"))
    assert [(one["upgrade"], one["within"]) for one in newer(later).values()] == [("2.0", "2.0"), ("2.0", "2.0")]
    later.spec(cpu("app", "lib"))
    found = newer(later)
    assert found["app"]["holds"] == [] and reasons(found["lib"]) == ["app 2.1 asks for lib<3"]


@pytest.mark.slow
def test_targets_whose_releases_differ_are_told_and_why(machine: Machine, index: Index) -> None:
    index.add(wheel("lib", "1.0"), wheel("lib", "2.0"))
    two = """[targets.a]
platform = "linux-64"
[targets.a.pip]
constraints = ["lib<2"]
[targets.b]
platform = "linux-64"
[targets.b.pip]
constraints = ["lib>=2"]
"""
    machine.spec(cpu("lib", targets=two))
    machine.locked()
    ran = machine.envspec("outdated", "specs/demo.toml", "--json")
    (one,) = valid(ran.out)["differing"]
    assert [(row["version"], row["targets"], row["reason"]) for row in one["versions"]] == [
        ("2.0", ["b"], None),
        ("1.0", ["a"], "the spec's constraint lib<2"),
    ]
    assert (
        "lib differs:\n  2.0 in b\n  1.0 in a: the spec's constraint lib<2\n"
        in machine.envspec("outdated", "specs/demo.toml").out
    )


@pytest.mark.slow
def test_what_cant_be_upgraded_as_a_whole_is_told_by_the_old_pins(demo: Machine, index: Index) -> None:
    index.fail("^/simple/old/", status(404))
    ran = demo.envspec("outdated", "specs/demo.toml")
    assert ran.status == 0 and "can't be upgraded as a whole" in ran.err and "the spec asks for bound<2" in ran.out


# `envspec outdated --horizon`.


pytest_plugins = ["cli_fixtures"]


def test_each_targets_last_torch_and_what_leads_further(project: Project, envspec: Envspec) -> None:
    told = envspec("outdated", "specs/demo.toml", "--horizon")
    assert told.code == 0, told.err
    lines = told.out.splitlines()
    assert "cu126-volta (V100, CUDA 12.6): torch 2.9.1 is locked" in lines
    assert "    torch 2.12.0 has no CUDA 12.8 build for linux-64: the last is of torch 2.11.0" in lines
    assert "  to torch 2.13.0: CUDA 12.9" in lines
    volta = lines.index("cu126-volta (V100, CUDA 12.6): torch 2.9.1 is locked")
    assert lines[volta + 1] == "  last: torch 2.12.1" and lines[volta + 3] == "  nothing newer can be locked for it"


def test_as_a_document(project: Project, envspec: Envspec) -> None:
    (row,) = valid(envspec("outdated", "specs/demo.toml", "--horizon", "-t", "cu128-hopper", "--json").out)["targets"]
    assert (row["target"], row["locked"], row["last"]) == ("cu128-hopper", "2.9.1+cu128", "2.11.0")
    assert any({"torch": "2.13.0", "cuda": "12.9"}.items() <= move.items() for move in row["moves"])


def test_it_needs_no_network(project: Project, envspec: Envspec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envspec.app.outdated.pip_resolver", None)
    assert envspec("outdated", "specs/demo.toml", "--horizon").code == 0


def test_a_target_without_torch_has_none(project: Project, envspec: Envspec) -> None:
    project.spec(SPEC.replace('"torch==2.9.*"', '"lib"'))
    project.lock(lambda target: (pin("app", "1.4", direct=True), pin("lib", "2.5", direct=True)))
    told = envspec("outdated", "specs/demo.toml", "--horizon")
    assert told.code == 0 and told.out == "no target asks for a torch that envspec's tables describe\n"
