"""Constraints and overrides of the spec, with the real uv."""

import json

import pytest
from msgspec.structs import replace
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel

from envspec.lock.judge import judge
from envspec.lock.model import Lock
from envspec.lock.write import dumps

pytestmark = pytest.mark.e2e

OVERRIDE = 'overrides = [{ requirement = "lib>=2", reason = "its tests pass" }]'


def spec(*dependencies: str, terms: str = "", target: str = "") -> str:
    text = cpu(*dependencies, targets=f"[targets.t]\nplatform = 'linux-64'\n{target}")
    return text.replace("[pip]", f"[pip]\n{terms}")


def versions(lock: Lock) -> dict[str, str]:
    (target,) = lock
    return {pin.name: pin.version for pin in target.pins}


@pytest.fixture
def libraries(index: Index) -> Index:
    index.add(*(wheel("lib", version) for version in ("1.0", "2.0", "2.5", "3.0")), wheel("old", "1.0", "lib<2"))
    index.add(wheel("win", "1.0"), wheel("cross", "1.0", "win; sys_platform == 'win32'", "lib"))
    return index


def test_a_constraint_bounds_what_is_pulled_in_and_asks_for_nothing(machine: Machine, libraries: Index) -> None:
    lock = machine.locked(spec=spec("cross", terms='constraints = ["lib<2.5", "nobody-has-it<1"]'))
    assert versions(lock) == {"cross": "1.0", "lib": "2.0"}
    assert machine.envspec("check", "specs/demo.toml").status == 0
    forged = _with_version(lock, "lib", "3.0")
    assert [(flaw.code, flaw.message) for flaw in judge(forged)] == [
        ("constraint-unmet", "the spec's constraint is lib<2.5, but lib is 3.0")
    ]


def test_a_constraint_holds_for_its_own_target_alone(machine: Machine, libraries: Index) -> None:
    own = "[targets.t.pip]\nconstraints = ['lib<2']\n[targets.u]\nplatform = 'linux-64'\n"
    own += "[targets.u.pip]\nconstraints = ['lib>2']"
    lock = machine.locked(spec=spec("cross", target=own))
    found = {target.name: {pin.name: pin.version for pin in target.pins}["lib"] for target in lock}
    assert found == {"t": "1.0", "u": "3.0"}


def test_an_override_takes_the_place_of_what_packages_require(machine: Machine, libraries: Index) -> None:
    lock = machine.locked(spec=spec("old", terms=OVERRIDE))
    assert versions(lock) == {"lib": "3.0", "old": "1.0"}
    assert machine.envspec("check", "specs/demo.toml").status == 0
    why = machine.envspec("why", "specs/demo.toml", "lib")
    assert "lib>=2 (overrides lib<2)" in why.out
    tree = json.loads(machine.envspec("tree", "specs/demo.toml", "--json").out)
    assert "lib>=2 (overrides lib<2)" in json.dumps(tree)
    sbom = json.loads(machine.envspec("export", "specs/demo.toml", "--format", "sbom", "-o", "-").out)
    assert any(len(one.get("dependsOn", ())) == 1 and "old" in one["ref"] for one in sbom["dependencies"])


@pytest.mark.slow
def test_a_lock_without_the_override_that_it_was_made_with_is_unsound(machine: Machine, libraries: Index) -> None:
    lock = machine.locked(spec=spec("old", terms=OVERRIDE))
    (target,) = lock
    bare = replace(lock, targets=(replace(target, inputs=replace(target.inputs, overrides=())),))
    assert [(flaw.code, flaw.message) for flaw in judge(bare)] == [
        ("requirement-unmet", "old requires lib<2, but lib is 3.0")
    ]
    machine.lock_path().write_text(dumps(bare), encoding="utf-8")
    ran = machine.envspec("check", "specs/demo.toml")
    assert ran.status == 1 and "the override lib>=2 was added" in ran.out
    assert machine.envspec("install", "specs/demo.toml", "--target", "t", "--prefix", "p").status != 0


