"""An image's metadata, whoever makes it: variables, labels, what it starts and how its health is checked."""

from __future__ import annotations

from dataclasses import dataclass

from envspec.export.plan import CARRIED, ENVIRONMENT, Plan

ENTRYPOINT = ("/usr/bin/tini", "--", f"{CARRIED}/entrypoint.sh")
"""What an image starts: an init that reaps and forwards signals, and the carried script under it."""


@dataclass(frozen=True)
class HealthCheck:
    """A command, and its times in seconds."""

    command: tuple[str, ...]
    interval: int
    timeout: int
    start_period: int


HEALTH_CHECK = HealthCheck((f"{CARRIED}/healthcheck.sh",), interval=30, timeout=10, start_period=60)


def image_variables(plan: Plan) -> dict[str, str]:
    """Make the variables of an image's processes, in order. What a base says of PYTHONPATH would come before the lock's
    modules."""
    path = f"{ENVIRONMENT}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    own = "CONDA_PREFIX" if plan.explicit else "VIRTUAL_ENV"
    return {"PATH": path, own: ENVIRONMENT, "PYTHONPATH": "", **dict(plan.env)}


BASE_LABELS = "org.opencontainers.image.base."
"""What the labels that name an image's base begin with."""


def recipe_labels(plan: Plan) -> dict[str, str]:
    """Make the labels that recipes give an image: none moves with a package or with what the spec asks for."""
    moving = ("org.opencontainers.image.version", "envspec.lock.digest", "envspec.fingerprint")
    return {name: value for name, value in labels(plan).items() if name not in moving}


def labels(plan: Plan) -> dict[str, str]:
    """Make the labels of an image that envspec makes itself: OCI's own keys, then envspec's."""
    found = {
        "org.opencontainers.image.title": plan.title,
        "org.opencontainers.image.description": " ".join(plan.description.split()),
        "org.opencontainers.image.version": plan.fingerprint.removeprefix("sha256:")[:12],
        f"{BASE_LABELS}name": plan.base.name.partition("@")[0],
        f"{BASE_LABELS}digest": plan.base.digest or "",
        "envspec.spec": plan.spec,
        "envspec.target": plan.target,
        "envspec.lock.digest": plan.lock_digest,
        "envspec.fingerprint": plan.fingerprint,
        "envspec.cuda": plan.cuda or "",
        "envspec.driver.floor": plan.driver_floor or "",
    }
    return {name: value for name, value in found.items() if value}
