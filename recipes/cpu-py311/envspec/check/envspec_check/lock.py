"""The pins of the target, and how their versions are compared."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Optional, Tuple


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
