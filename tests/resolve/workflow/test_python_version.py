"""Python is a version: chosen before solving, told to uv and to markers, judged with the lock."""

import pytest
from msgspec.structs import replace
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel

from envspec.facts.python_builds import newest_build, versions_of
from envspec.lock.model import Lock
from envspec.lock.write import dumps

pytestmark = pytest.mark.e2e

BASE = '[image]\npython = "base"\n'


def versions(lock: Lock) -> dict[str, str]:
    return {pin.name: pin.version for target in lock for pin in target.pins}


def test_a_floor_within_the_minor_version_is_met_by_the_build(machine: Machine, index: Index) -> None:
    index.add(wheel("lib", "2.0", requires_python=">=3.12.8"), wheel("lib", "1.0", requires_python=">=3.9"))
    assert versions(machine.locked(spec=cpu("lib", python="3.12"))) == {"lib": "2.0"}
    assert machine.lock().targets[0].pins[0].requires_python == ">=3.12.8"
    machine.spec(cpu("lib", python="3.12.5"))
    assert versions(machine.locked()) == {"lib": "1.0"}, "older than the floor: a release that fits is an answer"


def test_markers_see_the_build(machine: Machine, index: Index) -> None:
    index.add(wheel("lib", "1.0", "late; python_full_version >= '3.12.8'", "early; python_full_version < '3.12.8'"))
    index.add(wheel("late", "1.0"), wheel("early", "1.0"))
    assert set(versions(machine.locked(spec=cpu("lib", python="3.12")))) == {"lib", "late"}
    assert set(versions(machine.locked(spec=cpu("lib", python="3.12.5")))) == {"lib", "early"}
    assert machine.envspec("check").status == 0


def test_an_exact_python_is_that_build_and_an_unknown_one_is_refused_with_those_there_are(
    machine: Machine, index: Index
) -> None:
    index.add(wheel("lib", "1.0"))
    known = versions_of("3.12", "linux-64")
    machine.spec(cpu("lib", python=known[0]))
    assert [one.version for one in machine.locked().pythons] == [known[0]]
    assert f'python-range = "=={known[0]}"' in machine.lock_path().read_text("utf-8")
    ran = machine.envspec("lock", machine.spec(cpu("lib", python="3.12.99")))
    assert ran.status == 2 and "'3.12.99' admits no Python" in ran.error
    ran = machine.envspec("lock", machine.spec(cpu("lib", python="3.12.0")))
    assert ran.status == 1 and ran.error.startswith("error: specs/demo.toml:2:")
    assert "no build of Python 3.12.0 for linux-64" in ran.error and known[-1] in ran.hint


@pytest.mark.slow
def test_a_range_takes_the_newest_build_and_keeps_it(machine: Machine, index: Index) -> None:
    index.add(wheel("lib", "1.0"), wheel("more", "1.0"))
    newest, older = newest_build("3.13", "linux-64"), newest_build("3.12", "linux-64")
    assert newest and older
    machine.spec(cpu("lib", python=">=3.11,<3.14"))
    assert [one.version for one in machine.locked().pythons] == [newest.version]
    machine.locked(spec=cpu("lib", python="3.12"))
    machine.spec(cpu("lib", "more", python=">=3.11,<3.14"))
    assert "Python changed from 3.12 to <3.14,>=3.11" in machine.envspec("check").out
    assert [one.version for one in machine.locked().pythons] == [older.version], "what the range admits stays"
    assert machine.envspec("check").status == 0
    assert [one.version for one in machine.locked("--upgrade").pythons] == [newest.version]


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("python", "date"), [("3.8", None), ("3.10", "2022-06-01")])
def test_a_floor_is_met_by_a_later_release_where_no_build_is_known(
    machine: Machine, index: Index, python: str, date: str | None
) -> None:
    old = "2022-01-01T00:00:00Z"
    index.add(wheel("lib", "1.0"), wheel("lib", "2.0", requires_python=f">={python}.1"), uploaded=old)
    spec = cpu("lib", python=python)
    lock = machine.locked(spec=spec.replace("[pip]", f"exclude-newer = '{date}'\n[pip]") if date else spec)
    assert versions(lock) == {"lib": "2.0"} and lock.pythons == ()
    assert machine.envspec("check").status == 0
    index.add(wheel("lib", "3.0", requires_python=f">={python},!={python}.5"), uploaded=old)
    ran = machine.envspec("lock", "specs/demo.toml", "--upgrade")
    assert ran.status == 1 and f"lib 3.0 doesn't take Python {python}.5" in ran.error, ran.err


