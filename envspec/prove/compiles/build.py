"""Compile a fixed kernel for each of a target's GPUs with the compilers in its wheels, and read back what came out.

The compilers run as programs of the wheels, each in a process of its own with a time limit: as much trust as installing
them takes, and no more. Their wheels were checked by hash.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from envspec.base import programs
from envspec.binaries.fatbin import CUBIN_MAGIC, read_cubin
from envspec.binaries.wheel import OpenWheel, UnreadableWheel, open_wheel
from envspec.binaries.window import Window
from envspec.facts.compute_capability import read_capability, sass_runs
from envspec.facts.triton import FIRST_OF_ITS_OWN
from envspec.lock.model import LockedTarget, Pin
from envspec.packages.version_numbers import numbers

# Compiled programs and their results, as frozen values.


CompilerName = Literal["ptxas", "nvrtc", "nvjitlink"]


class Compiler(Struct, frozen=True):
    """A compiler in a wheel of the lock.

    package  with `version` and `file`, whose wheel it is
    members  its files in the wheel, the one that is run or loaded first
    """

    name: CompilerName
    package: str
    version: str
    file: str
    members: tuple[str, ...]


class Compilation(Struct, frozen=True):
    """One kernel compiled for one architecture.

    release    the compiler's own release ("12.8"), None where it states none
    gpu        the target's architecture: "sm_90"
    requested  the architecture that the compiler was to make: "sm_90a" where triton asks so
    made       the architecture in the machine code, read back from it; None where there is none
    error      the compiler's message instead
    """

    compiler: Compiler
    release: str | None
    gpu: str
    requested: str = field(name="asked")
    made: str | None
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Return whether the machine code is that of the architectures, and runs on the GPU."""
        return self.made == self.requested and sass_runs(
            read_capability(self.made), read_capability(self.gpu), self.release
        )


class Compiled(Struct, frozen=True):
    """The output of a target's compilers. `absent` are the names of those that none of its wheels brings."""

    target: str
    compilations: tuple[Compilation, ...]
    absent: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether something was compiled, and all of it is right."""
        return bool(self.compilations) and all(compilation.ok for compilation in self.compilations)


# The wheels of a target that hold compilers, and the compilers' paths in them.
#
# Where they lie was read from the wheels of triton 2.1 to 3.9, of NVRTC and nvJitLink for CUDA 11.8 to 13.0, and of the
# torch builds that bring an NVRTC of their own (those for CUDA 11.8).


_PACKAGES: dict[CompilerName, str] = {
    "ptxas": r"triton|pytorch-triton",
    "nvrtc": r"nvidia-cuda-nvrtc(-cu\d\d)?",
    "nvjitlink": r"nvidia-nvjitlink(-cu\d\d)?",
}
_MEMBERS: dict[CompilerName, str] = {
    "ptxas": r"triton/(?:[\w.]+/)*bin/ptxas(?:-blackwell)?",
    "nvrtc": r"(?:nvidia|torch)/(?:\w+/)*lib/libnvrtc(?:-builtins)?(?:-[0-9a-f]+)?\.so\.[\d.]+",
    "nvjitlink": r"nvidia/(?:\w+/)*lib/libnvJitLink\.so\.\d+",
}

NAMES: tuple[CompilerName, ...] = ("ptxas", "nvrtc", "nvjitlink")


def holders(target: LockedTarget) -> dict[CompilerName, Pin]:
    """Give the wheels of a target that may hold a compiler. NVRTC is torch's where no package of its own is locked."""
    pins: dict[CompilerName, Pin] = {}
    for name in NAMES:
        for pin in target.pins:
            if pin.is_wheel and re.fullmatch(_PACKAGES[name], pin.name):
                pins[name] = pin
    torch = target.pin("torch", "pip")
    if target.inputs.cuda is not None and torch is not None and torch.is_wheel and "nvrtc" not in pins:
        pins["nvrtc"] = torch
    return pins


