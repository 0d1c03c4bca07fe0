"""`envspec image` of a GPU target, all downloads at hand, beside writing the same bytes with the same compressor.

    PYTHONPATH=tests .venv/bin/python -m bench.gpu_image                              # stand-in wheels of 1 GB
    PYTHONPATH=tests .venv/bin/python -m bench.gpu_image SPEC.toml TARGET OCI-LAYOUT  # a real lock, on this base

The stand-ins are wheels with the names of CUDA's largest, a quarter of their sizes, and a content that packs as well.
What it is compared with reads the plain layers from a disk ("bytes"), or the files out of the wheels ("wheels"), and
puts them through envspec's own compressor into a file: no order, no names, no digests. Needs three times the
wheels' size on the disk. The memory is that of all processes together.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.base_image import PACKAGES, system, write_base
from support.index import Index
from support.installs import PYTHON, SPEC, pip_pin, write_lock
from support.machine import Machine
from support.packages import Dist, wheel

from bench.measure import Run, envspec, run
from envspec.image.compress import unpacked
from envspec.net.file_store import ARTIFACTS

WHEELS = {
    "nvidia-cublas-cu12": 594,
    "nvidia-cudnn-cu12": 707,
    "nvidia-cufft-cu12": 193,
    "nvidia-cusolver-cu12": 268,
    "nvidia-cusparse-cu12": 288,
    "nvidia-cusparselt-cu12": 287,
    "nvidia-nccl-cu12": 322,
    "nvidia-nvjitlink-cu12": 39,
    "torch": 900,
    "triton": 170,
    "xgboost": 230,
}
"""The megabytes of wheels of a CUDA 12.8 environment. Source: the sizes in locks/llm-v2.9."""
FILE = 256 << 20
SCALE = 4
MOST, MEMORY = 1.3, 200
COMPRESS = """
import sys, zipfile
from pathlib import Path
from envspec.image.compress import compressor
def streams():
    for name in sys.argv[2:]:
        if name.endswith(".whl"):
            archive = zipfile.ZipFile(name)
            yield from (archive.open(one) for one in archive.infolist())
        else:
            yield open(name, "rb")
packed = compressor("zstd")
with open(sys.argv[1], "wb") as out:
    for stream in streams():
        while piece := stream.read(1 << 20):
            out.write(packed.compress(piece))
    out.write(packed.flush())
"""


def main(arguments: list[str]) -> None:
    """Print the times, their ratios and the memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with given(*arguments) if arguments else stand_in(folder) as (command, env, wheels):
            cold = run([*command, "-o", str(folder / "out")], env=env)
            shutil.rmtree(folder / "out")
            image = run([*command, "-o", str(folder / "out")], env=env)
            sides = {
                "image": image,
                "fetched": cold,
                "wheels": written(folder, wheels),
                "bytes": total(written(folder, [tar]) for tar in plain(folder)),
            }
            told(sides)


def written(folder: Path, files: list[Path]) -> Run:
    """Measure the compressor alone, over these files."""
    taken = run([sys.executable, "-c", COMPRESS, str(folder / "packed"), *map(str, files)])
    (folder / "packed").unlink()
    return taken


def total(runs: Iterator[Run]) -> Run:
    known = list(runs)
    return Run(
        sum(one.seconds for one in known), max(one.megabytes for one in known), sum(one.processor for one in known)
    )


def plain(folder: Path) -> Iterator[Path]:
    """Give each layer of the image unpacked, one at a time: of several GB each."""
    (top,) = json.loads((folder / "out" / "index.json").read_bytes())["manifests"]
    blobs = folder / "out" / "blobs" / "sha256"
    manifest = json.loads((blobs / top["digest"].removeprefix("sha256:")).read_bytes())
    for row in manifest["layers"]:
        tar = folder / "layer"
        kind = row["mediaType"].rpartition("+")[2]
        with (blobs / row["digest"].removeprefix("sha256:")).open("rb") as packed, tar.open("wb") as out:
            shutil.copyfileobj(unpacked(kind, packed), out, 1 << 20)
        yield tar
        tar.unlink()


Given = tuple[list[str], Mapping[str, str] | None, list[Path]]


@contextmanager
def given(spec: str, target: str, base: str) -> Iterator[Given]:
    """A real target, whose wheels are in the cache by now or are fetched."""
    from envspec.cli.inputs import locked_targets, read_lock
    from envspec.settings import load_settings

    command = envspec("image", spec, "--target", target, "--base", base)
    _, lock = read_lock(spec, None)
    (chosen,) = locked_targets(lock, [target])
    store = load_settings(os.environ).cache() / ARTIFACTS
    names = [pin.artifact.sha256 for pin in chosen.pins if pin.artifact]
    yield command, None, [path for name in names for path in (store / name).iterdir() if path.suffix == ".whl"]


@contextmanager
def stand_in(folder: Path) -> Iterator[Given]:
    """A project whose lock has stand-ins for CUDA's wheels, which are in its cache after the first run."""
    with Index() as index:
        machine = Machine(folder / "machine", index.url)
        dists = [stand_in_wheel(name, size) for name, size in WHEELS.items()]
        index.add(*dists)
        write_lock(machine, [pip_pin(dist) for dist in dists], platform="linux-64")
        base = write_base(folder / "base", system(PYTHON, PACKAGES))
        command = envspec("image", str(machine.folder / SPEC), "--base", str(base))
        store = machine.cache / ARTIFACTS
        yield command, machine.environment(), [store / dist.sha256 / dist.file for dist in dists]


def stand_in_wheel(name: str, megabytes: int) -> Dist:
    """Make a wheel with files of up to `FILE` bytes, as large as CUDA's unpacked, a `SCALE`th of it."""
    left = int(megabytes * 1.9e6 / SCALE)
    files = {}
    while left > 0:
        files[f"{name}/lib{len(files)}.so"] = content(min(left, FILE), len(files))
        left -= FILE
    return wheel(name, "1.0", files=files)


def content(size: int, seed: int) -> bytes:
    """Make bytes that pack about as well as CUDA's libraries: noise, codes of few symbols, and what came before."""
    source = random.Random(seed)
    few = bytes(one % 8 for one in range(256))
    pieces = [source.randbytes(1 << 15) for _ in range(8)]
    pieces += [source.randbytes(1 << 15).translate(few) for _ in range(16)]
    made = bytearray()
    while len(made) < size:
        piece = source.choice(pieces)
        begin = source.randrange(1 << 14)
        made += piece[begin : begin + (1 << 13)] if source.random() < 0.6 else source.randbytes(1 << 12)
    return bytes(made[:size])


def told(sides: dict[str, Run]) -> None:
    image = sides["image"]
    for name, one in sides.items():
        over = f", {image.seconds / one.seconds:.2f} x" if one is not image else ""
        print(f"{name:7} {one.seconds:6.1f} s, {one.processor:6.1f} s of processors, {one.megabytes:5.0f} MB{over}")
    print(f"limits: {MOST} x, {MEMORY} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
