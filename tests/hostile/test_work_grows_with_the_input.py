"""One document of many targets, extras, edges, requirements, indexes, licences, sources or pins: what a command does
grows with what it reads and writes, not with its square.

Steps are counted (lines of Python that run), so that a busy machine changes nothing.
"""

import hashlib
import math
import re
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from msgspec.structs import replace
from support.index import Answer, Index
from support.installs import PYTHON, SUBDIR, pip_pin, write_lock
from support.machine import Machine
from support.packages import Dist, sdist, wheel

from envspec.app.export.render import ALL, CHOICES
from envspec.lock.model import Artifact, Pin

LIMIT = 1.3
"""The largest exponent of steps in the size of input and output together."""
SIZES = (20, 60, 200)
TESTS = str(Path(__file__).parents[1])


def pins(number: int, dependencies: Callable[[int], Sequence[str]] = lambda at: (), **more: Any) -> list[Pin]:
    made = [pip_pin(wheel(f"p{at}", "1.0")) for at in range(number)]
    return [
        replace(pin, dependencies=tuple(sorted(dependencies(at))), direct=False, **more) for at, pin in enumerate(made)
    ]


def extras(number: int, marker: str = 'extra == "e{}"') -> list[Pin]:
    lines = (f"alpha[e{at + 1},e{at + 2}]; {marker.format(at)}" for at in range(number))
    alpha = replace(pip_pin(wheel("alpha", "1.0")), dependencies=tuple(sorted(lines)), direct=False)
    return [alpha, replace(pip_pin(wheel("beta", "1.0")), dependencies=("alpha[e0]",))]


def all_extras(number: int) -> list[Pin]:
    """Each of them leads to a package of its own, and one line asks for all."""
    lines = (f'p{at}; extra == "e{at}"' for at in range(number))
    alpha = replace(pip_pin(wheel("alpha", "1.0")), dependencies=tuple(sorted(lines)), direct=False)
    every = ",".join(f"e{at}" for at in sorted(range(number), key=lambda at: f"e{at}"))
    return [alpha, replace(pip_pin(wheel("beta", "1.0")), dependencies=(f"alpha[{every}]",)), *pins(number)]


def from_indexes(number: int, of: Callable[[int], str]) -> dict[str, list[Pin]]:
    return {"t": [pip_pin(wheel(f"p{at}", "1.0"), of(at)) for at in range(number)]}


def of_conda(number: int) -> list[Pin]:
    """Python, and packages of conda that one of them requires."""
    names = [f"c{at}" for at in range(number)]
    rows = [("python", PYTHON, ()), *((name, "1.0", tuple(names[1:]) if name == "c0" else ()) for name in names)]
    return [
        Pin(
            "conda", name, version, "conda-forge/linux-64",
            Artifact(f"{name}-{version}-h1_0.conda", hashlib.sha256(name.encode()).hexdigest(), 1000, "b" * 32),
            tuple(sorted(requires)), direct=name in ("python", "c0"), licence="MIT", build="h1_0",
        )
        for name, version, requires in rows
    ]  # fmt: skip


