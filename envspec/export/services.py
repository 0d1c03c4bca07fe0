"""The requirements of a spec's services on a target."""

from __future__ import annotations

from envspec.lock.model import LockedTarget
from envspec.spec.model import Spec

_NEEDS = {"jupyter": "jupyterlab", "tensorboard": "tensorboard"}
"""Service -> its package, which the lock must have. ssh comes from the image's apt, code-server from its own image."""


def missing_packages(spec: Spec, target: LockedTarget) -> tuple[tuple[str, str], ...]:
    """List the services of a spec whose package a target lacks, each with that package."""
    needed = ((name, _NEEDS[name]) for name in spec.image.services if name in _NEEDS)
    return tuple((name, package) for name, package in needed if target.pin(package) is None)
