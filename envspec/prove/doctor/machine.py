"""A machine as the checks see it: its values, and the reasons why some are missing.

`envspec.prove.doctor.gather` reads the real machine; tests write their own. This module judges nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class Device(Struct, frozen=True):
    """A GPU that the driver reports. `capability` ("9.0") and `memory` (bytes) are None without NVML."""

    name: str
    capability: str | None = None
    memory: int | None = None
    mig: bool = False


class Nvidia(Struct, frozen=True):
    """NVIDIA's hardware and software.

    pci          display devices of NVIDIA on the PCI bus, as addresses
    driver       the version of the loaded kernel module, None if none is loaded
    nvml         NVML's answer: "answered", "no-module" (nvidia-ml-py isn't installed), "no-library" (the driver's
                 libnvidia-ml isn't found), or NVML's own error
    devices      the GPUs, from NVML or, if it reports none, from the kernel module
    closed       device files that exist and that this user may not open
    visible      CUDA_VISIBLE_DEVICES, None if unset
    """

    pci: tuple[str, ...] = ()
    driver: str | None = None
    nvml: str = "no-library"
    devices: tuple[Device, ...] = ()
    closed: tuple[str, ...] = ()
    visible: str | None = None

    @property
    def hidden(self) -> bool:
        """Return whether CUDA_VISIBLE_DEVICES hides every GPU from programs."""
        return self.visible is not None and self.visible.strip() in ("", "-1", "NoDevFiles")


class ForeignLibrary(Struct, frozen=True):
    """A CUDA library outside of any environment. `via` is LD_LIBRARY_PATH, LD_PRELOAD or ldconfig."""

    path: str
    via: str


class Space(Struct, frozen=True):
    """Room on a file system, in bytes and inodes; `inodes` is None if the file system doesn't count them."""

    role: str
    path: str
    free: int
    total: int
    inodes_free: int | None = None
    read_only: bool = False


class Quota(Struct, frozen=True):
    """A user's quota on a file system, in KiB and files; None is no limit."""

    filesystem: str
    used: int
    limit: int | None
    files: int
    file_limit: int | None


class Tool(Struct, frozen=True):
    """A program. `version` is None if unknown; `problem` says why the program can't be used, None if it can."""

    name: str
    path: str
    version: str | None = None
    problem: str | None = None


class Slurm(Struct, frozen=True):
    """Slurm. `partitions` maps each to its generic resources ("gpu:h100:8"), "" without any."""

    version: str | None
    partitions: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


class UserNamespaces(Struct, frozen=True):
    """User namespaces. `works` is the result of `unshare`, None if it isn't installed. `settings` are the kernel's."""

    works: bool | None
    problem: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


class UserSite(Struct, frozen=True):
    """Packages in `~/.local`, which every Python of that version imports."""

    python: str
    path: str
    packages: tuple[str, ...]


class Pythons(Struct, frozen=True):
    """version     of the Python that runs envspec
    versions       those with an interpreter on PATH ("3.12")
    user_sites     packages in ~/.local
    no_user_site   PYTHONNOUSERSITE is set
    path           PYTHONPATH, None if unset
    headers        whether `version` has Python.h
    """

    version: str
    executable: str
    versions: tuple[str, ...] = ()
    user_sites: tuple[UserSite, ...] = ()
    no_user_site: bool = False
    path: str | None = None
    headers: bool = False


class Conda(Struct, frozen=True):
    """prefix     the active environment (CONDA_PREFIX), None without one
    virtualenv    the active virtual environment (VIRTUAL_ENV)
    channels      `channels` of each configuration file that has them, by file
    priority      `channel_priority` of each configuration file that has it, by file
    unread        why a configuration file couldn't be read, by file
    """

    prefix: str | None = None
    virtualenv: str | None = None
    channels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    priority: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)


class Machine(Struct, frozen=True):
    """One machine. `platform` is conda's name for it (linux-64); `glibc` is None with another C library;
    `shm` is the size of /dev/shm in bytes, None without one."""

    platform: str
    glibc: str | None
    pythons: Pythons
    nvidia: Nvidia = Nvidia()
    libraries: tuple[ForeignLibrary, ...] = ()
    shm: int | None = None
    spaces: tuple[Space, ...] = ()
    quotas: tuple[Quota, ...] = ()
    containers: tuple[Tool, ...] = ()
    slurm: Slurm | None = None
    namespaces: UserNamespaces = UserNamespaces(None)
    compiler: Tool | None = None
    conda: Conda = Conda()
