"""The services that a spec can opt into, and what each needs."""

from __future__ import annotations

from envspec.errors import InputError, Place
from envspec.lock.model import Lock, LockedTarget
from envspec.recipes.images import CODE_SERVER, reference
from envspec.recipes.plan import Service
from envspec.spec.model import Spec

_NEEDS = {"jupyter": "jupyterlab"}
"""Service -> the package that it is, which the lock must have."""


def services(spec: Spec, lock: Lock, target: LockedTarget) -> tuple[Service, ...]:
    """What the spec opted into, in its order. Raises InputError for one whose package isn't in the lock."""
    for name in spec.image.services:
        package = _NEEDS.get(name)
        if package and target.pin(package) is None:
            raise InputError(
                f'the service "{name}" needs {package}, and the lock of {lock.name} has none for {target.name}',
                hint=f"add {package} to [pip] dependencies, then envspec lock {spec.path}",
                place=spec.places.get("image.services", Place(spec.path)),
            )
    known = {
        "jupyter": Service("jupyter", 8888, "services/jupyter.sh"),
        "ssh": Service("ssh", 2222, "services/ssh.sh", apt=("openssh-server",)),
        "code-server": Service(
            "code-server",
            8080,
            "services/code-server.sh",
            image=reference(lock, CODE_SERVER),
            copies=(("/usr/lib/code-server", "/usr/lib/code-server"),),
        ),
    }
    return tuple(known[name] for name in spec.image.services)
