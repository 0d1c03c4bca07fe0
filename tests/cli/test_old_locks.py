"""A lock that was made with other facts serves: `check` says what is otherwise, and what installs, runs and exports
warns and takes the stricter value."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_project import Told
from msgspec.structs import replace
from support.installs import SPEC, pip_pin, write_lock
from support.machine import Machine
from support.packages import wheel

from envspec.app.inputs import read_lock
from envspec.export import images
from envspec.lock.model import Lock, LockedImage, LockedTarget, Pin
from envspec.lock.read import load
from envspec.lock.slice import slice_digest, slice_of
from envspec.lock.store import LockFolder
from envspec.lock.write import dumps

pytest_plugins = ["cli_fixtures"]

MM = "specs/mm-v2.9.toml"
BLACKWELL, HOPPER = "cu128-blackwell", "cu128-hopper"
FLOOR = "by today's facts the driver floor is 570 (the lock says 525.60.13), so 570 counts  [wrong-driver-floor]"
Envspec = Callable[..., Told]
Put = Callable[[Lock], Lock]


@pytest.fixture
def put(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Put], Lock]:
    """Writes mm-v2.9's lock, changed, in a project of its own, which is the current folder."""
    (tmp_path / "specs").mkdir()
    shutil.copy(root / MM, tmp_path / MM)
    monkeypatch.chdir(tmp_path)

    def write(change: Put) -> Lock:
        lock = change(load(root / "locks" / "mm-v2.9" / "envspec.lock"))
        LockFolder(tmp_path / "locks", "mm-v2.9").write(lock)
        return lock

    return write


def at_floor(target: LockedTarget) -> LockedTarget:
    return replace(target, driver_floor="525.60.13") if target.name == BLACKWELL else target


def without_builds(target: LockedTarget) -> LockedTarget:
    def older(pin: Pin) -> Pin:
        return replace(pin, built_with=None, requires_python=None, publisher=None, overwrites=())

    return replace(target, pins=tuple(map(older, target.pins)))


def old(lock: Lock) -> Lock:
    """With a floor that was corrected since."""
    return replace(lock, targets=tuple(map(at_floor, lock)))


@pytest.fixture
def lock(put: Callable[[Put], Lock]) -> Lock:
    return put(old)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    "command",
    [
        ("install", MM, "--prefix", "prefix", "--dry-run"),
        ("export", MM, "--format", "requirements", "-o", "out"),
        ("export", MM, "--format", "all", "-o", "out"),
        ("doctor", MM, "--driver", "580.65.06"),
    ],
    ids=lambda command: " ".join(command[::3]),
)
def test_a_finding_is_of_the_target_that_was_asked_for(lock: Lock, envspec: Envspec, command: tuple[str, ...]) -> None:
    told = envspec(*command, "--target", HOPPER)
    assert told.code == 0, told
    assert FLOOR not in told.out + told.err
    told = envspec(*command, "--target", BLACKWELL)
    assert told.code == 0 and FLOOR in told.out + told.err, told


