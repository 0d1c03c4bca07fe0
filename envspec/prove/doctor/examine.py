"""All checks of a machine, in reading order, and those of what starts environments: container runtimes and Slurm."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from envspec.base.finding import Finding
from envspec.base.texts import byte_size, few, memory_size, plural
from envspec.facts import torch_builds
from envspec.packages.version_numbers import minor_of, numbers
from envspec.prove.doctor import nvidia
from envspec.prove.doctor.machine import Conda, Machine, Quota, Space
from envspec.prove.doctor.result import Result

# Checks of the operating system: C library, shared memory, user namespaces, room on file systems.


SHARED_MEMORY = 1 << 30
"""Bytes of /dev/shm below which DataLoader workers run out of it: docker's default is 64 MiB."""

ROOM = 20 << 30
"""Bytes: an environment with torch takes 5 to 10 GB, its download and an image as much again."""

ONE_FILE = "make the environment one file, `envspec install --squashfs`, or use an image; or run one that a site shares"
FILES = 200_000
"""Inodes: an environment with torch and jupyter has 50,000 to 100,000 files, and a package cache as many."""


def glibc(machine: Machine) -> Result:
    """Check the C library against torch's newest wheels."""
    if not machine.platform.startswith("linux"):
        return Result("glibc", "none", f"{machine.platform} has none")
    if machine.glibc is None:
        finding = Finding(
            "error",
            "no-glibc",
            "the C library isn't glibc (musl?): torch has no wheel for it",
            remedy="use a container on glibc (debian, ubuntu, rocky)",
        )
        return Result("glibc", "ok", "not found", (finding,))
    builds = [build for build in torch_builds.builds(platform=machine.platform) if torch_builds.lockable_pythons(build)]
    newest = builds[-1].version if builds else ""
    lower_bounds = {b.glibc for b in builds if b.glibc and b.version == newest}
    lower_bound = max(lower_bounds, key=numbers, default=None)
    if lower_bound is None or numbers(machine.glibc) >= numbers(lower_bound):
        return Result("glibc", "ok", machine.glibc)
    older = [b for b in builds if b.glibc and numbers(b.glibc) <= numbers(machine.glibc)]
    last = f"; torch {older[-1].version} is the last that fits" if older else ""
    message = f"glibc {machine.glibc} is older than {lower_bound}, which torch {newest} needs{last}"
    remedy = f'set glibc = "{machine.glibc}" in the target, or use a container with a newer glibc'
    return Result("glibc", "ok", machine.glibc, (Finding("warning", "glibc-old", message, remedy=remedy),))


def shared_memory(machine: Machine) -> Result:
    """Check /dev/shm, through which DataLoader workers and NCCL pass their data."""
    if machine.shm is None:
        if not machine.platform.startswith("linux"):
            return Result("/dev/shm", "none", f"{machine.platform} has none")
        finding = Finding(
            "warning", "shm-missing", "there is no /dev/shm", remedy="mount /dev/shm: DataLoader workers need it"
        )
        return Result("/dev/shm", "ok", "not there", (finding,))
    if machine.shm >= SHARED_MEMORY:
        return Result("/dev/shm", "ok", memory_size(machine.shm))
    message = f"/dev/shm has {memory_size(machine.shm)}: DataLoader workers and NCCL die of a bus error when it is full"
    remedy = "start the container with --shm-size 8g or --ipc=host; elsewhere: mount -o remount,size=8g /dev/shm"
    return Result(
        "/dev/shm", "ok", memory_size(machine.shm), (Finding("warning", "shm-small", message, remedy=remedy),)
    )


def user_namespaces(machine: Machine) -> Result:
    """Check user namespaces, which rootless podman, and apptainer without setuid, need."""
    namespaces = machine.namespaces
    if namespaces.works:
        return Result("user namespaces", "ok", "work")
    if not machine.platform.startswith("linux"):
        return Result("user namespaces", "none", f"{machine.platform} has none")
    off = [f"{name} = {value}" for name, value in namespaces.settings.items() if _forbids(name, value)]
    if namespaces.works is None and not off:
        return Result("user namespaces", "unknown", "not tested: `unshare` isn't installed")
    why = ", ".join(off) or namespaces.problem or "unshare fails"
    message = f"this user can't create user namespaces ({why}): rootless podman and unprivileged apptainer don't work"
    remedy = "ask the administrator for user namespaces, or build images elsewhere; in a container this is normal"
    finding = Finding("warning", "no-user-namespaces", message, remedy=remedy)
    return Result("user namespaces", "ok", "don't work", (finding,))


def _forbids(name: str, value: str) -> bool:
    return value != "0" if name.endswith("apparmor_restrict_unprivileged_userns") else value == "0"


