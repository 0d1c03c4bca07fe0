"""Compile a fixed kernel for each of a target's GPUs with the compilers in its wheels, and read back what came out.

The compilers run as programs of the wheels, each in a process of its own with a time limit: as much trust as installing
them takes, and no more. Their wheels were checked by hash.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envspec.base import programs
from envspec.binaries.fatbin import CUBIN_MAGIC, read_cubin
from envspec.binaries.wheel import OpenWheel, UnreadableWheel, open_wheel
from envspec.binaries.window import Window
from envspec.lock.model import LockedTarget
from envspec.prove.compiles.find import NAMES, architectures_for, compilers, holders
from envspec.prove.compiles.model import Compilation, Compiled, Compiler

TIMEOUT = 120.0
"""Seconds for one compiler and all architectures; half a second is usual."""

_WORKER = Path(__file__).with_name("worker.py")
_LARGEST = 1 << 30
"""Bytes of a compiler's file, unpacked. NVRTC 12.8's has 104 million."""


def compile_target(target: LockedTarget, wheels: Mapping[tuple[str, str], Path], scratch: Path) -> Compiled:
    """Compile for each architecture of a target. `wheels` are the files of `holders`, by index and file name, and
    `scratch` an empty folder. Raises UnreadableWheel, OSError."""
    found: list[Compilation] = []
    absent = []
    for name in NAMES:
        pin = holders(target).get(name)
        here: tuple[Compiler, ...] = ()
        if pin is not None and pin.artifact is not None:
            with wheels[pin.index, pin.artifact.file].open("rb") as file, open_wheel(file) as wheel:
                here = compilers(name, pin, (info.filename for info in wheel.members))
                for number, one in enumerate(here):
                    asked = architectures_for(one, here, target.architectures)
                    if asked:
                        folder = scratch / f"{name}-{number}"
                        folder.mkdir()
                        found += _compile_each(one, _unpack(wheel, one, folder), asked, folder)
                        shutil.rmtree(folder)
        if not here:
            absent.append(name)
    return Compiled(target.name, tuple(found), tuple(absent))


def _unpack(wheel: OpenWheel, compiler: Compiler, folder: Path) -> list[Path]:
    """Write a compiler's files into a folder, by their own last names."""
    infos = {info.filename: info for info in wheel.members}
    paths = []
    for member in compiler.members:
        if infos[member].file_size > _LARGEST:
            raise UnreadableWheel(f"{member} is larger than {_LARGEST >> 30} GiB")
        path = folder / member.rpartition("/")[2]
        with wheel.open(infos[member]) as stream, path.open("wb") as file:
            shutil.copyfileobj(stream, file)
        path.chmod(0o700)
        paths.append(path)
    return paths


def _compile_each(
    compiler: Compiler, files: Sequence[Path], asked: Mapping[str, str], folder: Path
) -> Iterator[Compilation]:
    release, errors = _run(compiler, files, asked, folder)
    for gpu, architecture in asked.items():
        error = errors.get(architecture) or errors.get("")
        made = None if error else architecture_of(folder / f"{architecture}.cubin")
        if made is None and error is None:
            error = "it wrote no machine code"
        yield Compilation(compiler, release, gpu, architecture, made, error)


def _run(
    compiler: Compiler, files: Sequence[Path], asked: Mapping[str, str], folder: Path
) -> tuple[str | None, dict[str, str]]:
    """Give the compiler's release and its errors by architecture; under "" what holds for all of them."""
    request = {
        "compiler": compiler.name,
        "files": [str(path) for path in files],
        "architectures": list(asked.values()),
        "folder": str(folder),
    }
    try:
        done = programs.run(
            [sys.executable, "-I", str(_WORKER)],
            {"PATH": "/usr/bin:/bin", "HOME": str(folder), "LD_LIBRARY_PATH": str(folder)},
            folder,
            given=json.dumps(request).encode(),
            seconds=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return None, {"": f"it gave no answer for {TIMEOUT:g} s"}
    try:
        answer: Any = json.loads(done.stdout)
        return answer["release"], dict(answer["errors"])
    except (ValueError, KeyError, TypeError):
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        ended = f"it was ended by signal {-done.returncode}" if done.returncode < 0 else "it can't be run here"
        return None, {"": f"{ended}: {last}" if last else ended}


def architecture_of(path: Path) -> str | None:
    """Read the architecture of a cubin: "sm_90a". None for a file that isn't one."""
    try:
        with path.open("rb") as file:
            window = Window(file, can_seek=True)
            module = read_cubin(window) if window.peek(len(CUBIN_MAGIC)) == CUBIN_MAGIC else None
    except OSError:
        return None
    return next((code.architecture.sm for code in module.codes), None) if module else None
