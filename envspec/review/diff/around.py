"""What a change of a pin has to be seen with: the machines, the rest of the old lock, what explains requirements."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.packages.edges import Markers
from envspec.packages.stated import stated_for
from envspec.review.diff.matching import Match
from envspec.review.diff.model import PinChange
from envspec.review.diff.risk import ALONE, Around
from envspec.review.diff.side import Side


class Circumstances:
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

    def _moved(self, old: Pin, new: Pin, name: str) -> tuple[str, ...]:
        lines = {*old.dependencies} ^ {*new.dependencies}
        if lines and new.kind == "pip":
            targets = [target for target in (self.old.target(name), self.new.target(name)) if target]
            if any(_is_stated(target, new) for target in targets):
                return ()
            markers = Markers(targets[-1].inputs.platform, targets[-1].inputs.full_python)
            lines = {line for line in lines - _corrected(new) if _holds(markers, line)}
        return tuple(sorted(_signed(old, new, lines)))


def _is_stated(target: LockedTarget, pin: Pin) -> bool:
    """Say whether the spec states what a source requires: then its METADATA isn't asked."""
    return not pin.is_wheel and stated_for(target.inputs.metadata, pin.name, pin.version) is not None


def _corrected(pin: Pin) -> frozenset[str]:
    from envspec.facts.corrections import corrections

    return frozenset(corrections().left_out(pin.name, pin.version, ()))


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
    """Say whether a requirement holds whatever extras are asked for. One that can't be read counts."""
    try:
        return markers.hold(line)
    except ValueError:
        return True