@pytest.mark.by_day(2)
@pytest.mark.parametrize("command", ["bundle", "image", "smoke", "run"])
def test_no_other_command_calls_it_unsound(
    lock: Lock, envspec: Envspec, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These end where this machine, or the network, doesn't have what they need."""
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    rest = {
        "bundle": ("-o", "out.tar"),
        "image": ("-o", "out", "--offline"),
        "smoke": ("--runner", "slurm", "--dry-run"),
        "run": ("--dry-run", "--", "python"),
    }
    told = envspec(command, MM, "--target", BLACKWELL, *rest[command])
    assert f"warning: the lock of mm-v2.9: {BLACKWELL}: {FLOOR}" in told.err, told
    assert "can't be right" not in told.err and "find out who" not in told.err


def test_check_names_all_of_it_and_accuses_nobody(lock: Lock, envspec: Envspec) -> None:
    told = envspec("check", MM)
    assert told.code == 1 and f"{BLACKWELL}: {FLOOR}" in told.out
    assert told.err.splitlines()[-1] == f"hint: envspec lock {MM}"


@pytest.mark.slow
def test_what_is_written_has_the_stricter_floor_and_the_lock_s_own_digest(lock: Lock, envspec: Envspec) -> None:
    told = envspec("export", MM, "--target", BLACKWELL, "--format", "dockerfile", "-o", "out")
    assert told.code == 0 and f"warning: the lock of mm-v2.9: {BLACKWELL}: {FLOOR}" in told.err
    assert 'NVIDIA_REQUIRE_CUDA="cuda>=12.8 driver>=570"' in Path("out", BLACKWELL, "Dockerfile").read_text()
    document = json.loads(Path("out", BLACKWELL, "target.json").read_text())
    own = slice_of(lock, next(one for one in lock if one.name == BLACKWELL))
    assert document["driver_floor"] == "570"
    assert document["lock"]["targets"] == own["targets"], "the slice is of the lock as it is"
    _, read = read_lock(MM, None)
    assert dumps(read) == Path("locks", "mm-v2.9", "envspec.lock").read_text() == dumps(lock)
    assert slice_digest(slice_of(read, next(one for one in read if one.name == BLACKWELL))) == slice_digest(own)


def test_a_floor_that_only_newer_facts_know_counts_too(put: Callable[[Put], Lock], envspec: Envspec) -> None:
    put(
        lambda lock: replace(lock, targets=tuple(replace(one, driver_floor="600.1") for one in lock if one.inputs.cuda))
    )
    text = Path(MM).read_text("utf-8")
    Path(MM).write_text(text.replace('[targets.cpu]\nplatform = "linux-64"\n', ""), "utf-8")
    told = envspec("export", MM, "--target", HOPPER, "--format", "dockerfile", "-o", "out")
    assert told.code == 0 and "(the lock says 600.1), so 600.1 counts" in told.err
    assert "driver>=600.1" in Path("out", HOPPER, "Dockerfile").read_text()


@pytest.mark.parametrize("floor", ["abc", "525.60.13 brand=tesla", "9" * 5000, "1.2.3.4.5", "٥٢٥"])
def test_a_floor_that_is_no_driver_is_refused(put: Callable[[Put], Lock], envspec: Envspec, floor: str) -> None:
    put(lambda lock: lock)
    path = Path("locks", "mm-v2.9", "envspec.lock")
    path.write_text(path.read_text("utf-8").replace('driver-floor = "525.60.13"', f'driver-floor = "{floor}"'), "utf-8")
    for command in (("check", MM), ("export", MM, "--target", HOPPER, "--format", "dockerfile", "-o", "out")):
        told = envspec(*command)
        assert told.code in (1, 2) and "a driver version" in told.out + told.err


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("locked", "written"), [(("sm_80", "sm_120"), "12.0"), (("sm_80",), "10.0;12.0"), ((), "10.0;12.0")]
)
def test_architectures_are_those_of_both(
    put: Callable[[Put], Lock], envspec: Envspec, locked: tuple[str, ...], written: str
) -> None:
    def change(target: LockedTarget) -> LockedTarget:
        return replace(target, architectures=locked) if target.name == BLACKWELL else target

    put(lambda lock: replace(lock, targets=tuple(map(change, lock))))
    told = envspec("export", MM, "--target", BLACKWELL, "--format", "dockerfile", "-o", "out")
    assert told.code == 0 and "by today's facts the GPUs are sm_100, sm_120 (the lock says " in told.err
    text = Path("out", BLACKWELL, "Dockerfile").read_text().replace('"', "")
    assert f" TORCH_CUDA_ARCH_LIST={written} " in text


@pytest.mark.parametrize("fields", [{"driver_floor": "525.60.13"}, {"architectures": ("sm_90",)}])
def test_what_no_facts_give_a_cpu_target_is_refused(
    put: Callable[[Put], Lock], envspec: Envspec, fields: dict[str, object]
) -> None:
    put(lambda lock: replace(lock, targets=tuple(replace(one, **fields) for one in lock if one.name == "cpu")))
    assert "[wrong-" in envspec("export", MM, "--target", "cpu", "--format", "requirements", "-o", "out").err


