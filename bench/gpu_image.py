"""`envspec image` of a GPU target, all downloads at hand, beside writing the same bytes with the same compressor.

    PYTHONPATH=tests .venv/bin/python -m bench.gpu_image                              # stand-in wheels of 1 GB
    PYTHONPATH=tests .venv/bin/python -m bench.gpu_image SPEC.toml TARGET OCI-LAYOUT  # a real lock, on this base
    PYTHONPATH=tests .venv/bin/python -m bench.gpu_image --gzip …                     # packed by gzip, not by zstd
    PYTHONPATH=tests .venv/bin/python -m bench.gpu_image --whole                      # stand-ins of 4 GB, once

The stand-ins are wheels with the names of CUDA's largest, a quarter of their sizes, and a content that packs as well.
What it is compared with puts the same bytes through envspec's own compressor, of the same level and with as many
threads, into a file on the same disk: no order, no names, no digests. It has them out of the same wheels, by the same
inflater ("wheels"), or plain from the disk ("bytes"), as nobody has them. All take turns. Needs three times the wheels'
size on the disk. The memory is that of all processes together.
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
from support.packages import Dist, packed_anew, wheel

from bench.measure import Run, envspec, run, turns
from envspec.image.layer import unpack
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
ROUNDS = 3
COMPRESS = """
import sys, zipfile
from pathlib import Path
from envspec.image.layer import compressor
from envspec.image.wheel import WheelMember
def streams():
    for name in map(Path, sys.argv[3:]):
        if name.suffix == ".whl":
            yield from (WheelMember.of(name, one)() for one in zipfile.ZipFile(name).infolist())
        else:
            yield name.open("rb")
packed = compressor(sys.argv[2])
with open(sys.argv[1], "wb") as out:
    for stream in streams():
        with stream:
            while piece := stream.read(1 << 20):
                out.write(packed.compress(piece))
    out.write(packed.flush())
"""


def main(arguments: list[str]) -> None:
    """Print the times, their ratios and the memory."""
    kind = "gzip" if "--gzip" in arguments else "zstd"
    whole = "--whole" in arguments
    arguments = [one for one in arguments if not one.startswith("--")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with given(*arguments) if arguments else stand_in(folder, 1 if whole else SCALE) as (command, env, wheels):
            making = [*command, "--compression", kind, "-o", str(folder / "out")]
            cold = run(making, env=env)
            sides = {
                "image": lambda: run(making, env=env),
                "bytes": lambda: plainly_written(folder, kind),
                "wheels": lambda: written(folder, wheels, kind),
            }
            told({"fetched": cold, **turns(sides, 1 if whole else ROUNDS)})


def plainly_written(folder: Path, kind: str) -> Run:
    """Measure the compressor over the layers of the image, which is removed: two of them fill a disk."""
    taken = total(written(folder, [tar], kind) for tar in plain(folder))
    shutil.rmtree(folder / "out")
    return taken


def written(folder: Path, files: list[Path], kind: str) -> Run:
    """Measure the compressor alone, over these files."""
    # what was written before isn't this one's to bring to the disk
    os.sync()
    taken = run([sys.executable, "-c", COMPRESS, str(folder / "packed"), kind, *map(str, files)])
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
            shutil.copyfileobj(unpack(kind, packed), out, 1 << 20)
        yield tar
        tar.unlink()


Given = tuple[list[str], Mapping[str, str] | None, list[Path]]


@contextmanager
def given(spec: str, target: str, base: str) -> Iterator[Given]:
    """A real target, whose wheels are in the cache by now or are fetched."""
    from envspec.app.inputs import locked_targets, read_lock
    from envspec.configuration.settings import load_settings

    command = envspec("image", spec, "--target", target, "--base", base)
    _, lock = read_lock(spec, None)
    (chosen,) = locked_targets(lock, [target])
    store = load_settings(os.environ).cache() / ARTIFACTS
    files = [pin.artifact for pin in chosen.pins if pin.artifact and pin.is_wheel]
    yield command, None, [store / one.sha256 / one.file for one in files]


@contextmanager
def stand_in(folder: Path, scale: int) -> Iterator[Given]:
    """A project whose lock has stand-ins for CUDA's wheels, which are in its cache after the first run."""
    with Index() as index:
        machine = Machine(folder / "machine", index.url)
        dists = [stand_in_wheel(name, size // scale) for name, size in WHEELS.items()]
        index.add(*dists)
        write_lock(machine, [pip_pin(dist) for dist in dists], platform="linux-64")
        base = write_base(folder / "base", system(PYTHON, PACKAGES))
        command = envspec("image", str(machine.folder / SPEC), "--base", str(base))
        store = machine.cache / ARTIFACTS
        yield command, machine.environment(), [store / dist.sha256 / dist.file for dist in dists]


def stand_in_wheel(name: str, megabytes: int) -> Dist:
    """Make a wheel with files of up to `FILE` bytes, as large as CUDA's unpacked."""
    left = int(megabytes * 1.9e6)
    files: dict[str, bytes] = {}
    while left > 0:
        files[f"{name}/lib{len(files)}.so"] = content(min(left, FILE), len(files))
        left -= FILE
    return packed_anew(wheel(name, "1.0", files=files))


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
        beside = f", {image.seconds / one.seconds:.2f} x, {image.processor / one.processor:.2f} x of processors"
        print(
            f"{name:7} {one.seconds:6.1f} s, {one.processor:6.1f} s of processors, {one.megabytes:5.0f} MB"
            f"{beside if name in ('bytes', 'wheels') else ''}"
        )
    print(f"limits: {MOST} x, {MEMORY} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
