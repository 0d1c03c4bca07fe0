"""A summary of what `envspec lock` changed, in a few lines; `envspec diff` reviews."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from envspec.lock.model import Lock

_MOST = 10
"""How many changes are listed; `envspec diff` shows all, with what they mean."""


def describe(lock: Lock) -> str:
    """ "6 targets, 152 packages" (a package counts once, however many targets have it), and the releases of torch where
    targets have different ones."""
    packages = {(pin.kind, pin.name) for target in lock for pin in target.pins}
    torches = [f"{release} in {', '.join(names)}" for release, names in lock.torches.items()]
    more = f"; torch differs: {'; '.join(torches)}" if len(torches) > 1 else ""
    return f"{_count(len(lock.targets), 'target')}, {_count(len(packages), 'package')}{more}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def changes(old: Lock | None, new: Lock) -> list[str]:
    """Describe each changed package, build of Python and image digest in one line, by name.

    Empty for a first lock, in which everything is new.
    """
    if old is None:
        return []
    before, after = _versions(old), _versions(new)
    lines = []
    for name in sorted({*before, *after}):
        was, now = before.get(name, ""), after.get(name, "")
        if was == now:
            continue
        lines.append(
            f"added {name} {now}"
            if not was
            else f"removed {name} {was}"
            if not now
            else f"changed {name} {was} -> {now}"
        )
    return lines


def shorten(lines: Sequence[str], old: Lock | None, new: Lock) -> list[str]:
    """Return ten of the changes and a count of the others; first what a spec asks for by name."""
    if len(lines) <= _MOST:
        return list(lines)
    asked = {pin.name for lock in (old, new) for target in lock or () for pin in target.pins if pin.direct}
    ordered = sorted(lines, key=lambda line: line.split()[1] not in asked)
    kinds = Counter(line.partition(" ")[0] for line in ordered[_MOST:])
    counts = ", ".join(f"{kinds[kind]} {kind}" for kind in ("added", "changed", "removed") if kinds[kind])
    left = _count(len(lines) - _MOST, "more change")
    return [*ordered[:_MOST], f"… and {left}: {counts} (--verbose lists them)"]


def _versions(lock: Lock) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for target in lock:
        for pin in target.pins:
            found.setdefault(pin.name, set()).add(pin.version)
    for one in lock.pythons:
        found[f"python for {one.platform}"] = {f"{one.version}+{one.build}"}
    images = {image.name: image.digest[: len("sha256:") + 12] for image in lock.images}
    return {**{name: ", ".join(sorted(versions)) for name, versions in found.items()}, **images}