def test_a_build_environment_that_is_dropped_is_refused_in_every_target(
    put: Callable[[Put], Lock], envspec: Envspec
) -> None:
    put(lambda lock: replace(lock, targets=tuple(map(without_builds, lock))))
    told = envspec("install", MM, "--target", HOPPER, "--prefix", "prefix", "--dry-run")
    assert told.code == 2 and "[no-build-environment]" in told.err and "find out who did" in told.err


def test_a_build_environment_that_only_some_lack_is_refused(put: Callable[[Put], Lock], envspec: Envspec) -> None:
    def one(lock: Lock) -> Lock:
        return replace(lock, targets=tuple(without_builds(t) if t.name == "cpu" else t for t in lock))

    put(one)
    told = envspec("export", MM, "--target", HOPPER, "--format", "requirements", "-o", "out")
    assert told.code == 2 and "cpu: deepspeed 0.19.8 is built, but the lock doesn't say what with  [no" in told.err


def test_structure_is_judged_whole(put: Callable[[Put], Lock], envspec: Envspec) -> None:
    """Of an old lock, too, and whatever target is asked for."""

    def change(pin: Pin) -> Pin:
        return replace(pin, index="evil") if pin.name == "tqdm" else pin

    def changed(target: LockedTarget) -> LockedTarget:
        return replace(target, pins=tuple(map(change, target.pins))) if target.name == BLACKWELL else target

    put(lambda lock: replace(old(lock), targets=tuple(map(changed, old(lock)))))
    told = envspec("install", MM, "--target", HOPPER, "--prefix", "prefix", "--dry-run")
    assert told.code == 2 and f"{BLACKWELL}: tqdm is from evil, but must come from pypi  [wrong-index]" in told.err
    assert "570" not in told.err, "what only warns isn't among the errors"


# Images that recipes stand on

DIGEST = f"sha256:{'b' * 64}"


def with_images(*names: str) -> Put:
    return lambda lock: replace(lock, images=tuple(LockedImage(name, DIGEST) for name in sorted(names)))


@pytest.mark.slow
def test_the_base_of_before_stays_with_its_digest(put: Callable[[Put], Lock], envspec: Envspec) -> None:
    put(with_images("debian:bookworm-slim", "astral/uv:0.13.8"))
    told = envspec("export", MM, "--target", "cpu", "--format", "dockerfile", "-o", "out")
    said = "by today's facts the base image is debian:trixie-slim (the lock says debian:bookworm-slim)"
    assert told.code == 0 and f"{said}, so debian:bookworm-slim counts" in told.err
    assert f"debian:bookworm-slim@{DIGEST}" in (text := Path("out", "cpu", "Dockerfile").read_text())
    assert "trixie" not in text
    told = envspec("check", MM)
    assert told.code == 1 and "[image-changed]" in told.out


def test_a_base_that_the_spec_names_is_the_spec_s(put: Callable[[Put], Lock], envspec: Envspec) -> None:
    put(with_images("debian:bookworm-slim"))
    text = Path(MM).read_text("utf-8")
    Path(MM).write_text(text.replace("[image]\n", '[image]\nbase = "debian:trixie-slim"\n'), "utf-8")
    told = envspec("export", MM, "--target", "cpu", "--format", "dockerfile", "-o", "out")
    assert "the base image changed from debian:bookworm-slim to debian:trixie-slim" in told.err
    assert "debian:trixie-slim" in Path("out", "cpu", "Dockerfile").read_text()


