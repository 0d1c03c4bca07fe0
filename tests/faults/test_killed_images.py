"""`envspec image` killed before any of its steps, into a folder, a file and a registry: what was there stays whole,
nothing half-written is taken for whole, and the next run makes the same bytes and leaves nothing beside them but begun
entries of the cache, which `envspec cache prune` removes."""

import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from support.base_image import system, write_base
from support.hub import serving_hub
from support.index import Index
from support.installs import PYTHON, SPEC, pip_pin, write_lock
from support.machine import ROOT, Machine
from support.packages import wheel

from envspec.net.registry import MANIFEST_TYPES

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

OLD, NEW = wheel("lib", "1.0"), wheel("lib", "2.0")
EVERY = [*range(1, 500)]
FEW = pytest.mark.parametrize(
    "steps",
    [random.Random(7).sample(range(1, 50), 4), pytest.param(EVERY, marks=pytest.mark.nightly)],
    ids=["few", "all"],
)

Dies = Callable[..., str]


@contextmanager
def dying(machine: Machine) -> Iterator[Dies]:
    """What kills an `envspec image` at a step, or lets it run for 0, and says how it ended."""
    env = {**machine.environment(), "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    command = [sys.executable, "-m", "support.dying", "image", SPEC, "--base", "./base"]
    with subprocess.Popen(
        command, cwd=machine.folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout
        orders, ends = process.stdin, process.stdout

        def dies(step: int, *more: str) -> str:
            orders.write(" ".join([str(step), *more]) + "\n")
            orders.flush()
            return ends.readline().strip()

        yield dies
        process.communicate()


@pytest.fixture
def machine(machine: Machine, index: Index) -> Machine:
    index.add(OLD, NEW)
    write_base(machine.folder / "base", system(PYTHON))
    write_lock(machine, [pip_pin(OLD)], platform="linux-64")
    return machine


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def assert_whole(found: dict[str, bytes]) -> None:
    """A layout whose index leads to a whole image, and none of whose blobs has another's name."""
    blobs = {path.rpartition("/")[2]: text for path, text in found.items() if path.startswith("blobs/")}
    assert all(digest(text) == name for name, text in blobs.items() if not name.endswith(".part"))
    (top,) = json.loads(found["index.json"])["manifests"]
    manifest = json.loads(blobs[top["digest"][7:]])
    assert {row["digest"][7:] for row in (manifest["config"], *manifest["layers"])} <= set(blobs)


def bring_back(machine: Machine, place: Path, before: Path) -> None:
    """Put the image of before in its place again, with an empty cache."""
    shutil.rmtree(machine.cache)
    if place.exists():
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    (shutil.copytree if before.is_dir() else shutil.copy)(before, place)


@FEW
@pytest.mark.parametrize("to", ["out", "out.tar"])
def test_into_a_folder_or_a_file(to: str, steps: list[int], machine: Machine) -> None:
    place, before = machine.folder / to, machine.base / "before"

    def state() -> tuple[dict[str, bytes], set[str]]:
        kept = {path for path in files(machine.cache) if not path.endswith(".partial")}
        return files(machine.folder), kept

    with dying(machine) as dies:
        assert dies(0, "-o", to) == "done 0"
        place.rename(before)
        old = {f"{to}/{path}": text for path, text in files(before).items()} or {to: before.read_bytes()}
        write_lock(machine, [pip_pin(NEW)], platform="linux-64")
        bring_back(machine, place, before)
        assert dies(0, "-o", to) == "done 0"
        made = state()
        for step in steps:
            bring_back(machine, place, before)
            ended = dies(step, "-o", to)
            if ended == "done 0":
                assert step > 45, "fewer steps prove nothing"
                break
            assert ended == "killed"
            top = f"{to}/index.json" if place.is_dir() else to
            assert files(machine.folder)[top] in (old[top], made[0][top])
            if place.is_dir():
                assert_whole(files(place))
            assert dies(0, "-o", to) == "done 0"
            assert state() == made, step
        else:
            assert steps is not EVERY, "it takes more steps than this test knows"


SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.mark.parametrize("kills", [3, pytest.param(42, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("to", ["out", "out.tar"])
def test_a_process_that_is_ended_at_any_moment(to: str, kills: int, machine: Machine, index: Index) -> None:
    """By the clock, at so many moments of its whole life, from Python's first line to the rename: the older image is
    whole or the newer one is, and the next run makes the same bytes."""
    words = ("image", SPEC, "--base", "./base", "-o", to)
    place, before = machine.folder / to, machine.base / "before"
    assert machine.envspec(*words).status == 0
    place.rename(before)
    # so large that most of the time goes into the image
    big = wheel("lib", "3.0", padding=8 << 20)
    index.add(big)
    write_lock(machine, [pip_pin(big)], platform="linux-64")

    def content() -> dict[str, bytes]:
        return {path: text for path, text in files(machine.folder).items() if path.split("/")[0] == to}

    bring_back(machine, place, before)
    old, begun = content(), time.monotonic()
    assert machine.start(*words).wait(120) == 0
    lasts, new, whole = time.monotonic() - begun, content(), files(machine.folder)
    top = f"{to}/index.json" if before.is_dir() else to
    hit = 0
    for number in range(3 * kills):
        bring_back(machine, place, before)
        process = machine.start(*words)
        time.sleep(lasts * (hit + 0.5) / kills)
        process.send_signal(sent := SIGNALS[number % len(SIGNALS)])
        _, err = process.communicate(timeout=60)
        assert process.returncode in (0, 130, -sent), (sent, process.returncode, err)
        assert "Traceback" not in err and content()[top] in (old[top], new[top]), (sent, err)
        if before.is_dir():
            assert_whole({path.removeprefix(f"{to}/"): text for path, text in content().items()})
        hit += process.returncode != 0
        # a machine that is less busy than a moment ago
        lasts *= 1 if process.returncode else 0.8
        assert machine.envspec(*words).status == 0
        assert files(machine.folder) == whole, (sent, number)
        assert not list(machine.cache.rglob("scratch/*"))
        if hit == kills:
            return
    raise AssertionError(f"only {hit} of {3 * kills} signals came in time")


@pytest.mark.skipif(not shutil.which("docker-registry"), reason="no docker-registry")
@FEW
def test_into_a_registry(steps: list[int], machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()

    def got(what: str) -> bytes | None:
        accept = {"Accept": ", ".join(MANIFEST_TYPES)}
        try:
            with urlopen(Request(f"http://{hub.host}/v2/{what}", headers=accept), timeout=20) as answer:
                content: bytes = answer.read()
                return content
        except HTTPError as error:
            if error.code == 404:
                return None
            raise

    with serving_hub(tmp_path / "hub") as hub, dying(machine) as dies:
        assert dies(0, "-o", f"{hub.host}/team/whole:1") == "done 0"
        right = got("team/whole/manifests/1")
        assert right is not None
        manifest = json.loads(right)
        blobs = [row["digest"] for row in (manifest["config"], *manifest["layers"])]
        for step in steps:
            shutil.rmtree(machine.cache)
            name = f"team/killed-{step}"
            ended = dies(step, "-o", f"{hub.host}/{name}:1")
            if ended == "done 0":
                assert step > 80, "fewer steps prove nothing"
                break
            assert ended == "killed"
            found = got(f"{name}/manifests/1")
            assert found in (None, right)
            assert dies(0, "-o", f"{hub.host}/{name}:1") == "done 0"
            assert got(f"{name}/manifests/1") == right
            assert [digest(got(f"{name}/blobs/{one}") or b"") for one in blobs] == [one[7:] for one in blobs]
            assert not list(machine.cache.rglob("scratch/*"))
        else:
            assert steps is not EVERY, "it takes more steps than this test knows"
