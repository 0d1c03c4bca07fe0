"""`envspec lock`: what it says and writes, its exit codes, the digests of images, and first pins of another lock."""

import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import sdist, wheel
from support.registry import Registry
from support.torch_packages import stand_ins

from envspec.export.images import UV
from envspec.facts.edition import shipped_edition
from envspec.lock.read import load
from envspec.net.fetch import Fetcher
from envspec.net.registry import image_address


@pytest.fixture
def packages(index: Index) -> Index:
    return index.add(wheel("alpha", "1.0", "beta"), wheel("beta", "1.0"))


TWO = "[targets.a]\nplatform = 'linux-64'\n[targets.b]\nplatform = 'osx-arm64'\n"


@pytest.fixture
def later(machine: Machine, packages: Index) -> Iterator[Index]:
    """PyPI some time later, at another address, so that no cached page stands in its way."""
    with Index() as running:
        running.add(wheel("alpha", "1.0", "beta"), wheel("beta", "1.0"))
        running.add(wheel("alpha", "2.0", "beta", "gamma"), wheel("beta", "2.0"), wheel("gamma", "1.0"))
        yield running


@pytest.mark.e2e
def test_first_lock(machine: Machine, packages: Index) -> None:
    ran = machine.envspec("lock", machine.spec(cpu("alpha", targets=TWO)))
    assert (ran.status, ran.out, ran.err) == (0, "wrote locks/demo/envspec.lock: 2 targets, 2 packages\n", "")
    assert sorted(machine.files()) == ["demo/a/requirements.txt", "demo/b/requirements.txt", "demo/envspec.lock"]
    machine.envspec("check", "specs/demo.toml", status=0)


@pytest.mark.e2e
def test_the_same_inputs_give_the_same_bytes(machine: Machine, packages: Index) -> None:
    machine.locked(spec=cpu("alpha", targets=TWO))
    before = machine.files()
    machine.lock_path().unlink()
    machine.locked(env={"ENVSPEC_CACHE_DIR": str(machine.base / "other"), "UV_CACHE_DIR": str(machine.base / "uv")})
    assert machine.files() == before


@pytest.mark.e2e
def test_a_fresh_lock_is_left_alone(machine: Machine, packages: Index) -> None:
    machine.locked(spec=cpu("alpha"))
    before = machine.files()
    packages.asked.clear()
    ran = machine.envspec("lock", "specs/demo.toml")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == "locks/demo/envspec.lock is fresh: 1 target, 2 packages. `--upgrade` looks for newer versions.\n"
    assert machine.files() == before and packages.asked == []


@pytest.mark.e2e
def test_nothing_new_is_unchanged(machine: Machine, packages: Index) -> None:
    machine.locked(spec=cpu("alpha"))
    ran = machine.envspec("lock", "specs/demo.toml", "--upgrade")
    assert (ran.status, ran.out) == (0, "unchanged: locks/demo/envspec.lock: 1 target, 2 packages\n")


@pytest.mark.e2e
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


@pytest.mark.slow
@pytest.mark.e2e
def test_upgrade_package_moves_that_one(machine: Machine, later: Index) -> None:
    machine.locked(spec=cpu("alpha", targets=TWO))
    machine.default = later.url
    ran = machine.envspec("lock", "specs/demo.toml", "--upgrade-package", "BETA")
    assert ran.out.splitlines()[0] == "changed beta 1.0 -> 2.0"
    assert machine.versions("a") == machine.versions("b") == {"alpha": "1.0", "beta": "2.0"}


@pytest.mark.e2e
def test_one_target_alone(machine: Machine, later: Index) -> None:
    machine.locked(spec=cpu("alpha", targets=TWO))
    machine.default = later.url
    assert machine.envspec("lock", "specs/demo.toml", "--target", "a", "--upgrade").status == 0
    assert machine.versions("b") == {"alpha": "1.0", "beta": "1.0"}
    assert machine.versions("a") == {"alpha": "2.0", "beta": "2.0", "gamma": "1.0"}


