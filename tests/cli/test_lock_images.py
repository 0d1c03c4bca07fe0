"""`envspec lock` and the digests of images: which are asked for, which stay, and what a registry that fails changes."""

import json
from collections.abc import Iterator

import pytest
from lock_index import packages as packages
from support.index import Index
from support.machine import Machine, cpu
from support.registry import Registry

from envspec.export.images import UV
from envspec.net.image_address import image_address

pytestmark = pytest.mark.e2e

BASE = "debian:trixie-slim"

IMAGE = "[image]\nuser = 'dev'\n"
"""What makes a spec one whose images are asked for."""


@pytest.fixture
def registry(machine: Machine) -> Iterator[Registry]:
    """The Hub, with every image that the recipes of a plain spec use."""
    with Registry() as running:
        for name in (BASE, UV):
            address = image_address(name)
            running.push(address.path, address.tag, name)
        machine.configure("").write_text(f'[mirrors]\n"docker.io" = "{running.origin}"\n', encoding="utf-8")
        yield running


def test_the_digests_of_images_are_locked(machine: Machine, packages: Index, registry: Registry) -> None:
    ran = machine.envspec("lock", machine.spec(IMAGE + cpu("alpha")), "--json")
    assert ran.status == 0 and ran.err == ""
    images = {image.name: image.digest for image in machine.lock().images}
    assert sorted(images) == sorted([BASE, UV]) and json.loads(ran.out)["specs"][0]["images"] == images
    assert images[BASE] == registry.push("library/debian", "trixie-slim", BASE)
    assert len(registry.asked) == 2
    machine.envspec("check", "specs/demo.toml", status=0)


@pytest.mark.slow
def test_known_digests_stay_until_they_are_asked_for_again(
    machine: Machine, packages: Index, registry: Registry
) -> None:
    before = machine.locked(spec=IMAGE + cpu("alpha"))
    moved = registry.push("library/debian", "trixie-slim", "security updates")
    registry.asked.clear()
    packages.asked.clear()
    assert machine.envspec("lock", "specs/demo.toml").out.startswith("locks/demo/envspec.lock is fresh")
    after = machine.locked(spec=IMAGE + cpu("alpha", "beta"))
    assert after.images == before.images and after.targets != before.targets and registry.asked == []
    packages.asked.clear()
    ran = machine.envspec("lock", "specs/demo.toml", "--upgrade-images")
    assert ran.status == 0 and ran.out.startswith(f"changed {BASE} sha256:")
    lock = machine.lock()
    image = lock.image(BASE)
    assert image is not None and image.digest == moved and lock.targets == after.targets and packages.asked == []
    again = machine.envspec("lock", "specs/demo.toml", "--upgrade")
    assert again.status == 0 and again.out.startswith("unchanged: ")


def test_another_base_is_asked_for(machine: Machine, packages: Index, registry: Registry) -> None:
    old = machine.locked(spec=IMAGE + cpu("alpha"))
    digest = registry.push("library/ubuntu", "24.04")
    packages.asked.clear()
    registry.asked.clear()
    machine.spec(cpu("alpha") + "[image]\nbase = 'ubuntu:24.04'\n")
    check = machine.envspec("check", "specs/demo.toml")
    assert check.status == 1 and f"the base image changed from {BASE} to ubuntu:24.04  [image-changed]" in check.out
    new = machine.locked()
    assert {image.name for image in new.images} == {"ubuntu:24.04", UV} and new.targets == old.targets
    image = new.image("ubuntu:24.04")
    assert image is not None and image.digest == digest
    assert len(registry.asked) == 1 and packages.asked == []
    assert machine.envspec("check", "specs/demo.toml").status == 0


def test_a_base_that_names_its_digest(machine: Machine, packages: Index, registry: Registry) -> None:
    machine.spec(cpu("alpha") + f"[image]\nbase = 'debian@sha256:{'0' * 64}'\n")
    assert [image.name for image in machine.locked().images] == [UV]
    assert machine.envspec("check", "specs/demo.toml").status == 0


@pytest.mark.parametrize("status", [404, 429, 500])
def test_a_registry_that_does_not_tell(machine: Machine, packages: Index, registry: Registry, status: int) -> None:
    machine.spec(IMAGE + cpu("alpha"))
    registry.status = status
    ran = machine.envspec("lock", "specs/demo.toml")
    (note,) = ran.err.splitlines()
    assert ran.status == 0 and note.startswith(f"note: the registry has no digest for {UV}, {BASE}: ")
    assert note.endswith("; recipes use the tag alone, and `--upgrade-images` asks again")
    assert machine.lock().images == () and "[images]" not in machine.lock_path().read_text(encoding="utf-8")
    # it is as good as it can be, and nobody is asked again unbidden
    registry.asked.clear()
    fresh = machine.envspec("lock", "specs/demo.toml")
    assert "is fresh" in fresh.out and fresh.err == "" and registry.asked == []
    assert machine.envspec("check", "specs/demo.toml").status == 0


def test_one_note_tells_of_all_locks_of_a_command(machine: Machine, packages: Index, registry: Registry) -> None:
    registry.status = 500
    several = [machine.spec(IMAGE + cpu("alpha"), name=name) for name in ("one", "two")]
    (note,) = machine.envspec("lock", *several).err.splitlines()
    assert note.startswith(f"note: the registry has no digest for {UV}, {BASE}: ")


@pytest.mark.slow
def test_a_known_digest_outlives_a_registry(machine: Machine, packages: Index, registry: Registry) -> None:
    before = machine.locked(spec=IMAGE + cpu("alpha"))
    registry.status = 500
    ran = machine.envspec("lock", "specs/demo.toml", "--upgrade")
    assert ran.status == 0 and "; recipes use the old lock's digest, and" in ran.err
    assert machine.lock() == before


@pytest.mark.slow
def test_no_registry_is_asked_where_nobody_wants_images(machine: Machine, packages: Index, registry: Registry) -> None:
    ran = machine.envspec("lock", machine.spec(cpu("alpha")))
    assert (ran.status, ran.err) == (0, "") and registry.asked == [] and machine.lock().images == ()
    assert machine.envspec("lock", "specs/demo.toml", "--upgrade").status == 0 and registry.asked == []
    # exported recipes want them, and so does who says so
    (machine.folder / "recipes" / "demo").mkdir(parents=True)
    assert machine.envspec("lock", "specs/demo.toml", "--upgrade").status == 0 and len(machine.lock().images) == 2
    (machine.folder / "recipes" / "demo").rmdir()
    machine.lock_path().unlink()
    assert machine.envspec("lock", "specs/demo.toml", "--upgrade-images").status == 0
    assert len(machine.lock().images) == 2


def test_offline_asks_no_registry(machine: Machine, packages: Index, registry: Registry) -> None:
    before = machine.locked(spec=IMAGE + cpu("alpha"))
    registry.asked.clear()
    ran = machine.envspec("lock", "specs/demo.toml", "--offline", "--upgrade")
    assert (ran.status, ran.err) == (0, "") and machine.lock() == before and registry.asked == []


def test_a_base_that_no_recipe_can_use_is_no_matter_of_the_lock(
    machine: Machine, packages: Index, registry: Registry
) -> None:
    ran = machine.envspec("lock", machine.spec(cpu("alpha") + "[image]\nbase = 'alpine:3'\n"))
    assert (ran.status, ran.err) == (0, "") and machine.lock().images == ()
