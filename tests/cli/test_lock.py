"""`envspec lock` as people use it: what it says, what it writes, and with which exit code it ends."""

import json
from collections.abc import Iterator

import pytest
from lock_index import packages as packages
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel

from envspec.facts.edition import shipped_edition
from envspec.lock.read import load

pytestmark = pytest.mark.e2e

TWO = "[targets.a]\nplatform = 'linux-64'\n[targets.b]\nplatform = 'osx-arm64'\n"


@pytest.fixture
def later(machine: Machine, packages: Index) -> Iterator[Index]:
    """PyPI some time later, at another address, so that no cached page stands in its way."""
    with Index() as running:
        running.add(wheel("alpha", "1.0", "beta"), wheel("beta", "1.0"))
        running.add(wheel("alpha", "2.0", "beta", "gamma"), wheel("beta", "2.0"), wheel("gamma", "1.0"))
        yield running


def test_first_lock(machine: Machine, packages: Index) -> None:
    ran = machine.envspec("lock", machine.spec(cpu("alpha", targets=TWO)))
    assert (ran.status, ran.out, ran.err) == (0, "wrote locks/demo/envspec.lock: 2 targets, 2 packages\n", "")
    assert sorted(machine.files()) == ["demo/a/requirements.txt", "demo/b/requirements.txt", "demo/envspec.lock"]
    machine.envspec("check", "specs/demo.toml", status=0)


def test_the_same_inputs_give_the_same_bytes(machine: Machine, packages: Index) -> None:
    machine.locked(spec=cpu("alpha", targets=TWO))
    before = machine.files()
    machine.lock_path().unlink()
    machine.locked(env={"ENVSPEC_CACHE_DIR": str(machine.base / "other"), "UV_CACHE_DIR": str(machine.base / "uv")})
    assert machine.files() == before


def test_a_fresh_lock_is_left_alone(machine: Machine, packages: Index) -> None:
    machine.locked(spec=cpu("alpha"))
    before = machine.files()
    packages.asked.clear()
    ran = machine.envspec("lock", "specs/demo.toml")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == "locks/demo/envspec.lock is fresh: 1 target, 2 packages. `--upgrade` looks for newer versions.\n"
    assert machine.files() == before and packages.asked == []


def test_nothing_new_is_unchanged(machine: Machine, packages: Index) -> None:
    machine.locked(spec=cpu("alpha"))
    ran = machine.envspec("lock", "specs/demo.toml", "--upgrade")
    assert (ran.status, ran.out) == (0, "unchanged: locks/demo/envspec.lock: 1 target, 2 packages\n")


@pytest.mark.slow
def test_upgrade_tells_what_moved(machine: Machine, later: Index) -> None:
    machine.locked(spec=cpu("alpha"))
    machine.default = later.url
    ran = machine.envspec("lock", "specs/demo.toml", "--upgrade", status=0)
    assert ran.out.splitlines() == [
        "changed alpha 1.0 -> 2.0",
        "changed beta 1.0 -> 2.0",
        "added gamma 1.0",
        "wrote locks/demo/envspec.lock: 1 target, 3 packages",
    ]
    ran = machine.envspec("lock", machine.spec(cpu("alpha<2")))
    assert ran.out.splitlines()[:2] == ["changed alpha 2.0 -> 1.0", "removed gamma 1.0"]


def test_upgrade_package_moves_that_one(machine: Machine, later: Index) -> None:
    machine.locked(spec=cpu("alpha", targets=TWO))
    machine.default = later.url
    ran = machine.envspec("lock", "specs/demo.toml", "--upgrade-package", "BETA")
    assert ran.out.splitlines()[0] == "changed beta 1.0 -> 2.0"
    assert machine.versions("a") == machine.versions("b") == {"alpha": "1.0", "beta": "2.0"}


def test_one_target_alone(machine: Machine, later: Index) -> None:
    machine.locked(spec=cpu("alpha", targets=TWO))
    machine.default = later.url
    assert machine.envspec("lock", "specs/demo.toml", "--target", "a", "--upgrade").status == 0
    assert machine.versions("b") == {"alpha": "1.0", "beta": "1.0"}
    assert machine.versions("a") == {"alpha": "2.0", "beta": "2.0", "gamma": "1.0"}


def test_an_unknown_target(machine: Machine, packages: Index) -> None:
    ran = machine.envspec("lock", machine.spec(cpu("alpha", targets=TWO)), "--target", "c")
    assert ran.status == 2 and "has no target c" in ran.error and ran.hint == "hint: its targets: a, b"
    assert packages.asked == []


