"""A bundle changed at random, its list of hashes among it: refused before anything of it runs, whatever the change."""

import os
import random
import shutil
import string
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from support.index import Index
from support.installs import pip_pin, uv_alone, write_lock
from support.machine import Machine
from test_forged_bundles import APP, KINDS, LIB, bundled, install, rehashed

from envspec.install.bundle import SUMS

pytestmark = pytest.mark.e2e

Chance = random.Random
PIECES = (
    *("..", ".", "-rf", "$(touch TRACE)", "`touch TRACE`", ";touch TRACE;", "\n", "\r", "\\", "'", '"', " ", "*", "["),
    *(
        "wheels",
        "WHEELS",
        "install.sh",
        SUMS,
        "envspec",
        "é",
        "e\u0301",
        "\u202e",
        "\udcff",
        "x" * 200,
        "&&",
        "#",
        "%s",
    ),
)


def name(chance: Chance) -> str:
    text = "".join(chance.choice((*PIECES, *string.ascii_letters)) for _ in range(chance.randint(1, 4)))
    return text.replace("/", "")[:200].strip(".") or "x"


def files_of(bundle: Path) -> list[Path]:
    return sorted(path for path in bundle.rglob("*") if path.is_file() and not path.is_symlink())


def add(bundle: Path, chance: Chance, trace: Path) -> None:
    """An entry of any kind, at any depth, under any name."""
    folders = [bundle, *sorted(path for path in bundle.rglob("*") if path.is_dir())]
    place = chance.choice(folders)
    for _ in range(chance.randint(0, 2)):
        place /= name(chance)
    place.mkdir(parents=True, exist_ok=True)
    place /= name(chance)
    if not os.path.lexists(place):
        chance.choice(KINDS)(place, trace)


def flip(bundle: Path, chance: Chance, trace: Path) -> None:
    path = chance.choice(files_of(bundle))
    data = bytearray(path.read_bytes()) or bytearray(b"x")
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def cut(bundle: Path, chance: Chance, trace: Path) -> None:
    path = chance.choice(files_of(bundle))
    path.write_bytes(path.read_bytes()[:-1] + b"" if chance.randrange(2) else path.read_bytes() * 2 or b"x")


def exchange(bundle: Path, chance: Chance, trace: Path) -> None:
    one, other = chance.sample(files_of(bundle), 2)
    if one.read_bytes() == other.read_bytes():
        one.unlink()
        return
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def take_away(bundle: Path, chance: Chance, trace: Path) -> None:
    chance.choice(files_of(bundle)).unlink()


def rename(bundle: Path, chance: Chance, trace: Path) -> None:
    path = chance.choice(files_of(bundle))
    path.rename(
        path.with_name(chance.choice((path.name.swapcase(), path.name + " ", path.name + "\n", "." + path.name)))
    )


def link(bundle: Path, chance: Chance, trace: Path) -> None:
    """A file that lies elsewhere, with the very bytes."""
    path = chance.choice(files_of(bundle))
    real = trace.parent / f"real-{chance.randrange(1 << 40)}"
    path.rename(real)
    path.symlink_to(real)


def relist(bundle: Path, chance: Chance, trace: Path) -> None:
    """A line of the list that is odd, missing, doubled or of another place."""
    lines = (bundle / SUMS).read_text().splitlines()
    at = chance.randrange(len(lines))
    digest, path = lines[at][:64], lines[at][66:]
    odd = (
        *(f"{digest}  ../{path}", f"{digest}  {trace}", f"\\{digest}  {path}\\n", f"{digest} *{path}", f"{digest}  "),
        *(
            f"{'0' * 64}  {path}",
            path,
            f"{digest}  {path}/",
            f"{digest}  ./{path}",
            f"{digest}  $(touch {trace})",
            "\0",
        ),
        f"{digest}  -c",
    )
    lines[at : at + chance.randint(0, 1)] = [chance.choice(odd) for _ in range(chance.randint(0, 3))] or ["#"]
    (bundle / SUMS).write_text("\n".join(lines) + "\n" * chance.randint(0, 2))


Change = Callable[[Path, Chance, Path], None]
CHANGES: tuple[Change, ...] = (add, add, flip, cut, exchange, take_away, rename, link, relist, relist)


@pytest.fixture
def made(machine: Machine, index: Index, tmp_path: Path) -> tuple[Path, str]:
    index.add(APP, LIB)
    write_lock(machine, [pip_pin(APP), pip_pin(LIB)])
    return tmp_path / "bundle", bundled(machine, tmp_path / "bundle")


@pytest.mark.slow
@pytest.mark.parametrize("count", [12, pytest.param(400, marks=pytest.mark.nightly)])
def test_a_bundle_changed_at_random(made: tuple[Path, str], tmp_path: Path, count: int) -> None:
    """With the digest that was told, every change is refused. Without it, what has hashes that fit may be installed;
    all the same no command of a name runs, and nothing is written outside."""
    honest, digest = made
    trace, tools = tmp_path / "work" / "trace", f"{uv_alone(tmp_path)}:"
    for seed in range(count):
        chance = Chance(seed)
        shutil.rmtree(tmp_path / "work", ignore_errors=True)
        bundle = tmp_path / "work" / "bundle"
        shutil.copytree(honest, bundle)
        for _ in range(chance.randint(1, 3)):
            chance.choice(CHANGES)(bundle, chance, trace)
        expected = seed % 3 != 0
        if chance.randrange(2) and (bundle / SUMS).is_file() and not (bundle / SUMS).is_symlink():
            with suppress(OSError, ValueError):
                rehashed(bundle)
        if not (bundle / "install.sh").is_file():
            continue
        if (bundle / "install.sh").read_bytes() != (honest / "install.sh").read_bytes():
            continue  # whoever changes it runs what they like: `--expect` is asked of an installer that one knows
        before = everything(tmp_path)
        options = ("--expect", digest) if expected else ()
        ran = install(bundle, tmp_path / "work" / "env", *options, tools=tools, cwd=bundle)
        assert ran.returncode == 2 or (not expected and ran.returncode in (0, 1, 3)), (seed, ran.stderr)
        assert "Traceback" not in ran.stderr and not trace.exists() and not list(tmp_path.rglob("TRACE")), seed
        assert ran.returncode == 0 or not (tmp_path / "work" / "env").exists(), (seed, ran.stderr)
        if ran.returncode:
            assert everything(tmp_path) == before, seed
        assert all(line.isprintable() for line in ran.stderr.splitlines()), (seed, ran.stderr)


def everything(folder: Path) -> set[str]:
    """Every path but for uv's cache."""
    return {
        os.path.join(top, one)
        for top, below, names in os.walk(folder)
        for one in (*below, *names)
        if ".cache" not in top
    } - {str(folder / "work" / ".cache")}