@pytest.mark.e2e
def test_an_unknown_target(machine: Machine, packages: Index) -> None:
    ran = machine.envspec("lock", machine.spec(cpu("alpha", targets=TWO)), "--target", "c")
    assert ran.status == 2 and "has no target c" in ran.error and ran.hint == "hint: its targets: a, b"
    assert packages.asked == []


@pytest.mark.e2e
def test_upgrade_package_takes_a_name(machine: Machine, packages: Index) -> None:
    machine.spec(cpu("alpha"))
    for given in ("alpha==1.0", " alpha >=1", "alpha[x]"):
        ran = machine.envspec("lock", "specs/demo.toml", "-P", given)
        assert ran.status == 2 and ran.error == f"error: --upgrade-package takes a package's name, not {given}"
        assert ran.hint == "hint: --upgrade-package alpha; a version belongs in the spec"


@pytest.mark.e2e
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


@pytest.mark.e2e
def test_a_target_that_goes_takes_its_files_along(machine: Machine, packages: Index) -> None:
    machine.locked(spec=cpu("alpha", targets=TWO))
    mine = machine.locks / "demo" / "notes.md"
    mine.write_text("mine")
    machine.locked(spec=cpu("alpha", targets="[targets.a]\nplatform = 'linux-64'\n"))
    assert sorted(machine.files()) == ["demo/a/requirements.txt", "demo/envspec.lock", "demo/notes.md"]


@pytest.mark.e2e
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


@pytest.mark.e2e
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


@pytest.mark.e2e
def test_without_a_spec_every_one_is_locked(machine: Machine, packages: Index) -> None:
    for name in ("one", "two"):
        machine.spec(cpu("alpha"), name)
    assert machine.envspec("lock").status == 0
    assert machine.lock_path("one").exists() and machine.lock_path("two").exists()


@pytest.mark.e2e
def test_every_spec_is_read_before_the_first_is_solved(machine: Machine, packages: Index) -> None:
    machine.spec(cpu("alpha"), "one")
    machine.spec(cpu("alpha").replace("platform", "platfrom"), "two")
    ran = machine.envspec("lock", "specs/one.toml", "specs/two.toml")
    assert ran.status == 2 and ran.error.startswith("error: specs/two.toml:")
    assert packages.asked == [] and not machine.locks.exists()


@pytest.mark.e2e
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


@pytest.mark.e2e
def test_a_broken_configuration(machine: Machine) -> None:
    config = machine.configure("")
    config.write_text("[mirrors")
    ran = machine.envspec("lock", machine.spec(cpu("alpha")))
    assert ran.status == 2 and ran.error.startswith(f"error: {config}:1:9: not TOML: expected ']'")


@pytest.mark.e2e
def test_locks_dir(machine: Machine, packages: Index) -> None:
    ran = machine.envspec("lock", machine.spec(cpu("alpha")), "--locks-dir", "elsewhere/locks")
    assert ran.status == 0 and ran.out.startswith("wrote elsewhere/locks/demo/envspec.lock")
    assert not machine.locks.exists()


@pytest.mark.e2e
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


@pytest.mark.e2e
def test_upgrade_package_of_what_nothing_has(machine: Machine, packages: Index) -> None:
    machine.locked(spec=cpu("alpha"))
    ran = machine.envspec("lock", "specs/demo.toml", "--upgrade-package", "aplha")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == (
        "error: --upgrade-package aplha: neither specs/demo.toml nor its lock has it\nhint: did you mean alpha?\n"
    )


@pytest.mark.e2e
def test_two_specs_that_would_share_a_lock(machine: Machine, packages: Index) -> None:
    machine.spec(cpu("alpha"))
    other = machine.lock_path().parents[2] / "specs" / "other.toml"
    text = (other.parent / "demo.toml").read_text()
    other.write_text(text if "name =" in text else text.replace("[env]", '[env]\nname = "demo"', 1))
    ran = machine.envspec("lock", "specs/demo.toml", "specs/other.toml")
    assert (ran.status, ran.out) == (2, "")
    assert "specs/demo.toml and specs/other.toml would both be locked as locks/demo/envspec.lock" in ran.err
    assert machine.files() == {}


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


