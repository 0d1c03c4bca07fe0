"""From records to how far each target is proved: pure."""

from __future__ import annotations

from collections.abc import Iterable

from envspec.lock.model import Lock, LockedTarget
from envspec.lock.slice import slice_digest, slice_of
from envspec.prove.proof.model import Proof, Standing


def standings(lock: Lock, targets: Iterable[LockedTarget], records: Iterable[Proof]) -> tuple[Standing, ...]:
    """Say how far each of these targets is proved. The lock must have been judged: that is the first rung."""
    known = tuple(record for record in records if record.spec == lock.name)
    return tuple(_standing(lock, target, known) for target in targets)


def _standing(lock: Lock, target: LockedTarget, records: tuple[Proof, ...]) -> Standing:
    digest = slice_digest(slice_of(lock, target))
    build = lock.python(target)
    found: dict[str, tuple[str, ...]] = {"locked": ()}
    pythons: dict[str, set[str | None]] = {}
    outdated = []
    for record in records:
        if record.target != target.name:
            continue
        if record.refused is not None:
            outdated.append((record.file, record.refused))
        elif record.lock_digest != digest:
            outdated.append((record.file, "it is of another lock of this target"))
        else:
            other = record.python if build and record.python != build.version else None
            for rung in record.rungs:
                found[rung] = (*found.get(rung, ()), record.file)
                pythons.setdefault(rung, set()).add(other)
    # a rung that some record proves with the lock's own, or without any, needs no word
    others = {rung: max(filter(None, versions)) for rung, versions in pythons.items() if None not in versions}
    version = build.version if build else None
    return Standing(target.name, target.inputs.cuda is not None, found, tuple(outdated), others, version)
