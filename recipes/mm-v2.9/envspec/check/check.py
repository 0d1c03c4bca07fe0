"""Ask an environment whether it works: one file that needs torch and the standard library, and no envspec.

    python check.py --config target.json [--workload NAME] [--steps N]
        [--device auto|cuda|cpu] [--quick] [--seed 0] [--json FILE|-] [--junit FILE] [--only GROUP]...
        [--timeout SECONDS] [--scratch DIR]

Nine groups of checks, each check in a process of its own with a time limit: a crash, a hang or a process that ran
out of memory is one failed check, told with its last words. Sanity decides pass or fail. Figures are compared with
references and decide nothing. What can't be checked here is skipped with its reason, and a skip is never counted as a
pass.

Runs with Python 3.8 and newer, torch 2.0 and newer, on Linux. Progress is told on stderr.
Exit status: 0 a check passed and none failed, 1 a check failed or all were skipped, 2 wrong usage or a
target.json that can't be read, 130 interrupted.
"""

# ruff: noqa: B905, RUF012, UP006, UP033, UP035, UP045 -- Python 3.8 has no newer way
# ruff: noqa: UP031 -- formats of numbers

from __future__ import annotations

import sys

if __name__ == "__main__" and sys.path and sys.path[0] == __file__.rpartition("/")[0]:
    del sys.path[0]  # this file's neighbours are no modules of the environment

import argparse
import contextlib
import ctypes
import datetime
import faulthandler
import fnmatch
import functools
import hashlib
import importlib
import importlib.metadata
import json
import math
import os
import platform
import random
import re
import resource
import select
import shutil
import signal
import site
import subprocess
import tempfile
import threading
import time
import traceback
import types
import uuid
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple
from xml.sax.saxutils import quoteattr

GROUPS = (
    "static",
    "device",
    "operators",
    "training",
    "determinism",
    "compile",
    "dataloader",
    "collectives",
    "figures",
)
WORKLOAD_NAMES = ("basic", "multimodal", "llm", "deit", "dynamic")
STEPS, QUICK_STEPS = 50, 20
TIMEOUT = 180.0
"""Seconds that one check may take, unless --timeout says otherwise."""

MIB = 1 << 20

# -- interface ------------------------------------------------------------------------------------------------------
#
# A check is a function from a Context to an Outcome, put into the table by `@check`:
#
#     @check("training.fp32")                       # group.name; a group's checks run in the file's order
#     def training_fp32(ctx: Context) -> Outcome:
#         torch = ctx.torch                         # as Any, imported on first use; never `import torch` at the top
#         ...
#         return failed("the loss is NaN after step 3", "use bf16 ...", details={...}, curves={"training.fp32": losses})
#         return passed(details={...}, figures=[("training.samples_per_s", 123.4, "samples/s")], curves={...})
#         return skipped("why")
#
#     @check("training.fp16", needs="gpu")          # skipped by the harness where ctx.device is "cpu"; fails where CUDA
#                                                   # was asked for and torch sees no GPU
#     @check("device.driver", needs="driver")       # skipped where there is no NVIDIA driver, the target has no CUDA or
#                                                   # the CPU was asked for
#     @check("static.files", torch=False)           # in a process that hasn't imported torch
#
# Anywhere below a check, `raise Fault(reason, remedy, details=...)` fails it and `raise Skip(reason)` skips it. Any
# other exception, a signal, a time-out or a silent exit is a failure, with the process's last words.
#
# A check runs in a process of its own, forked from one that imported torch and did nothing else (neither CUDA nor
# OpenMP are started in it), as the leader of its own session; all processes that it starts die with it. What it prints
# is kept as its last words. Numbers needn't be finite: NaN becomes null in the JSON.
#
# A new process that knows the same Context, for what must start afresh:
#
#     @internal("resume")
#     def resume(ctx: Context, *args: str) -> int:  # exit status; talk by files in ctx.scratch
#
#     ended = ctx.run_again("resume", "half.pt", env={"PYTHONHASHSEED": "0"})      # Ended(code, output)
#     [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", *ctx.again("resume", "half.pt")[1:]]
#
# A workload is put into WORKLOADS by `@workload("llm")`. Classes that a DataLoader pickles stand at module level: newer
# Pythons start its workers without a fork.


class Fault(Exception):
    """Fails the check that it comes out of."""

    def __init__(self, reason: str, remedy: str | None = None, **more: Any) -> None:
        super().__init__(reason)
        self.outcome = failed(reason, remedy, **more)


class Skip(Exception):
    """Skips the check that it comes out of."""

    def __init__(self, reason: str, **more: Any) -> None:
        super().__init__(reason)
        self.outcome = skipped(reason, **more)


class Outcome(NamedTuple):
    """What a check found. `figures` are (name, value, unit); `curves` have the loss of each step."""

    status: str
    reason: Optional[str] = None
    remedy: Optional[str] = None
    details: Dict[str, Any] = {}
    figures: Sequence[Tuple[str, float, str]] = ()
    curves: Dict[str, List[float]] = {}


def passed(**more: Any) -> Outcome:
    return Outcome("pass", **more)


def failed(reason: str, remedy: str | None = None, **more: Any) -> Outcome:
    return Outcome("fail", reason, remedy, **more)


def skipped(reason: str, **more: Any) -> Outcome:
    return Outcome("skip", reason, **more)


class Ended(NamedTuple):
    """How a process ended: its exit status, negative for a signal, and what it said."""

    code: int
    output: str


@dataclass(frozen=True)
class Context:
    """What a check knows.

    config   what target.json says; `lock` is the target's slice of envspec.lock in it, `target` its table of the target
    scratch  a folder of this check's own, empty at its start and gone afterwards
    gpus     how many GPUs torch sees and the checks may use; 0 on a CPU
    timeout  seconds that the check has
    program  the file that new processes start
    """

    config: dict[str, Any]
    device: str
    workload: str
    steps: int
    quick: bool
    seed: int
    timeout: float
    scratch: Path
    program: str
    gpus: int = 0

    @property
    def target_name(self) -> str:
        return str(self.config["target"])

    @property
    def lock(self) -> dict[str, Any]:
        found: dict[str, Any] = self.config["lock"]
        return found

    @property
    def target(self) -> dict[str, Any]:
        found: dict[str, Any] = self.lock["targets"][self.target_name]
        return found

    @property
    def torch(self) -> Any:
        return importlib.import_module("torch")

    @property
    def torch_device(self) -> Any:
        return self.torch.device(self.device)

    def synchronize(self) -> None:
        """Wait until the GPU has done what it was given."""
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def again(self, name: str, *args: str) -> list[str]:
        """The command line that runs an internal command with the same Context."""
        path = self.scratch / (f"context-{uuid.uuid4().hex[:8]}.json")
        path.write_text(json.dumps(self.as_json()), encoding="utf-8")
        return [sys.executable, self.program, "--internal", name, str(path), *args]

    def run_again(
        self, name: str, *args: str, env: dict[str, str] | None = None, timeout: float | None = None
    ) -> Ended:
        """Run an internal command in a new process and wait for it. `env` comes over this process's environment.

        Raises Fault when it takes longer than `timeout` seconds.
        """
        command = self.again(name, *args)
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                cwd=str(self.scratch),
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            print((error.stdout or b"").decode("utf-8", "replace"))
            raise Fault(f"a new process ({name}) hadn't ended after {timeout or 0:g} s") from None
        return Ended(done.returncode, done.stdout.decode("utf-8", "replace"))

    def as_json(self) -> dict[str, Any]:
        return {**self.__dict__, "scratch": str(self.scratch)}

    @classmethod
    def load(cls, path: str) -> Context:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
        return cls(**{**values, "scratch": Path(values["scratch"])})


class Check(NamedTuple):
    """A line of the table. `needs`: "gpu", "driver" or None."""

    name: str
    run: Callable[[Context], Outcome]
    needs: Optional[str]
    torch: bool

    @property
    def group(self) -> str:
        return self.name.partition(".")[0]


CHECKS: Dict[str, Check] = {}
INTERNAL: Dict[str, Callable[..., int]] = {}
WORKLOADS: Dict[str, Any] = {}


def check(
    name: str, needs: str | None = None, torch: bool = True, table: dict[str, Check] = CHECKS
) -> Callable[[Callable[[Context], Outcome]], Callable[[Context], Outcome]]:
    """Put a check into the table."""

    def put(function: Callable[[Context], Outcome]) -> Callable[[Context], Outcome]:
        table[name] = Check(name, function, needs, torch)
        return function

    return put


def internal(name: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Make a function something that `Context.run_again` can start."""

    def put(function: Callable[..., int]) -> Callable[..., int]:
        INTERNAL[name] = function
        return function

    return put


def workload(name: str) -> Callable[[Any], Any]:
    """Put a workload into WORKLOADS."""

    def put(made: Any) -> Any:
        WORKLOADS[name] = made
        return made

    return put


# -- the lock -------------------------------------------------------------------------------------------------------


class Unreadable(Exception):
    """An input that can't be used: exit status 2."""


class Pin(NamedTuple):
    """A package of the target."""

    kind: str
    name: str
    version: str
    build: Optional[str]
    channel: Optional[str]
    provides: Tuple[str, ...]


def pins(lock: dict[str, Any]) -> list[Pin]:
    """The packages of a target's slice of the lock."""
    found = []
    for kind in ("conda", "pip"):
        for package in lock.get(kind, []):
            provides = tuple(package.get("provides", ()))
            version, build = package.get("version", ""), package.get("build")
            found.append(Pin(kind, package["name"], version, build, package.get("index"), provides))
    return found


def locked_torch(lock: dict[str, Any]) -> Pin | None:
    for pin in pins(lock):
        if (pin.kind, pin.name) in (("pip", "torch"), ("conda", "pytorch")):
            return pin
    return None


def canonical(name: str) -> str:
    """A distribution's name as the lock has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def same_version(one: str, other: str) -> bool:
    """Whether two spellings are one version: "1.0" and "1.0.0", "2.9.1+CU128" and "2.9.1+cu128"."""
    return plain_version(one) == plain_version(other)


def plain_version(text: str) -> str:
    public, _, local = text.strip().lower().lstrip("v").partition("+")
    release = re.match(r"(?:\d+!)?\d+(?:\.\d+)*", public)
    if release:
        rest = re.sub(r"[-_.]+", "", public[release.end() :])
        public = re.sub(r"(?<=\d)(?:\.0+)+$", "", re.sub(r"\b0+(?=\d)", "", release.group())) + rest
    return public + ("+" + re.sub(r"[-_]", ".", local) if local else "")


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers: "525.60.13" is (525, 60, 13)."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:4]) or (0,)


# -- the machine ----------------------------------------------------------------------------------------------------


def usable_cpus() -> int:
    """The CPUs that this process may use, by affinity and by its control group's quota."""
    count = len(os.sched_getaffinity(0))
    quota = read_text("/sys/fs/cgroup/cpu.max").split()
    if len(quota) == 2 and quota[0] != "max":
        count = min(count, max(1, math.ceil(int(quota[0]) / int(quota[1]))))
    return count


def memory_bytes() -> int:
    """The memory that this process may use, by the machine and by its control group's limit."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        limit = read_text(path).strip()
        if limit.isdigit():
            total = min(total, int(limit))
    return total


def shm_bytes() -> int | None:
    """The size of /dev/shm; None where there is none."""
    try:
        found = os.statvfs("/dev/shm")
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


def read_text(path: str) -> str:
    """A file's text, empty where it can't be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


class Nvml:
    """NVIDIA's management library, by ctypes. Its calls are C's and give 0 when they worked."""

    def __init__(self) -> None:
        """Raises OSError where it can't be used."""
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        if self.library.nvmlInit_v2() != 0:
            raise OSError("NVML can't be started")

    def driver(self) -> str | None:
        text = ctypes.create_string_buffer(96)
        return text.value.decode() if self.library.nvmlSystemGetDriverVersion(text, 96) == 0 else None

    def devices(self) -> list[ctypes.c_void_p]:
        count, found = ctypes.c_uint(0), []
        self.library.nvmlDeviceGetCount_v2(ctypes.byref(count))
        for number in range(count.value):
            handle = ctypes.c_void_p()
            if self.library.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(handle)) == 0:
                found.append(handle)
        return found

    def device_at(self, pci: str) -> ctypes.c_void_p | None:
        """The device with a PCI address such as 0000:3b:00.0, which CUDA_VISIBLE_DEVICES doesn't renumber."""
        handle = ctypes.c_void_p()
        done = self.library.nvmlDeviceGetHandleByPciBusId_v2(pci.encode(), ctypes.byref(handle))
        return handle if done == 0 else None

    def utilisation(self, device: ctypes.c_void_p) -> int | None:
        """The share of the last moments in which the GPU worked, in percent. None where it can't tell, as with MIG."""
        rates = (ctypes.c_uint * 2)()
        return int(rates[0]) if self.library.nvmlDeviceGetUtilizationRates(device, rates) == 0 else None


def nvml() -> Nvml | None:
    try:
        return Nvml()
    except (OSError, AttributeError):
        return None


def driver_version() -> str | None:
    """NVIDIA's driver: by NVML, else by what the kernel module says of itself."""
    library = nvml()
    found = library.driver() if library else None
    if found:
        return found
    said = re.search(r"Kernel Module.*?\s(\d+(?:\.\d+){1,2})\s", read_text("/proc/driver/nvidia/version"))
    return said.group(1) if said else None


def machine_facts() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "glibc": platform.libc_ver()[1] or None,
        "cpus": usable_cpus(),
        "memory_bytes": memory_bytes(),
        "shm_bytes": shm_bytes(),
        "driver": driver_version(),
        "gpus": [],
    }


