"""`envspec add` and `envspec remove`: the spec and its lock change together, or neither does."""

import json

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import sdist, wheel


@pytest.fixture
def demo(machine: Machine, index: Index) -> Machine:
    index.add(wheel("alpha", "1.0"), wheel("alpha", "2.0"), wheel("beta", "1.0", "gamma"), wheel("gamma", "1.0"))
    machine.locked(spec="# ours\n" + cpu("alpha<2"))
    return machine


def text(machine: Machine) -> str:
    return (machine.folder / "specs" / "demo.toml").read_text(encoding="utf-8")


def test_added_and_removed_again(demo: Machine) -> None:
    before = text(demo)
    ran = demo.envspec("add", "specs/demo.toml", "beta", status=0)
    assert "specs/demo.toml: added beta to [pip]\nadded beta 1.0\nadded gamma 1.0\n" in ran.out
    assert demo.versions("cpu") == {"alpha": "1.0", "beta": "1.0", "gamma": "1.0"}
    assert demo.envspec("check").status == 0
    ran = demo.envspec("remove", "specs/demo.toml", "beta")
    assert ran.status == 0 and demo.versions("cpu") == {"alpha": "1.0"}
    assert text(demo).replace(" ", "") == before.replace(" ", "")


def test_a_new_bound_takes_the_place_of_the_old(demo: Machine) -> None:
    document = json.loads(demo.envspec("add", "specs/demo.toml", "alpha>=2", "--json").out)
    assert document["edits"] == [{"table": "pip", "old": "alpha<2", "new": "alpha>=2"}]
    assert document["lock"]["status"] == "written" and demo.versions("cpu") == {"alpha": "2.0"}


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["add", "specs/demo.toml", "nosuch"], 1),
        (["add", "specs/demo.toml", "alpha>=9"], 1),
        (["add", "specs/demo.toml", "alpha=="], 2),
        (["add", "specs/demo.toml", "beta", "-t", "gpu"], 2),
        (["remove", "specs/demo.toml", "beta"], 2),
        (["add", "specs/demo.toml", "nosuch", "--json"], 1),
    ],
)
def test_what_fails_changes_nothing(demo: Machine, words: list[str], status: int) -> None:
    before, files = text(demo), demo.files()
    ran = demo.envspec(*words)
    assert ran.status == status and ran.error
    assert (text(demo), demo.files()) == (before, files)
    if "--json" in words:
        assert json.loads(ran.out)["schema"] == "envspec/error/1"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["add", "upgrade", "remove", "lock"])
def test_what_a_source_is_told_with_does_as_it_says(machine: Machine, index: Index, command: str) -> None:
    """After a refused edit the spec is as it was, so another command's option would do nothing."""
    index.add(wheel("app", "1.0"), sdist("old", "1.0"), wheel("uses-old", "1.0", "old"))
    machine.spec(cpu("app"))
    asked = {"add": ["uses-old"], "remove": ["app"]}.get(command, [])
    if command == "remove":
        machine.spec(cpu("app", "uses-old"))
    elif command != "add":
        machine.locked(spec=cpu("app"))
        index.add(wheel("app", "2.0", "uses-old"))
        machine.spec(cpu("app", "uses-old") if command == "lock" else cpu("app"))
    ran = machine.envspec(command, "specs/demo.toml", *asked)
    assert ran.status == 1 and "run the same command with --allow-needed" in ran.hint, ran.err
    ran = machine.envspec(command, "specs/demo.toml", *asked, "--allow-needed")
    assert ran.status == 0 and machine.versions("cpu")["old"] == "1.0", ran.err
    ran = machine.envspec(command, "specs/demo.toml", *asked, "--allow-needed", "--dry-run")
    assert ran.status == 2 and "--dry-run writes nothing" in ran.err


@pytest.mark.slow
def test_a_dry_run_writes_nothing(demo: Machine) -> None:
    before, files = text(demo), demo.files()
    ran = demo.envspec("add", "specs/demo.toml", "beta", "--dry-run")
    assert ran.status == 0 and "added beta 1.0" in ran.out and "not written (--dry-run)" in ran.out
    assert (text(demo), demo.files()) == (before, files)
    ran = demo.envspec("lock", "specs/demo.toml", "--upgrade", "--dry-run")
    assert "unchanged: " in ran.out and demo.files() == files


