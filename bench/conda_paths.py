"""The cost of reading the paths of a lock's conda packages with nothing cached: packages and seconds by target.

It asks the spec's channels: `python -m bench.conda_paths specs/hpc-v2.7.toml`. Each package is one request of 64 KiB,
and a second one where its list of files is longer.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from envspec.artifacts.conda_archives import CondaArchives, installs_modules
from envspec.artifacts.wheel_inspector import THREADS
from envspec.base.errors import IndexFailure
from envspec.base.progress import Progress
from envspec.lock.model import Pin
from envspec.lock.store import LockFolder
from envspec.resolve.conda.setup import conda_resolver
from envspec.spec.parse import load_spec


def main() -> None:
    """Print a line for each target of the spec's lock, and one for each package that can't be read."""
    spec = load_spec(Path(sys.argv[1]))
    lock = LockFolder(Path("locks"), spec.name).load()
    known = conda_resolver(spec, os.environ, offline=False, progress=Progress()).archives
    assert known is not None
    with TemporaryDirectory() as empty:
        archives = replace(known, unpacked=Path(empty))
        for target in lock.targets:
            pins = [pin for pin in target.pins if installs_modules(pin)]
            started = time.monotonic()
            with ThreadPoolExecutor(THREADS) as pool:
                read = list(pool.map(lambda pin: _paths(archives, pin), pins))
            seconds, paths = time.monotonic() - started, [one for one in read if isinstance(one, int)]
            print(f"{target.name}: {len(paths)} of {len(pins)} packages, {sum(paths)} paths, {seconds:.2f} s")
            print("".join(f"  {one}\n" for one in read if isinstance(one, str)), end="")


def _paths(archives: CondaArchives, pin: Pin) -> int | str:
    """Count a package's paths, or say why they can't be read."""
    if why := archives.obstacle(pin):
        return f"{pin.name}: {why}"
    try:
        return len(archives.paths(pin))
    except IndexFailure as error:
        return error.message


if __name__ == "__main__":
    main()
