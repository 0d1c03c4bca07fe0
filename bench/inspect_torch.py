"""`envspec inspect` on torch's own wheel: 900 MB, 1.6 GB unpacked. Seconds, peak memory, and whether the list is right.

    python bench/inspect_torch.py [--version 2.9.1] [--repeat 3] [--json]

Side by side in one run:
- envspec inspect, the whole wheel, nothing written to disk;
- decompressing the same libraries and throwing the bytes away, in one thread: what any reader pays at least;
- unpacking them to disk and listing each with cuobjdump, NVIDIA's own tool, where it is on PATH.

Every run is a process of its own, so that its peak memory is its own. The wheel comes from PyPI by pip and is kept in
~/.cache/envspec-bench. Exit status 1 when a list differs or memory goes over its bound.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

CACHE = Path.home() / ".cache" / "envspec-bench"

MEMORY_BOUND_MB = 300

EXPECTED = {
    # SASS that every module of libtorch_cuda.so holds in PyPI's Linux x86_64 wheel: torch.cuda.get_arch_list() there.
    "2.9.1": ["sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"],
    "2.5.1": ["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"],
}

INSPECT = "import sys; from envspec.cli.inspect import command; command([sys.argv[1], '--json'])"
INFLATE = """
import sys, zipfile with zipfile.ZipFile(sys.argv[1]) as archive:
    for name in sys.argv[2:]:
        with archive.open(name) as member:
            while member.read(1 << 20): pass
"""
UNPACK_AND_LIST = """
import subprocess, sys, zipfile with zipfile.ZipFile(sys.argv[1]) as archive:
    for name in sys.argv[4:]:
        path = archive.extract(name, sys.argv[2]) command = [sys.argv[3], '-all', '--list-elf', '--list-ptx', path]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
"""


@dataclass(frozen=True)
class Run:
    """One process: wall-clock seconds, and peak resident memory in MB (of the largest of its processes)."""

    seconds: float
    memory_mb: float
    output: str


def run(code: str, *arguments: str) -> Run:
    """Run a Python program in a process of its own. Raises CalledProcessError when it fails."""
    command = [sys.executable, "-c", code, *arguments]
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, output.fileno(), 1)])
        _, status, usage = os.wait4(pid, 0)
        seconds = time.perf_counter() - started
        output.seek(0)
        text = output.read()
    if status:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), command[:2], text)
    return Run(seconds, usage.ru_maxrss / 1024, text)


def wheel_of(version: str) -> Path:
    """torch's wheel for CPython 3.12 on Linux x86_64, downloaded once."""
    CACHE.mkdir(parents=True, exist_ok=True)
    pattern = f"torch-{version}-cp312-*_x86_64.whl"
    if not list(CACHE.glob(pattern)):
        if shutil.disk_usage(CACHE).free < 4 << 30:
            sys.exit("less than 4 GB free for the wheel and its libraries")
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--python-version=3.12"]
        command += [f"--platform={tag}_x86_64" for tag in ("manylinux_2_28", "manylinux2014", "manylinux1")]
        subprocess.run([*command, "--dest", str(CACHE), f"torch=={version}"], check=True, stdout=sys.stderr)
    (wheel,) = CACHE.glob(pattern)
    return wheel


def everywhere(library: dict[str, object]) -> list[str]:
    """The architectures that every module of a library holds SASS for."""
    counts = library["sass"]
    assert isinstance(counts, dict)
    return [name for name, modules in counts.items() if modules == library["modules"]]


def median(runs: list[Run]) -> dict[str, float]:
    return {
        "seconds": round(statistics.median(r.seconds for r in runs), 2),
        "memory_mb": round(max(r.memory_mb for r in runs), 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", default="2.9.1", choices=sorted(EXPECTED))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    wheel = wheel_of(options.version)
    inspected = [run(INSPECT, str(wheel)) for _ in range(options.repeat)]
    report = json.loads(inspected[0].output)
    names = [library["path"] for library in report["libraries"]]
    result: dict[str, object] = {
        "schema": "envspec.bench.inspect/1",
        "wheel": wheel.name,
        "wheel_mb": round(wheel.stat().st_size / 1e6),
        "repeat": options.repeat,
        "envspec inspect": median(inspected),
        "decompress alone": median([run(INFLATE, str(wheel), *names) for _ in range(options.repeat)]),
    }
    cuobjdump = shutil.which("cuobjdump")
    if cuobjdump:
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            peer = [run(UNPACK_AND_LIST, str(wheel), folder, cuobjdump, *names) for _ in range(options.repeat)]
        result["unpack and cuobjdump"] = median(peer)
    else:
        result["unpack and cuobjdump"] = "not run: cuobjdump is not on PATH"

    (torch_cuda,) = (library for library in report["libraries"] if library["path"].endswith("/libtorch_cuda.so"))
    found = everywhere(torch_cuda)
    memory = max(r.memory_mb for r in inspected)
    result["architectures"] = found
    result["right"] = found == EXPECTED[options.version] and not torch_cuda["ptx"]
    result["memory_in_bound"] = memory < MEMORY_BOUND_MB
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        for key, value in result.items():
            print(f"{key:<22} {value}")
    return 0 if result["right"] and result["memory_in_bound"] else 1


if __name__ == "__main__":
    sys.exit(main())
