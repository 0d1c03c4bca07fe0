"""Variants that came after a lock and suit its targets better: news, for nothing that is locked has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from envspec.lock.machine import machine_of, versions_of
from envspec.lock.model import LockedTarget, Pin
from envspec.packages.variant_choice import TargetMachine


@dataclass(frozen=True)
class BetterVariant:
    """A pin of which the index has a variant that its targets would get today.

    locked, better  labels
    """

    name: str
    index: str
    version: str
    locked: str
    better: str
    targets: tuple[str, ...] = ()


def better_variants(
    targets: Iterable[LockedTarget], offered: Callable[[Pin, TargetMachine], str | None]
) -> tuple[BetterVariant, ...]:
    """Find the pins with a better variant. `offered` gives the label that a machine would get of a pin's release today,
    None where that isn't known. Raises what it raises."""
    found: dict[BetterVariant, list[str]] = {}
    for target in targets:
        for pin in target.pins:
            variant = pin.artifact.variant if pin.artifact else None
            if variant is None or pin.url or pin.git:
                continue
            today = offered(pin, machine_of(target.inputs, versions_of(target.pins)))
            if today not in (None, variant.label):
                one = BetterVariant(pin.name, pin.index, pin.version, variant.label, str(today))
                found.setdefault(one, []).append(target.name)
    return tuple(replace(one, targets=tuple(names)) for one, names in sorted(found.items(), key=lambda i: i[0].name))
