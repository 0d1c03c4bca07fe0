"""Two locks -> what differs, and back: `apply(diff(old, new), old) == new`."""

from __future__ import annotations

from collections.abc import Mapping

from envspec.base.errors import InternalError
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.review.diff.model import Diff, ImageChange, PackageChange, PinChange, TargetChange, TargetHead

_Key = tuple[str, str]


def diff(old: Lock, new: Lock) -> Diff:
    """Return what leads from `old` to `new`. Targets are matched by name, packages by kind and name."""
    before = {target.name: target for target in old}
    after = {target.name: target for target in new}
    names = sorted({*before, *after})
    heads = (
        TargetChange(name, _head(before.get(name)), _head(after.get(name)))
        for name in names
        if _head(before.get(name)) != _head(after.get(name))
    )
    changes: dict[_Key, dict[tuple[Pin | None, Pin | None], list[str]]] = {}
    equal: dict[tuple[int, int], bool] = {}
    for name in names:
        was, now = _pins(before.get(name)), _pins(after.get(name))
        for key in {**was, **now}:
            pair = (was.get(key), now.get(key))
            # targets that agree share their pins, and comparing these by value takes longest
            identities = (id(pair[0]), id(pair[1]))
            if identities not in equal:
                equal[identities] = pair[0] == pair[1]
            if not equal[identities]:
                changes.setdefault(key, {}).setdefault(pair, []).append(name)
    return Diff(
        names=(old.name, new.name) if old.name != new.name else None,
        inputs=(old.inputs, new.inputs) if old.inputs != new.inputs else None,
        targets=tuple(heads),
        packages=tuple(
            PackageChange(*key, tuple(PinChange(*pair, tuple(found)) for pair, found in changes[key].items()))
            for key in sorted(changes)
        ),
        images=tuple(
            ImageChange(old.image(name), new.image(name))
            for name in sorted({image.name for image in (*old.images, *new.images)})
            if old.image(name) != new.image(name)
        ),
        corrections=(old.corrections, new.corrections) if old.corrections != new.corrections else None,
        pythons=(old.pythons, new.pythons) if old.pythons != new.pythons else None,
    )


def apply(change: Diff, old: Lock) -> Lock:
    """Return the lock that `change` makes of `old`. Raises InternalError when it isn't a change of this lock."""
    heads = {target.name: TargetHead.of(target) for target in old}
    pins = {target.name: _pins(target) for target in old}
    for target in change.targets:
        if heads.pop(target.name, None) != target.old:
            raise InternalError(f"the change of target {target.name} is not one of this lock")
        if target.new is not None:
            heads[target.name] = target.new
            pins.setdefault(target.name, {})
    for package in change.packages:
        key = (package.kind, package.name)
        for one in package.changes:
            for name in one.targets:
                if pins[name].pop(key, None) != one.old:
                    raise InternalError(f"the change of {package.name} in {name} is not one of this lock")
                if one.new is not None:
                    pins[name][key] = one.new
    images = {image.name: image for image in old.images}
    for image in change.images:
        if image.old is not None and images.pop(image.old.name, None) != image.old:
            raise InternalError(f"the change of the image {image.old.name} is not one of this lock")
        if image.new is not None:
            images[image.new.name] = image.new
    return Lock(
        name=change.names[1] if change.names else old.name,
        inputs=change.inputs[1] if change.inputs else old.inputs,
        targets=tuple(_target(name, heads[name], pins[name]) for name in sorted(heads)),
        images=tuple(images[name] for name in sorted(images)),
        corrections=change.corrections[1] if change.corrections else old.corrections,
        pythons=change.pythons[1] if change.pythons else old.pythons,
    )


def _head(target: LockedTarget | None) -> TargetHead | None:
    return None if target is None else TargetHead.of(target)


def _pins(target: LockedTarget | None) -> dict[_Key, Pin]:
    return {} if target is None else {(pin.kind, pin.name): pin for pin in target.pins}


def _target(name: str, head: TargetHead, pins: Mapping[_Key, Pin]) -> LockedTarget:
    in_order = tuple(pins[key] for key in sorted(pins))
    return LockedTarget(name, head.inputs, in_order, head.architectures, head.driver_floor)