def test_the_spec_alone(demo: Machine) -> None:
    files = demo.files()
    assert demo.envspec("add", "specs/demo.toml", "beta", "--no-lock").status == 0
    assert "beta" in text(demo) and demo.files() == files and demo.envspec("check").status == 1


def test_what_is_there_already(demo: Machine) -> None:
    before, files = text(demo), demo.files()
    ran = demo.envspec("add", "specs/demo.toml", "alpha<2")
    assert ran.status == 0 and "asks for that already" in ran.out
    assert (text(demo), demo.files()) == (before, files)


@pytest.mark.slow
def test_upgrade_is_lock_with_its_options(demo: Machine) -> None:
    assert demo.envspec("add", "demo", "alpha").status == 0 and demo.versions("cpu") == {"alpha": "1.0"}
    files = demo.files()
    ran = demo.envspec("upgrade", "demo", "--dry-run")
    assert ran.status == 0 and "changed alpha 1.0 -> 2.0" in ran.out and demo.files() == files
    assert json.loads(demo.envspec("upgrade", "demo", "alpha", "--json").out)["specs"][0]["status"] == "written"
    assert demo.versions("cpu") == {"alpha": "2.0"}


@pytest.mark.slow
def test_of_many_changes_ten_are_listed(machine: Machine, index: Index) -> None:
    needed = [f"p{number:02}" for number in range(12)]
    index.add(wheel("alpha", "1.0"), wheel("zeta", "1.0", *needed), *(wheel(name, "1.0") for name in needed))
    machine.locked(spec=cpu("alpha"))
    ran = machine.envspec("add", "demo", "zeta", "--dry-run")
    lines = ran.out.splitlines()
    assert lines[1] == "added zeta 1.0", "what the spec asks for comes first"
    assert lines[2:11] == [f"added {name} 1.0" for name in needed[:9]]
    assert lines[11] == "… and 3 more changes: 3 added (--verbose lists them)" and lines[12].startswith("not written")
    ran = machine.envspec("add", "demo", "zeta", "--dry-run", "-v")
    assert len([line for line in ran.out.splitlines() if line.startswith("added ")]) == 13
    document = json.loads(machine.envspec("add", "demo", "zeta", "--dry-run", "--json").out)
    assert len(document["lock"]["changes"]) == 13, "JSON has all"


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "words",
    [
        ["lock", "demo", "-q"],
        ["lock", "--quiet"],
        ["add", "demo", "beta", "-q"],
        ["remove", "demo", "delta", "-q"],
        ["upgrade", "demo", "-q"],
    ],
)
def test_quiet_says_nothing_but_errors(demo: Machine, index: Index, words: list[str]) -> None:
    index.add(wheel("delta", "1.0"))
    assert demo.envspec("add", "demo", "delta").status == 0
    ran = demo.envspec(*words)
    assert (ran.status, ran.out, ran.err) == (0, "", "")


def test_quiet_says_errors_and_json(demo: Machine) -> None:
    ran = demo.envspec("add", "demo", "nosuch", "-q")
    assert ran.status == 1 and ran.out == "" and ran.err.startswith("error: ") and "\nhint: " in ran.err
    ran = demo.envspec("lock", "demo", "-q", "--json")
    assert json.loads(ran.out)["specs"][0]["status"] == "fresh" and ran.err == ""


def test_a_wrong_name_is_told_by_the_command_that_was_given(demo: Machine) -> None:
    ran = demo.envspec("upgrade", "demo", "alhpa")
    assert ran.status == 2 and "--upgrade-package" not in ran.err and "did you mean alpha?" in ran.err


def test_the_first_package_of_a_spec(demo: Machine) -> None:
    demo.spec('[env]\nname = "new"\npython = "3.11"\n\n[targets.cpu]\nplatform = "linux-64"\n', "new")
    assert demo.envspec("remove", "new", "alpha").status == 2
    ran = demo.envspec("add", "new", "alpha", status=0)
    assert "added alpha to [pip]" in ran.out


def test_an_interruption_leaves_the_spec_as_it_was(demo: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it came with word of what was written meanwhile."""
    before = text(demo)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt("wrote allow-source into specs/demo.toml: beta")

    monkeypatch.setattr("envspec.app.edit.make_lock", interrupt)
    ran = demo.envspec("add", "specs/demo.toml", "beta", status=130)
    assert ran.err.strip() == "interrupted: specs/demo.toml is as it was before"
    assert text(demo) == before