def test_a_misspelt_target(machine: Machine, packages: Index) -> None:
    machine.spec(cpu("alpha", targets="[targets.cu128-hopper]\nplatform = 'linux-64'\n" + TWO))
    ran = machine.envspec("lock", "specs/demo.toml", "--target", "cu128-hoper")
    assert (ran.status, ran.hint) == (2, "hint: did you mean cu128-hopper?")


def test_upgrade_package_takes_a_name(machine: Machine, packages: Index) -> None:
    machine.spec(cpu("alpha"))
    for given in ("alpha==1.0", " alpha >=1", "alpha[x]"):
        ran = machine.envspec("lock", "specs/demo.toml", "-P", given)
        assert ran.status == 2 and ran.error == f"error: --upgrade-package takes a package's name, not {given}"
        assert ran.hint == "hint: --upgrade-package alpha; a version belongs in the spec"


@pytest.mark.slow
def test_a_new_lock_tells_that_recipes_are_of_the_old_one(machine: Machine, later: Index) -> None:
    machine.locked(spec=cpu("alpha"))
    again = ["export", "specs/demo.toml", "--format", "slurm", "--format", "kubernetes", "-o", "recipes/demo"]
    assert machine.envspec(*again).status == 0
    machine.default = later.url
    ran = machine.envspec("lock", "specs/demo.toml", "--upgrade", status=0)
    # neither of these formats holds what moved
    assert ran.err == ""
    again[3] = "dockerfile"
    assert machine.envspec(*again).status == 0
    ran = machine.envspec("lock", machine.spec(cpu("alpha<2")), status=0)
    head, _, command = ran.hint.rpartition(": ")
    assert head == "hint: the recipes in recipes/demo differ from the new lock"
    assert command.split()[1:3] == ["export", "specs/demo.toml"] and "--format dockerfile" in command
    assert machine.envspec("check", "specs/demo.toml").status == 1
    assert machine.envspec(*command.split()[1:]).status == 0
    assert machine.envspec("check", "specs/demo.toml").status == 0


def test_a_target_that_goes_takes_its_files_along(machine: Machine, packages: Index) -> None:
    machine.locked(spec=cpu("alpha", targets=TWO))
    mine = machine.locks / "demo" / "notes.md"
    mine.write_text("mine")
    machine.locked(spec=cpu("alpha", targets="[targets.a]\nplatform = 'linux-64'\n"))
    assert sorted(machine.files()) == ["demo/a/requirements.txt", "demo/envspec.lock", "demo/notes.md"]


def test_json(machine: Machine, later: Index) -> None:
    ran = machine.envspec("lock", machine.spec(cpu("alpha")), "--json")
    document = json.loads(ran.out)
    (build,) = load(machine.lock_path()).pythons
    assert document == {
        "schema": "envspec/lock/1",
        "facts": {"version": shipped_edition().version, "from": "envspec"},
        "specs": [
            {
                "spec": "specs/demo.toml",
                "lock": "locks/demo/envspec.lock",
                "status": "written",
                "targets": {"cpu": 2},
                "images": {},
                "pythons": {"linux-64": f"{build.version}+{build.build}"},
                "changes": [],
            }
        ],
    }
    assert json.loads(machine.envspec("lock", "specs/demo.toml", "--json").out)["specs"][0]["status"] == "fresh"
    machine.default = later.url
    upgraded = json.loads(machine.envspec("lock", "specs/demo.toml", "--json", "--upgrade").out)
    assert upgraded["specs"][0]["changes"] == ["changed alpha 1.0 -> 2.0", "changed beta 1.0 -> 2.0", "added gamma 1.0"]


def test_several_specs(machine: Machine, packages: Index) -> None:
    machine.spec(cpu("alpha"), "one")
    machine.spec(cpu("beta"), "two")
    ran = machine.envspec("lock", "specs/one.toml", "specs/two.toml", status=0)
    assert [line.split(":")[0] for line in ran.out.splitlines()] == [
        "wrote locks/one/envspec.lock",
        "wrote locks/two/envspec.lock",
    ]


