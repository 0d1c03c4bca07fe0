"""Checks of the operating system: C library, shared memory, user namespaces, room on file systems."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.base.finding import Finding
from envspec.base.texts import byte_size
from envspec.facts import torch_builds
from envspec.packages.version_numbers import numbers
from envspec.prove.doctor.machine import Machine, Quota, Result, Space

SHARED_MEMORY = 1 << 30
"""Bytes of /dev/shm below which DataLoader workers run out of it: docker's default is 64 MiB."""

ROOM = 20 << 30
"""Bytes: an environment with torch takes 5 to 10 GB, its download and an image as much again."""

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
    release = torch_builds.newest()
    floors = {b.glibc for b in torch_builds.builds(release.version, platform=machine.platform) if b.glibc}
    floor = max(floors, key=numbers, default=None)
    if floor is None or numbers(machine.glibc) >= numbers(floor):
        return Result("glibc", "ok", machine.glibc)
    older = [b for b in torch_builds.builds(platform=machine.platform) if b.glibc and _fits(b.glibc, machine.glibc)]
    last = f"; torch {older[-1].version} is the last that fits" if older else ""
    message = f"glibc {machine.glibc} is older than {floor}, which torch {release.version} needs{last}"
    remedy = f'set glibc = "{machine.glibc}" in the target, or use a container with a newer glibc'
    return Result("glibc", "ok", machine.glibc, (Finding("warning", "glibc-old", message, remedy=remedy),))


def _fits(floor: str, glibc: str) -> bool:
    return numbers(floor) <= numbers(glibc)


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
        return Result("/dev/shm", "ok", byte_size(machine.shm))
    message = f"/dev/shm has {byte_size(machine.shm)}: DataLoader workers and NCCL die of a bus error when it is full"
    remedy = "start the container with --shm-size 8g or --ipc=host; elsewhere: mount -o remount,size=8g /dev/shm"
    return Result("/dev/shm", "ok", byte_size(machine.shm), (Finding("warning", "shm-small", message, remedy=remedy),))


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
    finding = Finding(
        "warning",
        "no-user-namespaces",
        f"this user can't create user namespaces ({why}): rootless podman and unprivileged apptainer don't work",
        remedy="ask the administrator for user namespaces, or build images elsewhere; in a container this is normal",
    )
    return Result("user namespaces", "ok", "don't work", (finding,))


def _forbids(name: str, value: str) -> bool:
    return value != "0" if name.endswith("apparmor_restrict_unprivileged_userns") else value == "0"


def space(machine: Machine) -> Result:
    """Check the room for environments and caches: bytes, inodes and quota."""
    findings = (*(f for s in machine.spaces for f in _space(s)), *(f for q in machine.quotas for f in _quota(q)))
    if not machine.spaces:
        return Result("space", "unknown", "no folder to look at", findings)
    told = "; ".join(f"{s.role} {byte_size(s.free)} free{_inodes(s)}" for s in machine.spaces)
    return Result("space", "ok", told, findings)


def _inodes(space: Space) -> str:
    return "" if space.inodes_free is None else f", {space.inodes_free:,} inodes"


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
        yield Finding("warning", "inodes-low", message, remedy="use an apptainer image, which is one file")


def _quota(quota: Quota) -> Iterator[Finding]:
    if quota.limit is not None and (left := max(0, quota.limit - quota.used) << 10) < ROOM:
        message = f"the quota on {quota.filesystem} leaves {byte_size(left)} of {byte_size(quota.limit << 10)}"
        yield Finding(
            "warning", "quota-low", message, remedy="free some space, or work on a file system for scratch data"
        )
    if quota.file_limit is not None and (files := max(0, quota.file_limit - quota.files)) < FILES:
        message = f"the quota on {quota.filesystem} leaves {files:,} of {quota.file_limit:,} files"
        yield Finding("warning", "quota-low", message, remedy="use an apptainer image, which is one file")
