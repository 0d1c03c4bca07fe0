"""The files of a wheel that the dynamic loader can load, and what each of them needs and exports."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from envspec.binaries.elf import AARCH64, MAGIC, X86_64, MalformedElf, read_dynamic
from envspec.binaries.import_time import imports_at_start
from envspec.binaries.installed_paths import installed_path
from envspec.binaries.members import TEXT
from envspec.binaries.wheel import open_wheel
from envspec.prove.link.model import FORGOTTEN, ElfFile, WheelFacts
from envspec.prove.link.symbols import concerns

MACHINES = {"linux-64": X86_64, "linux-aarch64": AARCH64}
"""ELF's machine of each platform that link judges."""


def read_wheel(path: Path, machine: int) -> WheelFacts:
    """Read the facts of a wheel's ELF files. Raises UnreadableWheel, OSError."""
    files, unread = [], []
    with path.open("rb") as file, open_wheel(file) as wheel:
        for info in wheel.members:
            place = installed_path(info.filename)
            if place is None or PurePosixPath(info.filename).suffix in TEXT:
                continue
            with wheel.open(info) as stream:
                if stream.read(len(MAGIC)) != MAGIC:
                    continue
                try:
                    facts = read_dynamic(stream, machine, concerns)
                except MalformedElf as error:
                    unread.append((place, str(error)))
                    continue
            if facts is not None:
                files.append(ElfFile(place, facts))
        found = imports_at_start(wheel, FORGOTTEN)
    imports = tuple((module, one.modules[0]) for module, one in sorted(found.items()) if one.modules)
    return WheelFacts(tuple(sorted(files, key=lambda one: one.path)), tuple(sorted(unread)), imports)
