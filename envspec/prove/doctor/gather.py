"""Readings of the real machine. Every reading may fail, takes a bounded time, and changes nothing."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from envspec.base import programs
from envspec.base.errors import InputError, ToolError
from envspec.base.places import home_of, home_path
from envspec.base.programs import find_program
from envspec.configuration.settings import condarc_files, read_condarc
from envspec.prove.doctor.machine import (
    Conda,
    Device,
    ForeignLibrary,
    Machine,
    Nvidia,
    Pythons,
    Quota,
    Slurm,
    Space,
    Tool,
    UserNamespaces,
    UserSite,
)

# NVIDIA's hardware as the kernel and NVML report it.
#
# The kernel's files come first: they exist without NVML, and show whether a driver is loaded. NVML
# (through nvidia-ml-py) adds capability, memory and MIG, and whether the user space fits the kernel module.


_VENDOR = "0x10de"
_DISPLAY = "0x03"
"""The PCI class of display controllers: VGA and 3D."""


def read_nvidia(
    root: Path, visible: str | None, nvml: Callable[[], tuple[str, tuple[Device, ...], str | None]] | None = None
) -> Nvidia:
    """Read NVIDIA's side of the machine whose file system begins at `root`. `nvml` stands in for NVML in tests."""
    driver = kernel_driver(root)
    state, devices, nvml_driver = (nvml or ask_nvml)()
    return Nvidia(
        pci=pci_devices(root),
        driver=driver or nvml_driver,
        nvml=state,
        devices=devices or kernel_devices(root),
        closed=closed_files(root),
        visible=visible,
    )


