"""Many locks from an index that fails at a tenth of all requests: each is right or plainly refused; nothing piles up.

Each spec has six targets and a machine of its own, so that nothing is cached. The lock that comes out is judged, and
equal to the one that the index gives on a good day; else the command ends with 1 or 3 and one error that says where.
After that the index is well again, and so is the next lock: no fault is remembered.
"""

import ctypes
import gc
import os
import resource
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace
from support.index import Answer, Fault, Index, html_error, other_bytes, reset, slow, status, truncated
from support.machine import ROOT, Machine, Ran, cpu
from support.packages import Dist, wheel

from envspec.lock.judge import judge
from envspec.lock.read import load

pytestmark = pytest.mark.e2e

SHARE = 0.1
"""Of all requests, those that meet a fault."""

MEMORY = 8 << 20
"""Bytes by which the process may grow from the tenth lock to the last, however many there are. Measured: 1.5 MiB from
the tenth to the fortieth; the objects that Python holds grow by a hundredth."""
ONE_ARENA = {"MALLOC_ARENA_MAX": "1"}
"""Threads come and go with each lock. Of many arenas glibc keeps what they freed, in pieces: on a busy machine 30 MiB
after 200 locks, which is no leak."""

TARGETS = """\
[targets.linux]
platform = "linux-64"
[targets.old-linux]
platform = "linux-64"
glibc = "2.17"
[targets.arm]
platform = "linux-aarch64"
[targets.mac]
platform = "osx-arm64"
[targets.windows]
platform = "win-64"
[targets.more]
platform = "linux-64"
[targets.more.pip]
dependencies = ["p00"]
"""
TAGS = ("manylinux_2_17_x86_64", "manylinux_2_17_aarch64", "macosx_11_0_arm64", "win_amd64")


def wrong_json(handler: object, answer: Answer) -> Answer:
    """A page of the right kind, and of no sense."""
    return replace(answer, body=b'{"files": [{"filename": 7, "url": "x", "hashes": {"sha256": "0"}}], "meta": {}}')


FAULTS: tuple[Fault, ...] = (
    status(500), status(503), status(404), truncated, reset, slow(0.2), html_error, other_bytes, wrong_json,
)  # fmt: skip


def packages() -> list[Dist]:
    """Forty packages of three versions, most of which need another; every fourth has a wheel a platform."""
    made = []
    for number in range(40):
        needs = [f"p{number + 9:02}>={1 + number % 2}"] if number < 31 else []
        for version in ("1.0", "2.0", "2.1"):
            tags = [f"cp312-cp312-{tag}" for tag in TAGS] if number % 4 == 0 else ["py3-none-any"]
            made += [wheel(f"p{number:02}", version, *needs, tag=tag) for tag in tags]
    return made


def failing(random: Random, met: Counter[str]) -> Fault:
    """One of the faults for one in ten requests, in an order that the seed gives; `met` counts them."""

    def fault(handler: object, answer: Answer) -> Answer | None:
        if random.random() >= SHARE:
            return answer
        chosen = random.choice(FAULTS)
        met["faults"] += 1
        return chosen(handler, answer)  # type: ignore[arg-type]

    return fault


def spec_text(random: Random) -> str:
    names = random.sample(range(40), random.randint(1, 3))
    return cpu(*(f"p{name:02}{random.choice(('', '>=1', '<2.1', '==2.*'))}" for name in names), targets=TARGETS)


def locks(index: Index, folder: Path, count: int, grown: Callable[[int], None]) -> Counter[str]:
    """Lock so many specs, and count how it went."""
    met: Counter[str] = Counter()
    index.add(*packages())
    good = Machine(folder / "good", index.url)
    for number in range(count):
        random = Random(number)
        text = spec_text(random)
        index.sidecars = number % 3 != 0
        index.heal()
        assert good.envspec("lock", good.spec(text), "--upgrade").status == 0
        right = good.files()
        machine = Machine(folder / f"m{number}", index.url, {"UV_HTTP_RETRIES": "1", "UV_HTTP_TIMEOUT": "5"})
        machine.spec(text)
        index.fail("^/", failing(random, met))
        asked = len(index.asked)
        ran = machine.envspec("lock", "specs/demo.toml")
        met["requests"] += len(index.asked) - asked
        met[f"exit {ran.status}"] += 1
        if ran.status:
            refused(ran, index, machine)
            index.heal()
            healed = machine.envspec("lock", "specs/demo.toml")
            assert healed.status == 0, f"spec {number}: {healed.err}"
        assert machine.files() == right, f"spec {number}"
        assert judge(load(machine.lock_path())) == ()
        machine.close()
        shutil.rmtree(machine.base)
        index.asked.clear()
        grown(number)
    return met


def refused(ran: Ran, index: Index, machine: Machine) -> None:
    assert ran.status in (1, 3), ran.err
    errors = [line for line in ran.err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1 and "has a fault" not in ran.err, ran.err
    named = index.origin in ran.err or any(f"p{number:02}" in errors[0] for number in range(40))
    assert named and ran.hint, ran.err
    assert not machine.locks.exists() or machine.files() == {}


class Memory:
    """What the process holds after each lock."""

    def __init__(self) -> None:
        self.held: list[int] = []

    def __call__(self, number: int) -> None:
        gc.collect()
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        pages = int(Path("/proc/self/statm").read_text().split()[1]) if Path("/proc/self/statm").exists() else 0
        self.held.append(pages * resource.getpagesize())

    @property
    def growth(self) -> int:
        """From the tenth lock on, when everything has been imported, to the mean of the last ten."""
        last = self.held[-10:]
        return sum(last) // len(last) - max(self.held[:10])


def run(index: Index, folder: Path, count: int) -> None:
    memory = Memory()
    met = locks(index, folder, count, memory)
    grown = f"grew by {memory.growth >> 10} KiB, holds {memory.held[-1] >> 20} MiB"
    sys.stderr.write(f"{dict(sorted(met.items()))} {grown}\n")
    assert met["faults"] >= met["requests"] * SHARE / 2 and met["exit 3"]
    assert memory.growth <= MEMORY


def run_alone(folder: Path, count: int) -> None:
    """Run it in a process of its own, whose memory is no other test's."""
    here = Path(__file__)
    path = os.pathsep.join(map(str, (here.parent, here.parents[1], ROOT)))
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(here), str(folder), str(count)],
        env={**os.environ, **ONE_ARENA, "PYTHONPATH": path}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    sys.stderr.write(ran.stderr)
    assert ran.returncode == 0, ran.stderr[-4000:]


@pytest.mark.slow
def test_four_specs(tmp_path: Path) -> None:
    run_alone(tmp_path, 4)


@pytest.mark.nightly
def test_two_hundred_specs(tmp_path: Path) -> None:
    run_alone(tmp_path, 200)


if __name__ == "__main__":
    with Index() as served:
        run(served, Path(sys.argv[1]), int(sys.argv[2]))
