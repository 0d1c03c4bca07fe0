"""What the rules refuse of a solution, turned into bounds for the next one, and what that gave up. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from envspec.lock.model import Pin
from envspec.packages.requirement import asked
from envspec.rules.finding import Finding


@dataclass(frozen=True)
class GivenUp:
    """A pin that can't work on a target, and how the spec led to it.

    finding  of the rules, with its bound
    path     names of packages, from what the spec asks for to the pin
    pins     the versions of that solution
    """

    finding: Finding
    path: tuple[str, ...]
    pins: Mapping[str, str]

    def moved(self, now: Mapping[str, str]) -> str:
        """Find the first package of the path that has another version `now`, or none."""
        return next((name for name in self.path if now.get(name) != self.pins[name]), self.path[-1])


def told(given_up: Iterable[GivenUp], now: Mapping[str, str]) -> tuple[str, ...]:
    """Say what is locked instead, in a line for each package that had to move, with the first reason for it."""
    lines: dict[str, str] = {}
    for one in given_up:
        moved = one.moved(now)
        instead = f"{moved} {now[moved]} is locked, not {one.pins[moved]}" if moved in now else f"{moved} isn't locked"
        behind = " → ".join(one.path[one.path.index(moved) + 1 :])
        leads = f", which leads to {behind}" if behind else ""
        lines.setdefault(moved, f"{instead}{leads}: {one.finding.message}")
    return tuple(lines.values())


def given_up(findings: Iterable[Finding], pins: Sequence[Pin], requirements: Iterable[str]) -> tuple[GivenUp, ...]:
    """List what bounds may change of a refused solution; nothing if a part of the refusal has no bound."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if not all(finding.bound for finding in errors):
        return ()
    versions = {pin.name: pin.version for pin in pins}
    paths = _paths(pins, requirements)
    named = ((finding, asked(str(finding.bound)).name) for finding in errors)
    return tuple(GivenUp(finding, paths.get(name, (name,)), versions) for finding, name in named if name in versions)


def explained(finding: Finding, of: Iterable[GivenUp]) -> Finding:
    """Add to a refusal that no other solution avoids how the spec leads to it, and the nearest change."""
    one = next((one for one in of if one.finding == finding), None)
    if one is None:
        return finding
    first = one.path[0]
    way = f" ({' → '.join(one.path)})" if len(one.path) > 1 else ""
    remedy = (
        f"no version of {first} that the spec allows works without it: loosen the bounds of {first}, or leave it out"
    )
    if finding.code == "cuda-major-mixed":
        remedy += ", or give the target another CUDA"
    return replace(finding, message=f"{finding.message}{way}", remedy=remedy)


def _paths(pins: Sequence[Pin], requirements: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Find a shortest path to every pin."""
    by_name = {pin.name: pin for pin in pins}
    paths: dict[str, tuple[str, ...]] = {}
    waiting: list[tuple[str, tuple[str, ...]]] = [(asked(line).name, ()) for line in requirements]
    while waiting:
        following: list[tuple[str, tuple[str, ...]]] = []
        for name, way in waiting:
            if name in by_name and name not in paths:
                paths[name] = (*way, name)
                following += [(asked(line).name, paths[name]) for line in by_name[name].dependencies]
        waiting = following
    return paths
