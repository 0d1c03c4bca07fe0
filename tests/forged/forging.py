"""What a forgery is, and how one is made: a lock with one thing changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from envspec.lock.model import Artifact, Lock, LockedTarget, Pin

EVIL = "e" * 64


@dataclass(frozen=True)
class Forgery:
    """`spec` is the shipped spec's name, `code` what the judge says; `stale` that the lock's inputs were changed along,
    so that `check` names that instead. `added` is text for the end of the spec's [pip], and `honest` what makes the
    shipped lock one of that spec.
    """

    name: str
    spec: str
    code: str
    forge: Callable[[Lock], Lock]
    stale: bool = False
    added: str = ""
    honest: Callable[[Lock], Lock] = lambda lock: lock


FORGERIES: list[Forgery] = []


def forgery(spec: str, code: str, **more: Any) -> Callable[[Callable[[Lock], Lock]], Callable[[Lock], Lock]]:
    def register(forge: Callable[[Lock], Lock]) -> Callable[[Lock], Lock]:
        FORGERIES.append(Forgery(forge.__name__.replace("_", "-"), spec, code, forge, **more))
        return forge

    return register


def each_target(lock: Lock, change: Callable[[LockedTarget], LockedTarget]) -> Lock:
    return replace(lock, targets=tuple(change(target) for target in lock.targets))


def each_pin(lock: Lock, name: str, change: Callable[[Pin], Pin], kind: str = "pip", target: str | None = None) -> Lock:
    """With one package changed, in every target that has it or in one."""

    def changed(locked: LockedTarget) -> LockedTarget:
        if target not in (None, locked.name):
            return locked
        return replace(locked, pins=tuple(change(p) if (p.kind, p.name) == (kind, name) else p for p in locked.pins))

    return each_target(lock, changed)


def with_pin(lock: Lock, pin: Pin, asker: str | None = None) -> Lock:
    """With a package more; `asker` gets an edge to it."""

    def changed(locked: LockedTarget) -> LockedTarget:
        others = (p for p in locked.pins if (p.kind, p.name) != (pin.kind, pin.name))
        pins = sorted((*others, pin), key=lambda p: (p.kind, p.name))
        return replace(locked, pins=tuple(pins))

    edged = each_pin(lock, asker, lambda p: replace(p, dependencies=(*p.dependencies, pin.name))) if asker else lock
    return each_target(edged, changed)


def without(lock: Lock, name: str, kind: str = "pip") -> Lock:
    return each_target(lock, lambda t: replace(t, pins=tuple(p for p in t.pins if (p.kind, p.name) != (kind, name))))


def with_file(pin: Pin, file: str, sha256: str | None = None) -> Pin:
    assert pin.artifact is not None
    return replace(pin, artifact=replace(pin.artifact, file=file, sha256=sha256 or pin.artifact.sha256))


def at_version(pin: Pin, version: str) -> Pin:
    """Another version, its file named rightly."""
    assert pin.artifact is not None
    file = pin.artifact.file.replace(f"-{pin.version}-", f"-{version}-")
    return replace(with_file(pin, file, EVIL), version=version)


def wheel(name: str, version: str = "1.0", index: str = "pypi") -> Pin:
    artifact = Artifact(f"{name.replace('-', '_')}-{version}-py3-none-any.whl", EVIL, 1000)
    return Pin("pip", name, version, index, artifact, licence="MIT")