def probe(ctx: Context) -> Outcome:
    """The facts of torch and of the GPUs that it sees. No check: it runs before the first that imports torch."""
    torch = ctx.torch
    about: dict[str, Any] = {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "cudnn": None,
        "nccl": None,
        "architectures": arch_flags(torch),
    }
    gpus = []
    if torch.version.cuda:
        with contextlib.suppress(RuntimeError, AttributeError, OSError):
            about["cudnn"] = spelled_cudnn(torch.backends.cudnn.version())
        with contextlib.suppress(RuntimeError, AttributeError, OSError):
            about["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
            facts = torch.cuda.get_device_properties(index)
            capability = "%d.%d" % (facts.major, facts.minor)
            gpus.append({"name": facts.name, "capability": capability, "memory_bytes": int(facts.total_memory)})
    return passed(details={"torch": about, "gpus": gpus})


def spelled_cudnn(number: int | None) -> str | None:
    """cuDNN's number as a version: 8902 is 8.9.2, 91002 is 9.10.2."""
    if not number:
        return None
    major, rest = divmod(number, 10000 if number >= 90000 else 1000)
    return "%d.%d.%d" % (major, rest // 100, rest % 100)


def arch_flags(torch: Any) -> list[str]:
    """What torch's own code is compiled for: sm_90, compute_90."""
    asked = getattr(torch._C, "_cuda_getArchFlags", None)
    return ((asked() if asked else None) or "").split()


# -- static ---------------------------------------------------------------------------------------------------------

TOOLS = ("pip", "setuptools", "uv", "wheel")
"""What makes environments and may be in them without being locked."""

HASHED_ALL = 512 * MIB
HASHED_QUICK = 64 * MIB
HASHED_ONE = 4 * MIB
"""The size of every file is compared. Hashes are compared for files up to HASHED_ONE, the smallest first, until
HASHED_ALL bytes are read: all code that is text. Large libraries are cut short rather than altered, and reading
gigabytes of them from a cluster's storage would take longer than all other checks together."""


def is_within(path: str, roots: Iterable[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def own_roots() -> list[str]:
    """The folders that the environment is in."""
    roots = {sys.prefix, os.path.realpath(sys.prefix)}
    if sys.prefix.startswith("/nix/store/"):
        roots.add("/nix/store")
    return sorted(roots)


def own_paths() -> list[str]:
    """The folders of sys.path that belong to the environment."""
    roots = own_roots()
    return [path for path in sys.path if path and is_within(os.path.realpath(path), roots)]


class Installed(NamedTuple):
    """A distribution that is there. `name` is None where its metadata can't be read."""

    name: Optional[str]
    version: str
    folder: str
    installer: str
    distribution: Any


def installed(paths: Sequence[str]) -> list[Installed]:
    found = []
    for one in importlib.metadata.distributions(path=list(paths)):
        headers = (one.read_text("METADATA") or one.read_text("PKG-INFO") or "").partition("\n\n")[0]
        fields = dict(re.findall(r"^(Name|Version):[ \t]*(\S+)", headers, re.MULTILINE))
        installer = (one.read_text("INSTALLER") or "").strip()
        name = canonical(fields["Name"]) if "Name" in fields else None
        found.append(Installed(name, fields.get("Version", ""), str(getattr(one, "_path", "")), installer, one))
    return found


def conda_records(prefix: str) -> list[dict[str, Any]]:
    """What conda wrote of each package that it installed."""
    records = []
    for path in sorted(Path(prefix, "conda-meta").glob("*.json")):
        try:
            records.append(json.loads(path.read_text(encoding="utf-8")))
        except ValueError:
            records.append({"name": path.stem.rpartition("-")[0].rpartition("-")[0], "version": "", "damaged": True})
    return records


def compare_distributions(locked: Sequence[Pin], there: Sequence[Installed], by_conda: Iterable[str] = ()) -> list[str]:
    """What differs between the pip half of a lock and the distributions that are there. `by_conda`: folders of
    distributions that conda packages brought."""
    wanted = {pin.name: pin.version for pin in locked if pin.kind == "pip"}
    provided = {canonical(name) for pin in locked if pin.kind == "conda" for name in pin.provides}
    conda_folders = set(by_conda)
    wrong, seen = [], {}  # type: List[str], Dict[str, str]
    for one in there:
        if one.name is None:
            wrong.append(f"{os.path.basename(one.folder)} has no metadata")
            continue
        if one.name in seen:
            wrong.append(f"{one.name} is there twice: {seen[one.name]} and {one.version}")
        seen[one.name] = one.version
        if one.name in wanted:
            if wanted[one.name] and not same_version(wanted[one.name], one.version):
                wrong.append(f"{one.name} is {one.version}, locked is {wanted[one.name]}")
        elif one.name not in (*provided, *TOOLS) and one.installer != "conda" and one.folder not in conda_folders:
            wrong.append(f"{one.name} {one.version} isn't locked")
    wrong += [f"{name} {version} is missing" for name, version in wanted.items() if name not in seen]
    return sorted(wrong)


def compare_conda(locked: Sequence[Pin], records: Sequence[dict[str, Any]]) -> list[str]:
    """What differs between the conda half of a lock and conda-meta."""
    wanted = {pin.name: pin for pin in locked if pin.kind == "conda"}
    wrong, seen = [], set()
    for record in records:
        name, version, build = record.get("name", ""), record.get("version", ""), record.get("build")
        seen.add(name)
        pin = wanted.get(name)
        if record.get("damaged"):
            wrong.append(f"conda-meta's record of {name} is damaged")
        elif pin is None:
            wrong.append(f"conda's {name} {version} isn't locked")
        elif pin.version != version or (pin.build and build != pin.build):
            wrong.append(
                "conda's {} is {} {}, locked is {} {}".format(name, version, build, pin.version, pin.build or "")
            )
    wrong += [f"conda's {pin.name} {pin.version} is missing" for pin in wanted.values() if pin.name not in seen]
    return sorted(wrong)


def some(texts: Sequence[str], limit: int = 5) -> str:
    """The first few of many, on one line."""
    more = len(texts) - limit
    return "; ".join(texts[:limit]) + ("; and %d more" % more if more > 0 else "")


@check("static.distributions", torch=False)
def static_distributions(ctx: Context) -> Outcome:
    """What is installed is what is locked, name by name and version by version."""
    locked = pins(ctx.lock)
    there, records = installed(own_paths()), conda_records(sys.prefix)
    folders = {
        os.path.join(sys.prefix, os.path.dirname(name))
        for record in records
        for name in record.get("files", ())
        if name.endswith((".dist-info/METADATA", ".egg-info/PKG-INFO"))
    }
    wrong = compare_distributions(locked, there, folders)
    has_conda = records or any(pin.kind == "conda" for pin in locked)
    wrong += compare_conda(locked, records) if has_conda else []
    details = {"distributions": len(there), "conda": len(records), "locked": len(locked), "differences": wrong[:100]}
    if wrong:
        remedy = "make the environment anew from its lock: envspec install, or pip install --require-hashes"
        return failed(f"the environment isn't what is locked: {some(wrong)}", remedy, details=details)
    return passed(details=details)


class Recorded(NamedTuple):
    """A file as its installer recorded it. `size` and `sha256` are None where it didn't say."""

    path: str
    owner: str
    size: Optional[int]
    sha256: Optional[str]


def recorded_files(there: Sequence[Installed]) -> Iterator[Recorded]:
    """The files of distributions, by their RECORD. Hashes are hexadecimal."""
    import base64
    import csv

    for one in there:
        text = one.distribution.read_text("RECORD")
        root = os.path.dirname(one.folder)
        for row in csv.reader((text or "").splitlines()):
            if len(row) != 3 or not row[1].startswith("sha256="):
                continue  # files that RECORD doesn't vouch for: itself, compiled Python
            digest = base64.urlsafe_b64decode(row[1][7:] + "=" * (-len(row[1][7:]) % 4)).hex()
            size = int(row[2]) if row[2].isdigit() else None
            path = os.path.normpath(os.path.join(root, row[0]))
            yield Recorded(path, f"{one.name} {one.version}", size, digest)


def recorded_conda_files(records: Sequence[dict[str, Any]], prefix: str) -> Iterator[Recorded]:
    """The files of conda packages. Those that hold the prefix's own path were changed when they were installed."""
    for record in records:
        for entry in (record.get("paths_data") or {}).get("paths", ()):
            if entry.get("path_type") == "hardlink" and not entry.get("prefix_placeholder"):
                owner = "conda's {} {}".format(record.get("name"), record.get("version"))
                path = os.path.join(prefix, entry["_path"])
                yield Recorded(path, owner, entry.get("size_in_bytes"), entry.get("sha256"))


def damage(files: Iterable[Recorded], budget: int) -> tuple[list[str], dict[str, int]]:
    """What is wrong with files, and how much was looked at. `budget` is how many bytes may be read for hashes."""
    wrong, sized, small = [], 0, []
    for one in files:
        try:
            size = os.stat(one.path).st_size
        except OSError:
            wrong.append(f"{one.path} of {one.owner} is missing")
            continue
        sized += 1
        if one.size is not None and size != one.size:
            how = "cut short" if size < one.size else "longer than it was"
            wrong.append("%s of %s is %s: %d bytes of %d" % (one.path, one.owner, how, size, one.size))
        elif one.sha256 and size <= HASHED_ONE:
            small.append((size, one))
    hashed = 0
    for size, one in sorted(small):
        budget -= size
        if budget < 0:
            break
        hashed += 1
        with open(one.path, "rb") as file:
            if hashlib.sha256(file.read()).hexdigest() != one.sha256:
                wrong.append(f"{one.path} of {one.owner} isn't the file that was installed")
    return sorted(wrong), {"files": sized, "hashed": hashed}


@check("static.files", torch=False)
def static_files(ctx: Context) -> Outcome:
    """No file of a package is missing, cut short or altered."""
    there, records = installed(own_paths()), conda_records(sys.prefix)
    # What conda installed has its sizes and hashes in conda-meta; a RECORD there is the package builder's.
    by_pip = [one for one in there if one.installer != "conda"]
    files = [*recorded_files(by_pip), *recorded_conda_files(records, sys.prefix)]
    wrong, counts = damage(files, HASHED_QUICK if ctx.quick else HASHED_ALL)
    details = {**counts, "wrong": wrong[:100]}
    if wrong:
        remedy = "install the package again; where many are damaged, look at the disk's space and quota"
        return failed(some(wrong, 3), remedy, details=details)
    if not files:
        return skipped("no package here recorded its files", details=details)
    return passed(details=details)


def leaks(paths: Sequence[str], roots: Sequence[str], standard: Sequence[str], user: str) -> list[tuple[str, str]]:
    """The entries of sys.path that aren't the environment's, each with what it is. `standard`: where the standard
    library is; `user`: the user site."""
    asked = [os.path.realpath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    found = []
    for path in paths:
        real = os.path.realpath(path or ".")
        if is_within(real, roots) or not os.path.exists(real):
            continue
        third_party = os.path.basename(real) in ("site-packages", "dist-packages")
        if is_within(real, standard) and not third_party:
            continue
        if user and is_within(real, [os.path.realpath(user)]):
            found.append((path, "the user site"))
        elif real in asked:
            found.append((path, "PYTHONPATH"))
        else:
            found.append((path, "the base Python's packages" if third_party else "not the environment's"))
    return found


@check("static.isolation", torch=False)
def static_isolation(ctx: Context) -> Outcome:
    """Python imports from the environment alone."""
    base = {sys.base_prefix, sys.base_exec_prefix}
    standard = sorted({*base, *map(os.path.realpath, base), os.path.realpath(os.path.dirname(os.__file__))})
    user = site.getusersitepackages()
    found = leaks(sys.path, own_roots(), standard, user)
    details = {"path": list(sys.path), "user_site": bool(site.ENABLE_USER_SITE), "leaks": [list(one) for one in found]}
    if not found:
        return passed(details=details)
    own = {one.name for one in installed(own_paths())}
    others = [f"{one.name} {one.version}" for one in installed([path for path, _ in found]) if one.name in own]
    reason = "packages come from outside the environment: " + some([f"{path} is {kind}" for path, kind in found], 3)
    if others:
        reason += f" (it too has {some(others, 3)})"
    kinds = {kind for _, kind in found}
    remedies = [
        "export PYTHONNOUSERSITE=1" if "the user site" in kinds else "",
        "unset PYTHONPATH" if "PYTHONPATH" in kinds else "",
        "make the environment without the system's packages" if "the base Python's packages" in kinds else "",
    ]
    return failed(reason, "; ".join(filter(None, remedies)) or "look for .pth files in site-packages", details=details)


CUDA_LIBRARIES = (
    "libcudart", "libcublas", "libcublasLt", "libcudnn*", "libcufft*", "libcufile*", "libcupti", "libcurand",
    "libcusolver*", "libcusparse*", "libnccl", "libnvJitLink", "libnvrtc*", "libnvshmem*",
)  # fmt: skip
"""What an environment brings itself. The driver's own (libcuda, libnvidia-*) are the machine's."""


def is_cuda_library(path: str) -> bool:
    name, found, _ = os.path.basename(path).partition(".so")
    # wheels may carry a hash in the name: libcudart-d0da41ae.so.11.0
    stem = re.sub(r"-[0-9a-f]{8}$", "", name)
    return bool(found) and any(fnmatch.fnmatchcase(stem, pattern) for pattern in CUDA_LIBRARIES)


def first_on_path(environ: dict[str, str], roots: Sequence[str]) -> list[str]:
    """CUDA libraries outside the environment that the loader would take first, by LD_PRELOAD and LD_LIBRARY_PATH."""
    found = [path for path in re.split(r"[ :]+", environ.get("LD_PRELOAD", "")) if is_cuda_library(path)]
    taken: set[str] = set()
    for folder in re.split("[:;]", environ.get("LD_LIBRARY_PATH", "")):
        try:
            names = sorted(os.listdir(folder or "."))
        except OSError:
            continue
        for name in filter(is_cuda_library, names):
            if name not in taken:
                taken.add(name)
                path = os.path.join(os.path.abspath(folder or "."), name)
                found += [] if is_within(os.path.realpath(path), roots) else [path]
    return found


@check("static.library_path", torch=False)
def static_library_path(ctx: Context) -> Outcome:
    """No other CUDA or cuDNN comes before the environment's own."""
    searched = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "LD_PRELOAD") if os.environ.get(name)}
    found = first_on_path(searched, own_roots())
    if found:
        reason = f"{some(found, 3)} would be loaded before the environment's own"
        remedy = "unset LD_LIBRARY_PATH and LD_PRELOAD, or unload the cluster's CUDA and cuDNN modules"
        return failed(reason, remedy, details={"found": found[:100], **searched})
    return passed(details=dict(searched))


@check("static.import")
def static_import(ctx: Context) -> Outcome:
    """torch can be imported. Where it can't, this is the check that says so: all others that need it are skipped."""
    return passed(details={"version": str(ctx.torch.__version__), "file": ctx.torch.__file__})


@check("static.torch")
def static_torch(ctx: Context) -> Outcome:
    """The torch that is imported is the locked one, of the target's CUDA and from the environment."""
    torch, pin, wrong = ctx.torch, locked_torch(ctx.lock), []
    version, cuda, wanted = str(torch.__version__), torch.version.cuda, ctx.target.get("cuda")
    if pin is None:
        raise Skip("the target locks no torch")
    # Conda's builds have no local part in their version; those from PyPI say +cu128 though their file doesn't.
    exact = "+" in pin.version
    if not same_version(pin.version, version if exact else version.partition("+")[0]):
        wrong.append(f"torch is {version}, locked is {pin.version}")
    if (numbers(cuda)[:2] if cuda else None) != (numbers(wanted)[:2] if wanted else None):
        wrong.append(f"torch is built for {cuda_words(cuda)}, the target for {cuda_words(wanted)}")
    if not is_within(os.path.realpath(torch.__file__), own_roots()) and not is_within(torch.__file__, own_roots()):
        wrong.append(f"torch is imported from {os.path.dirname(torch.__file__)}, outside the environment")
    details = {"version": version, "cuda": cuda, "locked": pin.version, "file": torch.__file__}
    if wrong:
        return failed("; ".join(wrong), "make the environment anew from its lock", details=details)
    return passed(details=details)


def cuda_words(version: str | None) -> str:
    return f"CUDA {version}" if version else "CPUs only"


def mapped_libraries(maps: str) -> list[str]:
    """The CUDA libraries in a /proc/PID/maps."""
    paths = {line.split(None, 5)[5] for line in maps.splitlines() if len(line.split(None, 5)) == 6}
    return sorted(path for path in paths if is_cuda_library(path.replace(" (deleted)", "")))


def linked_in(roots: Sequence[str]) -> set[str]:
    """Where the CUDA libraries of the environment really are: an installer may have made links of them."""
    found: set[str] = set()
    for root in own_paths():
        for folder, _, names in os.walk(root):
            found.update(os.path.realpath(os.path.join(folder, name)) for name in names if is_cuda_library(name))
    return found


@check("static.libraries")
def static_libraries(ctx: Context) -> Outcome:
    """The CUDA libraries that torch uses are loaded from the environment."""
    torch = ctx.torch
    if not torch.version.cuda:
        raise Skip("this torch is built for CPUs: it loads no CUDA library")
    torch.backends.cudnn.version()
    if ctx.device == "cuda":
        x = torch.ones(4, 3, 16, 16, device="cuda")
        torch.nn.functional.conv2d(x, torch.ones(8, 3, 3, 3, device="cuda")).flatten(1).matmul(
            torch.ones(8 * 14 * 14, 4, device="cuda")
        )
        torch.fft.rfft(x.flatten()).abs().sum().item()
        torch.linalg.solve(torch.eye(8, device="cuda"), torch.ones(8, 1, device="cuda"))
    found = mapped_libraries(read_text("/proc/self/maps"))
    outside = [path for path in found if not is_within(path, own_roots())]
    if outside:
        own = linked_in(own_roots())
        outside = [path for path in outside if path not in own]
    if outside:
        remedy = "unset LD_LIBRARY_PATH, or unload the cluster's CUDA and cuDNN modules"
        reason = f"loaded from outside the environment: {some(outside, 3)}"
        return failed(reason, remedy, details={"loaded": found})
    return passed(details={"loaded": found})


def capability_of(flag: str) -> tuple[int, int]:
    """The capability of an architecture: sm_90 and compute_90a are (9, 0), sm_120 is (12, 0)."""
    digits = re.sub(r"\D", "", flag) or "00"
    return int(digits[:-1] or 0), int(digits[-1])


def covers(flags: Sequence[str], architecture: str) -> bool:
    """Whether code compiled for `flags` runs on an architecture: machine code of its major version and no higher minor,
    or PTX that isn't newer. Code for sm_90a runs on 9.0 alone, for sm_100f on its major version."""
    own = capability_of(architecture)
    for flag in flags:
        code = capability_of(flag)
        if flag.endswith("a"):
            fits = code == own
        elif flag.startswith("compute_") and not flag.endswith("f"):
            fits = code <= own
        else:
            fits = code[0] == own[0] and code <= own
        if fits:
            return True
    return False


@check("static.architectures")
def static_architectures(ctx: Context) -> Outcome:
    """torch is compiled for the target's GPUs."""
    wanted = ctx.target.get("architectures", [])
    if not wanted:
        raise Skip("the target is for CPUs")
    flags = arch_flags(ctx.torch)
    details = {"compiled": flags, "wanted": wanted}
    without = [one for one in wanted if not covers(flags, one)]
    if without:
        built = " ".join(flags) or "no GPU at all"
        reason = "torch has no code for {}: it is compiled for {}".format(", ".join(without), built)
        return failed(reason, "choose a target with another CUDA or torch, then lock again", details=details)
    return passed(details=details)


# -- device ---------------------------------------------------------------------------------------------------------

NO_GPU = "cuda was asked for and torch sees no GPU"
NO_GPU_REMEDY = "hand in the GPUs (--gpus all, --nv, the scheduler's), or check the CPU alone: --device cpu"


@check("device.driver", needs="driver", torch=False)
def device_driver(ctx: Context) -> Outcome:
    """The driver isn't older than the target's CUDA needs."""
    version, floor = driver_version(), ctx.target.get("driver-floor")
    details = {"driver": version, "floor": floor}
    if not version:
        raise Skip("the driver doesn't tell its version", details=details)
    if floor and numbers(version) < numbers(floor):
        reason = "the driver is {} and CUDA {} needs {} or newer".format(version, ctx.target.get("cuda"), floor)
        return failed(reason, "update the driver, or use a target with an older CUDA", details=details)
    return passed(details=details)


@check("device.visible", needs="driver")
def device_visible(ctx: Context) -> Outcome:
    """torch can use the GPUs that the driver shows."""
    library, torch = nvml(), ctx.torch
    shown = len(library.devices()) if library else 0
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    details = {"shown": shown, "torch": ctx.gpus, "CUDA_VISIBLE_DEVICES": hidden}
    if ctx.gpus:
        return passed(details=details)
    if hidden in ("", "-1") or not shown:
        if ctx.device == "cuda":
            raise Fault(NO_GPU, NO_GPU_REMEDY, details=details)
        raise Skip("no GPU is given to this process", details=details)
    try:
        torch.zeros(1, device="cuda")
    except (RuntimeError, AssertionError) as error:
        why = str(error).strip().partition("\n")[0]
    else:
        why = "no reason is given"
    remedy = "compare the driver with the target's floor; in a container hand in the GPUs (--gpus all, --nv)"
    return failed("the driver shows %d GPUs and torch can use none: %s" % (shown, why), remedy, details=details)


@check("device.capability", needs="gpu")
def device_capability(ctx: Context) -> Outcome:
    """The GPUs are those of the target."""
    torch, wanted = ctx.torch, ctx.target.get("architectures", [])
    own = [tuple(torch.cuda.get_device_capability(index)) for index in range(torch.cuda.device_count())]
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    details = {"gpus": names, "capabilities": ["%d.%d" % one for one in own], "target": wanted}
    other = [name for name, one in zip(names, own) if wanted and one not in map(capability_of, wanted)]
    if not other:
        return passed(details=details)
    reason = "{}: the target is for {}".format(some(sorted(set(other))), ", ".join(wanted))
    return failed(reason, "use the target for this GPU, or lock one", details=details)


@check("device.memory", needs="gpu")
def device_memory(ctx: Context) -> Outcome:
    """GPU memory can be taken, written and read back, and nearly all of it is free."""
    torch, counts = ctx.torch, []
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        counts.append({"free_bytes": free, "total_bytes": total})
        size = min(free // 4, (64 if ctx.quick else 1024) * MIB) // 8
        written = torch.arange(size, device="cuda:%d" % index)
        if int(written.sum()) != size * (size - 1) // 2 or not torch.equal(written.cpu(), torch.arange(size)):
            return failed(
                "GPU %d doesn't give back what was written to it" % index, "look at nvidia-smi -q for ECC errors"
            )
        del written
    taken = [index for index, one in enumerate(counts) if one["free_bytes"] < one["total_bytes"] // 2]
    if taken:
        told = ", ".join(
            "GPU %d has %.1f of %.1f GiB" % (i, counts[i]["free_bytes"] / 2**30, counts[i]["total_bytes"] / 2**30)
            for i in taken
        )
        remedy = "see with nvidia-smi who uses it, and ask the scheduler for a GPU of your own"
        return failed(f"less than half of the memory is free: {told}", remedy, details={"gpus": counts})
    return passed(details={"gpus": counts})


# -- operators ------------------------------------------------------------------------------------------------------

TOLERANCES = {"fp32": 2e-5, "bf16": 2e-2, "fp16": 4e-3}
"""How far a result may be from that of float64 on the same inputs: the largest difference as a share of the largest
value. Some tens of roundings in fp32, a few in the short types (2^-8 and 2^-11 a rounding) which sum in fp32."""

BF16_SUMS = 8e-2
"""The same for bf16 on CPUs in torch 2.0, which sums in bf16 too where the CPU has no instructions for it."""


def dtype_of(torch: Any, name: str) -> Any:
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]


def exact_fp32(torch: Any) -> None:
    """No TF32: its products have 10 bits."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def matmul_case(torch: Any, make: Callable[..., Any], quick: bool) -> tuple[Callable[..., Any], list[Any]]:
    size = 192 if quick else 384
    return (lambda a, b: a @ b), [make(size, size // 2), make(size // 2, size)]


def convolution_case(torch: Any, make: Callable[..., Any], quick: bool) -> tuple[Callable[..., Any], list[Any]]:
    function = functools.partial(torch.nn.functional.conv2d, stride=2, padding=1)
    return function, [make(4, 8, 33, 29 if quick else 61), make(16, 8, 3, 3), make(16)]


def attention_case(torch: Any, make: Callable[..., Any], quick: bool) -> tuple[Callable[..., Any], list[Any]]:
    shape = (2, 4, 64 if quick else 128, 32)
    function = functools.partial(torch.nn.functional.scaled_dot_product_attention, is_causal=True)
    return function, [make(*shape), make(*shape), make(*shape)]


OPERATORS = {"matmul": matmul_case, "convolution": convolution_case, "attention": attention_case}


def farthest(torch: Any, one: Any, exact: Any) -> float:
    """The largest difference as a share of the largest value; infinite where a value is no number."""
    one = one.detach().to("cpu", torch.float64)
    if one.shape != exact.shape or not bool(torch.isfinite(one).all()):
        return math.inf
    return float((one - exact).abs().max() / exact.abs().max())


def operator(ctx: Context, name: str, precision: str) -> Outcome:
    """An operator's result and gradients, against float64 on the CPU."""
    torch, dtype = ctx.torch, dtype_of(ctx.torch, precision)
    exact_fp32(torch)
    lacking = lacks("cuda", precision) if ctx.device == "cuda" else None
    if lacking:
        raise Skip(lacking)
    made = torch.Generator().manual_seed(ctx.seed)
    function, inputs = OPERATORS[name](
        torch, lambda *shape: torch.randn(*shape, generator=made, dtype=torch.float64), ctx.quick
    )
    short = [one.to(ctx.device, dtype).requires_grad_() for one in inputs]
    # The reference starts from the rounded inputs: what is measured is the operator, not the rounding of its inputs.
    exact = [one.detach().to("cpu", torch.float64).requires_grad_() for one in short]
    try:
        result = function(*short)
        weights = torch.randn(result.shape, generator=made, dtype=torch.float64).to(dtype)
        result.backward(weights.to(ctx.device))
    except RuntimeError as error:
        if ctx.device == "cpu" and "not implemented for" in str(error):
            raise Skip(f"torch {torch.__version__} has no {name} in {precision} on CPUs") from None
        raise
    reference = function(*exact)
    reference.backward(weights.to(torch.float64))
    errors = {"result": farthest(torch, result, reference.detach())}
    for index, (one, other) in enumerate(zip(short, exact)):
        errors["gradient %d" % index] = farthest(torch, one.grad, other.grad)
    limit = TOLERANCES[precision]
    if precision == "bf16" and ctx.device == "cpu" and numbers(str(torch.__version__)) < (2, 1):
        limit = BF16_SUMS
    # A gradient is a longer chain of roundings than a result.
    wrong = [key for key, value in errors.items() if not value <= limit * (1 if key == "result" else 2)]
    details = {"errors": errors, "tolerance": limit}
    if wrong:
        worst = max(wrong, key=lambda key: errors[key])
        reason = "%s of %s in %s is off by %.2g of its largest value; %.2g is allowed"
        remedy = "this build computes wrongly on this machine: try another torch version, and report it"
        return failed(reason % (worst, name, precision, errors[worst], limit), remedy, details=details)
    return passed(details=details)


for _name in OPERATORS:
    for _precision in TOLERANCES:
        check(f"operators.{_name}.{_precision}")(functools.partial(operator, name=_name, precision=_precision))


# -- workloads ------------------------------------------------------------------------------------------------------
#
# Small models on data made from a seed. A batch is a function of the seed and its position alone, so that a run can go
# on from any position, in any process. Layers are written out where torch's own would take another path on another
# device or in another version, and only operators with a deterministic backward pass are used: hence strided
# convolutions and means in place of pooling.

Batch = Dict[str, Any]  # name -> tensor whose first dimension is the sample


def number_of(*words: object) -> int:
    """A seed made of words: the same in every process, version and machine; words that differ give unrelated seeds."""
    return int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:6], "big")


def warm_up_and_cosine(step: int, steps: int) -> float:
    """The share of the learning rate at a step: up over the first tenth, then down a half cosine to a tenth."""
    warm = max(1, steps // 10)
    if step < warm:
        return (step + 1) / warm
    return 0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, (step - warm) / max(1, steps - warm))))


