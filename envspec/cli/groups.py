"""Targets of a lock that have the same answer, told together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from envspec.lock.model import Lock, LockedTarget

Answer = TypeVar("Answer", bound=Hashable)


def grouped(
    targets: Iterable[LockedTarget], answer: Callable[[LockedTarget], Answer]
) -> tuple[tuple[tuple[str, ...], Answer], ...]:
    """The answers of the targets, each once, with the names of the targets that have it, in the targets' order."""
    groups: dict[Answer, list[str]] = {}
    for target in targets:
        groups.setdefault(answer(target), []).append(target.name)
    return tuple((tuple(names), value) for value, names in groups.items())


def heading(names: tuple[str, ...], lock: Lock) -> str:
    """How a group is called: "all 6 targets", or its names."""
    if len(names) == len(lock.targets) > 1:
        return "both targets" if len(names) == 2 else f"all {len(names)} targets"
    return ", ".join(names)
