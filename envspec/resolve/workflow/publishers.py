"""The publishers in a lock: those that it had of the same files, and what indexes say of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from envspec.lock.model import Lock, Pin, Publisher
from envspec.resolve.workflow.solve import Solved

AskPublishers = Callable[[Iterable[Pin]], Mapping[Pin, Publisher]]
"""Asks the indexes of pins who published them."""


def with_publishers(solved: Sequence[Solved], old: Lock | None, ask: AskPublishers) -> tuple[Solved, ...]:
    """Give solved targets with the publishers of their pip pins."""
    before = {(pin.index, pin.artifact): pin.publisher for target in old or () for pin in target.pins if pin.publisher}
    pins = {pin for one in solved for pin in one.pip if pin.artifact is not None and pin.url is None}
    known = {pin: said for pin in pins if (said := before.get((pin.index, pin.artifact))) is not None}
    known.update(ask(sorted(pins - known.keys(), key=lambda pin: (pin.index, pin.name, pin.version))))
    return tuple(
        replace(one, pip=tuple(replace(pin, publisher=known[pin]) if pin in known else pin for pin in one.pip))
        for one in solved
    )