CONDA_KINDS: Mapping[str, Callable[[int], Mapping[str, Sequence[Pin]]]] = {
    "pins of conda": lambda number: {"t": of_conda(number)},
    "targets with conda": lambda number: {f"t{n}": of_conda(3) for n in range(number)},
}
KINDS: Mapping[str, Callable[[int], Mapping[str, Sequence[Pin]]]] = {
    "pins": lambda number: {"t": pins(number)},
    "requirements": lambda number: {"t": [replace(pin, direct=True) for pin in pins(number)]},
    "a chain": lambda number: {"t": pins(number, lambda at: [f"p{at + 1}"] if at + 1 < number else [])},
    "a star": lambda number: {"t": pins(number, lambda at: [f"p{n}" for n in range(1, number)] if at == 0 else [])},
    "edges": lambda number: {"t": pins(9, lambda at: [f"p{at + 1}<{n}.9" for n in range(2, number) if at < 8])},
    "extras": lambda number: {"t": extras(number)},
    "extras by in": lambda number: {"t": extras(number, 'extra == "e{}" and (extra in "e0" or extra < "e1")')},
    "extras of one line": lambda number: {"t": all_extras(number)},
    "targets": lambda number: {f"t{n}": pins(3, lambda at: ["p1", "p2"] if at == 0 else []) for n in range(number)},
    "targets of their own": lambda number: {f"t{n}": [pip_pin(wheel(f"p{n}", "1.0"))] for n in range(number)},
    "indexes": lambda number: from_indexes(number, lambda at: f"i{at}"),
    "sources": lambda number: from_indexes(number, lambda at: "own"),
    "source distributions": lambda number: {"t": [pip_pin(sdist(f"p{at}", "1.0")) for at in range(number)]},
    "licences": lambda number: {"t": pins(2, licence=" OR ".join(f"LicenseRef-{n}" for n in range(number)))},
}  # fmt: skip

FORMATS = (
    "dockerfile",
    "apptainer",
    "requirements",
    "sbom",
    "nix",
    "slurm",
    "devcontainer",
    "compose",
    "kubernetes",
    "pylock",
    "pixi",
    "uv-project",
    "edf",
    "lmod",
    "htcondor",
)
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "lock": ("lock", "specs/demo.toml"),
    "check": ("check", "specs/demo.toml"),
    "diff": ("diff", "half.lock", "locks/demo/envspec.lock"),
    "report": ("report", "specs/demo.toml", "-o", "report.html"),
    "why": ("why", "specs/demo.toml", "p1"),
    "tree": ("tree", "specs/demo.toml"),
    "verify": ("verify", "specs/demo.toml"),
    **{f"export {name}": ("export", "specs/demo.toml", "--format", name, "-o", "out") for name in FORMATS},
}  # fmt: skip
CONDA_FORMATS = ("conda-lock", "conda-explicit", "conda-env")
CONDA_COMMANDS: Mapping[str, tuple[str, ...]] = {
    f"export {name}": ("export", "specs/demo.toml", "--format", name, "-o", "out") for name in CONDA_FORMATS
}


class Many(Index):
    """An index that is there under every number: `/n7/simple` is one of its own to whoever asks."""

    def answer(self, path: str) -> Answer:
        return super().answer(re.sub(r"^/n\d+", "", path))


@pytest.fixture
def many() -> Iterator[Index]:
    with Many() as started:
        yield started


def served(pin: Pin) -> Dist:
    """The file whose METADATA says what a pin does."""
    if not pin.is_wheel:
        return sdist(pin.name, "1.0")
    named = {name for text in pin.dependencies for name in re.findall(r'extra == "(e\d+)"', text)}
    return wheel(pin.name, "1.0", *pin.dependencies, extras=sorted(named), licence=pin.licence or "MIT")


def as_served(pin: Pin) -> Pin:
    if pin.kind == "conda":
        return pin
    return replace(pin, artifact=pip_pin(served(pin)).artifact)


def of_pip(pins: Collection[Pin], index: Index) -> str:
    """The lines of [pip] for the indexes of pins."""
    named = {pin.name: pin.index for pin in pins if pin.index and pin.index != "pypi"}
    places = {name: f"{index.origin}/n{number}/simple" for number, name in enumerate(dict.fromkeys(named.values()))}
    lines = [f"allow-source = {[pin.name for pin in pins if not pin.is_wheel]!r}"]
    for key, table in {"indexes": places, "sources": named}.items():
        lines += [f"{key} = {{ {', '.join(f'{name} = {value!r}' for name, value in table.items())} }}"] if table else []
    return "\n".join(lines)