def compilers(name: CompilerName, pin: Pin, members: Iterable[str]) -> tuple[Compiler, ...]:
    """Give the compilers of one kind among a wheel's members: two where triton has another ptxas for new GPUs."""
    file = pin.artifact.file if pin.artifact else ""
    files = sorted(member for member in members if re.fullmatch(_MEMBERS[name], member))
    if name == "nvrtc":
        # its part of builtins is opened by name, and so has to lie beside it
        files.sort(key=lambda member: "builtins" in member)
        files = files if files and "builtins" not in files[0] else []
        return (Compiler(name, pin.name, pin.version, file, tuple(files)),) if files else ()
    return tuple(Compiler(name, pin.name, pin.version, file, (member,)) for member in files)


def architectures_for(
    compiler: Compiler, all_of_kind: Sequence[Compiler], architectures: Iterable[str]
) -> dict[str, str]:
    """List the architectures of a target for a compiler, by the compiler's names: triton takes the one for
    Blackwell from 10.0 on, where there is one, and asks for the architecture's own features from 9.0 on."""
    names: dict[str, str] = {}
    own = any(_is_blackwell(peer) for peer in all_of_kind)
    for sm in architectures:
        plain = re.fullmatch(r"sm_(\d+)(\d)", sm)
        if plain is None:
            continue
        capability = int(plain[1]), int(plain[2])
        if compiler.name != "ptxas":
            names[sm] = sm
        elif _is_blackwell(compiler) == (own and capability >= FIRST_OF_ITS_OWN):
            names[sm] = f"{sm}a" if capability >= _FEATURES else sm
    return names


_FEATURES = numbers("9.0")[:2]
"""From this capability on triton asks for architecture-specific code."""


def _is_blackwell(compiler: Compiler) -> bool:
    return compiler.members[0].endswith("-blackwell")


TIMEOUT = 120.0
"""Seconds for one compiler and all architectures; half a second is usual."""

_WORKER = Path(__file__).with_name("worker.py")
_LARGEST = 1 << 30
"""Bytes of a compiler's file, unpacked. NVRTC 12.8's has 104 million."""


def compile_target(target: LockedTarget, wheels: Mapping[tuple[str, str], Path], scratch: Path) -> Compiled:
    """Compile for each architecture of a target. `wheels` are the files of `holders`, by index and file name, and
    `scratch` an empty folder. Raises UnreadableWheel, OSError."""
    compilations: list[Compilation] = []
    absent = []
    for name in NAMES:
        pin = holders(target).get(name)
        here: tuple[Compiler, ...] = ()
        if pin is not None and pin.artifact is not None:
            with wheels[pin.index, pin.artifact.file].open("rb") as file, open_wheel(file) as wheel:
                here = compilers(name, pin, (info.filename for info in wheel.members))
                for number, compiler in enumerate(here):
                    architectures = architectures_for(compiler, here, target.architectures)
                    if architectures:
                        folder = scratch / f"{name}-{number}"
                        folder.mkdir()
                        compilations += _compile_each(compiler, _unpack(wheel, compiler, folder), architectures, folder)
                        shutil.rmtree(folder)
        if not here:
            absent.append(name)
    return Compiled(target.name, tuple(compilations), tuple(absent))


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
    compiler: Compiler, files: Sequence[Path], architectures: Mapping[str, str], folder: Path
) -> Iterator[Compilation]:
    release, errors = _run(compiler, files, architectures, folder)
    for gpu, architecture in architectures.items():
        error = errors.get(architecture) or errors.get("")
        made = None if error else architecture_of(folder / f"{architecture}.cubin")
        if made is None and error is None:
            error = "it wrote no machine code"
        yield Compilation(compiler, release, gpu, architecture, made, error)


def _run(
    compiler: Compiler, files: Sequence[Path], architectures: Mapping[str, str], folder: Path
) -> tuple[str | None, dict[str, str]]:
    """Return the compiler's release and its errors by architecture; under "" the error of all of them."""
    request = {
        "compiler": compiler.name,
        "files": [str(path) for path in files],
        "architectures": list(architectures.values()),
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
