"""Compile the Python files below a folder that have no bytecode yet, so that images start fast without writing.

    python -ISB bytecode.py FOLDER [PLACE]      PLACE: where the folder will be

The bytecode is checked against nothing (PEP 552, unchecked hash) and so holds no time: the same files give the same
bytes. What has bytecode is left as it is: a file that is written again would be in two layers.

Stands alone: Python 3.8 or newer, nothing but the standard library. Files that don't compile, such as templates and
code for other versions, are passed over, as installers do.
"""

from __future__ import annotations

import importlib.util
import os
import py_compile
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor


def lacking(folder: str) -> Iterator[str]:
    """The Python files below a folder, in order, that have no bytecode."""
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(place, name)
            if name.endswith(".py") and not os.path.exists(importlib.util.cache_from_source(path)):
                yield path


def compile_file(path: str, display_path: str) -> bool:
    """Write the bytecode of one file, which tracebacks call `display_path`. False for a file that doesn't compile."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    try:
        py_compile.compile(path, dfile=display_path, doraise=True, quiet=2, invalidation_mode=mode)
    except (py_compile.PyCompileError, ValueError, RecursionError):
        return False
    return True


def main(folder: str, place: str | None = None) -> int:
    paths = list(lacking(folder))
    display_paths = [(folder if place is None else place) + path[len(folder) :] for path in paths]
    with ProcessPoolExecutor() as pool:
        for _ in pool.map(compile_file, paths, display_paths, chunksize=64):
            pass
    return 0


if __name__ == "__main__":
    if sys.flags.hash_randomization:
        # before Python 3.11, sets of constants are written in the order of their hashes
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        os.execve(sys.executable, [sys.executable, "-sSB", *sys.argv], {**variables, "PYTHONHASHSEED": "0"})
    sys.exit(main(*sys.argv[1:]))