def steps_of(call: Callable[[], object]) -> int:
    """Count the lines of Python that run, those of threads included, but for the tests' own."""
    steps = 0

    def line(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal steps
        steps += 1
        return line

    def begin(frame: FrameType, event: str, argument: object) -> Any:
        return None if frame.f_code.co_filename.startswith(TESTS) else line

    sys.settrace(begin)
    threading.settrace(begin)
    try:
        call()
    finally:
        sys.settrace(None)
        threading.settrace(None)
    return steps


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def run(folder: Path, index: Index, kind: str, number: int, command: str) -> tuple[int, int]:
    """Give the steps of a command on a lock of a size, and the bytes that it read and wrote."""
    machine = Machine(folder / f"{number}", index.url)
    halves = []
    for size in (max(1, number // 2), number):
        by_target = {
            name: [as_served(pin) for pin in own] for name, own in {**KINDS, **CONDA_KINDS}[kind](size).items()
        }
        every = {pin.name: pin for own in by_target.values() for pin in own}
        pip = of_pip([pin for pin in every.values() if pin.kind == "pip"], index)
        channels = ["conda-forge"] if kind in CONDA_KINDS else []
        write_lock(machine, by_target, python=PYTHON, platform=SUBDIR, channels=channels, pip=pip)
        halves.append(machine.lock_path().read_text())
    (machine.folder / "half.lock").write_text(halves[0])
    for name in list(index._listed):
        index._listed.pop(name)
    index.add(*(served(pin) for pin in every.values() if pin.kind == "pip"))
    if command == "lock":
        machine.lock_path().unlink()
    printed: list[str] = []

    def call() -> None:
        ran = machine.envspec(*{**COMMANDS, **CONDA_COMMANDS}[command], seconds=600)
        assert ran.status == 0 or (ran.status == 1 and command != "lock" and "export" not in command), ran.err
        printed.append(ran.out + ran.err)

    return steps_of(call), size_of(machine.folder) + sum(map(len, printed))


def test_no_format_is_left_out() -> None:
    assert {*FORMATS, *CONDA_FORMATS, ALL} == {*CHOICES}


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_command_costs_what_it_reads_and_writes(tmp_path: Path, many: Index, kind: str, command: str) -> None:
    assert_grows(tmp_path, many, kind, command)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("extras", "check"),
        ("extras", "diff"),
        ("extras by in", "check"),
        ("extras by in", "diff"),
        ("a chain", "diff"),
        ("targets", "export dockerfile"),
        ("pins", "export sbom"),
        ("indexes", "lock"),
    ],
)
def test_what_once_cost_the_square(tmp_path: Path, many: Index, kind: str, command: str) -> None:
    assert_grows(tmp_path, many, kind, command)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("name", [*CONDA_FORMATS, "dockerfile", "sbom"])
@pytest.mark.parametrize("kind", CONDA_KINDS)
def test_an_export_of_conda_packages(tmp_path: Path, many: Index, kind: str, name: str) -> None:
    assert_grows(tmp_path, many, kind, f"export {name}")


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_an_export_of_300_targets(tmp_path: Path, many: Index, name: str) -> None:
    assert_grows(tmp_path, many, "targets", f"export {name}", (30, 100, 300))


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pins", "a chain", "a star"])
def test_an_sbom_of_5000_pins(tmp_path: Path, many: Index, kind: str) -> None:
    assert_grows(tmp_path, many, kind, "export sbom", (500, 1500, 5000))


def assert_grows(folder: Path, index: Index, kind: str, command: str, sizes: tuple[int, int, int] = SIZES) -> None:
    run(folder / "warm", index, kind, 2, command)
    small, middle, large = (run(folder, index, kind, number, command) for number in sizes)
    # what every run costs falls out of the differences
    first, second = middle[0] - small[0], large[0] - middle[0]
    if second < large[0] / 20:
        return  # hardly anything grows
    exponent = math.log(second / max(1, first)) / math.log((large[1] - middle[1]) / (middle[1] - small[1]))
    assert exponent <= LIMIT, f"{kind}, {command}: {exponent:.2f}, {small}, {middle} and {large}"