def space(machine: Machine) -> Result:
    """Check the room for environments and caches: bytes, inodes and quota."""
    findings = (*(f for s in machine.spaces for f in _space(s)), *(f for q in machine.quotas for f in _quota(q)))
    if not machine.spaces:
        return Result("space", "unknown", "no folder to look at", findings)
    summary = "; ".join(f"{s.role} {byte_size(s.free)} free{_inodes(s)}" for s in machine.spaces)
    return Result("space", "ok", summary, findings)


def _inodes(space: Space) -> str:
    if space.inodes_free is None:
        return ""
    room = min(space.inodes_free // FILES, space.free // ROOM)
    return f", {space.inodes_free:,} inodes: room for {plural(room, 'environment')} of torch"


def _space(space: Space) -> Iterator[Finding]:
    where = f"{space.role} ({space.path})"
    if space.read_only:
        remedy = "point ENVSPEC_CACHE_DIR, UV_CACHE_DIR and PIP_CACHE_DIR to a writable folder"
        yield Finding("warning", "read-only", f"{where} isn't writable", remedy=remedy)
    if space.free < ROOM:
        left = byte_size(space.free)
        message = f"{where} has {left} free; an environment with torch takes 5 to 10 GB, and as much in caches"
        yield Finding(
            "warning", "space-low", message, remedy="free some space, or put caches and environments elsewhere"
        )
    if space.inodes_free is not None and space.inodes_free < FILES:
        message = f"{where} has room for {space.inodes_free:,} files; an environment has 50,000 to 100,000"
        yield Finding("warning", "inodes-low", message, remedy=ONE_FILE)


def _quota(quota: Quota) -> Iterator[Finding]:
    if quota.limit is not None and (left := max(0, quota.limit - quota.used) << 10) < ROOM:
        message = f"the quota on {quota.filesystem} leaves {byte_size(left)} of {byte_size(quota.limit << 10)}"
        yield Finding(
            "warning", "quota-low", message, remedy="free some space, or work on a file system for scratch data"
        )
    if quota.file_limit is not None and (files := max(0, quota.file_limit - quota.files)) < FILES:
        message = f"the quota on {quota.filesystem} leaves {files:,} of {quota.file_limit:,} files"
        yield Finding("warning", "quota-low", message, remedy=ONE_FILE)


# Checks of Python's side: the interpreter, what leaks into every environment, conda's settings, a C compiler.


def interpreter(machine: Machine) -> Result:
    """Describe the Python that runs envspec, and those on PATH."""
    pythons = machine.pythons
    other_versions = [version for version in pythons.versions if version != minor_of(pythons.version)]
    more = f"; on PATH too: {', '.join(other_versions)}" if other_versions else ""
    return Result("Python", "ok", f"{pythons.version} ({pythons.executable}){more}")


def leaks(machine: Machine) -> Result:
    """Check for packages from outside that every environment imports: ~/.local and PYTHONPATH (site, PEP 370)."""
    pythons = machine.pythons
    findings = []
    for site in pythons.user_sites:
        if pythons.no_user_site:
            break
        listed = few(site.packages, 5)
        message = f"{site.path} holds {listed}: every Python {site.python} without its own copy imports them"
        remedy = f"export PYTHONNOUSERSITE=1 (envspec's images do), or remove {site.path}"
        findings.append(Finding("warning", "user-site", message, remedy=remedy))
    if pythons.path:
        message = f"PYTHONPATH is set ({pythons.path}): its modules come before those of every environment"
        findings.append(Finding("warning", "pythonpath", message, remedy="unset PYTHONPATH"))
    summary = "PYTHONNOUSERSITE is set" if pythons.no_user_site else "nothing leaks into environments"
    return Result("leaks", "ok", f"{len(findings)} found" if findings else summary, tuple(findings))


def compiler(machine: Machine) -> Result:
    """Check the C compiler that torch.compile (Triton) needs when it first runs a kernel, and Python's headers."""
    if machine.compiler is None:
        message = "this machine has no C compiler (cc, gcc, clang): torch.compile fails where it needs Triton"
        remedy = 'install gcc (apt install gcc), or add "gcc" to [conda] dependencies'
        finding = Finding("warning", "no-compiler", message, remedy=remedy)
        return Result("C compiler", "none", "not found", (finding,))
    tool = machine.compiler
    return Result("C compiler", "ok", f"{tool.version or tool.name} ({tool.path})", tuple(_headers(machine)))


def _headers(machine: Machine) -> Iterator[Finding]:
    if machine.pythons.headers:
        return
    minor = minor_of(machine.pythons.version)
    message = f"Python {minor} has no Python.h here: Triton can't build its launcher with this interpreter"
    remedy = f"install python{minor}-dev, or use a Python of uv or conda, which has the file"
    yield Finding("info", "no-python-headers", message, remedy=remedy)


def conda(machine: Machine) -> Result:
    """Check conda's settings that change an environment's packages, and whether two environments are active at once."""
    settings = machine.conda
    findings = tuple(findings_about_conda(settings))
    if settings.prefix is None and not (settings.channels or settings.priority or settings.unread):
        return Result("conda", "none", "no active environment and no configuration")
    summary = f"active: {settings.prefix}" if settings.prefix else "no environment is active"
    return Result("conda", "ok", summary, findings)


def findings_about_conda(settings: Conda) -> Iterator[Finding]:
    """Find two environments at once, settings that swap builds, and files that can't be read."""
    if settings.prefix and settings.virtualenv:
        yield Finding(
            "warning",
            "two-environments",
            f"a conda environment ({settings.prefix}) and a virtual one ({settings.virtualenv}) are active at once",
            remedy="run `conda deactivate` or `deactivate`: PATH finds programs of both",
        )
    for file, reason in settings.unread.items():
        yield Finding("info", "condarc-unread", f"envspec can't read {file}: {reason}", remedy="correct the file")
    for file, channels in settings.channels.items():
        if "conda-forge" in channels and "defaults" in channels:
            message = f"{file} mixes conda-forge with defaults: their builds don't fit together"
            remedy = "conda config --remove channels defaults, and add nodefaults"
            yield Finding("warning", "mixed-channels", message, remedy=remedy)
    for file, priority in settings.priority.items():
        if priority in ("disabled", "false"):
            message = f"{file} has channel_priority {priority}: a newer build of any channel replaces the wanted one"
            yield Finding("warning", "channel-priority", message, remedy="conda config --set channel_priority strict")


_REMEDY = {
    "docker": "start the daemon (systemctl start docker), or add the user to the group docker",
    "podman": "run `podman info`; rootless podman needs /etc/subuid and user namespaces",
}


def containers(machine: Machine) -> Result:
    """Check docker, podman, apptainer and singularity, and NVIDIA's container toolkit."""
    engines = [tool for tool in machine.containers if not tool.name.startswith("nvidia")]
    if not engines:
        return Result("containers", "none", "PATH has none of docker, podman, apptainer and singularity")
    summary = ", ".join(f"{tool.name} {tool.version or '(no version)'}" for tool in machine.containers)
    findings = [
        Finding(
            "warning",
            "container-unusable",
            f"{tool.name} is installed but can't be used: {tool.problem}",
            remedy=_REMEDY.get(tool.name, f"run `{tool.name} version`"),
        )
        for tool in engines
        if tool.problem
    ]
    needs_toolkit = all(tool.name in ("docker", "podman") for tool in engines)
    if machine.nvidia.driver and needs_toolkit and len(engines) == len(machine.containers):
        message = "docker and podman reach a GPU only through NVIDIA's container toolkit, and nvidia-ctk isn't on PATH"
        remedy = "install nvidia-container-toolkit, or use `apptainer --nv`, which works without it"
        findings.append(Finding("warning", "container-toolkit-missing", message, remedy=remedy))
    return Result("containers", "ok", summary, tuple(findings))


def slurm(machine: Machine) -> Result:
    """Check Slurm's partitions and their GPUs."""
    cluster = machine.slurm
    if cluster is None:
        return Result("Slurm", "none", "sinfo isn't on PATH")
    if cluster.problem:
        remedy = "check that this is a login node of the cluster and that slurmctld is up (`scontrol ping`)"
        finding = Finding("warning", "slurm-silent", f"sinfo fails: {cluster.problem}", remedy=remedy)
        return Result("Slurm", "unknown", cluster.version or "no version", (finding,))
    gpus = [f"{name} ({resources})" for name, resources in cluster.partitions.items() if "gpu" in resources]
    summary = f"with GPUs: {', '.join(gpus)}" if gpus else "no partition lists GPUs"
    return Result("Slurm", "ok", f"{cluster.version or 'no version'}; {summary}")


Check = Callable[[Machine], Result]

HARDWARE: tuple[Check, ...] = (nvidia.driver, nvidia.nvml, nvidia.devices, glibc)
"""The checks that decide whether a spec can run here."""

CPU: tuple[Check, ...] = (glibc,)
"""The same for a spec without CUDA."""

CHECKS: tuple[Check, ...] = (
    *HARDWARE,
    nvidia.libraries,
    shared_memory,
    space,
    user_namespaces,
    containers,
    slurm,
    interpreter,
    leaks,
    compiler,
    conda,
)


def examine(machine: Machine, checks: tuple[Check, ...] = CHECKS) -> tuple[Result, ...]:
    """Run checks on a machine. Pure: they know only `machine`."""
    return tuple(check(machine) for check in checks)
