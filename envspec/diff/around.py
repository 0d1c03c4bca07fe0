"""What a change of a pin has to be seen with: the machines, the rest of the old lock, what explains new requirements."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from envspec.diff.matching import Match
from envspec.diff.model import PinChange
from envspec.diff.risk import ALONE, Around
from envspec.diff.side import Side
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.packages.edges import Markers


class Surroundings:
    """The two sides of a comparison, their targets matched."""

    def __init__(self, old: Side, new: Side, match: Match) -> None:
        self.are_locks = old.format == new.format == "envspec"
        self.old, self.new = match.old, match.new

    def of(self, change: PinChange) -> Around:
        """Return what a change has to be seen with."""
        if change.new is None:
            return ALONE
        if change.old is None:
            known = (change.new.kind, change.new.name) in self._names
            return Around(news=bool(self.old.targets) and not known, first=not self.old.targets)
        if not self.are_locks:
            return ALONE
        exact = [name for name in change.targets if self._is_exact(name)]
        return Around(exact=bool(exact), moved=self._moved(change.old, change.new, exact[0]) if exact else ())

    @cached_property
    def _names(self) -> frozenset[tuple[str, str]]:
        return frozenset((pin.kind, pin.name) for target in self.old for pin in target.pins)

    def _is_exact(self, name: str) -> bool:
        was, now = _machine(self.old, name), _machine(self.new, name)
        return was == now and was is not None

    def _moved(self, old: Pin, new: Pin, target: str) -> tuple[str, ...]:
        lines = {*old.dependencies} ^ {*new.dependencies}
        if not lines or old.kind == "conda":
            return tuple(sorted(_signed(old, new, lines)))
        inputs = self.new.target(target)
        assert inputs is not None, "the target is exact"
        explained = self._explained(new)
        markers = Markers(inputs.inputs.platform, inputs.inputs.python)
        return tuple(sorted(_signed(old, new, {one for one in lines - explained if _holds(markers, one)})))

    def _explained(self, pin: Pin) -> frozenset[str]:
        """Return the requirements of a package that aren't its METADATA's: the spec states them, or envspec's
        corrections add them. Whatever a spec states, METADATA isn't asked."""
        from envspec.facts.corrections import corrections

        stated = (
            line
            for lock in (self.old, self.new)
            for one in lock.inputs.metadata
            if one.name == pin.name
            for line in one.dependencies
        )
        return frozenset((*stated, *corrections().left_out(pin.name, pin.version, ())))


def _machine(lock: Lock, name: str) -> tuple[str | None, ...] | None:
    """Return what decides which file of a release a target installs, and which of its requirements hold."""
    target: LockedTarget | None = lock.target(name)
    if target is None:
        return None
    inputs = target.inputs
    return inputs.platform, inputs.python, inputs.glibc, inputs.cuda


def _signed(old: Pin, new: Pin, lines: set[str]) -> Iterator[str]:
    yield from (f"requires {line} now" for line in lines & {*new.dependencies})
    yield from (f"no longer requires {line}" for line in lines & {*old.dependencies})


def _holds(markers: Markers, line: str) -> bool:
    """Say whether a requirement holds whatever extras are asked for. One that nobody can read counts."""
    try:
        return markers.hold(line)
    except ValueError:
        return True
