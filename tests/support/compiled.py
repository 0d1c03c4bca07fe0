"""Shared libraries made by this machine's C compiler: small, real, with the needs and symbols that a test asks for."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.packages import Dist, wheel

TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
PLATFORM = f"{TAG}-{TAG}-manylinux_2_28_{os.uname().machine}"

needs_compiler = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("gcc") is None, reason="needs gcc and the loader of Linux"
)


@dataclass(frozen=True)
class Compiler:
    """Makes libraries in a folder; those to link against are looked for there too."""

    folder: Path

    def library(
        self,
        name: str,
        *,
        defines: Iterable[str] = (),
        uses: Iterable[str] = (),
        needs: Sequence[str] = (),
        soname: str | None = None,
        version: str | None = None,
        flags: Sequence[str] = (),
    ) -> Path:
        """Make `name`, which defines functions, calls others, and needs the files of those names.

        version  what its functions are versioned by: `GLIBC_2.99`
        """
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        uses = tuple(uses)
        calls = "".join(f"extern int {one}(void);\n" for one in uses)
        body = " + ".join(f"{one}()" for one in uses) or "0"
        source = calls + "".join(f"int {one}(void) {{ return {body}; }}\n" for one in defines)
        words = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path), "-L", str(self.folder)]
        words += ["-Wl,--no-as-needed", *(f"-l:{one}" for one in needs), *flags]
        words += [f"-Wl,-soname,{soname}"] if soname else []
        if version:
            script = self.folder / f"{name}.map"
            script.write_text(f"{version} {{ global: *; }};\n")
            words.append(f"-Wl,--version-script={script}")
        subprocess.run(words, input=source, text=True, check=True, capture_output=True)
        return path

    def extension(self, name: str, **options: Any) -> Path:
        """Make a module that Python can find the start of."""
        return self.library(name, defines=[f"PyInit_{Path(name).name.partition('.')[0]}"], **options)


def platform_wheel(name: str, version: str, *requires: str, files: dict[str, Path]) -> Dist:
    """A wheel for this platform with files by their path in it."""
    content = {place: path.read_bytes() for place, path in files.items()}
    return wheel(name, version, *requires, tag=PLATFORM, files=content)


def loaded(path: Path, first: Sequence[Path] = ()) -> str:
    """Load a library with every symbol bound at once, and others before it; gives the loader's words, empty for none.

    `first` are loaded as torch is before its extensions: by their path, for themselves.
    """
    code = "import ctypes, sys\nfor path in sys.argv[1:]: ctypes.CDLL(path)\n"
    words = [sys.executable, "-c", code, *map(str, first), str(path)]
    env = {"PATH": os.defpath, "LD_BIND_NOW": "1"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
    return done.stderr.strip().rpartition("OSError: ")[2] if done.returncode else ""
