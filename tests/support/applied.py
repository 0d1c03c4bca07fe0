"""A difference of two locks, applied to the old one: what `diff` leaves out shows."""

from __future__ import annotations

from envspec.lock.model import Lock, LockedTarget
from envspec.review.diff.model import Diff, TargetHead


def apply(change: Diff, old: Lock) -> Lock:
    """Give the lock that a change makes of the old one."""
    heads = {target.name: TargetHead.of(target) for target in old}
    pins = {target.name: {(pin.kind, pin.name): pin for pin in target.pins} for target in old}
    images = {image.name: image for image in old.images}
    for target in change.targets:
        assert heads.pop(target.name, None) == target.old
        if target.new is not None:
            heads[target.name] = target.new
    for package in change.packages:
        key = (package.kind, package.name)
        for one in package.changes:
            for name in one.targets:
                assert pins.setdefault(name, {}).pop(key, None) == one.old
                pins[name] |= {key: one.new} if one.new else {}
    for image in change.images:
        assert image.old is None or images.pop(image.old.name) == image.old
        images |= {image.new.name: image.new} if image.new else {}
    return Lock(
        name=change.names[1] if change.names else old.name,
        inputs=change.inputs[1] if change.inputs else old.inputs,
        targets=tuple(
            LockedTarget(
                name,
                head.inputs,
                tuple(pin for _, pin in sorted(pins.get(name, {}).items())),
                head.architectures,
                head.driver_floor,
            )
            for name, head in sorted(heads.items())
        ),
        images=tuple(images[name] for name in sorted(images)),
        corrections=change.corrections[1] if change.corrections else old.corrections,
        pythons=change.pythons[1] if change.pythons else old.pythons,
    )
