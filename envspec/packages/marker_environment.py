"""The marker environment of a target (PEP 508), made without an interpreter of the target."""

from __future__ import annotations

from envspec.base.errors import InputError

# (sys_platform, platform_machine, platform_system, os_name), by conda subdir.
_PLATFORMS = {
    "linux-64": ("linux", "x86_64", "Linux", "posix"),
    "linux-aarch64": ("linux", "aarch64", "Linux", "posix"),
    "osx-64": ("darwin", "x86_64", "Darwin", "posix"),
    "osx-arm64": ("darwin", "arm64", "Darwin", "posix"),
    "win-64": ("win32", "AMD64", "Windows", "nt"),
}

PLATFORMS = tuple(_PLATFORMS)
"""The conda subdirs with a known marker environment."""


def marker_environment(platform: str, python: str) -> dict[str, str]:
    """Give the value of every PEP 508 marker variable but `extra`, for CPython `python` ("3.12.14") on a conda subdir.

    Without a patch version ("3.12") that counts as 0, as in uv for `--python-version 3.12`.
    `platform_release` and `platform_version` belong to a machine, not to a target, and are empty.

    Raises InputError for a platform that envspec doesn't know.
    """
    if platform not in _PLATFORMS:
        raise InputError(f'unknown platform "{platform}"', hint=f"one of: {', '.join(_PLATFORMS)}")
    sys_platform, machine, system, os_name = _PLATFORMS[platform]
    minor = ".".join(python.split(".")[:2])
    full_version = f"{python}.0" if python == minor else python
    return {
        "implementation_name": "cpython",
        "implementation_version": full_version,
        "os_name": os_name,
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": system,
        "platform_version": "",
        "python_full_version": full_version,
        "python_version": minor,
        "sys_platform": sys_platform,
    }


def platform_marker(platform: str) -> str:
    """Give the marker that holds on a conda subdir alone. Raises InputError for an unknown platform."""
    environment = marker_environment(platform, "3")
    return " and ".join(f"{name} == '{environment[name]}'" for name in ("sys_platform", "platform_machine"))