@pytest.mark.parametrize(
    ("asked", "override", "target", "locked"),
    [
        (["cross"], "'win'", "", {"cross": "1.0", "lib": "3.0", "win": "1.0"}),
        (["cross", "old"], "\"lib; sys_platform == 'win32'\"", "", {"cross": "1.0", "old": "1.0"}),
        (["old"], "'lib @ {0}#sha256={1}'", "", {"lib": "2.0", "old": "1.0"}),
        (["old"], "'lib<2'", "'lib==2.5'", {"lib": "2.5", "old": "1.0"}),
    ],
    ids=["drops the marker", "removes the requirement by its own marker", "an address", "a target's before the spec's"],
)
def test_what_an_override_gives(
    machine: Machine, libraries: Index, asked: list[str], override: str, target: str, locked: dict[str, str]
) -> None:
    dist = wheel("lib", "2.0")
    row = "overrides = [{{ requirement = {}, reason = 'tried' }}]"
    own = f"[targets.t.pip]\n{row.format(target)}" if target else ""
    terms = row.format(override.format(libraries.file_url(dist), dist.sha256))
    assert versions(machine.locked(spec=spec(*asked, terms=terms, target=own))) == locked
    assert machine.envspec("check", "specs/demo.toml").status == 0


def test_an_overridden_package_stays_on_its_own_index(machine: Machine, libraries: Index) -> None:
    """uv takes an override from any index: PyPI's 3.0 must not take the place of the internal one."""
    with Index() as own:
        own.add(wheel("lib", "2.2"))
        named = f'indexes = {{ own = "{own.url}" }}\nsources = {{ lib = "own" }}\n'
        lock = machine.locked(spec=spec("old", terms=named + OVERRIDE))
        assert versions(lock) == {"lib": "2.2", "old": "1.0"}
        (target,) = lock
        assert [pin.index for pin in target.pins] == ["own", "pypi"]


@pytest.mark.slow
def test_an_overridden_package_that_its_index_lacks_comes_from_nowhere_else(machine: Machine, libraries: Index) -> None:
    with Index() as own:
        own.add(wheel("other", "1.0"))
        named = f'indexes = {{ own = "{own.url}" }}\nsources = {{ lib = "own" }}\n'
        assert machine.envspec("lock", machine.spec(spec("old", terms=named + OVERRIDE))).status == 1


@pytest.mark.slow
def test_a_diff_shows_the_reason_of_a_new_override(machine: Machine, libraries: Index) -> None:
    machine.locked(spec=spec("old"))
    before = machine.folder / "before.lock"
    before.write_bytes(machine.lock_path().read_bytes())
    machine.locked(spec=spec("old", terms=OVERRIDE))
    told = machine.envspec("diff", "before.lock", str(machine.lock_path())).out
    assert "lib>=2 overrides what packages require, because its tests pass" in " ".join(told.split())


def _with_version(lock: Lock, name: str, version: str) -> Lock:
    (target,) = lock
    pins = []
    for pin in target.pins:
        if pin.name == name and pin.artifact is not None:
            file = pin.artifact.file.replace(pin.version, version)
            pin = replace(pin, version=version, artifact=replace(pin.artifact, file=file))
        pins.append(pin)
    return replace(lock, targets=(replace(target, pins=tuple(pins)),))


def test_a_wheel_by_address_must_run_on_the_target(machine: Machine, libraries: Index) -> None:
    """Its file's name says so: neither locked for another machine nor for another Python."""
    for tag in ("cp312-cp312-manylinux_2_28_aarch64", "cp311-cp311-manylinux_2_28_x86_64"):
        dist = wheel("labelled", "1.0", tag=tag)
        libraries.add(dist)
        ran = machine.envspec("lock", machine.spec(spec(f"labelled @ {libraries.file_url(dist)}")))
        assert ran.status == 2 and ran.error.startswith("error: specs/demo.toml:5:"), ran.err
        assert f"{dist.file} doesn't run on linux-64 with Python 3.12 and glibc 2.28" in ran.error
        libraries.remove(dist)