def kernel_driver(root: Path) -> str | None:
    """Read the version of the loaded kernel module, None if none is loaded."""
    try:
        text = (root / "proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r"Kernel Module.*?\s(\d+(?:\.\d+){1,2})\s", text)
    return match[1] if match else None


def kernel_devices(root: Path) -> tuple[Device, ...]:
    """List the GPUs that the kernel module reports."""
    names = []
    for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information")):
        try:
            match = re.search(r"^Model:\s*(.+?)\s*$", path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
        except OSError:
            continue
        names.append(match[1] if match else "unknown")
    return tuple(Device(name) for name in names)


def pci_devices(root: Path) -> tuple[str, ...]:
    """List the PCI addresses of NVIDIA's display devices. Also empty if the bus isn't visible (WSL, some sandboxes)."""
    addresses = []
    for folder in sorted((root / "sys/bus/pci/devices").glob("*")):
        try:
            vendor, kind = (
                (folder / name).read_text(encoding="utf-8", errors="replace").strip() for name in ("vendor", "class")
            )
        except OSError:
            continue
        if vendor == _VENDOR and kind.startswith(_DISPLAY):
            addresses.append(folder.name)
    return tuple(addresses)


def closed_files(root: Path) -> tuple[str, ...]:
    """List the device files of GPUs that this user can't open."""
    files = sorted(path for path in (root / "dev").glob("nvidia*") if re.fullmatch(r"nvidia(\d+|ctl|-uvm)", path.name))
    return tuple(f"/dev/{path.name}" for path in files if not os.access(path, os.R_OK | os.W_OK))


def ask_nvml() -> tuple[str, tuple[Device, ...], str | None]:
    """Ask NVML: returns its answer (see `Nvidia.nvml`), the GPUs and the driver's version."""
    try:
        import pynvml  # type: ignore[import-untyped]
    except ImportError:
        return "no-module", (), None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        missing = getattr(error, "value", None) == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
        return "no-library" if missing else str(error), (), None
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        devices = tuple(_device(pynvml, handle) for handle in handles)
        return "answered", devices, _text(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError as error:
        return str(error), (), None
    finally:
        pynvml.nvmlShutdown()


def _device(pynvml: Any, handle: Any) -> Device:
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    try:
        memory = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    except pynvml.NVMLError:  # a card that shares the host's memory has none of its own
        memory = None
    try:
        mig = bool(pynvml.nvmlDeviceGetMigMode(handle)[0])
    except pynvml.NVMLError:
        mig = False
    return Device(_text(pynvml.nvmlDeviceGetName(handle)), f"{major}.{minor}", memory, mig)


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


SECONDS = 5.0
"""Seconds after which a daemon without an answer counts as hung."""


class CommandOutput(Struct, frozen=True):
    """A program's stdout. `problem` says how the program failed, None if it didn't."""

    out: str
    problem: str | None = None


def ask_program(name: str, *arguments: str, env: Mapping[str, str], seconds: float = SECONDS) -> CommandOutput | None:
    """Run a program. None if it isn't installed. All processes that it started end with it."""
    path = programs.find_program(name, env)
    if path is None:
        return None
    # what can't be preloaded is complained about on stderr, where the program's own words are looked for
    env = {**env, "LC_ALL": "C", "LD_PRELOAD": ""}
    try:
        ran = programs.run([path, *arguments], env, seconds=seconds, session=True)
    except subprocess.TimeoutExpired:
        return CommandOutput("", f"no answer within {seconds:.0f} s")
    except OSError as error:
        return CommandOutput("", error.strerror or str(error))
    out = ran.stdout.decode(errors="replace")
    if ran.returncode:
        lines = (ran.stderr.decode(errors="replace") or out).strip().splitlines()
        return CommandOutput(out, next(iter(lines), f"exit status {ran.returncode}")[:200])
    return CommandOutput(out)


_CUDA_LIBRARY = re.compile(
    r"lib(cudart|cublas(Lt)?|cudnn\w*|nccl|cusparse\w*|cufft|curand|cusolver|nvrtc|nvJitLink|cupti)\.so[.\d]*"
)
_STUB = re.compile(r"lib(cuda|nvidia-ml)\.so[.\d]*")
_WATCHED = re.compile(
    r"(torch\w*|triton|numpy|nvidia[_-].+|transformers|accelerate|deepspeed|flash[_-]attn|xformers|jax\w*|tensorflow\w*"
    r"|scipy|pandas|pillow|typing_extensions|setuptools|bitsandbytes)-",
    re.IGNORECASE,
)
"""Distributions that break an environment if another version gets in."""

_USERNS_SETTINGS = {
    "kernel.unprivileged_userns_clone": "/proc/sys/kernel/unprivileged_userns_clone",
    "user.max_user_namespaces": "/proc/sys/user/max_user_namespaces",
    "kernel.apparmor_restrict_unprivileged_userns": "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
}


def gather(env: Mapping[str, str] | None = None) -> Machine:
    """Read this whole machine: takes about 1 s, and up to some 10 s if a daemon hangs."""
    env = os.environ if env is None else env
    machine = gather_hardware(env)
    return Machine(
        platform=machine.platform,
        glibc=machine.glibc,
        pythons=machine.pythons,
        nvidia=machine.nvidia,
        libraries=tuple(_libraries(env)),
        shm=_shared_memory(),
        spaces=tuple(_spaces(env)),
        quotas=tuple(_quotas(env)),
        containers=tuple(_containers(env)),
        slurm=_slurm(env),
        namespaces=_namespaces(env),
        compiler=_find_compiler(env),
        conda=gather_conda(env),
    )


def gather_hardware(env: Mapping[str, str] | None = None) -> Machine:
    """Read only the facts for a spec: platform, glibc, Python and NVIDIA's side. Starts no program."""
    env = os.environ if env is None else env
    return Machine(platform=_platform(), glibc=_glibc(), pythons=_pythons(env), nvidia=_nvidia(env))


def _platform() -> str:
    system = {"Linux": "linux", "Darwin": "osx", "Windows": "win"}.get(platform.system(), platform.system().lower())
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        return f"{system}-64"
    return f"{system}-{'arm64' if system != 'linux' and machine in ('arm64', 'aarch64') else machine}"


def _glibc() -> str | None:
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (AttributeError, ValueError, OSError):
        return None
    return version if name == "glibc" else None


def _nvidia(env: Mapping[str, str]) -> Nvidia:
    return read_nvidia(Path("/"), env.get("CUDA_VISIBLE_DEVICES"))


def _pythons(env: Mapping[str, str]) -> Pythons:
    include = sysconfig.get_path("include")
    return Pythons(
        version=platform.python_version(),
        executable=sys.executable,
        versions=tuple(f"3.{minor}" for minor in range(8, 20) if find_program(f"python3.{minor}", env)),
        user_sites=tuple(_user_sites(home_of(env))),
        no_user_site=bool(env.get("PYTHONNOUSERSITE")),
        path=env.get("PYTHONPATH") or None,
        headers=bool(include) and (Path(include) / "Python.h").is_file(),
    )


def _user_sites(home: Path) -> Iterator[UserSite]:
    for folder in sorted((home / ".local" / "lib").glob("python3.*/site-packages")):
        names = [entry.name for entry in _entries(folder) if entry.name.endswith((".dist-info", ".egg-info"))]
        watched = (name.rsplit(".", 1)[0] for name in sorted(names) if _WATCHED.match(name))
        packages = tuple(" ".join(name.split("-")[:2]).replace("_", "-") for name in watched)
        if packages:
            yield UserSite(folder.parent.name.removeprefix("python"), str(folder), packages)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _libraries(env: Mapping[str, str]) -> Iterator[ForeignLibrary]:
    for entry in filter(None, env.get("LD_LIBRARY_PATH", "").split(":")):
        for path in _distinct(_entries(Path(entry))):
            if _CUDA_LIBRARY.fullmatch(path.name) or (_STUB.fullmatch(path.name) and path.parent.name == "stubs"):
                yield ForeignLibrary(str(path), "LD_LIBRARY_PATH")
    for text in re.split(r"[\s:]+", env.get("LD_PRELOAD", "")):
        if _CUDA_LIBRARY.fullmatch(Path(text).name):
            yield ForeignLibrary(text, "LD_PRELOAD")
    for path in _distinct(_ldconfig(env)):
        if _CUDA_LIBRARY.fullmatch(path.name):
            yield ForeignLibrary(str(path), "ldconfig")


def _distinct(paths: Iterable[Path]) -> list[Path]:
    """Drop paths that lead to the same file as an earlier one."""
    by_file: dict[str, Path] = {}
    for path in paths:
        by_file.setdefault(os.path.realpath(path), path)
    return list(by_file.values())


def _ldconfig(env: Mapping[str, str]) -> list[Path]:
    """Read the loader's cache (`ldconfig -p`). A user's PATH often lacks sbin."""
    answer = ask_program("ldconfig", "-p", env={**env, "PATH": f"{env.get('PATH', os.defpath)}:/usr/sbin:/sbin"})
    lines = answer.out.splitlines() if answer and not answer.problem else []
    return sorted({Path(line.rpartition("=> ")[2].strip()) for line in lines if "=> " in line})


def _shared_memory() -> int | None:
    try:
        return shutil.disk_usage("/dev/shm").total
    except OSError:
        return None


def _spaces(env: Mapping[str, str]) -> Iterator[Space]:
    folders = {
        "here": os.curdir,
        "home": home_path(env),
        "scratch": next((env[name] for name in ("SCRATCH", "WORK", "TMPDIR") if env.get(name)), tempfile.gettempdir()),
    }
    for role, folder in folders.items():
        with suppress(OSError):
            room = shutil.disk_usage(folder)
            yield Space(
                role=role,
                path=str(Path(folder).absolute()),
                free=room.free,
                total=room.total,
                inodes_free=_inodes_free(folder),
                read_only=not os.access(folder, os.W_OK),
            )


def _inodes_free(folder: str) -> int | None:
    """None where files aren't counted: on some file systems, and on Windows."""
    if sys.platform == "win32":
        return None
    state = os.statvfs(folder)
    return state.f_favail if state.f_files else None


def _quotas(env: Mapping[str, str]) -> Iterator[Quota]:
    answer = ask_program("quota", "-w", "-p", env=env)
    for line in answer.out.splitlines() if answer else ():
        cells = line.replace("*", "").split()
        if len(cells) == 9 and all(cell.isdecimal() for cell in cells[1:]):
            _, used, _, hard, _, files, _, most, _ = cells
            yield Quota(cells[0], int(used), int(hard) or None, int(files), int(most) or None)


def _containers(env: Mapping[str, str]) -> Iterator[Tool]:
    for name in ("docker", "podman", "apptainer", "singularity", "nvidia-ctk"):
        path = find_program(name, env)
        if path is None:
            continue
        output = ask_program(name, "--version", env=env)
        problem = output.problem if output else None
        if name == "docker" and not problem:
            problem = _problem(ask_program(name, "version", "--format", "{{.Server.Version}}", env=env))
        elif name == "podman" and not problem:
            problem = _problem(ask_program(name, "info", "--format", "{{.Version.Version}}", env=env))
        yield Tool(name, path, _version(output.out) if output else None, problem)


def _slurm(env: Mapping[str, str]) -> Slurm | None:
    output = ask_program("sinfo", "--version", env=env)
    if output is None:
        return None
    partitions = ask_program("sinfo", "--noheader", "--format=%P %G", env=env)
    rows = [line.split(None, 1) for line in partitions.out.splitlines()] if partitions else []
    resources = {row[0].rstrip("*"): row[1].strip().replace("(null)", "") for row in rows if len(row) == 2}
    return Slurm(_version(output.out), resources, _problem(partitions))


def _namespaces(env: Mapping[str, str]) -> UserNamespaces:
    answer = ask_program("unshare", "--user", "--map-root-user", "true", env=env)
    settings = {}
    for name, path in _USERNS_SETTINGS.items():
        with suppress(OSError):
            settings[name] = Path(path).read_text(encoding="utf-8", errors="replace").strip()
    return UserNamespaces(None if answer is None else answer.problem is None, _problem(answer), settings)


def _find_compiler(env: Mapping[str, str]) -> Tool | None:
    """Find the first compiler that runs, in Triton's order: $CC, gcc, clang, cc."""
    for name in filter(None, (env.get("CC"), "gcc", "clang", "cc")):
        path = find_program(name, env)
        answer = ask_program(name, "--version", env=env) if path else None
        if path and answer and not answer.problem:
            return Tool(name, path, next(iter(answer.out.splitlines()), None))
    return None


def gather_conda(env: Mapping[str, str]) -> Conda:
    """Read the active environments and conda's configuration files."""
    prefix = env.get("CONDA_PREFIX") or None
    channels: dict[str, tuple[str, ...]] = {}
    priority: dict[str, str] = {}
    unread: dict[str, str] = {}
    for file in condarc_files(env):
        try:
            settings = read_condarc(file)
        except (InputError, ToolError) as error:
            unread[str(file)] = error.message
            continue
        if isinstance(listed := settings.get("channels"), list):
            channels[str(file)] = tuple(map(str, listed))
        if "channel_priority" in settings:
            priority[str(file)] = str(settings["channel_priority"]).lower()
    return Conda(prefix, env.get("VIRTUAL_ENV") or None, channels, priority, unread)


def _problem(answer: CommandOutput | None) -> str | None:
    return answer.problem if answer else None


def _version(text: str) -> str | None:
    match = re.search(r"\d+(\.\d+)+[\w.-]*", text)
    return match[0].rstrip(".,") if match else None