def fall(losses: Sequence[float]) -> float:
    """By which share of the first losses the last ones are lower; a tenth of the run is first, a tenth is last."""
    few = max(1, len(losses) // 10)
    first, last = sum(losses[:few]) / few, sum(losses[-few:]) / few
    return (first - last) / abs(first) if first else 0.0


def stated_fall(falls: float, enough: int, steps: int) -> float:
    """The share by which a run of so many steps has to lower its loss: less than `falls` if it is short of `enough`."""
    return falls * min(1.0, steps / enough)


def layer_of(name: str, depth: int) -> int:
    """How deep a parameter of a transformer lies: 0 for what embeds, depth + 1 for what follows the last block."""
    words = name.split(".")
    if words[0] == "blocks":
        return int(words[1]) + 1
    return depth + 1 if words[0].startswith(("head", "norm")) else 0


class Workload:
    """What is trained: a model, its data, its loss, and by how much the loss has to fall.

    `loss(model, batch)` is all that a trainer calls in a step; `batches(seed, position, steps)` gives what is left of
    the data from a position on.
    """

    name = ""
    batch = 32  # samples in a step on a CPU
    on_gpu = 8  # so many times as many on a GPU
    accumulate = 1  # parts of a batch that go through the model one by one
    rate = 1e-3
    falls = 0.5  # the loss falls by this share within `enough` steps
    enough = 50
    native = "fp32"  # what it's commonly trained in: determinism and resuming are checked so
    unused = False  # whether a step may leave parameters without a gradient

    def model(self, seed: int) -> Any:
        raise NotImplementedError

    def world(self, seed: int) -> Batch:
        """What all batches have in common and a model can learn."""
        raise NotImplementedError

    def sample(self, world: Batch, seed: int, position: int, count: int) -> Batch:
        raise NotImplementedError

    def batches(self, seed: int, position: int, steps: int, count: int, cuda: bool) -> Iterator[Batch]:
        world = self.world(seed)
        for at in range(position, steps):
            yield self.sample(world, seed, at, count)

    def loss(self, model: Any, batch: Batch) -> Any:
        raise NotImplementedError

    def groups(self, model: Any) -> List[Dict[str, Any]]:
        """The optimizer's groups of parameters."""
        return [{"params": [p for p in model.parameters() if p.requires_grad], "lr": self.rate}]

    def optimizer(self, model: Any) -> Any:
        return the_torch().optim.AdamW(self.groups(model), lr=self.rate, weight_decay=0.01)


def the_torch() -> Any:
    return importlib.import_module("torch")


def generator(*words: object) -> Any:
    return the_torch().Generator().manual_seed(number_of(*words))


@functools.lru_cache(maxsize=None)
def layers() -> Any:
    """The layers that workloads share. Made late: nothing here may need torch before a check runs."""
    torch = the_torch()
    nn: Any = torch.nn
    F: Any = nn.functional

    class Attention(nn.Module):  # type: ignore[misc]
        """Attention of x to itself or to a memory, with rotary positions or none."""

        def __init__(self, width: int, heads: int, *, causal: bool = False, rotary: int = 0) -> None:
            super().__init__()
            self.heads, self.causal, self.rotary = heads, causal, rotary
            self.query, self.key_value = nn.Linear(width, width), nn.Linear(width, 2 * width)
            self.out = nn.Linear(width, width)
            if rotary:
                half = width // heads // 2
                turns = torch.outer(torch.arange(rotary).float(), 10000.0 ** (-torch.arange(half).float() / half))
                self.register_buffer("cosine", turns.cos(), persistent=False)
                self.register_buffer("sine", turns.sin(), persistent=False)

        def split(self, x: Any) -> Any:
            return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        def turn(self, x: Any) -> Any:
            cosine, sine = self.cosine[: x.shape[-2]], self.sine[: x.shape[-2]]
            one, two = x.float().chunk(2, dim=-1)
            return torch.cat((one * cosine - two * sine, two * cosine + one * sine), dim=-1).to(x.dtype)

        def forward(self, x: Any, memory: Any = None) -> Any:
            key, value = self.key_value(x if memory is None else memory).chunk(2, dim=-1)
            query, key, value = self.split(self.query(x)), self.split(key), self.split(value)
            if self.rotary:
                query, key = self.turn(query), self.turn(key)
            found = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
            return self.out(found.transpose(1, 2).flatten(2))

    class Block(nn.Module):  # type: ignore[misc]
        """A transformer's block, normalised first."""

        def __init__(self, width: int, heads: int, *, dropout: float = 0.0, **attention: Any) -> None:
            super().__init__()
            self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = Attention(width, heads, **attention)
            self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            self.dropout = nn.Dropout(dropout)

        def forward(self, x: Any, memory: Any = None) -> Any:
            x = x + self.dropout(self.attention(self.one(x), memory))
            return x + self.dropout(self.feed(self.two(x)))

    return types.SimpleNamespace(nn=nn, F=F, Attention=Attention, Block=Block)


@workload("basic")
class Basic(Workload):
    """A convolution over images and a perceptron over rows of figures, joined: 10 classes."""

    name = "basic"
    batch = 64
    rate = 0.1
    falls = 0.6

    def model(self, seed: int) -> Any:
        nn = layers().nn

        class Joined(nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.image = nn.Sequential(
                    nn.Conv2d(3, 16, 3, stride=2, padding=1),
                    nn.BatchNorm2d(16),
                    nn.ReLU(),
                    nn.Conv2d(16, 32, 3, stride=2, padding=1),
                    nn.BatchNorm2d(32),
                    nn.ReLU(),
                )
                self.row = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 32), nn.ReLU())
                self.head = nn.Linear(64, 10)

            def forward(self, image: Any, row: Any) -> Any:
                seen = self.image(image).mean(dim=(2, 3))
                return self.head(the_torch().cat((seen, self.row(row)), dim=1))

        return Joined()

    def world(self, seed: int) -> Batch:
        torch, drawn = the_torch(), generator(seed, self.name, "world")
        return {"image": torch.randn(10, 3, 32, 32, generator=drawn), "row": torch.randn(10, 16, generator=drawn)}

    def sample(self, world: Batch, seed: int, position: int, count: int) -> Batch:
        torch, drawn = the_torch(), generator(seed, self.name, position)
        label = torch.randint(10, (count,), generator=drawn)
        image = world["image"][label] + 0.5 * torch.randn(count, 3, 32, 32, generator=drawn)
        row = world["row"][label] + 0.5 * torch.randn(count, 16, generator=drawn)
        return {"image": image, "row": row, "label": label}

    def loss(self, model: Any, batch: Batch) -> Any:
        found = model(batch["image"], batch["row"])
        return the_torch().nn.functional.cross_entropy(found.float(), batch["label"])

    def optimizer(self, model: Any) -> Any:
        return the_torch().optim.SGD(self.groups(model), lr=self.rate, momentum=0.9, weight_decay=1e-4)


class Pairs:
    """What a DataLoader reads: sample i of a multimodal set. At the top level, so that workers can be spawned."""

    def __init__(self, world: Batch, seed: int, length: int) -> None:
        self.world, self.seed, self.length = world, seed, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Batch:
        torch, drawn = the_torch(), generator(self.seed, "pairs", index)
        # An odd factor: neighbours, and so the samples of a batch, are all of different kinds.
        kind = (index * 37 + self.seed) % len(self.world["text"])
        noise = {name: torch.randn(self.world[name].shape[1:], generator=drawn) for name in ("image", "video")}
        wrong = torch.rand(self.world["text"].shape[1], generator=drawn) < 0.1
        text = torch.where(wrong, torch.randint(64, wrong.shape, generator=drawn), self.world["text"][kind])
        return {"text": text, **{name: self.world[name][kind] + 0.3 * noise[name] for name in noise}}


