"""A summary of what `envspec lock` changed, in a few lines; `envspec diff` reviews."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from envspec.base.texts import plural
from envspec.lock.model import Lock

_MOST = 10
"""The number of changes that are listed; `envspec diff` shows all, with their meaning."""


def describe(lock: Lock) -> str:
    """ "6 targets, 152 packages" (a package counts once, however many targets have it), and the releases of torch where
    targets have different ones."""
    packages = {(pin.kind, pin.name) for target in lock for pin in target.pins}
    torches = [f"{release} in {', '.join(names)}" for release, names in lock.torches.items()]
    more = f"; torch differs: {'; '.join(torches)}" if len(torches) > 1 else ""
    return f"{plural(len(lock.targets), 'target')}, {plural(len(packages), 'package')}{more}"


def changes(old: Lock | None, new: Lock) -> list[str]:
    """Describe the changes of each package, build of Python and image digest by name, a line each, with the targets
    where not all that have the package changed alike.

    Empty for a first lock, in which everything is new.
    """
    if old is None:
        return []
    before, after = _versions(old), _versions(new)
    shared = {"", *({target.name for target in old} & {target.name for target in new})}
    lines = []
    for name in sorted({*before, *after}):
        was, now = before.get(name, {}), after.get(name, {})
        moves: dict[tuple[str, str], list[str]] = {}
        for target in sorted({*was, *now}):
            if target not in shared and (was.get(target) or now[target]) in (now if target in was else was).values():
                continue  # a target that came or went, and others have it so
            moves.setdefault((was.get(target, ""), now.get(target, "")), []).append(target)
        for (left, right), targets in moves.items():
            if left != right:
                where = f" [{', '.join(targets)}]" if len(moves) > 1 else ""
                line = f"added {name} {right}" if not left else f"removed {name} {left}"
                lines.append(f"{f'changed {name} {left} -> {right}' if left and right else line}{where}")
    return lines


def shorten(lines: Sequence[str], old: Lock | None, new: Lock) -> list[str]:
    """Return ten of the changes and a count of the others; first what a spec asks for by name."""
    if len(lines) <= _MOST:
        return list(lines)
    requested = {pin.name for lock in (old, new) for target in lock or () for pin in target.pins if pin.direct}
    ordered = sorted(lines, key=lambda line: line.split()[1] not in requested)
    kinds = Counter(line.partition(" ")[0] for line in ordered[_MOST:])
    counts = ", ".join(f"{kinds[kind]} {kind}" for kind in ("added", "changed", "removed") if kinds[kind])
    left = plural(len(lines) - _MOST, "more change")
    return [*ordered[:_MOST], f"… and {left}: {counts} (--verbose lists them)"]


def _versions(lock: Lock) -> dict[str, dict[str, str]]:
    """Return versions by name and target; those that all targets share stand under ""."""
    versions: dict[str, dict[str, str]] = {}
    for target in lock:
        for pin in target.pins:
            versions.setdefault(pin.name, {})[target.name] = pin.version
    for python in lock.pythons:
        versions[f"python for {python.platform}"] = {"": f"{python.version}+{python.build}"}
    return {**versions, **{image.name: {"": image.digest[: len("sha256:") + 12]} for image in lock.images}}