@pytest.mark.e2e
def test_the_digests_of_images_are_locked(machine: Machine, packages: Index, registry: Registry) -> None:
    ran = machine.envspec("lock", machine.spec(IMAGE + cpu("alpha")), "--json")
    assert ran.status == 0 and ran.err == ""
    images = {image.name: image.digest for image in machine.lock().images}
    assert sorted(images) == sorted([BASE, UV]) and json.loads(ran.out)["specs"][0]["images"] == images
    assert images[BASE] == registry.push("library/debian", "trixie-slim", BASE)
    assert len(registry.asked) == 2
    machine.envspec("check", "specs/demo.toml", status=0)


@pytest.mark.e2e
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


@pytest.mark.e2e
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


@pytest.mark.e2e
def test_a_base_that_names_its_digest(machine: Machine, packages: Index, registry: Registry) -> None:
    machine.spec(cpu("alpha") + f"[image]\nbase = 'debian@sha256:{'0' * 64}'\n")
    assert [image.name for image in machine.locked().images] == [UV]
    assert machine.envspec("check", "specs/demo.toml").status == 0


@pytest.mark.e2e
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


@pytest.mark.e2e
def test_one_note_tells_of_all_locks_of_a_command(machine: Machine, packages: Index, registry: Registry) -> None:
    registry.status = 500
    several = [machine.spec(IMAGE + cpu("alpha"), name=name) for name in ("one", "two")]
    (note,) = machine.envspec("lock", *several).err.splitlines()
    assert note.startswith(f"note: the registry has no digest for {UV}, {BASE}: ")


@pytest.mark.e2e
@pytest.mark.slow
def test_a_known_digest_outlives_a_registry(machine: Machine, packages: Index, registry: Registry) -> None:
    before = machine.locked(spec=IMAGE + cpu("alpha"))
    registry.status = 500
    ran = machine.envspec("lock", "specs/demo.toml", "--upgrade")
    assert ran.status == 0 and "; recipes use the old lock's digest, and" in ran.err
    assert machine.lock() == before


@pytest.mark.e2e
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


@pytest.mark.e2e
def test_offline_asks_no_registry(machine: Machine, packages: Index, registry: Registry) -> None:
    before = machine.locked(spec=IMAGE + cpu("alpha"))
    registry.asked.clear()
    ran = machine.envspec("lock", "specs/demo.toml", "--offline", "--upgrade")
    assert (ran.status, ran.err) == (0, "") and machine.lock() == before and registry.asked == []


@pytest.mark.e2e
def test_a_base_that_no_recipe_can_use_is_no_matter_of_the_lock(
    machine: Machine, packages: Index, registry: Registry
) -> None:
    ran = machine.envspec("lock", machine.spec(cpu("alpha") + "[image]\nbase = 'alpine:3'\n"))
    assert (ran.status, ran.err) == (0, "") and machine.lock().images == ()


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--verbose",), (), ("--verbose", "--json")])
def test_downloads_are_told(options: tuple[str, ...], machine: Machine, index: Index) -> None:
    index.ranges = index.sidecars = False
    whole, source = wheel("whole", "1.0", padding=1 << 17), sdist("source", "1.0")
    index.add(whole, source)
    machine.spec(cpu("whole", "source", extra="allow-source = ['source']"))
    ran = machine.envspec("lock", *options)
    told = [line.split(":")[0] for line in ran.err.splitlines() if line.startswith("fetched ")]
    assert ran.status == 0, ran.err
    if options == ("--verbose",):
        assert {f"fetched {whole.file}", f"fetched {source.file}"} <= set(told)
        assert f"fetched {source.file}: {len(source.content)} B in" in ran.err
    else:
        assert told == []


PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
SPEC = f"""\
[env]
name = "demo"
python = "{PYTHON}"
[pip]
dependencies = ["alpha"]
[targets.cpu]
platform = "linux-64"
"""