def test_check_refuses_a_cap_that_the_python_breaks(machine: Machine, index: Index) -> None:
    index.add(wheel("server", "2.0", requires_python=">=3.9,<3.13"))
    lock = machine.locked(spec=cpu("server", python="3.12"))
    assert lock.targets[0].pins[0].requires_python == "<3.13,>=3.9"
    text = dumps(lock).replace("<3.13,>=3.9", "<3.12,>=3.9")
    machine.lock_path().write_text(text, encoding="utf-8")
    ran = machine.envspec("check")
    python = lock.pythons[0].version
    assert ran.status == 1
    assert f"server 2.0 doesn't take Python {python} (Requires-Python <3.12,>=3.9)  [requires-python]" in ran.out


@pytest.mark.parametrize("marker", ["python_full_version >= '3.12.4'", "implementation_version > '3.12.3'"])
def test_the_machines_python_needs_one_answer(machine: Machine, index: Index, marker: str) -> None:
    index.add(wheel("lib", "1.0", f"late; {marker}"), wheel("late", "1.0"))
    ran = machine.envspec("lock", machine.spec(cpu("lib", python="3.12") + BASE))
    assert ran.status == 1 and "lib requires late; " in ran.error and "the machine brings its own" in ran.error
    assert set(versions(machine.locked(spec=cpu("lib", python=">=3.12.4,<3.13") + BASE))) == {"lib", "late"}
    assert machine.envspec("check").status == 0


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("markers", "ranges"),
    [
        (("python_full_version >= '3.12.4'",), [">=3.12.4,<3.13", ">=3.12.0,<3.12.4"]),
        (("python_full_version != '3.12.4'",), [">=3.12.5,<3.13", "3.12.4", ">=3.12.0,<3.12.4"]),
        (
            ("python_full_version >= '3.12.4'", "python_full_version < '3.12.8'"),
            [">=3.12.8,<3.13", ">=3.12.4,<3.12.8", ">=3.12.0,<3.12.4"],
        ),
        # what 3.12.4 would get isn't there
        (("gone; python_full_version == '3.12.4'",), [">=3.12.5,<3.13", ">=3.12.0,<3.12.4"]),
    ],
)
def test_each_range_with_one_answer_is_named_and_works(
    machine: Machine, index: Index, markers: tuple[str, ...], ranges: list[str]
) -> None:
    index.add(wheel("lib", "1.0", *(one if ";" in one else f"late; {one}" for one in markers)), wheel("late", "1.0"))
    ran = machine.envspec("lock", machine.spec(cpu("lib", python="3.12") + BASE))
    said = "; or ".join(f'python = "{one}"' for one in ranges)
    assert ran.hint == f"hint: {said}; or let the lock name the build: leave out [image] python"
    for one in ranges:
        machine.locked(spec=cpu("lib", python=one) + BASE)
        assert machine.envspec("check").status == 0


def test_the_oldest_that_a_base_may_have_decides_and_a_base_may_have_what_nobody_builds(
    machine: Machine, index: Index
) -> None:
    index.add(wheel("lib", "2.0", requires_python=">=3.12.2"), wheel("lib", "1.0", requires_python=">=3.9"))
    machine.spec(cpu("lib", python="3.12") + BASE)
    assert versions(machine.locked()) == {"lib": "1.0"}
    machine.spec(cpu("lib", python="3.12.2") + BASE)
    assert versions(machine.locked("--upgrade")) == {"lib": "2.0"} and not machine.lock().pythons
    assert machine.envspec("check").status == 0


@pytest.mark.by_day(1)
@pytest.mark.parametrize("requires", [">=3.9,<=3.12.5", ">=3.9,!=3.12.{newest}"])
def test_a_build_that_a_release_takes_is_named_beside_the_one_that_it_refuses(
    machine: Machine, index: Index, requires: str
) -> None:
    """As `<=3.12`, which many write, refuses all of 3.12 but its first release."""
    *older, newest = versions_of("3.12", "linux-64")
    index.add(wheel("lib", "2.0", requires_python=requires.format(newest=newest.rpartition(".")[2])))
    index.add(wheel("lib", "1.0"))
    ran = machine.envspec("lock", machine.spec(cpu("lib", python="3.12")))
    build = "3.12.5" if "<" in requires[4:] else older[-1]
    assert ran.status == 1 and f"lib 2.0 doesn't take Python {newest} (Requires-Python " in ran.error, ran.err
    assert ran.hint.startswith(f'hint: python = "{build}"; or python = "3.11"; or write "lib<=1.0"'), ran.hint
    assert versions(machine.locked(spec=cpu("lib", python=build))) == {"lib": "2.0"}