def seed_worker(worker: int) -> None:
    """Seeds a DataLoader's worker: python's generator too, which torch leaves alone in its older versions."""
    random.seed(the_torch().initial_seed())


@workload("multimodal")
class Multimodal(Workload):
    """Encoders of text, images and video, attention across them, a contrastive loss; read by workers."""

    name = "multimodal"
    batch = 32
    on_gpu = 4
    rate = 3e-3
    falls = 0.3
    native = "bf16"
    kinds = 128  # no fewer than a batch has samples
    width = 64

    def model(self, seed: int) -> Any:
        torch, parts = the_torch(), layers()
        nn, width = parts.nn, self.width
        checkpoint = importlib.import_module("torch.utils.checkpoint").checkpoint

        class Encoder(nn.Module):  # type: ignore[misc,name-defined]
            """Patches or words -> a row of vectors; its blocks' activations are computed again when going back."""

            def __init__(self, embed: Any, length: int) -> None:
                super().__init__()
                self.embed = embed
                self.position = nn.Parameter(torch.randn(length, width) * 0.02)
                self.blocks = nn.ModuleList([parts.Block(width, 4, dropout=0.05) for _ in range(2)])

            def forward(self, x: Any) -> Any:
                x = self.embed(x)
                x = (x if x.ndim == 3 else x.flatten(2).transpose(1, 2)) + self.position
                for block in self.blocks:
                    x = checkpoint(block, x, use_reentrant=False)
                return x

        class Three(nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.text = Encoder(nn.Embedding(64, width), 16)
                self.image = Encoder(nn.Conv2d(3, width, 8, stride=8), 16)
                self.video = Encoder(nn.Conv3d(3, width, (2, 8, 8), stride=(2, 8, 8)), 8)
                self.cross = parts.Block(width, 4)
                self.out = nn.ModuleDict({name: nn.Linear(width, 64) for name in ("text", "image", "video", "cross")})
                self.scale = nn.Parameter(torch.tensor(2.0))

            def forward(self, text: Any, image: Any, video: Any) -> Any:
                rows = {"text": self.text(text), "image": self.image(image), "video": self.video(video)}
                rows["cross"] = self.cross(rows["image"], rows["video"])
                found = {name: self.out[name](row.mean(dim=1)).float() for name, row in rows.items()}
                return {name: nn.functional.normalize(row, dim=-1) for name, row in found.items()}, self.scale.exp()

        return Three()

    def world(self, seed: int) -> Batch:
        torch, drawn = the_torch(), generator(seed, self.name, "world")
        return {
            "text": torch.randint(64, (self.kinds, 16), generator=drawn),
            "image": torch.randn(self.kinds, 3, 32, 32, generator=drawn),
            "video": torch.randn(self.kinds, 3, 4, 16, 16, generator=drawn),
        }

    def batches(self, seed: int, position: int, steps: int, count: int, cuda: bool) -> Iterator[Batch]:
        loader = the_torch().utils.data.DataLoader(
            Pairs(self.world(seed), seed, steps * count),
            batch_size=count,
            sampler=range(position * count, steps * count),
            num_workers=2,
            prefetch_factor=2,
            pin_memory=cuda,
            worker_init_fn=seed_worker,
            generator=generator(seed, "workers"),  # else the loader draws from, and so moves, the global one
        )
        return iter(loader)

    def loss(self, model: Any, batch: Batch) -> Any:
        torch = the_torch()
        found, scale = model(batch["text"], batch["image"], batch["video"])
        label = torch.arange(len(batch["text"]), device=batch["text"].device)
        total = 0.0
        for other in ("image", "video", "cross"):
            close = scale * found["text"] @ found[other].t()
            for rows in (close, close.t()):
                total = total + torch.nn.functional.cross_entropy(rows.float(), label) / 6
        return total


@workload("llm")
class Llm(Workload):
    """A decoder with rotary positions and causal attention, over sequences in which each word follows from two."""

    name = "llm"
    batch = 16
    accumulate = 2
    rate = 3e-3
    falls = 0.4
    native = "bf16"
    words = 64
    length = 32

    def model(self, seed: int) -> Any:
        torch, parts = the_torch(), layers()
        nn, words, length = parts.nn, self.words, self.length

        class Decoder(nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.embed = nn.Embedding(words, 96)
                self.blocks = nn.ModuleList(
                    [parts.Block(96, 4, dropout=0.05, causal=True, rotary=length) for _ in range(2)]
                )
                self.norm = nn.LayerNorm(96)
                nn.init.normal_(self.embed.weight, std=0.05)

            def forward(self, text: Any) -> Any:
                x = self.embed(text)
                for block in self.blocks:
                    x = block(x)
                return torch.nn.functional.linear(self.norm(x), self.embed.weight)

        return Decoder()

    def world(self, seed: int) -> Batch:
        return {"next": the_torch().randperm(self.words, generator=generator(seed, self.name, "world"))}

    def sample(self, world: Batch, seed: int, position: int, count: int) -> Batch:
        torch, drawn = the_torch(), generator(seed, self.name, position)
        columns = [torch.randint(self.words, (count,), generator=drawn)]
        wrong = torch.rand(self.length, count, generator=drawn) < 0.05
        other = torch.randint(self.words, (self.length, count), generator=drawn)
        for at in range(self.length):
            columns.append(torch.where(wrong[at], other[at], world["next"][columns[-1]]))
        return {"text": torch.stack(columns, dim=1)}

    def loss(self, model: Any, batch: Batch) -> Any:
        found = model(batch["text"][:, :-1])
        return the_torch().nn.functional.cross_entropy(found.float().flatten(0, 1), batch["text"][:, 1:].flatten())


@workload("deit")
class Deit(Workload):
    """A vision transformer with a class and a distillation token; its teacher knows the classes' images."""

    name = "deit"
    batch = 32
    rate = 2e-3
    falls = 0.5
    native = "fp16"
    depth = 3
    decay = 0.8  # of the learning rate, from a layer to the one before

    def model(self, seed: int) -> Any:
        torch, parts = the_torch(), layers()
        nn, depth, known = parts.nn, self.depth, self.world(seed)["image"].flatten(1)

        class Student(nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("known", known)
                self.patches = nn.Conv2d(3, 96, 8, stride=8)
                self.tokens = nn.Parameter(torch.randn(1, 2, 96) * 0.02)
                self.position = nn.Parameter(torch.randn(1, 18, 96) * 0.02)
                self.blocks = nn.ModuleList([parts.Block(96, 4, dropout=0.05) for _ in range(depth)])
                self.norm = nn.LayerNorm(96)
                self.head, self.head_distilled = nn.Linear(96, 10), nn.Linear(96, 10)

            @torch.no_grad()  # type: ignore[untyped-decorator]
            def teacher(self, image: Any) -> Any:
                return (image.flatten(1).float() @ self.known.t()).argmax(dim=1)

            def forward(self, image: Any) -> Any:
                x = self.patches(image).flatten(2).transpose(1, 2)
                x = torch.cat((self.tokens.expand(len(x), -1, -1), x), dim=1) + self.position
                for block in self.blocks:
                    x = block(x)
                x = self.norm(x)
                return self.head(x[:, 0]), self.head_distilled(x[:, 1]), self.teacher(image)

        return Student()

    def world(self, seed: int) -> Batch:
        return {"image": the_torch().randn(10, 3, 32, 32, generator=generator(seed, self.name, "world"))}

    def sample(self, world: Batch, seed: int, position: int, count: int) -> Batch:
        torch, drawn = the_torch(), generator(seed, self.name, position)
        label = torch.randint(10, (count,), generator=drawn)
        noise = torch.randn(count, 3, 32, 32, generator=drawn)
        return {"image": world["image"][label] + 0.3 * noise, "label": label}

    def loss(self, model: Any, batch: Batch) -> Any:
        F = the_torch().nn.functional
        own, distilled, taught = model(batch["image"])
        return (F.cross_entropy(own.float(), batch["label"]) + F.cross_entropy(distilled.float(), taught)) / 2

    def groups(self, model: Any) -> List[Dict[str, Any]]:
        found: Dict[Tuple[int, bool], List[Any]] = {}
        for name, parameter in model.named_parameters():
            found.setdefault((layer_of(name, self.depth), parameter.ndim > 1), []).append(parameter)
        return [
            {
                "params": parameters,
                "lr": self.rate * self.decay ** (self.depth + 1 - layer),
                "weight_decay": 0.05 if decays else 0.0,
            }
            for (layer, decays), parameters in sorted(found.items(), key=lambda item: item[0])
        ]


@workload("dynamic")
class Dynamic(Workload):
    """Sequences of unlike lengths through a cell that stops when all have ended, then to the expert each asks for.

    No dropout and no normalisation over the batch: DataParallel's and DDP's losses are to be equal, and those would
    make them differ by right.
    """

    name = "dynamic"
    batch = 32
    rate = 4e-3
    falls = 0.5
    unused = True
    length = 24

    def model(self, seed: int) -> Any:
        torch, nn = the_torch(), layers().nn

        class Routed(nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.cell = nn.GRUCell(16, 96)
                self.experts = nn.ModuleList(
                    [nn.Sequential(nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10)) for _ in range(4)]
                )

            def forward(self, rows: Any, lengths: Any, expert: Any) -> Any:
                state = rows.new_zeros(len(rows), 96)
                for at in range(int(lengths.max())):
                    goes_on = (lengths > at).unsqueeze(1)
                    state = torch.where(goes_on, self.cell(rows[:, at], state).to(state.dtype), state)
                found = state.new_zeros(len(rows), 10)
                for number, layer in enumerate(self.experts):
                    chosen = (expert == number).nonzero().squeeze(1)
                    if len(chosen):
                        found = found.index_copy(0, chosen, layer(state[chosen]).to(found.dtype))
                return found

        return Routed()

    def world(self, seed: int) -> Batch:
        return {"row": the_torch().randn(10, 16, generator=generator(seed, self.name, "world"))}

    def sample(self, world: Batch, seed: int, position: int, count: int) -> Batch:
        torch, drawn = the_torch(), generator(seed, self.name, position)
        label = torch.randint(10, (count,), generator=drawn)
        noise = torch.randn(count, self.length, 16, generator=drawn)
        # Of three steps in four the last expert gets nothing to do: its parameters have no gradient then.
        expert = torch.randint(4 if position % 4 == 0 else 3, (count,), generator=drawn)
        return {
            "rows": world["row"][label].unsqueeze(1) + noise,
            "lengths": torch.randint(4, self.length + 1, (count,), generator=drawn),
            "expert": expert,
            "label": label,
        }

    def loss(self, model: Any, batch: Batch) -> Any:
        found = model(batch["rows"], batch["lengths"], batch["expert"])
        return the_torch().nn.functional.cross_entropy(found.float(), batch["label"])


# The trainer: one for all workloads.


@dataclass(frozen=True)
class Training:
    """Which training: equal ones, on one machine, are to end bitwise equal."""

    workload: str
    steps: int
    seed: int
    device: str  # "cpu" or "cuda"
    precision: str  # "fp32", "bf16" or "fp16"
    exact: bool = False  # deterministic algorithms only


PARTS = ("model", "optimizer", "scheduler", "scaler", "rng", "position", "losses")
"""What a checkpoint holds."""


def fp16_scaler(device: str) -> Any:
    """A scaler of gradients for fp16, of whichever class this torch has. None where it has none for the device."""
    torch = the_torch()
    # Small and soon growing: short runs lose no step to the search for the scale, and its state changes within them.
    options = {"init_scale": 2.0**10, "growth_interval": 8}
    if hasattr(torch.amp, "GradScaler"):  # from torch 2.3
        return torch.amp.GradScaler(device, **options)
    return torch.cuda.amp.GradScaler(**options) if device == "cuda" else None


@functools.lru_cache(maxsize=None)
def lacks(device: str, precision: str) -> Optional[str]:
    """Why this torch can't train in a precision on a device, or None."""
    torch = the_torch()
    if precision == "fp32":
        return None
    if device == "cuda":
        return "the GPU has no bf16" if precision == "bf16" and not torch.cuda.is_bf16_supported() else None
    if precision == "bf16":
        return None
    if fp16_scaler(device) is None:
        return "torch %s has no gradient scaler for a CPU" % torch.__version__
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an autocast to a dtype that it doesn't know only warns, and does nothing
            with torch.autocast("cpu", dtype=torch.float16):
                layer = torch.nn.Linear(8, 8)
                layer(torch.ones(2, 8)).float().sum().backward()
                found = torch.nn.Conv2d(1, 1, 2)(torch.ones(1, 1, 4, 4))
    except (RuntimeError, UserWarning) as error:
        return "torch %s can't do fp16 on a CPU: %s" % (torch.__version__, str(error).splitlines()[0])
    return None if found.dtype == torch.float16 else "torch %s has no fp16 autocast on a CPU" % torch.__version__


def native_precision(workload: str, device: str) -> str:
    """What a workload is commonly trained in; where that can't be done here bf16, else fp32."""
    preferred = WORKLOADS[workload].native, "bf16", "fp32"
    return next(precision for precision in preferred if lacks(device, precision) is None)


def be_exact() -> None:
    """From now on only algorithms that give the same bits for the same input. Before the first use of a GPU."""
    torch = the_torch()
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    # Not every version's fused attention has a deterministic backward pass, and not each of those without says so.
    for kind in ("flash", "mem_efficient", "cudnn"):
        getattr(torch.backends.cuda, "enable_%s_sdp" % kind, lambda on: None)(False)


class Trainer:
    """One training, from its start or from a checkpoint, alone or as one rank of several that share each batch."""

    def __init__(self, training: Training, rank: int = 0, ranks: int = 1) -> None:
        torch = the_torch()
        self.training, self.rank, self.ranks = training, rank, ranks
        self.workload = WORKLOADS[training.workload]()
        # Such small models gain nothing from threads, and lose a lot where others use the CPUs too.
        torch.set_num_threads(1)
        if training.exact:
            be_exact()
        random.seed(training.seed)
        torch.manual_seed(training.seed)  # of all devices
        cuda = training.device == "cuda"
        self.device = torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")
        self.count = self.workload.batch * (self.workload.on_gpu if cuda else 1)
        self.model = self.workload.model(training.seed).to(self.device)
        self.called = self.model  # what a step calls: the model itself, or what DDP or DataParallel make of it
        self.optimizer = self.workload.optimizer(self.model)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, functools.partial(warm_up_and_cosine, steps=training.steps)
        )
        self.scaler = fp16_scaler(training.device) if training.precision == "fp16" else None
        self.position = 0
        self.losses: List[float] = []
        self.seconds: List[float] = []
        if ranks > 1:
            torch.manual_seed(number_of(training.seed, "rank", rank))  # ranks drop out differently

    def run(self, until: int, pauses: dict[int, Callable[[], None]] | None = None) -> None:
        """Train up to a position; stops at once when a loss isn't finite. `pauses` are called at their positions."""
        training, cuda = self.training, self.training.device == "cuda"
        batches = self.workload.batches(training.seed, self.position, until, self.count, cuda)
        began = time.perf_counter()
        for batch in batches:
            mine = {name: rows[self.rank :: self.ranks] for name, rows in batch.items()}
            there = {name: rows.to(self.device, non_blocking=True) for name, rows in mine.items()}
            self.losses.append(self.step(there))
            self.position += 1
            ended = time.perf_counter()
            self.seconds.append(ended - began)
            if not math.isfinite(self.losses[-1]):
                break
            if pauses and self.position in pauses:
                pauses[self.position]()
            began = time.perf_counter()

    def step(self, batch: Batch) -> float:
        torch, parts = the_torch(), self.workload.accumulate
        self.optimizer.zero_grad(set_to_none=True)
        losses = []
        for part in range(parts):
            last = part == parts - 1
            # DDP sums the ranks' gradients once a step, not once a part.
            quiet = contextlib.nullcontext() if last or self.called is self.model else no_sync(self.called)
            with quiet:
                with self.autocast():
                    loss = self.workload.loss(self.called, {name: rows[part::parts] for name, rows in batch.items()})
                losses.append(loss.detach())
                loss = loss / parts
                (self.scaler.scale(loss) if self.scaler else loss).backward()
        if self.scaler:
            self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        self.scheduler.step()
        return float(torch.stack(losses).mean())  # waits for the device, so that the step's time is its own

    def autocast(self) -> Any:
        torch, precision = the_torch(), self.training.precision
        if precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.training.device, dtype={"bf16": torch.bfloat16, "fp16": torch.float16}[precision])

    def state(self) -> Dict[str, Any]:
        """All that the rest of the training depends on; its keys are PARTS."""
        torch, cuda = the_torch(), self.training.device == "cuda"
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict() if self.scaler else {},
            "rng": {
                "python": random.getstate(),
                "cpu": torch.get_rng_state(),
                "cuda": torch.cuda.get_rng_state() if cuda else None,
            },
            "position": self.position,
            "losses": list(self.losses),
        }

    def save(self, path: Path) -> None:
        the_torch().save(self.state(), str(path))

    def load(self, path: Path) -> None:
        """Go on from where a checkpoint was made."""
        torch = the_torch()
        state = torch.load(str(path), map_location="cpu", weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        if self.scaler:
            self.scaler.load_state_dict(state["scaler"])
        self.position, self.losses = state["position"], list(state["losses"])
        random.setstate(state["rng"]["python"])
        torch.set_rng_state(state["rng"]["cpu"])
        if state["rng"]["cuda"] is not None:
            torch.cuda.set_rng_state(state["rng"]["cuda"])


def no_sync(model: Any) -> Any:
    return model.no_sync() if hasattr(model, "no_sync") else contextlib.nullcontext()


def digest(value: Any) -> str:
    """A digest of tensors and plain values, nested at will: equal if, and only if, they are equal bit by bit."""
    found = hashlib.sha256()
    for piece in pieces(value):
        found.update(b"%d:" % len(piece))
        found.update(piece)
    return found.hexdigest()


def pieces(value: Any) -> Iterator[bytes]:
    """What a digest is made of. A mapping's keys are taken in order: that of a saved one may be another."""
    if hasattr(value, "untyped_storage") or hasattr(value, "data_ptr"):
        held = value.detach().cpu().contiguous()
        yield ("%s %s" % (held.dtype, tuple(held.shape))).encode()
        # Neither numpy, which may be missing, nor a Python number for each byte, which takes seconds.
        yield ctypes.string_at(held.data_ptr(), held.numel() * held.element_size()) if held.numel() else b""
    elif isinstance(value, dict):
        yield b"{%d" % len(value)
        for key in sorted(value, key=repr):
            yield repr(key).encode()
            yield from pieces(value[key])
    elif isinstance(value, (list, tuple)):
        yield b"[%d" % len(value)
        for item in value:
            yield from pieces(item)
    else:
        yield repr(value).encode()  # a float's repr tells it from every other


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that at least this share of them doesn't exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def peak_memory(device: str) -> int:
    """The most memory that was held so far, in bytes: on the GPU by tensors, else by this process."""
    if device == "cuda":
        return int(the_torch().cuda.max_memory_allocated())
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024


# -- training -------------------------------------------------------------------------------------------------------

NOT_FINITE = "see which operators check fails; a kernel that gives NaN is most often a build for another architecture"
NOT_FALLING = "see the operators checks; with other steps than the spec's, give --steps more"


def judge_losses(losses: Sequence[float], precision: str, falls: float, enough: int, steps: int) -> Outcome | None:
    """What is wrong with the losses of a training, or None."""
    for at, loss in enumerate(losses, 1):
        if not math.isfinite(loss):
            return failed("the loss is %s at step %d of %d (%s)" % (loss, at, steps, precision), NOT_FINITE)
    if len(losses) < steps:
        return failed("the training ended after %d of %d steps (%s)" % (len(losses), steps, precision))
    fell, least = fall(losses), stated_fall(falls, enough, steps)
    if fell < least:
        reason = "the loss fell by %.1f %% in %d steps, not by %.1f %% (%s): %.4g to %.4g"
        shares = 100 * fell, steps, 100 * least
        return failed(reason % (*shares, precision, losses[0], losses[-1]), NOT_FALLING)
    return None


def training_in(ctx: Context, precision: str) -> Outcome:
    """Train the workload: its loss stays finite and falls by the stated share."""
    lacking = lacks(ctx.device, precision)
    if lacking:
        return skipped(lacking)
    trainer = Trainer(Training(ctx.workload, ctx.steps, ctx.seed, ctx.device, precision))
    trainer.run(ctx.steps)
    made, losses = trainer.workload, trainer.losses
    curves = {"training.%s" % precision: losses}
    details: dict[str, Any] = {"steps": len(losses), "batch": trainer.count, "fall": fall(losses)}
    details["least_fall"] = stated_fall(made.falls, made.enough, ctx.steps)
    wrong = judge_losses(losses, precision, made.falls, made.enough, ctx.steps)
    if wrong:
        return wrong._replace(details=details, curves=curves)
    # The first steps also choose algorithms and fill caches.
    taken = trainer.seconds[max(1, ctx.steps // 10) :] or trainer.seconds
    name = "training" if precision == "fp32" else "training.%s" % precision
    figures = [("%s.samples_per_s" % name, trainer.count * len(taken) / sum(taken), "samples/s")]
    for share in (50, 90, 99):
        figures.append(("%s.step_ms.p%d" % (name, share), 1000 * percentile(taken, share / 100), "ms"))
    figures.append(("%s.peak_memory" % name, peak_memory(ctx.device), "B"))
    return passed(details=details, figures=figures, curves=curves)


for _precision in ("fp32", "bf16", "fp16"):
    check("training.%s" % _precision)(functools.partial(training_in, precision=_precision))


DDP_STEPS = 20
SHARED = ("llm", "dynamic")
"""The workloads that are trained by several processes too."""


@internal("rank")
def train_rank(ctx: Context, backend: str, steps: str) -> int:
    """One rank of a training under torchrun, which says by the environment which one it is."""
    torch, dist = ctx.torch, importlib.import_module("torch.distributed")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = "cuda" if backend == "nccl" else "cpu"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=max(5.0, ctx.timeout * 0.6)))
    trainer = Trainer(Training(ctx.workload, int(steps), ctx.seed, device, "fp32"), rank, world)
    trainer.called = torch.nn.parallel.DistributedDataParallel(
        trainer.model,
        device_ids=[trainer.device] if device == "cuda" else None,
        find_unused_parameters=trainer.workload.unused,
    )
    trainer.run(int(steps))
    found = {"losses": trainer.losses, "weights": digest(trainer.model.state_dict()), "batch": trainer.count}
    write_whole(str(ctx.scratch / ("rank-%d.json" % rank)), json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()
    return 0


def under_torchrun(ctx: Context, world: int, *words: str) -> Ended:
    """Run an internal command in as many processes as there are ranks. Raises Fault when they take too long."""
    # The loopback address throughout: in a container the host's name often has no address.
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", "--nproc_per_node=%d" % world]
    command += ["--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:0", "--local_addr=127.0.0.1"]
    limit = ctx.timeout * 0.8
    try:
        done = subprocess.run(
            [*command, *ctx.again(*words)[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"GLOO_SOCKET_IFNAME": "lo", **os.environ},
            cwd=str(ctx.scratch),
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        print((error.stdout or b"").decode("utf-8", "replace"))
        raise Fault("torchrun hadn't ended after %g s" % limit, "its last words say where its ranks wait") from None
    return Ended(done.returncode, done.stdout.decode("utf-8", "replace"))


def whole_batches(ctx: Context, device: str, steps: int) -> list[float]:
    """The losses of a training of one process, whose DataParallel splits each batch among the GPUs."""
    torch = ctx.torch
    trainer = Trainer(Training(ctx.workload, steps, ctx.seed, device, "fp32"))
    if device == "cuda":
        trainer.called = torch.nn.DataParallel(trainer.model, list(range(even_ranks(ctx.gpus))))
    elif not torch.cuda.is_available():  # else it would take the GPUs
        trainer.called = torch.nn.DataParallel(trainer.model)
    trainer.run(steps)
    return trainer.losses


def on_the_cpu(ctx: Context, backend: str) -> str | None:
    """What to say of ranks that ran on the CPU where the report is about a GPU; None where there is nothing to say."""
    if ctx.device == "cpu" or backend == "nccl":
        return None
    return "on the CPU, by Gloo: there is %s" % ("one GPU" if ctx.gpus else "no GPU")


def even_ranks(gpus: int) -> int:
    """The most ranks that share a batch evenly; all batches are powers of two."""
    return 1 << (gpus.bit_length() - 1)


def apart(one: Sequence[float], other: Sequence[float]) -> float:
    """The greatest relative difference of two rows of losses; infinite when one is shorter or they aren't numbers."""
    if len(one) != len(other) or not all(map(math.isfinite, (*one, *other))):
        return math.inf
    return max((abs(a - b) / max(abs(a), abs(b), 1e-12) for a, b in zip(one, other)), default=0.0)


@check("training.ddp")
def training_ddp(ctx: Context) -> Outcome:
    """Train under torchrun: the loss falls and the ranks stay equal; `dynamic` trains as DataParallel does."""
    if ctx.workload not in SHARED:
        return skipped("%s is trained by one process; %s by several" % (ctx.workload, " and ".join(SHARED)))
    backend, world = ("nccl", even_ranks(ctx.gpus)) if ctx.gpus > 1 else ("gloo", 2)
    where = on_the_cpu(ctx, backend)
    steps, made = min(ctx.steps, DDP_STEPS), WORKLOADS[ctx.workload]()
    ended = under_torchrun(ctx, world, "rank", backend, str(steps))
    if ended.code:
        print(ended.output)
        return failed("torchrun ended with status %d" % ended.code, "its last words name the rank that failed first")
    ranks = [json.loads((ctx.scratch / ("rank-%d.json" % rank)).read_text()) for rank in range(world)]
    losses = [sum(row) / world for row in zip(*(one["losses"] for one in ranks))]
    details: dict[str, Any] = {"backend": backend, "ranks": world, "steps": steps, "fall": fall(losses)}
    curves = {"training.ddp": losses}
    wrong = judge_losses(losses, "DDP", made.falls, made.enough, steps)
    if wrong:
        return wrong._replace(details=details, curves=curves)
    if len({one["weights"] for one in ranks}) > 1:
        reason = "the ranks have different weights after %d steps" % steps
        return failed(reason, "see the collectives checks; NCCL_DEBUG=INFO tells more", details=details, curves=curves)
    if ctx.workload == "dynamic":
        # Once weights have moved far, rounding has too: the first steps are compared.
        few = min(steps, 8)
        whole = whole_batches(ctx, "cuda" if backend == "nccl" else "cpu", steps)[:few]
        details["data_parallel"] = apart(whole, losses[:few])
        if details["data_parallel"] > 1e-3:
            reason = "the losses of DataParallel and DDP differ by up to %.3g (relative), more than 0.001"
            remedy = "gradients are lost or counted twice; see the collectives checks"
            return failed(reason % details["data_parallel"], remedy, details=details, curves=curves)
    return passed(reason=where, details=details, curves=curves)


# -- determinism ----------------------------------------------------------------------------------------------------

EXACT_STEPS = 24


class Run(NamedTuple):
    """What a training ended with: equal only if it went the same way bit by bit.

    `parts` are digests by the names of PARTS, `half` those at half way or, of a resumed run, of what it loaded.
    """

    precision: str
    losses: List[str]
    parts: Dict[str, str]
    half: Dict[str, str]

    @classmethod
    def read(cls, path: Path) -> Run:
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def digests(trainer: Trainer) -> dict[str, str]:
    return {name: digest(part) for name, part in trainer.state().items()}


def run_exactly(ctx: Context, name: str, save: bool = False, load: bool = False) -> None:
    """Train with deterministic algorithms, and leave a Run under the name in the scratch folder.

    Saves a checkpoint at half way, or goes on from that.
    """
    precision, steps = native_precision(ctx.workload, ctx.device), exact_steps(ctx)
    trainer = Trainer(Training(ctx.workload, steps, ctx.seed, ctx.device, precision, exact=True))
    checkpoint, half = ctx.scratch / "half.pt", {}
    if load:
        trainer.load(checkpoint)
        half = digests(trainer)

    def pause() -> None:
        trainer.save(checkpoint)
        half.update(digests(trainer))

    trainer.run(steps, {half_way(steps): pause} if save else {})
    run = Run(precision, [loss.hex() for loss in trainer.losses], digests(trainer), half)
    write_whole(str(ctx.scratch / name), json.dumps(run._asdict()))


def exact_steps(ctx: Context) -> int:
    """What differs once differs soon: four trainings needn't be as long as one whose loss is to fall."""
    return min(ctx.steps, EXACT_STEPS)


def half_way(steps: int) -> int:
    return max(1, steps // 2)


def in_fork(ctx: Context, name: str, save: bool = False, load: bool = False) -> Run:
    """`run_exactly` in a process forked from this one, which must not have used torch. Raises Fault when it fails."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        with Leaving():
            run_exactly(ctx, name, save=save, load=load)
    _, status = os.waitpid(pid, 0)
    if status:
        raise Fault("the training %s" % ending(status), "see the training checks; its last words say where it ended")
    return Run.read(ctx.scratch / name)


@internal("resume")
def resume(ctx: Context, name: str) -> int:
    run_exactly(ctx, name, load=True)
    return 0


def first_difference(one: Run, other: Run) -> str | None:
    """How two runs that should be equal differ, or None."""
    if one.precision != other.precision:
        return "one is in %s, the other in %s" % (one.precision, other.precision)
    for step, (a, b) in enumerate(zip(one.losses, other.losses), 1):
        if a != b:
            numbers = float.fromhex(a), float.fromhex(b)
            return "their losses differ from step %d on (%.9g, %.9g)" % (step, *numbers)
    if len(one.losses) != len(other.losses):
        return "one ended after %d steps, the other after %d" % (len(one.losses), len(other.losses))
    differing = [name for name in PARTS if one.parts[name] != other.parts[name]]
    return "they end with equal losses, but the state differs in: %s" % ", ".join(differing) if differing else None


@check("determinism.repeat")
def determinism_repeat(ctx: Context) -> Outcome:
    """The same training in two processes ends bitwise equal: losses, weights, optimizer."""
    one, other = in_fork(ctx, "one.json"), in_fork(ctx, "other.json")
    details = {"precision": one.precision, "steps": len(one.losses), "weights": one.parts["model"]}
    found = first_difference(one, other)
    if found:
        remedy = "look for an operator without a deterministic algorithm, and for what else uses the machine's memory"
        return failed("two runs of one training with one seed aren't equal: %s" % found, remedy, details=details)
    return passed(details=details)


@check("determinism.resume")
def determinism_resume(ctx: Context) -> Outcome:
    """A checkpoint of half way, gone on from in a new process, ends bitwise as the run that was never interrupted.
    Where time is short that process is a fork, which needn't import torch; else an interpreter of its own."""
    whole = in_fork(ctx, "whole.json", save=True)
    if ctx.quick:
        resumed = in_fork(ctx, "resumed.json", load=True)
    else:
        ended = ctx.run_again("resume", "resumed.json", timeout=ctx.timeout * 0.8)
        if ended.code:
            print(ended.output)
            return failed("the training that goes on from a checkpoint ended with status %d" % ended.code)
        resumed = Run.read(ctx.scratch / "resumed.json")
    size = (ctx.scratch / "half.pt").stat().st_size
    steps = exact_steps(ctx)
    details = {"precision": whole.precision, "half": half_way(steps), "steps": steps, "checkpoint_bytes": size}
    lost = [name for name in PARTS if whole.half[name] != resumed.half[name]]
    if lost:
        reason = "a checkpoint doesn't give back what was saved: %s differs after it's loaded" % ", ".join(lost)
        return failed(reason, "see what replaces or patches torch.save, torch.load or state_dict", details=details)
    found = first_difference(whole, resumed)
    if found:
        reason = "a run that goes on from its checkpoint ends unlike the one that wasn't interrupted: %s" % found
        remedy = "see determinism.repeat; if that passes, something keeps state outside of the checkpoint"
        return failed(reason, remedy, details=details)
    return passed(details=details)


# -- compile --------------------------------------------------------------------------------------------------------


def lacking_to_compile(text: str) -> Outcome | None:
    """What an error of torch.compile says of the tools and packages that it needs, if that is what it says."""
    old = re.search(r"Found (.+) which is too old to be supported by the triton.* capability (\d+\.\d+)", text)
    if old:
        reason = f"torch.compile can't work on a GPU as old as {old.group(1)} ({old.group(2)}): Triton needs 7.0"
        return skipped(reason, remedy="train without torch.compile on it")
    package = re.search(r"ModuleNotFoundError: No module named '([A-Za-z0-9_]+)'", text)
    if package:
        # torch 2.9 on a CPU imports setuptools, which it asks for from Python 3.12 on only
        reason = f"torch.compile imports {package.group(1)}, which isn't installed"
        return failed(reason, f"add {package.group(1)} to the spec's [pip] dependencies, and lock again")
    if "Python.h" in text:
        return failed("torch.compile needs Python's headers: Python.h is missing", "install them (Debian: python3-dev)")
    found = [word for word in (os.environ.get("CXX"), os.environ.get("CC"), "g++", "gcc", "clang") if word]
    missing = not any(shutil.which(word.split()[0]) for word in found)
    says = re.search(
        r"No working C\+\+ compiler|InvalidCxxCompiler|Failed to find C compiler|No such file.*(gcc|g\+\+)", text
    )
    if missing or says:
        remedy = "install one (Debian: apt install g++; conda: gxx_linux-64), or name it in CC and CXX"
        return failed("torch.compile needs a C and C++ compiler, and there is none", remedy)
    return None


@check("compile.eager")
def compile_eager(ctx: Context) -> Outcome:
    """torch.compile gives what eager gives, forwards and backwards."""
    torch, functional = ctx.torch, ctx.torch.nn.functional
    exact_fp32(torch)
    torch.manual_seed(ctx.seed)

    def function(x: Any, first: Any, second: Any) -> Any:
        hidden = functional.gelu(functional.layer_norm(x, (x.shape[-1],)) @ first)
        return (functional.softmax(hidden @ second, -1) * x).sum()

    inputs = [torch.randn(*shape, device=ctx.device) for shape in ((32, 64), (64, 96), (96, 64))]
    results = {}
    for how in ("eager", "compiled"):
        own = [one.clone().requires_grad_() for one in inputs]
        began = time.monotonic()
        try:
            value = (torch.compile(function) if how == "compiled" else function)(*own)
            value.backward()
        except Exception as error:
            traceback.print_exc()
            text = f"{type(error).__name__}: {error}"
            if re.search(r"not (yet )?supported (on|for) .*(Python|torch.compile)|Python 3\.\d+\+? not", text):
                raise Skip(f"torch {torch.__version__} can't compile on Python {platform.python_version()}") from None
            named = lacking_to_compile(text + traceback.format_exc())
            if named is None:
                raise
            return named
        ctx.synchronize()
        results[how] = [value, *(one.grad for one in own)], time.monotonic() - began
    errors = [
        farthest(torch, one, exact.detach().to("cpu", torch.float64))
        for one, exact in zip(results["compiled"][0], results["eager"][0])
    ]
    limit = 10 * TOLERANCES["fp32"]
    details = {"errors": errors, "tolerance": limit}
    figures = [("compile.first_s", results["compiled"][1], "s")]
    if not max(errors) <= limit:
        reason = f"compiled and eager differ by {max(errors):.2g} of the largest value; {limit:.2g} is allowed"
        return failed(
            reason, "train without torch.compile until this torch is replaced", details=details, figures=figures
        )
    return passed(details=details, figures=figures)


# -- dataloader -----------------------------------------------------------------------------------------------------

WORKERS = 2
SHM_LEAST = 64 * MIB
"""What two workers need in /dev/shm: each holds two batches ahead, and batches of images are several MiB."""
SHM_REMEDY = (
    "give the container more: docker run --shm-size=8g (or --ipc=host), Kubernetes: an emptyDir of medium Memory"
)


class Numbered:
    """A data set of tensors that say which they are: (index, worker, first value a seed gave)."""

    def __init__(self, length: int, size: int) -> None:
        self.length, self.size = length, size

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < self.length:
            raise IndexError(index)
        torch = importlib.import_module("torch")
        worker = torch.utils.data.get_worker_info()
        item = torch.full((self.size,), float(index))
        item[1] = -1.0 if worker is None else float(worker.id)
        item[2] = torch.rand(())
        return item


def loaded(ctx: Context, length: int, size: int, **options: Any) -> list[Any]:
    """All batches of a loader with workers. Raises Fault where a worker hangs, dies or has no shared memory."""
    torch = ctx.torch
    limit = max(2.0, min(30.0, ctx.timeout / 3))
    torch.manual_seed(ctx.seed)
    options = {"batch_size": 4, "num_workers": WORKERS, "prefetch_factor": 2, "timeout": limit, **options}
    try:
        return list(torch.utils.data.DataLoader(Numbered(length, size), **options))
    except RuntimeError as error:
        text = str(error)
        if re.search(r"shared memory|Bus error|No space left|shm_open|unable to (mmap|resize|allocate)", text):
            traceback.print_exc()
            total = shm_bytes()
            size_words = "there is no /dev/shm" if total is None else "/dev/shm has %.1f MiB" % (total / MIB)
            raise Fault(f"workers ran out of shared memory: {size_words}", SHM_REMEDY) from None
        if "timed out" in text:
            traceback.print_exc()
            for child in importlib.import_module("multiprocessing").active_children():
                child.kill()  # the loader would wait for each of them
            remedy = "look at what it waits for (py-spy dump); locks and threads of the parent don't survive a fork"
            raise Fault(f"a worker gave nothing for {limit:g} s: it hangs", remedy) from None
        raise


def wrong_batches(torch: Any, batches: Sequence[Any], length: int) -> str | None:
    """What is wrong with the batches of a Numbered of some length, in order."""
    whole = torch.cat(list(batches))
    if whole[:, 0].tolist() != [float(index) for index in range(length)]:
        return "items are missing, doubled or out of order"
    if not torch.equal(whole[:, 3:], whole[:, :1].expand(-1, whole.shape[1] - 3)):
        return "items aren't what the workers made"
    if sorted(set(whole[:, 1].tolist())) != [float(worker) for worker in range(WORKERS)]:
        return "not every worker worked"
    if len(set(whole[:, 2].tolist())) < length:
        return "workers made the same random numbers"
    return None


@check("dataloader.workers")
def dataloader_workers(ctx: Context) -> Outcome:
    """Workers give every item once, in order, each with random numbers of its own, and the same at every start."""
    torch, length = ctx.torch, 32
    batches = loaded(ctx, length, 64)
    wrong = wrong_batches(torch, batches, length)
    again = torch.cat(loaded(ctx, length, 64, persistent_workers=True))
    if wrong is None and not torch.equal(torch.cat(batches), again):
        wrong = "the same seed gave other items"
    details = {"workers": WORKERS, "items": length, "start": start_method()}
    if wrong:
        return failed(wrong, "this torch's DataLoader doesn't work here: train with num_workers=0", details=details)
    return passed(details=details)


def start_method() -> str:
    return str(importlib.import_module("multiprocessing").get_start_method())


@check("dataloader.shared_memory")
def dataloader_shared_memory(ctx: Context) -> Outcome:
    """/dev/shm is large enough for the batches that workers hold ahead."""
    torch, total = ctx.torch, shm_bytes()
    details = {"shm_bytes": total, "least_bytes": SHM_LEAST, "strategy": torch.multiprocessing.get_sharing_strategy()}
    if total is not None and total < SHM_LEAST:
        told = "/dev/shm has %.1f MiB; %d workers need %d" % (total / MIB, WORKERS, SHM_LEAST // MIB)
        try:
            loaded(ctx, 8, 2 * MIB, batch_size=1)
        except Fault as fault:
            told += f", and {fault}"
        return failed(told, SHM_REMEDY, details=details)
    batches = loaded(ctx, 8, 2 * MIB, batch_size=1)
    details["passed_bytes"] = sum(batch.numel() * batch.element_size() for batch in batches)
    wrong = wrong_batches(torch, batches, 8)
    return failed(wrong, SHM_REMEDY, details=details) if wrong else passed(details=details)


@check("dataloader.pinned", needs="gpu")
def dataloader_pinned(ctx: Context) -> Outcome:
    """Pinned batches reach the GPU whole, while it works."""
    torch, length, sums = ctx.torch, 32, []
    batches = loaded(ctx, length, 1 << 16, pin_memory=True)
    if not all(batch.is_pinned() for batch in batches):
        return failed("batches aren't in pinned memory", "look at ulimit -l, and at the container's memlock limit")
    stream, current = torch.cuda.Stream(), torch.cuda.current_stream()
    for batch in batches:
        with torch.cuda.stream(stream):
            there = batch.to("cuda", non_blocking=True)
        current.wait_stream(stream)
        there.record_stream(current)  # else the next batch may take its memory while it's still summed
        sums.append(there[:, 3:].double().sum())
    right = [float(batch[:, 3:].double().sum()) for batch in batches]
    if [float(one) for one in sums] != right:
        return failed(
            "batches on the GPU aren't those of the workers", "run the device checks; look for Xid errors in dmesg"
        )
    return passed(details={"batches": len(batches)})


# -- collectives ----------------------------------------------------------------------------------------------------

COLLECTIVE_BYTES = (4 << 10, 1 << 20, 16 << 20)
COLLECTIVE_BYTES_GPU = (4 << 10, 1 << 20, 64 << 20, 256 << 20)


class Rank(NamedTuple):
    """One of several processes that know each other. `device` is what its tensors are on."""

    torch: Any
    dist: Any
    rank: int
    world: int
    device: str


def ranks(ctx: Context, world: int, backend: str, work: Callable[[Rank], Any]) -> list[Any]:
    """Run `work` in as many processes as there are ranks and give what each returned. Raises Fault when one fails.

    They are forked from the check's process, which must not have used torch: neither threads nor CUDA survive a fork.
    """
    folder = ctx.scratch / uuid.uuid4().hex[:8]
    folder.mkdir()
    limit = max(5.0, ctx.timeout * 0.6)
    # One machine: the loopback interface is always there, the host's name often has no address in a container.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ.setdefault("NCCL_DEBUG", "WARN")
    children = {}
    sys.stdout.flush()
    sys.stderr.flush()
    for rank in range(world):
        pid = os.fork()
        if pid == 0:
            with Leaving():
                _run_rank(ctx, folder, rank, world, backend, work, limit)
        children[pid] = rank
    wrong: list[str] = []
    deadline = time.monotonic() + limit
    while children and time.monotonic() < deadline and not wrong:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            time.sleep(0.01)
        elif pid in children:
            rank = children.pop(pid)
            wrong += ["rank %d %s" % (rank, ending(status))] if status else []
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if not wrong and children:
        wrong = ["%d of %d ranks hadn't ended after %g s" % (len(children), world, limit)]
    if wrong:
        remedy = "look at the last words; NCCL_DEBUG=INFO tells more" if backend == "nccl" else "look at the last words"
        raise Fault("{} of {} failed: {}".format(work.__name__, backend, "; ".join(wrong)), remedy)
    return [json.loads((folder / ("%d.json" % rank)).read_text(encoding="utf-8")) for rank in range(world)]


def _run_rank(
    ctx: Context, folder: Path, rank: int, world: int, backend: str, work: Callable[[Rank], Any], limit: float
) -> None:
    torch = ctx.torch
    dist = importlib.import_module("torch.distributed")
    torch.set_num_threads(max(1, usable_cpus() // world))
    if backend == "nccl":
        torch.cuda.set_device(rank)
    store = "file://%s" % (folder / "store")
    dist.init_process_group(
        backend, init_method=store, rank=rank, world_size=world, timeout=datetime.timedelta(seconds=limit)
    )
    found = work(Rank(torch, dist, rank, world, "cuda" if backend == "nccl" else "cpu"))
    (folder / ("%d.json" % rank)).write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def all_reduce_exact(one: Rank) -> str | None:
    """Sums of whole numbers are exact, whatever the order and the size. What is wrong, or None."""
    for count in (1, 1023, 1 << 18):
        base = one.torch.arange(count, dtype=one.torch.int64, device=one.device)
        mine = base * (one.rank + 1) + one.rank
        one.dist.all_reduce(mine)
        right = base * (one.world * (one.world + 1) // 2) + one.world * (one.world - 1) // 2
        if not one.torch.equal(mine, right):
            return "rank %d: the sum of %d whole numbers is wrong" % (one.rank, count)
    return None


def ddp_steps(one: Rank) -> dict[str, Any]:
    """Train a small model with data of the rank's own: the first and last loss, and a digest of the weights."""
    torch = one.torch
    torch.manual_seed(one.rank)  # DDP has to make the ranks start alike
    layers = torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 1)
    model = torch.nn.Sequential(*layers).to(one.device)
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[one.rank] if one.device == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    made = torch.Generator().manual_seed(1000 + one.rank)
    inputs = torch.randn(128, 32, generator=made).to(one.device)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    flat = torch.cat([weights.detach().flatten().cpu() for weights in model.parameters()])
    weights = hashlib.sha256(bytes(flat.view(torch.uint8).tolist())).hexdigest()
    return {"first": losses[0], "last": losses[-1], "weights": weights}


def timed_all_reduce(one: Rank, sizes: Sequence[int] = (), repeats: int = 20) -> dict[str, float]:
    """The median seconds of an all-reduce, by its bytes."""
    found = {}
    for size in sizes:
        values, taken = one.torch.ones(size // 4, device=one.device), []
        for _ in range(repeats + 3):
            one.dist.barrier()
            began = time.perf_counter()
            one.dist.all_reduce(values)
            if one.device == "cuda":
                one.torch.cuda.synchronize()
            taken.append(time.perf_counter() - began)
            values.fill_(1)
        found[str(size)] = sorted(taken[3:])[repeats // 2]
    return found


def judge_sums(wrong: Sequence[str | None], details: dict[str, Any]) -> Outcome:
    told = [one for one in wrong if one]
    if told:
        return failed("; ".join(told), "no training across these ranks can be trusted", details=details)
    return passed(details=details)


@check("collectives.all_reduce")
def collectives_all_reduce(ctx: Context) -> Outcome:
    """Two processes sum whole numbers exactly, by Gloo on the CPU."""
    return judge_sums(ranks(ctx, 2, "gloo", all_reduce_exact), {"backend": "gloo", "ranks": 2})


@check("collectives.nccl", needs="gpu")
def collectives_nccl(ctx: Context) -> Outcome:
    """All GPUs of this machine sum whole numbers exactly, by NCCL. One GPU is a world of its own."""
    return judge_sums(ranks(ctx, ctx.gpus, "nccl", all_reduce_exact), {"backend": "nccl", "ranks": ctx.gpus})


def backend_of(ctx: Context) -> tuple[str, int]:
    """NCCL between several GPUs, else Gloo between two processes on the CPU."""
    return ("nccl", ctx.gpus) if ctx.gpus > 1 else ("gloo", 2)


@check("collectives.ddp")
def collectives_ddp(ctx: Context) -> Outcome:
    """Ranks that train on data of their own have the same weights afterwards. One GPU trains by NCCL too, alone."""
    backend, world = backend_of(ctx)
    found = ranks(ctx, world, backend, ddp_steps)
    details = {"backend": backend, "ranks": world, "first": found[0]["first"], "last": found[0]["last"]}
    alone = ranks(ctx, 1, "nccl", ddp_steps) if ctx.gpus == 1 else []
    if alone:
        details["nccl_alone"] = {"first": alone[0]["first"], "last": alone[0]["last"]}
    if len({one["weights"] for one in found}) > 1:
        reason = "the ranks have different weights after 8 steps of DistributedDataParallel"
        return failed(
            reason, "run collectives.all_reduce and collectives.nccl; look at NCCL_DEBUG=INFO", details=details
        )
    if not all(one["last"] < one["first"] for one in (*found, *alone)):
        return failed("the loss didn't fall", "see the training checks", details=details)
    return passed(reason=on_the_cpu(ctx, backend), details=details)


@check("collectives.bandwidth")
def collectives_bandwidth(ctx: Context) -> Outcome:
    """How long all-reduces take: nothing that fails."""
    backend, world = backend_of(ctx)
    sizes: Sequence[int] = COLLECTIVE_BYTES_GPU if backend == "nccl" else COLLECTIVE_BYTES
    sizes = sizes[:2] if ctx.quick else sizes

    def all_reduces(one: Rank) -> dict[str, float]:
        return timed_all_reduce(one, sizes)

    taken = ranks(ctx, world, backend, all_reduces)
    figures = []
    for size in sizes:
        seconds = max(one[str(size)] for one in taken)
        figures.append(("collectives.all_reduce_us.%d" % size, seconds * 1e6, "us"))
        figures.append(("collectives.bus_gb_s.%d" % size, 2 * (world - 1) / world * size / seconds / 1e9, "GB/s"))
    return passed(reason=on_the_cpu(ctx, backend), details={"backend": backend, "ranks": world}, figures=figures)


# -- figures --------------------------------------------------------------------------------------------------------


class Sampler:
    """GPU utilisation while a block runs, sampled through NVML in a thread of its own."""

    def __init__(self, ctx: Context) -> None:
        self.samples: list[int] = []
        self.library = nvml() if ctx.device == "cuda" else None
        self.device = self.library.device_at(pci_address(ctx.torch)) if self.library else None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._sample, daemon=True)

    def _sample(self) -> None:
        while self.library and self.device and not self.ended.wait(0.02):
            found = self.library.utilisation(self.device)
            if found is not None:
                self.samples.append(found)

    def __enter__(self) -> Sampler:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()

    @property
    def mean(self) -> float | None:
        return sum(self.samples) / len(self.samples) if self.samples else None


def pci_address(torch: Any) -> str:
    facts = torch.cuda.get_device_properties(0)
    if hasattr(facts, "pci_bus_id"):
        return f"{facts.pci_domain_id:08x}:{facts.pci_bus_id:02x}:{facts.pci_device_id:02x}.0"
    found = ctypes.create_string_buffer(32)  # before torch 2.8 its properties don't have it
    for path in mapped_libraries(read_text("/proc/self/maps")):
        if "libcudart" in path:
            ctypes.CDLL(path).cudaDeviceGetPCIBusId(found, 32, 0)
    return found.value.decode()


def card_of(cards: dict[str, Any], name: str, capability: str) -> dict[str, Any] | None:
    """The facts of a GPU, by its name as the driver has it: the card with the most words in it, of its capability."""
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    best: tuple[int, dict[str, Any] | None] = 0, None
    for key, card in cards.items():
        own = {word for word in re.split(r"[^a-z0-9]+", key.lower()) if word}
        if card.get("capability") == capability and own <= words and len(own) > best[0]:
            best = len(own), card
    return best[1]


def from_ampere(ctx: Context) -> bool:
    """Whether the GPU computes in bf16 and TF32 itself: from Ampere on. Newer torch emulates bf16 on older ones."""
    return ctx.device == "cuda" and ctx.torch.cuda.get_device_capability() >= (8, 0)


def repeated(ctx: Context, work: Callable[[], Any], seconds: float) -> float:
    """The median seconds of a piece of work, repeated for some time after a warm-up."""
    taken: list[float] = []
    work()
    ctx.synchronize()
    end = time.perf_counter() + seconds
    while len(taken) < 3 or (time.perf_counter() < end and len(taken) < 200):
        began = time.perf_counter()
        work()
        ctx.synchronize()
        taken.append(time.perf_counter() - began)
    return sorted(taken)[len(taken) // 2]


@check("figures.matmul")
def figures_matmul(ctx: Context) -> Outcome:
    """How fast matrices multiply, by type."""
    torch, figures, without = ctx.torch, [], []
    cuda = ctx.device == "cuda"
    size = (4096 if ctx.quick else 8192) if cuda else (256 if ctx.quick else 512)
    for precision in ("fp32", "tf32", "bf16", "fp16"):
        if precision == "tf32" and not from_ampere(ctx):
            continue  # older cards would multiply in fp32 and say nothing
        if cuda and precision != "tf32" and lacks("cuda", precision):
            without.append(precision)
            continue
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        dtype = dtype_of(torch, "fp32" if precision == "tf32" else precision)
        try:
            one = torch.randn(size, size, device=ctx.device).to(dtype)
            seconds = repeated(ctx, functools.partial(torch.mm, one, one), 0.3 if ctx.quick else 1.0)
        except RuntimeError as error:
            if "not implemented for" not in str(error):
                raise
            without.append(precision)
            continue
        figures.append((f"figures.matmul_tflop_s.{precision}", 2 * size**3 / seconds / 1e12, "TFLOP/s"))
    return passed(details={"size": size, "without": without}, figures=figures)


@check("figures.copy")
def figures_copy(ctx: Context) -> Outcome:
    """How fast memory is copied; on a GPU also as a share of what its card is sold with, and from and to the host."""
    torch, cuda, figures = ctx.torch, ctx.device == "cuda", []
    size = (256 if ctx.quick else 1024) * MIB if cuda else 128 * MIB
    source = torch.ones(size // 4, device=ctx.device)
    target = torch.empty_like(source)
    # A copy reads and writes.
    rate = 2 * size / repeated(ctx, lambda: target.copy_(source), 0.5) / 1e9
    figures.append(("figures.copy_gb_s", rate, "GB/s"))
    details: dict[str, Any] = {"bytes": size}
    if cuda:
        facts = torch.cuda.get_device_properties(0)
        capability = "%d.%d" % (facts.major, facts.minor)
        card = card_of(ctx.config.get("cards") or {}, facts.name, capability)
        details.update(gpu=facts.name, card=card)
        if card and card.get("bandwidth_gb_s"):
            figures.append(("figures.copy_share", rate / card["bandwidth_gb_s"], "of nominal"))
        host = torch.ones(64 * MIB // 4).pin_memory()
        there = torch.empty_like(host, device="cuda")
        for name, work in (("h2d", lambda: there.copy_(host)), ("d2h", lambda: host.copy_(there))):
            figures.append((f"figures.{name}_gb_s", 64 * MIB / repeated(ctx, work, 0.3) / 1e9, "GB/s"))
    return passed(details=details, figures=figures)


@check("figures.steps")
def figures_steps(ctx: Context) -> Outcome:
    """Step times of a small transformer that doesn't wait for data, its peak memory, and how busy it keeps the GPU."""
    torch, cuda = ctx.torch, ctx.device == "cuda"
    torch.manual_seed(ctx.seed)
    width, batch, length = (1024, 16, 512) if cuda else (128, 4, 64)
    layer = torch.nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 4 if cuda else 2, enable_nested_tensor=False).to(ctx.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    inputs = torch.randn(batch, length, width, device=ctx.device)
    precision = ("bf16" if from_ampere(ctx) else "fp16") if cuda else "fp32"
    taken: list[float] = []

    def step() -> None:
        began = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(ctx.device, dtype_of(torch, precision)) if cuda else contextlib.nullcontext():
            loss = (model(inputs) - inputs).float().square().mean()
        loss.backward()
        optimizer.step()
        ctx.synchronize()
        taken.append(time.perf_counter() - began)

    for _ in range(3):
        step()
    taken.clear()
    with Sampler(ctx) as sampler:
        end = time.perf_counter() + (1.0 if ctx.quick else 4.0)
        while len(taken) < 10 or (time.perf_counter() < end and len(taken) < 500):
            step()
    taken.sort()
    figures = [
        ("figures.step_ms.p%d" % share, 1000 * taken[min(len(taken) - 1, len(taken) * share // 100)], "ms")
        for share in (50, 90, 99)
    ]
    if cuda:
        figures.append(("figures.peak_memory_gib", torch.cuda.max_memory_allocated() / 2**30, "GiB"))
    if sampler.mean is not None:
        figures.append(("figures.gpu_utilisation", sampler.mean, "%"))
    details = {"steps": len(taken), "samples": len(sampler.samples), "precision": precision}
    return passed(details=details, figures=figures)


# -- running --------------------------------------------------------------------------------------------------------
#
# The parent never imports torch. It starts a host, which imports torch once and forks a process for each check: torch's
# import costs seconds, a fork milliseconds, and a process forked from one that only imported is as good as new.

TOKEN = "ENVSPEC_CHECK_TOKEN"
"""In the environment of all processes of a run, so that those which left their session are found too."""

PRELOADED = ("torch.distributed", "torch._dynamo", "sympy")
"""What torch imports late, at the first optimizer or gradient: seconds that every check would pay anew."""

PATIENCE = 30.0
"""Seconds in which a host answers, or its end is waited for. What waits in the kernel for a GPU, a disk or a network
file system ends by no signal."""

LAST_LINES, LAST_CHARACTERS = 40, 6000
KILLED = "give it more memory (sbatch --mem, docker run --memory), or see what else uses the machine's"


class Leaving(contextlib.AbstractContextManager):  # type: ignore[type-arg]
    """The end of a forked process: it never returns to what its parent would go on with."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        code = 0
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        elif error is not None:
            traceback.print_exception(type(error), error, error.__traceback__)
            code = 1
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def die_with_parent() -> None:
    """The kernel ends this process when its parent is gone."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


def finite(value: Any) -> Any:
    """A value that JSON can hold: NaN and the infinities become None, what JSON doesn't know its text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def write_whole(path: str, text: str) -> None:
    """Write a file whole or not at all. Raises OSError."""
    staged = "%s.%d" % (path, os.getpid())
    with open(staged, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    os.replace(staged, path)


def ending(status: int) -> str:
    """How a process ended, by what wait gave."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = "signal %d" % number
        said = {
            "SIGSEGV": "crashed",
            "SIGBUS": "crashed",
            "SIGABRT": "aborted",
            "SIGFPE": "crashed",
            "SIGILL": "crashed",
        }
        return "{} ({})".format(said.get(name, "was killed"), name)
    return "ended with status %d" % os.WEXITSTATUS(status)


def last_words(text: str) -> str | None:
    """The end of what a process said."""
    return "\n".join(text.splitlines()[-LAST_LINES:])[-LAST_CHARACTERS:].strip() or None


def outcome_of(status: int | None, answer: Any, limit: float, stuck: bool = False) -> Outcome:
    """What a process found, by how it ended (None: it was ended after its time; `stuck`: it couldn't be) and the answer
    that it left."""
    if stuck:
        remedy = "dmesg may name the GPU, the disk or the network file system that it waits for in the kernel"
        return failed(f"it hadn't ended after {limit:g} s, and can't be killed", remedy)
    if status is None:
        remedy = "its last words say where it hung; --timeout gives it longer"
        return failed(f"it hadn't ended after {limit:g} s, and was ended with all its processes", remedy)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL:
            return failed("it was killed (SIGKILL): most likely memory ran out", KILLED)
        remedy = SHM_REMEDY if number == signal.SIGBUS else "its last words say where; run it under gdb for more"
        return failed(f"it {ending(status)}", remedy)
    if isinstance(answer, dict) and "error" in answer:
        error = answer["error"]
        out_of = "MemoryError" in error or "out of memory" in error or "can't allocate memory" in error
        return failed(error, KILLED if out_of else None)
    if isinstance(answer, dict) and not status:
        figures = [(str(name), value, str(unit)) for name, value, unit in answer["figures"]]
        return Outcome(**{**answer, "figures": figures})
    if not status:
        return failed("it ended without an answer", "something in it called exit")
    return failed(f"it {ending(status)}, without an answer", "its last words may say why")


def run_check(one: Check, ctx: Context) -> None:
    """Run a check in this process and leave its answer in its scratch folder."""
    answer: dict[str, Any]
    try:
        outcome = one.run(ctx)
        answer = outcome._asdict()
    except (Fault, Skip) as found:
        answer = found.outcome._asdict()
    except Exception as error:  # noqa: BLE001, whatever it is, it is this check's
        text = " ".join(str(error).strip().split("\n")[:1])
        answer = {"error": f"{type(error).__name__}: {text}" if text else type(error).__name__}
        traceback.print_exc()
    write_whole(str(ctx.scratch / "answer.json"), json.dumps(finite(answer)))


def host(ctx: Context, checks: dict[str, Check], with_torch: bool) -> int:
    """Import torch, then fork a process for each job that stdin asks for; tell its end on stdout. One JSON a line."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    die_with_parent()
    if with_torch:
        ctx.torch  # noqa: B018, imports it
        for name in PRELOADED:
            with contextlib.suppress(Exception):  # not every build has it; who needs it says so
                importlib.import_module(name)
    _reply(replies, ready=True)
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            with Leaving():
                _run_job(ctx, checks, job)
        _reply(replies, pid=pid)
        _, status, usage = os.wait4(pid, 0)
        _reply(replies, status=status, memory=usage.ru_maxrss * 1024)
    return 0


def _reply(replies: Any, **values: Any) -> None:
    replies.write(json.dumps(values) + "\n")
    replies.flush()


def _run_job(ctx: Context, checks: dict[str, Check], job: dict[str, Any]) -> None:
    os.setsid()
    die_with_parent()
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # where memory runs out, this is what should go
    scratch = Path(job["scratch"])
    output = os.open(job["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(number, target)
    faulthandler.enable()
    os.chdir(str(scratch))
    one = checks[job["name"]] if job["name"] in checks else Check("probe", probe, None, True)
    run_check(one, replace(ctx, scratch=scratch, device=job["device"], gpus=job["gpus"]))


class Gone(Exception):
    """The host is gone or doesn't answer."""


class Host:
    """A process that forks one for each check."""

    def __init__(self, context: Path, with_torch: bool, program: str, log: Path) -> None:
        command = [sys.executable, program, "--internal", "host", str(context), "torch" if with_torch else "plain"]
        with open(str(log), "wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        self.buffer = b""

    def start(self, timeout: float) -> None:
        """Wait until it can fork. Raises Gone when it can't."""
        if not self.read(timeout).get("ready"):
            raise Gone(f"hadn't started after {timeout:g} s")

    def read(self, timeout: float) -> dict[str, Any]:
        """The next reply; an empty one when there is none in time. Raises Gone."""
        assert self.process.stdout
        deadline = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return {}
            read = os.read(self.process.stdout.fileno(), 65536)
            if not read:
                status = self.process.wait()
                raise Gone(ending(-status if status < 0 else status << 8))
            self.buffer += read
        line, _, self.buffer = self.buffer.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def send(self, **job: Any) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise Gone(ending(self.process.wait())) from None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                if stream:
                    stream.close()


class Runner:
    """Runs checks one after the other, each in its process, and ends whatever they leave."""

    def __init__(self, ctx: Context, folder: Path) -> None:
        self.ctx, self.folder = ctx, folder
        self.token = uuid.uuid4().hex
        os.environ[TOKEN] = self.token
        self.hosts: dict[bool, Host] = {}
        self.running: int | None = None
        self.log = folder / "host.log"
        self.context = folder / "context.json"
        self.context.write_text(json.dumps(ctx.as_json()), encoding="utf-8")

    def run(self, one: Check, device: str, gpus: int) -> tuple[Outcome, str | None, int | None]:
        """What a check found, its last words if it failed, and the most memory that it held, in bytes."""
        scratch, output = self.folder / one.name, self.folder / (one.name + ".log")
        scratch.mkdir()
        status, memory, answer, stuck = None, None, None, False
        limit = self.ctx.timeout
        try:
            at_work = self.host(one.torch)
            at_work.send(name=one.name, scratch=str(scratch), output=str(output), device=device, gpus=gpus)
            self.running = at_work.read(PATIENCE).get("pid")
            if self.running is None:
                raise Gone(f"gave no process for {PATIENCE:g} s")
            ended = at_work.read(limit)
            if ended:
                status, memory = ended["status"], ended["memory"]
            else:
                self.end_running()
                ended = at_work.read(PATIENCE)
                memory, stuck = ended.get("memory"), not ended
            if stuck:  # the host waits for that process, so the next check gets another
                self.hosts.pop(one.torch).close()
        except Gone as gone:
            words = self.log.read_text(encoding="utf-8", errors="replace")
            self.hosts.pop(one.torch).close()
            return failed(f"the process that checks are forked from {gone}", "its last words may say why"), words, None
        finally:
            self.end_running()
        with contextlib.suppress(OSError, ValueError):
            answer = json.loads((scratch / "answer.json").read_text(encoding="utf-8"))
        outcome = outcome_of(status, answer, limit, stuck)
        words = output.read_bytes()[-4 * LAST_CHARACTERS :].decode("utf-8", "replace") if output.exists() else ""
        shutil.rmtree(str(scratch), ignore_errors=True)
        return outcome, last_words(words) if outcome.status == "fail" else None, memory

    def host(self, with_torch: bool) -> Host:
        """The host of a kind, started where there is none. Raises Gone when it can't be."""
        if with_torch not in self.hosts:
            self.hosts[with_torch] = Host(self.context, with_torch, self.ctx.program, self.log)
            self.hosts[with_torch].start(max(self.ctx.timeout, TIMEOUT))
        return self.hosts[with_torch]

    def import_torch(self) -> tuple[Outcome, str | None] | None:
        """Start the host that imports torch. What is wrong, with its last words, when it can't."""
        try:
            self.host(True)
        except Gone as gone:
            self.hosts.pop(True).close()
            self.sweep()
            words = last_words(self.log.read_text(encoding="utf-8", errors="replace"))
            named = re.findall(r"^[\w.]+(?:Error|Exception)\b.*", words or "", re.MULTILINE)
            why = named[-1] if named else f"the process that imports it {gone}"
            remedy = "see whether static.files and static.library_path tell why; else install torch again"
            return failed(f"torch can't be imported: {why}", remedy), words
        return None

    def end_running(self) -> None:
        """End the check that runs, its session, and what left that."""
        if self.running is not None:
            for end in (os.killpg, os.kill):
                with contextlib.suppress(OSError):
                    end(self.running, signal.SIGKILL)
            self.running = None
            self.sweep()

    def sweep(self) -> None:
        """End all processes of this run but the hosts."""
        kept = {os.getpid(), *(one.process.pid for one in self.hosts.values())}
        mark = (f"{TOKEN}={self.token}").encode()
        for name in filter(str.isdigit, os.listdir("/proc")):
            if int(name) not in kept:
                with contextlib.suppress(OSError):
                    with open(f"/proc/{name}/environ", "rb") as file:
                        ours = mark in file.read()
                    if ours:
                        os.kill(int(name), signal.SIGKILL)

    def close(self) -> None:
        self.end_running()
        for one in self.hosts.values():
            one.close()
        self.hosts.clear()
        self.sweep()


# -- the report -----------------------------------------------------------------------------------------------------


def verdict_of(value: float | None, reference: dict[str, Any] | None) -> str | None:
    """ "low", "high" or "ok": `low` and `high` of a reference are shares of its value. None: nothing to compare."""
    if reference is None or value is None or not math.isfinite(value):
        return None
    low, high, middle = reference.get("low"), reference.get("high"), reference["value"]
    if low is not None and value < middle + low * abs(middle):
        return "low"
    if high is not None and value > middle + high * abs(middle):
        return "high"
    return "ok"


def figure(name: str, value: float | None, unit: str, references: dict[str, Any]) -> dict[str, Any]:
    """A figure with its reference: by its whole name, or by what follows its group."""
    found = references.get(name) or references.get(name.partition(".")[2])
    if found and found.get("unit") and found["unit"] != unit:
        found = None
    reference = {key: found.get(key) for key in ("value", "low", "high", "unit")} if found else None
    return {
        "name": name,
        "value": finite(value),
        "unit": unit,
        "reference": reference,
        "verdict": verdict_of(value, reference),
    }


def summary(checks: Sequence[dict[str, Any]], complete: bool = True, blind: bool = False) -> dict[str, Any]:
    """The counts of a report, its verdict, and one line that says it. A run that was cut short proves nothing. `blind`:
    the target is for GPUs, and the checks ran on the CPU."""
    count = {status: sum(one["status"] == status for one in checks) for status in ("pass", "fail", "skip")}
    total = sum(one["needs_gpu"] for one in checks)
    without = sum(one["needs_gpu"] and one["status"] == "skip" for one in checks)
    headline = "%(pass)d passed, %(fail)d failed, %(skip)d skipped" % count
    if not checks:
        headline = "no check ran"
    elif blind or 0 < total == without:
        need = "need" if without > 1 else "needs"
        headline = "no GPU check ran: " + headline + (" (%d of them %s a GPU)" % (without, need) if without else "")
    return {
        "passed": count["pass"],
        "failed": count["fail"],
        "skipped": count["skip"],
        "gpu_skipped": without,
        "gpu_total": total,
        "verdict": "fail" if count["fail"] else "pass" if count["pass"] and complete else "skip",
        "headline": headline if complete else "interrupted: " + headline,
    }


def xml_text(text: str) -> str:
    """A text without what XML can't hold, quoted."""
    text = re.sub("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def junit(report: dict[str, Any]) -> str:
    """The report as JUnit XML: a testsuite with a testcase for each check."""

    def attribute(text: object) -> str:
        return quoteattr(re.sub("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", str(text)))

    counts, name = report["summary"], "{}.{}".format(report["spec"], report["target"])
    head = 'tests="%d" failures="%d" errors="0" skipped="%d" time="%.3f"'
    head = head % (len(report["checks"]), counts["failed"], counts["skipped"], report["seconds"])
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f'<testsuites name="envspec check" {head}>']
    lines.append('<testsuite name={} {} timestamp="{}">'.format(attribute(name), head, report["started"].rstrip("Z")))
    for one in report["checks"]:
        where = 'classname={} name={} time="{:.3f}"'.format(attribute(name), attribute(one["name"]), one["seconds"])
        inner = []
        if one["status"] == "fail":
            told = "\n".join(filter(None, [one["reason"], one["remedy"] and "remedy: {}".format(one["remedy"])]))
            message = attribute(one["reason"].partition("\n")[0])
            inner.append(
                "<failure message={} type={}>{}</failure>".format(message, attribute(one["group"]), xml_text(told))
            )
        elif one["status"] == "skip":
            inner.append("<skipped message={}/>".format(attribute(one["reason"])))
        if one["output"]:
            inner.append("<system-out>{}</system-out>".format(xml_text(one["output"])))
        lines.append("<testcase {}>{}</testcase>".format(where, "".join(inner)))
    lines += ["<system-out>{}</system-out>".format(xml_text(counts["headline"])), "</testsuite>", "</testsuites>"]
    return "\n".join(lines) + "\n"


class Progress:
    """The table on stderr: a line for each check as it ends; on a terminal also the one that runs."""

    def __init__(self, names: Iterable[str], stream: Any) -> None:
        self.stream, self.live = stream, stream.isatty()
        self.width = max(map(len, names), default=0)
        colours = {"pass": "32", "fail": "31;1", "skip": "33"} if self.live and not os.environ.get("NO_COLOR") else {}
        self.colours = colours

    def begins(self, name: str) -> None:
        if self.live:
            self.stream.write(f"\r      {name}")
            self.stream.flush()

    def ended(self, one: dict[str, Any]) -> None:
        word = one["status"]
        if word in self.colours:
            word = f"\033[{self.colours[word]}m{word}\033[0m"
        told = [one["reason"]] if one["reason"] else []
        told += ["remedy: {}".format(one["remedy"])] if one["remedy"] and one["status"] == "fail" else []
        if one["output"]:
            told += ["| " + line for line in one["output"].splitlines()[-8:]]
        lead = "\r\033[K" if self.live else ""
        self.stream.write("%s%s  %-*s %7.2f s\n" % (lead, word, self.width, one["name"], one["seconds"]))
        for line in "\n".join(told).splitlines():
            self.stream.write(f"      {line}\n")
        self.stream.flush()


# -- the command line -----------------------------------------------------------------------------------------------


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="check.py", description="Ask an environment whether it works.")
    parser.add_argument(
        "--config", required=True, metavar="FILE", help="target.json: the target's packages, workload, references"
    )
    parser.add_argument("--workload", choices=WORKLOAD_NAMES, help="what is trained (target.json, else basic)")
    parser.add_argument(
        "--steps", type=whole(1), metavar="N", help="steps of a training (target.json, else %d)" % STEPS
    )
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto")
    parser.add_argument("--quick", action="store_true", help="smaller and fewer")
    parser.add_argument("--seed", type=whole(0), default=0, metavar="N")
    parser.add_argument("--json", metavar="FILE", help="the report; - writes it to stdout")
    parser.add_argument("--junit", metavar="FILE", help="the report as JUnit XML")
    parser.add_argument("--only", action="append", choices=GROUPS, metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--timeout", type=whole(1), default=TIMEOUT, metavar="SECONDS", help="of each check")
    parser.add_argument("--scratch", metavar="DIR", help="where temporary files go")
    return parser.parse_args(words)


def whole(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not re.fullmatch(r"\d{1,18}", text) or int(text) < least:
            raise argparse.ArgumentTypeError("%r is no whole number from %d" % (text, least))
        return int(text)

    return number


def load_config(path: str) -> dict[str, Any]:
    """target.json. Raises Unreadable."""
    try:
        config = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Unreadable("{} can't be read: {}".format(path, getattr(error, "strerror", None) or error)) from None
    if not isinstance(config, dict) or config.get("schema") != 2:
        raise Unreadable(f"{path} is no target.json that this check knows (schema 2)")
    lock, target = config.get("lock"), config.get("target")
    if not isinstance(lock, dict) or lock.get("lock-version") != 1 or target not in (lock.get("targets") or {}):
        raise Unreadable(f"{path} has no slice of a lock that this check knows (lock-version 1)")
    canonical = json.dumps(lock, sort_keys=True, separators=(",", ":"))
    if config.get("lock_digest") != "sha256:" + hashlib.sha256(canonical.encode()).hexdigest():
        raise Unreadable(f"{path} was changed: its slice of the lock has another digest than it says")
    if config.get("workload") not in (None, *WORKLOAD_NAMES):
        raise Unreadable("{} has no workload that this check knows: {}".format(path, config["workload"]))
    return config


def context_of(asked: argparse.Namespace, program: str) -> Context:
    """The Context of the command line. Raises Unreadable."""
    config = load_config(asked.config)
    steps = asked.steps or config.get("steps") or STEPS
    if asked.quick and not asked.steps:
        steps = min(steps, QUICK_STEPS)
    return Context(
        config=config,
        device=asked.device,
        workload=asked.workload or config.get("workload") or "basic",
        steps=steps,
        quick=asked.quick,
        seed=asked.seed,
        timeout=asked.timeout,
        scratch=Path(),
        program=os.path.abspath(program),
    )


class Session:
    """A run of the whole table, and what is known of it so far."""

    def __init__(self, ctx: Context, table: dict[str, Check], groups: Sequence[str], runner: Runner) -> None:
        self.ctx, self.runner = ctx, runner
        order = {group: index for index, group in enumerate(GROUPS)}
        chosen = [one for one in table.values() if one.group in (groups or GROUPS)]
        self.table = sorted(chosen, key=lambda one: order[one.group])
        self.machine, self.torch = machine_facts(), None  # type: Dict[str, Any], Optional[Dict[str, Any]]
        self.device = "cuda" if ctx.device == "cuda" else "cpu"
        self.why_cpu = "it was asked for the CPU" if ctx.device == "cpu" else "no GPU can be used here"
        self.no_torch: Optional[str] = None
        self.no_look = ""
        self.lacking: Optional[Tuple[Outcome, Optional[str]]] = None
        self.tried = False
        self.checks: list[dict[str, Any]] = []
        self.figures: list[dict[str, Any]] = []
        self.curves: dict[str, Any] = {}
        self.began = time.monotonic()
        self.started = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    def run(self, progress: Progress) -> None:
        for one in self.table:
            progress.begins(one.name)
            began = time.monotonic()
            if (one.torch or one.needs) and not self.tried:
                self.lacking = self.look()
            words, memory = None, None  # type: Optional[str], Optional[int]
            skip = self.reason_to_skip(one)
            if one.torch and self.lacking:
                (outcome, words), self.lacking = self.lacking, None
            elif skip:
                outcome = skipped(skip)
            elif one.needs == "gpu" and not self.machine["gpus"]:
                outcome = failed(NO_GPU + self.no_look, NO_GPU_REMEDY)
            else:
                gpus = len(self.machine["gpus"]) if self.device == "cuda" else 0
                outcome, words, memory = self.runner.run(one, self.device, gpus)
            progress.ended(self.add(one, outcome, words, memory, time.monotonic() - began))

    def look(self) -> tuple[Outcome, str | None] | None:
        """Import torch, and see which GPUs it sees, and so on which device the checks run; before the first check that
        needs any of it. What is wrong when it can't be imported: the first check that imports it fails with that."""
        self.tried = True
        lacking = self.runner.import_torch()
        if lacking:
            self.no_torch = "torch can't be imported"
            return lacking
        outcome, words, _ = self.runner.run(Check("probe", probe, None, True), self.device, 0)
        if outcome.status != "pass":
            self.no_look = f"; the look for GPUs failed: {outcome.reason}"
            self.why_cpu += self.no_look
            sys.stderr.write((words or "") + "\n")
            return None
        self.torch, self.machine["gpus"] = outcome.details["torch"], outcome.details["gpus"]
        if self.ctx.device == "auto" and self.machine["gpus"]:
            self.device = "cuda"
        elif self.ctx.device == "auto" and not self.ctx.target.get("cuda"):
            self.why_cpu = "the target is for CPUs"
        return None

    def reason_to_skip(self, one: Check) -> str | None:
        if one.torch and self.no_torch:
            return self.no_torch
        if one.needs == "gpu" and self.device == "cpu":
            return f"needs a GPU: {self.why_cpu}"
        if one.needs == "driver" and not self.ctx.target.get("cuda"):
            return "needs NVIDIA's driver: the target is for CPUs"
        if one.needs == "driver" and self.ctx.device == "cpu":
            return f"needs NVIDIA's driver: {self.why_cpu}"
        if one.needs == "driver" and not self.machine["driver"] and self.device == "cpu":
            return "needs NVIDIA's driver: there is none here"
        return None

    def add(
        self, one: Check, outcome: Outcome, words: str | None, memory: int | None, seconds: float
    ) -> dict[str, Any]:
        result = {
            "name": one.name,
            "group": one.group,
            # for a CPU target nothing is missing where there is no GPU; a driver's version is no GPU's work
            "needs_gpu": one.needs == "gpu" and (bool(self.ctx.target.get("cuda")) or self.device == "cuda"),
            "status": outcome.status,
            "reason": outcome.reason,
            "remedy": outcome.remedy,
            "seconds": round(seconds, 3),
            "details": outcome.details,
            "output": words,
            "peak_memory_bytes": memory,
        }
        self.checks.append(result)
        references = self.ctx.config.get("references") or {}
        self.figures += [figure(name, value, unit, references) for name, value, unit in outcome.figures]
        self.curves.update(outcome.curves)
        return result

    def report(self, complete: bool = True) -> dict[str, Any]:
        ctx = self.ctx
        return {
            "schema": 1,
            "kind": "envspec-check",
            "spec": ctx.lock["env"].get("name", ""),
            "target": ctx.target_name,
            "lock_digest": ctx.config["lock_digest"],
            "fingerprint": ctx.target.get("fingerprint", ""),
            "workload": ctx.workload,
            "steps": ctx.steps,
            "device": self.device,
            "cuda": ctx.target.get("cuda"),
            "quick": ctx.quick,
            "seed": ctx.seed,
            "started": self.started,
            "seconds": round(time.monotonic() - self.began, 3),
            "machine": self.machine,
            "torch": self.torch,
            "checks": self.checks,
            "figures": self.figures,
            "curves": self.curves,
            "complete": complete,
            "summary": summary(self.checks, complete, bool(ctx.target.get("cuda")) and self.device != "cuda"),
        }


def write_reports(asked: argparse.Namespace, report: dict[str, Any]) -> None:
    """The files that were asked for. Raises OSError."""
    text = json.dumps(finite(report), indent=1) + "\n"
    if asked.json == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    elif asked.json:
        write_whole(asked.json, text)
    if asked.junit:
        write_whole(asked.junit, junit(report))


def interrupted(*_: object) -> None:
    for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(name, signal.SIG_IGN)  # Slurm tells twice; the second time would cost the report
    raise KeyboardInterrupt


def main(words: Sequence[str] | None = None, table: dict[str, Check] = CHECKS, program: str = __file__) -> int:
    """The program. `table` are the checks and `program` the file that their processes start, which must call this."""
    words = sys.argv[1:] if words is None else words
    if words[:1] == ["--internal"]:
        ctx = Context.load(words[2])
        if words[1] == "host":
            return host(ctx, table, words[3] == "torch")
        return INTERNAL[words[1]](ctx, *words[3:])
    asked = arguments(words)
    try:
        ctx = context_of(asked, program)
    except Unreadable as error:
        sys.stderr.write(f"check.py: error: {error}\n")
        return 2
    os.environ.setdefault("OMP_NUM_THREADS", str(min(16, usable_cpus())))
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin make a shared machine slower by far
    os.environ.update(TORCHINDUCTOR_COMPILE_THREADS="1", PYTHONFAULTHANDLER="1")
    for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(name, interrupted)
    try:
        folder = Path(tempfile.mkdtemp(prefix="check-", dir=asked.scratch))
    except OSError as error:
        sys.stderr.write(f"check.py: error: no folder for temporary files: {error}\n")
        return 2
    os.environ.update(TORCHINDUCTOR_CACHE_DIR=str(folder / "inductor"), TRITON_CACHE_DIR=str(folder / "triton"))
    runner, ended = Runner(ctx, folder), True
    session = Session(ctx, table, asked.only or (), runner)
    progress = Progress([one.name for one in session.table], sys.stderr)
    try:
        session.run(progress)
    except KeyboardInterrupt:
        ended = False
    finally:
        runner.close()
        shutil.rmtree(str(folder), ignore_errors=True)
    report = session.report(ended)
    try:
        write_reports(asked, report)
    except OSError as error:
        sys.stderr.write(f"check.py: error: the report can't be written: {error}\n")
        return 2
    sys.stderr.write("{}\n".format(report["summary"]["headline"]))
    if not ended:
        return 130
    return 0 if report["summary"]["verdict"] == "pass" else 1


if __name__ == "__main__":
    sys.exit(main())