@pytest.mark.slow
def test_of_several_specs_the_one_that_fails_is_named(machine: Machine, packages: Index) -> None:
    machine.spec(cpu("alpha"), "one")
    machine.spec(cpu("beta>=2"), "two")
    machine.spec(cpu("beta"), "three")
    machine.spec(cpu("beta"), "four")
    ran = machine.envspec("lock", *(f"specs/{name}.toml" for name in ("one", "two", "three", "four")))
    assert ran.status == 1 and ran.out.startswith("wrote locks/one/envspec.lock") and ran.out.count("\n") == 1
    first, *_, last = ran.err.splitlines()
    assert first.startswith("error: specs/two.toml:4:17: cpu: ") and "beta" in first
    assert last == "not tried: specs/three.toml, specs/four.toml"
    assert sorted(machine.files()) == ["one/cpu/requirements.txt", "one/envspec.lock"]
    alone = machine.envspec("lock", "specs/two.toml")
    assert (
        alone.status == 1 and alone.err.startswith("error: specs/two.toml:4:17: cpu: ") and "not tried" not in alone.err
    )


def test_without_a_spec_every_one_is_locked(machine: Machine, packages: Index) -> None:
    for name in ("one", "two"):
        machine.spec(cpu("alpha"), name)
    assert machine.envspec("lock").status == 0
    assert machine.lock_path("one").exists() and machine.lock_path("two").exists()


def test_every_spec_is_read_before_the_first_is_solved(machine: Machine, packages: Index) -> None:
    machine.spec(cpu("alpha"), "one")
    machine.spec(cpu("alpha").replace("platform", "platfrom"), "two")
    ran = machine.envspec("lock", "specs/one.toml", "specs/two.toml")
    assert ran.status == 2 and ran.error.startswith("error: specs/two.toml:")
    assert packages.asked == [] and not machine.locks.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("specs/missing.toml",), "specs/missing.toml"),
        (("--dry-run", "--allow-needed"), "--allow-needed writes into the spec"),
        (("specs/demo.toml", "--no-such-option"), "--no-such-option"),
    ],
)
def test_misuse(machine: Machine, arguments: tuple[str, ...], said: str) -> None:
    machine.spec(cpu("alpha"))
    ran = machine.envspec("lock", *arguments)
    assert ran.status == 2 and said in ran.error.lower() and ran.hint
    assert ran.out == "" and not machine.locks.exists()


def test_a_broken_configuration(machine: Machine) -> None:
    config = machine.configure("")
    config.write_text("[mirrors")
    ran = machine.envspec("lock", machine.spec(cpu("alpha")))
    assert ran.status == 2 and ran.error.startswith(f"error: {config}:1:9: not TOML: expected ']'")


def test_locks_dir(machine: Machine, packages: Index) -> None:
    ran = machine.envspec("lock", machine.spec(cpu("alpha")), "--locks-dir", "elsewhere/locks")
    assert ran.status == 0 and ran.out.startswith("wrote elsewhere/locks/demo/envspec.lock")
    assert not machine.locks.exists()


@pytest.mark.slow
def test_an_environment_without_a_home_or_a_locale(machine: Machine, packages: Index) -> None:
    machine.spec(cpu("alpha"))
    machine.envspec(
        "lock",
        "specs/demo.toml",
        env={"LANG": "C", "LC_ALL": "C", "XDG_CACHE_HOME": str(machine.base / "xdg")},
        status=0,
    )
    assert (machine.base / "xdg" / "envspec").is_dir()


def test_help_shows_an_example(machine: Machine) -> None:
    ran = machine.envspec("lock", "--help")
    assert ran.status == 0 and "envspec lock specs/mm-v2.9.toml --upgrade-package transformers" in ran.out


def test_upgrade_package_of_what_nothing_has(machine: Machine, packages: Index) -> None:
    machine.locked(spec=cpu("alpha"))
    ran = machine.envspec("lock", "specs/demo.toml", "--upgrade-package", "aplha")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == (
        "error: --upgrade-package aplha: neither specs/demo.toml nor its lock has it\nhint: did you mean alpha?\n"
    )


def test_two_specs_that_would_share_a_lock(machine: Machine, packages: Index) -> None:
    machine.spec(cpu("alpha"))
    other = machine.lock_path().parents[2] / "specs" / "other.toml"
    text = (other.parent / "demo.toml").read_text()
    other.write_text(text if "name =" in text else text.replace("[env]", '[env]\nname = "demo"', 1))
    ran = machine.envspec("lock", "specs/demo.toml", "specs/other.toml")
    assert (ran.status, ran.out) == (2, "")
    assert "specs/demo.toml and specs/other.toml would both be locked as locks/demo/envspec.lock" in ran.err
    assert machine.files() == {}
