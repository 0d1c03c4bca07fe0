"""NVIDIA's driver versions: branches, and the numbers that Windows' and Jetson's drivers have.

Linux' branches are multiples of five (450 to 610: the toolkits' own drivers in data/toolkits.toml). Windows' versions
count on within a branch: 526.98, 527.41, 528.33 and 529.x are of R525, 551.61 to 553.x of R550 (the same table's column
for Windows; NVIDIA's release notes name R525 for them). Under WSL the driver is Windows', and programs see its number.
A Jetson's driver comes with its JetPack and says only its branch: "580.00" with JetPack 7.0, which runs CUDA 13.0 whose
floor is 580.65.06 elsewhere.
"""

from __future__ import annotations

from envspec.packages.version_numbers import numbers

_FIRST_REGULAR = 450
"""Older branches had other numbers (396, 418)."""


def branch(driver: str) -> int:
    """Give the branch of a driver: 525 of "525.60.13", and of Windows' "528.33"."""
    first = numbers(driver)[0]
    return first - first % 5 if first >= _FIRST_REGULAR else first


def is_windows(driver: str) -> bool:
    """Say whether only a driver for Windows has this number. Some numbers are of both: then it says False."""
    return numbers(driver)[0] != branch(driver)


def platform_of(driver: str | None, platform: str) -> str:
    """Give the platform whose drivers a number is of: "win-64" under WSL, where the target is for Linux."""
    return "win-64" if driver and is_windows(driver) else platform


def reaches(driver: str, floor: str, *, integrated: bool = False) -> bool:
    """Say whether a driver is as new as a floor. A Jetson's tells only its branch."""
    if integrated:
        return branch(driver) >= branch(floor)
    return numbers(driver) >= numbers(floor)