@pytest.mark.slow
def test_an_image_with_cuda_of_before_stays_with_its_digest(
    put: Callable[[Put], Lock], envspec: Envspec, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(MM).write_text(Path(MM).read_text("utf-8").replace("[image]\n", "[image]\nnvcc = true\n"), "utf-8")
    put(with_images("debian:trixie-slim", "nvidia/cuda:12.8.1-devel-ubuntu22.04"))
    monkeypatch.setitem(images._DEVEL, "12.8", "12.8.2")
    monkeypatch.setattr(images, "refuse_old_headers", lambda *_: None)
    told = envspec("export", MM, "--target", HOPPER, "--format", "dockerfile", "-o", "out")
    locked = "nvidia/cuda:12.8.1-devel-ubuntu22.04"
    said = f"by today's facts the image with CUDA is nvidia/cuda:12.8.2-devel-ubuntu22.04 (the lock says {locked})"
    assert said in told.err, told
    assert f"{locked}@{DIGEST}" in Path("out", HOPPER, "Dockerfile").read_text()


# The spec changed since it was locked

LEADER = f"error: {SPEC} changed since it was locked: "


@pytest.fixture
def here(machine: Machine) -> Machine:
    write_lock(machine, [pip_pin(wheel("app", "1.0"))])
    return machine


def edited(machine: Machine, old: str, new: str) -> None:
    path = machine.folder / SPEC
    text = path.read_text("utf-8")
    assert old in text, text
    path.write_text(text.replace(old, new, 1), "utf-8")


OTHER = "[targets.other]\nplatform = 'linux-64'\n"


@pytest.mark.parametrize(
    "more", ["[image]\npython = 'base'\n", "[image]\nuser = 'me'\n", OTHER, f"{OTHER}cuda = '12.8'\ngpus = ['H100']\n"]
)
def test_what_is_no_part_of_the_environment_refuses_no_run(here: Machine, more: str) -> None:
    path = here.folder / SPEC
    path.write_text(f"{path.read_text('utf-8')}\n{more}", "utf-8")
    ran = here.envspec("run", "--dry-run", "--target", "here", "--", "python", status=0)
    assert ("changed since it was locked" in ran.err) is ("user" not in more)
    assert here.envspec("check", SPEC).status == int("user" not in more)
    assert here.envspec("install", SPEC, "-t", "here", "--prefix", "p", "--dry-run").status == 0


def test_a_target_that_is_not_locked_yet_is_named(here: Machine) -> None:
    path = here.folder / SPEC
    path.write_text(f"{path.read_text('utf-8')}\n{OTHER}", "utf-8")
    for more in ((), ("--target", "other")):
        ran = here.envspec("run", "--dry-run", *more, "--", "python", status=1)
        assert ran.error == f"{LEADER}target other is not locked yet" and ran.hint == f"hint: envspec lock {SPEC}"


COMMANDS = (
    ("run", SPEC, "--dry-run", "--target", "here", "--", "python"),
    ("install", SPEC, "--target", "here", "--prefix", "p", "--dry-run"),
    ("export", SPEC, "--target", "here", "--format", "requirements", "-o", "out"),
    ("bundle", SPEC, "--target", "here", "-o", "out.tar"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("new", "said"),
    [
        ("'app==2.0'", "app==1.0 became app==2.0"),
        ("'app==1.0', 'more'", "more was added"),
        ("'more'", "app==1.0 was removed"),
    ],
)
def test_the_requirement_that_changed_is_named_in_a_line(
    here: Machine, command: tuple[str, ...], new: str, said: str
) -> None:
    edited(here, "'app==1.0'", new)
    ran = here.envspec(*command, status=1)
    first, _, unfit = ran.error.partition("; the lock's pins don't fit that: ")
    assert first.removesuffix(" (and 1 more)") == LEADER + said and unfit.endswith("]")
    assert ran.err.splitlines() == [ran.error, f"hint: envspec lock {SPEC}"]


@pytest.mark.parametrize("command", COMMANDS[:1], ids=lambda command: command[0])
def test_a_run_is_refused_though_the_pins_fit(here: Machine, command: tuple[str, ...]) -> None:
    edited(here, "'app==1.0'", "'app>=1'")
    ran = here.envspec(*command, status=1)
    assert ran.error == f"{LEADER}app==1.0 became app>=1"
