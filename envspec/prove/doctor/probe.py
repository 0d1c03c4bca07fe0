"""A Python's view of its environment, as JSON on its last line. `envspec.prove.doctor.ticket` gives this text to any
interpreter, of a container too: it needs the standard library of Python 3.8 alone, and changes nothing.

Each import runs in a process of its own, whose mapped files say which libraries it loaded (proc_pid_maps(5)).
"""

from __future__ import annotations

import contextlib
import glob
import importlib.metadata as metadata
import json
import os
import platform
import re
import site
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from typing import Any

VARIABLES = (
    "APPTAINER_CONTAINER", "CONDA_PREFIX", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD",
    "LOADEDMODULES", "NCCL_NET", "NVIDIA_VISIBLE_DEVICES", "PIP_CONSTRAINT", "PYTHONHOME", "PYTHONNOUSERSITE",
    "PYTHONPATH", "SINGULARITY_CONTAINER", "VIRTUAL_ENV",
)  # fmt: skip
FIRST = (
    "torch", "numpy", "jax", "tensorflow", "cupy", "torchvision", "torchaudio", "triton", "flash_attn", "xformers",
    "transformer_engine", "apex", "bitsandbytes", "deepspeed", "vllm", "transformers", "mpi4py", "scipy", "pandas",
)  # fmt: skip
MOST, SECONDS = 24, 60
"""Imports, and the time of each."""
BEGIN = "import sys; sys.path[:] = [one for one in sys.path if one]\n"
"""What the working folder holds is no module of an environment."""
TRY = """
import importlib, json, os, traceback
def mapped():
    try:
        with open("/proc/self/maps") as maps:
            return {line.split(None, 5)[5].strip() for line in maps if ".so" in line and line.count("/") > 0}
    except (OSError, IndexError):
        return set()
before, found = mapped(), {"error": None}
try:
    module = importlib.import_module(sys.argv[1])
    found["file"] = getattr(module, "__file__", None)
    found["version"] = str(getattr(module, "__version__", "")) or None
    found["cuda"] = getattr(getattr(module, "version", None), "cuda", None)
except BaseException as error:
    found["error"] = "%s: %s" % (type(error).__name__, error)
    inner = [one.filename for one in traceback.extract_tb(error.__traceback__) if "importlib" not in one.filename]
    found["file"] = inner[-1] if inner else None
preloaded = set(os.environ.get("LD_PRELOAD", "").replace(" ", ":").split(":"))
found["libraries"] = sorted(mapped() - (before - preloaded))
print()
print(json.dumps(found))
"""


def distributions() -> Iterator[dict[str, Any]]:
    """Describe each distribution that Python finds, and those behind them."""
    for one in metadata.distributions():
        with contextlib.suppress(Exception):
            folder = str(one.locate_file("")).rstrip("/")
            lines = (one.read_text("RECORD") or "").splitlines()
            rows = [re.match(r'"?(.+?)"?,([^,]*),(\d*)$', line) for line in lines]
            files = [(row[1], row[3]) for row in rows if row and not row[1].endswith(".pyc")]
            there = {name: os.path.join(folder, name) for name, _ in files}
            damaged = [
                name for name, size in files
                if not os.path.exists(there[name]) or (size and os.path.getsize(there[name]) != int(size))
            ]  # fmt: skip
            compiled = [name for name, _ in files if re.search(r"\.so(\.[\d.]+)?$", name)]
            yield {
                "name": re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower(),
                "version": one.version,
                "folder": folder,
                "installer": (one.read_text("INSTALLER") or "").strip(),
                "requires": list(one.requires or ()),
                "damaged": damaged[:5],
                "libraries": [there[name] for name in compiled],
                "modules": modules_of(one, files),
            }


def modules_of(one: metadata.Distribution, files: list[tuple[str, str]]) -> list[str]:
    """List the top-level names of a distribution."""
    names = (one.read_text("top_level.txt") or "").split() or [name.partition("/")[0] for name, _ in files]
    return sorted({name[: -len(".py")] if name.endswith(".py") else name for name in names if "-" not in name} - {".."})


def try_import(name: str) -> dict[str, Any]:
    """Import a module in a process of its own."""
    try:
        words = [sys.executable, "-c", BEGIN + TRY, name]
        ran = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {"name": name, "error": f"no end after {SECONDS} s", "libraries": []}
    said = ran.stderr.decode(errors="replace")[-2000:]
    try:
        found = json.loads(ran.stdout.decode(errors="replace").splitlines()[-1])
    except (IndexError, ValueError):
        found = {"error": f"it ended by status {ran.returncode}: {said[-300:]}", "libraries": []}
    return dict(found, name=name, said=said)


def main() -> None:
    found = list(distributions())
    compiled = {os.path.relpath(path, one["folder"]).split("/")[0] for one in found for path in one["libraries"]}
    modules = {name for one in found for name in one["modules"]}
    wanted = [name for name in FIRST if name in modules]
    wanted += sorted(name for name in compiled - set(wanted) if name.isidentifier() and not name.startswith("_"))
    driver = ""
    with contextlib.suppress(OSError), open("/proc/driver/nvidia/version") as file:
        driver = (re.findall(r"Kernel Module\D*([\d.]+)", file.read()) or [""])[0]
    devices = [name for one in ("nvidia[0-9]*", "infiniband/uverbs*", "cxi[0-9]*") for name in glob.glob("/dev/" + one)]
    conda = [os.path.basename(name)[: -len(".json")] for name in glob.glob(sys.prefix + "/conda-meta/*.json")]
    sys.stdout.write(
        "\n"
        + json.dumps(
            {
                "python": platform.python_version(),
                "executable": sys.executable,
                "prefix": sys.prefix,
                "base": sys.base_prefix,
                "abi": sysconfig.get_config_var("SOABI"),
                "platform": f"{platform.machine()} {' '.join(platform.libc_ver())}",
                "path": [one for one in sys.path if one],
                "user_site": site.getusersitepackages() if site.ENABLE_USER_SITE else None,
                "variables": {name: os.environ[name] for name in VARIABLES if os.environ.get(name) is not None},
                "distributions": found,
                "conda": sorted(conda),
                "leftovers": [name for one in sys.path for name in glob.glob(os.path.join(one, "~*"))],
                "beside": sorted(
                    name for name in modules for end in (".py", "/__init__.py") if os.path.exists(name + end)
                ),
                "dead": [
                    name
                    for name in ("VIRTUAL_ENV", "CONDA_PREFIX")
                    if os.environ.get(name) and not os.path.exists(os.environ[name] + "/bin/python")
                ],
                "driver": driver or None,
                "devices": sorted(devices),
                "imports": [try_import(name) for name in wanted[:MOST]],
            }
        )
    )


if __name__ == "__main__":
    main()
