"""Targets of a lock that share an answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from envspec.lock.model import Lock, LockedTarget

Answer = TypeVar("Answer", bound=Hashable)


def grouped(
    targets: Iterable[LockedTarget], answer: Callable[[LockedTarget], Answer]
) -> tuple[tuple[tuple[str, ...], Answer], ...]:
    """Group the targets by their answer: each answer once, with the names of its targets, in the targets' order."""
    groups: dict[Answer, list[str]] = {}
    for target in targets:
        groups.setdefault(answer(target), []).append(target.name)
    return tuple((tuple(names), value) for value, names in groups.items())


def heading(names: tuple[str, ...], lock: Lock) -> str:
    """Name a group: "all 6 targets", or its targets' names."""
    if len(names) == len(lock.targets) > 1:
        return "both targets" if len(names) == 2 else f"all {len(names)} targets"
    return ", ".join(names)