def test_what_only_metadata_caps_is_refused_with_the_word_for_it(machine: Machine, index: Index) -> None:
    index.add(replace(wheel("lib", "1.0", requires_python=">=3.9,!=3.12.*"), requires_python=None))
    ran = machine.envspec("lock", machine.spec(cpu("lib", python="3.12")))
    assert ran.status == 1 and "report" not in ran.err
    assert "accept = { requires-python = { lib" in ran.hint


@pytest.mark.slow
def test_a_floor_above_the_oldest_python_of_a_base_is_told_with_the_range_that_has_an_answer(
    machine: Machine, index: Index
) -> None:
    index.add(wheel("late", "1.0", requires_python=">=3.12.4"), wheel("later", "1.0", requires_python=">=3.12.7"))
    ran = machine.envspec("lock", machine.spec(cpu("late", "later") + BASE), status=1)
    assert 'hint: python = ">=3.12.7,<3.13"\n' in ran.err, "with >=3.12.4, which the first asks for, later refuses"
    machine.spec(cpu("late", "later").replace("'3.12'", "'>=3.12.7,<3.13'") + BASE)
    machine.envspec("lock", "specs/demo.toml", status=0)


def project(machine: Machine, requires: str) -> None:
    text = f'[project]\nname = "own"\nversion = "1"\nrequires-python = "{requires}"\ndependencies = ["lib"]\n'
    (machine.folder / "pyproject.toml").write_text(text, encoding="utf-8")


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("python", "requires", "at"),
    [("3.12", ">3.11,<3.12.6", 1), ("3.12", "==3.12.4", 0), ("3.12", "===3.12.5", 1), (">=3.10", ">=3.8,<3.12.6", 1)],
)
def test_a_projects_requires_python_chooses_the_build(
    machine: Machine, index: Index, python: str, requires: str, at: int
) -> None:
    index.add(wheel("lib", "1.0"))
    project(machine, requires)
    own = cpu("lib", python=python).replace("[env]", "[env]\nproject = '..'")
    assert [one.version for one in machine.locked(spec=own).pythons] == [versions_of("3.12", "linux-64")[at]]
    assert machine.envspec("check").status == 0
    project(machine, "<3.12")
    ran = machine.envspec("check")
    assert ran.status in (1, 2) and ("excludes Python" in ran.error or "Python changed from" in ran.out)
    project(machine, ">=3.12.8,<3.13")
    ran = machine.envspec("check")
    assert ran.status == 1 and "Python changed from" in ran.out, ran.out
    assert machine.envspec("lock", "specs/demo.toml").status == 0
    assert [one.version for one in machine.lock().pythons] == [versions_of("3.12", "linux-64")[-1]]


def test_a_projects_requires_python_without_a_build_is_refused(machine: Machine, index: Index) -> None:
    """No build of 3.11.0 is known, and no other fits: uv would refuse each."""
    index.add(wheel("lib", "1.0"))
    project(machine, ">=3.8,<=3.11")
    ran = machine.envspec("lock", machine.spec(cpu("lib", python="3.11").replace("[env]", "[env]\nproject = '..'")))
    assert ran.status == 1 and "no build of Python 3.11.0 for linux-64" in ran.error
    project(machine, ">=3.8.1")
    lock = machine.locked(spec=cpu("lib", python="3.8").replace("[env]", "[env]\nproject = '..'"))
    assert lock.pythons == () and lock.targets[0].inputs.python_range == "<3.9,>=3.8.1"


def test_a_build_that_the_projects_requires_python_refuses_is_no_lock(machine: Machine, index: Index) -> None:
    """Whoever writes another build into the lock: judged by the bound that it holds."""
    index.add(wheel("lib", "1.0"))
    project(machine, "<3.12.6")
    lock = machine.locked(spec=cpu("lib", python="3.12").replace("[env]", "[env]\nproject = '..'"))
    newest = newest_build("3.12", "linux-64")
    assert newest and newest.version not in ("3.12.4", "3.12.5")
    forged = replace(
        lock.pythons[0], version=newest.version, build=newest.build, file=newest.file, sha256=newest.sha256
    )
    machine.lock_path().write_text(dumps(replace(lock, pythons=(forged,))), encoding="utf-8")
    ran = machine.envspec("check")
    assert ran.status != 0 and f"Python {newest.version} is locked, but the target asks for" in ran.out + ran.err
