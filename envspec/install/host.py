"""This machine, and whether a target can run on it."""

from __future__ import annotations

import os
import platform

from msgspec import Struct

from envspec.base.errors import InputError
from envspec.lock.model import Lock, LockedTarget
from envspec.packages.version_numbers import numbers_in

_SUBDIRS = {
    ("Linux", "x86_64"): "linux-64",
    ("Linux", "aarch64"): "linux-aarch64",
    ("Darwin", "arm64"): "osx-arm64",
    ("Windows", "AMD64"): "win-64",
}


class InstallHost(Struct, frozen=True):
    """platform  conda's name of it ("linux-64"), or the system's own name where conda has none
    glibc     its version ("2.36"), None on a system without
    """

    platform: str
    glibc: str | None = None


def this_host() -> InstallHost:
    """Describe this machine."""
    system = platform.system(), platform.machine()
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):
        libc = ""
    name, _, version = libc.partition(" ")
    return InstallHost(_SUBDIRS.get(system, "-".join(system)), version if name == "glibc" else None)


def refuse_unfit(host: InstallHost, lock: Lock, target: LockedTarget) -> None:
    """Raise InputError for a target that can't run on `host`: another platform, or a newer glibc than it has."""
    inputs = target.inputs
    if inputs.platform != host.platform:
        fitting = [other.name for other in lock if other.inputs.platform == host.platform]
        raise InputError(
            f"{target.name} is for {inputs.platform}, and this machine is {host.platform}",
            hint=f"the targets that fit: {', '.join(fitting)}"
            if fitting
            else "install the target on a machine of that platform",
        )
    if inputs.glibc and host.platform.startswith("linux-") and not _at_least(host.glibc, inputs.glibc):
        own = f"glibc {host.glibc}" if host.glibc else "no glibc"
        hint = f'set `glibc = "{host.glibc or "…"}"` for the target and lock again, or run it in an image'
        raise InputError(f"{target.name} is locked for glibc {inputs.glibc}, and this machine has {own}", hint=hint)


def _at_least(version: str | None, needed: str) -> bool:
    return version is not None and numbers_in(version) >= numbers_in(needed)