@pytest.mark.slow
def test_a_uv_lock_gives_the_first_pins_and_init_says_how(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0", "beta"), wheel("beta", "1.0"))
    (machine.folder / "pyproject.toml").write_text(
        f'[project]\nname = "itself"\nversion = "1"\nrequires-python = ">={PYTHON}"\ndependencies = ["alpha"]\n',
        "utf-8",
    )
    uv = [str(Path(sys.executable).with_name("uv")), "lock", "--quiet"]
    subprocess.run(uv, cwd=machine.folder, env=machine.environment(), check=True, timeout=60)
    index.add(wheel("alpha", "2.0", "beta"), wheel("beta", "2.0"))
    begun = machine.envspec("init", "demo", "--from", "uv.lock")
    assert begun.status == 2 and "begin with pyproject.toml, then" in begun.hint, begun.err
    begun = machine.envspec("init", "demo", "--from", "pyproject.toml")
    assert "hint: `envspec lock specs/demo.toml --pins-from uv.lock`" in begun.err, begun.err
    assert machine.envspec("lock", "specs/demo.toml", "--pins-from", "uv.lock").status == 0
    assert machine.versions("cpu") == {"alpha": "1.0", "beta": "1.0"}
    assert machine.envspec("check").status == 0


def test_pins_that_do_not_fit_give_way(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0", "beta>=2"), *(wheel("beta", one) for one in ("1.0", "2.0", "3.0")))
    spec = machine.spec(SPEC)
    (machine.folder / "requirements.txt").write_text("alpha==0.9\nbeta==2.0 \\", "utf-8")
    machine.envspec("lock", spec, "--pins-from", "requirements.txt", status=0)
    assert machine.versions("cpu") == {"alpha": "1.0", "beta": "2.0"}


def test_a_lock_of_conda_s_gives_them_by_platform(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0"), wheel("alpha", "2.0"))
    spec = machine.spec(SPEC)
    text = "version: 1\nmetadata: {platforms: [linux-64], channels: [], sources: [], content_hash: {linux-64: '0'}}\n"
    said = f"url: 'https://a/alpha-1.0-py3-none-any.whl', hash: {{sha256: '{'0' * 64}'}}, dependencies: {{}}"
    for one in ("linux-64", "osx-arm64"):
        text += "package:\n" * (one == "linux-64")
        text += f"- {{name: alpha, version: '1.0', manager: pip, platform: {one}, {said}}}\n"
    (machine.folder / "conda-lock.yml").write_text(text, "utf-8")
    machine.envspec("lock", spec, "--pins-from", "conda-lock.yml", status=0)
    assert machine.versions("cpu") == {"alpha": "1.0"}


@pytest.mark.slow
def test_a_release_of_torch_is_kept_as_the_target_s_own_build(machine: Machine, index: Index) -> None:
    index.add(*stand_ins("cu126", "2.8.0"), *stand_ins("cu126", "2.9.1"))
    gpu = '[targets.gpu]\nplatform = "linux-64"\ncuda = "12.6"\ngpus = ["A100"]\n'
    spec = machine.spec(cpu("torch>=2.6", targets=gpu))
    for named in ("2.8.0", "2.8.0+cu128"):
        (machine.folder / "requirements.txt").write_text(f"torch=={named}\n", "utf-8")
        machine.envspec("lock", spec, "--pins-from", "requirements.txt", status=0)
        assert machine.versions("gpu")["torch"] == "2.8.0+cu126"


def test_what_gives_no_pins(machine: Machine) -> None:
    spec = machine.spec(SPEC)
    (machine.folder / "requirements.txt").write_text("alpha>=1\n", "utf-8")
    ran = machine.envspec("lock", spec, "--pins-from", "requirements.txt")
    assert (ran.status, "requirements.txt: it pins nothing" in ran.error) == (2, True), ran.err
    ran = machine.envspec("lock", spec, "--pins-from", "nowhere.lock")
    assert ran.status == 2 and "nowhere.lock" in ran.error, ran.err
    ran = machine.envspec("lock", spec, "--pins-from", "requirements.txt", "--upgrade")
    assert ran.status == 2 and "--upgrade asks for newer versions" in ran.err


@pytest.mark.slow
@pytest.mark.e2e
def test_nothing_of_a_command_outlives_it(machine: Machine, packages: Index) -> None:
    """A cache of a module that holds what fetches would keep its connections open, one for each lock of a process."""
    machine.locked(spec=cpu("alpha"))
    gc.collect()
    assert [value for value in gc.get_objects() if isinstance(value, Fetcher)] == []
