"""What wheels say of their own needs holds beside them."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.lock.model import Lock
from envspec.lock.rules.case import Flaw
from envspec.packages.edges import Markers
from envspec.packages.requirement import canonical_name, published_requirement


def broken(lock: Lock) -> Iterator[Flaw]:
    """Yield the pins that a correction of the lock rules out beside the wheel that it was read from."""
    for one in lock.corrections:
        constraint = published_requirement(one.constraint)
        for target in lock:
            if not Markers(target.inputs.platform, target.inputs.python).hold(one.constraint):
                continue
            pin = target.pin(one.package, "pip")
            other = target.pin(canonical_name(constraint.name), "pip")
            if pin is None or other is None or pin.artifact is None or pin.artifact.sha256 != one.sha256:
                continue
            if not constraint.specifier.contains(other.version, prereleases=True):
                sentence = f"{one.package} {one.version} needs {one.constraint} ({one.reason}), but {other.name} "
                yield Flaw("correction-broken", (target.name,), other.name, f"{sentence}{other.version} is pinned")
