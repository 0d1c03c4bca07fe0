"""Making the environment of a target in its default prefix, and what a program needs to run in it."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from envspec.base.errors import InputError, Place
from envspec.base.places import ENVIRONMENTS, stranger, this_user
from envspec.base.storage import storage_error
from envspec.configuration.settings import load_settings, trusted_folder
from envspec.export.environment import environment, project_of
from envspec.install.build import BuildRules
from envspec.install.environments.in_use import Ready
from envspec.install.host import InstallHost, this_host
from envspec.install.prefix import STATE_PATH, digest_of, is_whole
from envspec.lock.model import LockedTarget, SoundLock
from envspec.spec.model import Spec
from envspec.spec.project import project_location


def prefix_of(folder: Path, spec: Spec, lock: SoundLock, target: LockedTarget, host: InstallHost) -> Path:
    """Give the prefix of a target below the folder of environments.

    Its name ends in a digest of all that decides what is in it: equal locks share one, and a new lock never changes
    what a running training uses. A spec's own project is installed as it is now, so each has its own.
    """
    own = project_of(spec, target)
    python = lock.python(target)
    parts = [
        digest_of(target),
        sorted(BuildRules.of(spec, target).keys(host).items()),
        python.sha256 if python else None,
        str(project_location(spec).path) if own else None,
        *([lock.inputs.base.place] if lock.inputs.base else []),
    ]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    return folder / f"{lock.name}-{target.name}-{key}"


def make_folder(prefix: Path, setting: str) -> None:
    """Make the folder in which a prefix lies, for its user alone. Raises InputError for a folder or a prefix that
    others may write to, StorageError."""
    folder = prefix.parent
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        strangers = {path: stranger(path.stat(), this_user()) for path in (folder, prefix) if path.exists()}
    except OSError as error:
        raise storage_error(error, folder, option=setting) from None
    for path, fault in strangers.items():
        if fault:
            hint = f"see what is in it, then `chmod -R go-w {path}`; or give {setting} a folder of your own"
            raise InputError(f"what is run there can't be trusted: {fault}", hint=hint, place=Place(str(path)))


_FIXED: tuple[str, ...] = ("ENVSPEC_SPEC", "ENVSPEC_TARGET", "PYTHONNOUSERSITE")


def ready_of(spec: Spec, target: LockedTarget, prefix: Path, reason: str) -> Ready:
    """Describe the environment of a target that is complete in its prefix."""
    fixed, own = variables_of(spec, target)
    return Ready(
        prefix=str(prefix),
        spec=spec.name,
        target=target.name,
        reason=reason,
        conda=any(pin.kind == "conda" for pin in target.pins),
        scripts=any((prefix / "etc" / "conda" / "activate.d").glob("*.sh"))
        or (spec.base is not None and spec.base.kind == "module"),
        fixed=fixed,
        own=own,
    )


def variables_of(spec: Spec, target: LockedTarget) -> tuple[dict[str, str], dict[str, str]]:
    """Split what an image's processes get into what holds in any case, and what the user's own variables replace, as
    with `docker run --env`. What speaks to container engines is left out, and the user's language stays."""
    image = dict(environment(spec, target))
    fixed = {name: image[name] for name in _FIXED if name in image}
    own = {name: image[name] for name in ("TORCH_CUDA_ARCH_LIST", *spec.image.env) if name in image}
    return fixed, {name: value for name, value in own.items() if name not in fixed}


# The prefix of an environment that the user gives no place.


def _is_whole_and_trusted(prefix: Path, lock: SoundLock, target: LockedTarget) -> bool:
    records = (prefix, prefix / STATE_PATH.parents[1], prefix / STATE_PATH.parent, prefix / STATE_PATH)
    try:
        statuses = [path.lstat() for path in records]
        return not any(stranger(status, this_user()) for status in statuses) and is_whole(prefix, lock, target)
    except (OSError, InputError):
        # a newer envspec may have recorded it: its user makes an own one, as without it
        return False


def default_prefix(spec: Spec, lock: SoundLock, target: LockedTarget, *, make: bool) -> Path:
    """Give the default prefix of a target: one that all users share where it is whole, else the user's own. With
    `make`, make the folder in which it lies. Raises InputError for a folder that others may write to, StorageError."""
    settings = load_settings(os.environ)
    prefix = prefix_of(settings.environments, spec, lock, target, this_host())
    shared = trusted_folder(settings.shared_environments, "[run] shared")
    if shared is not None and _is_whole_and_trusted(shared / prefix.name, lock, target):
        return shared / prefix.name
    if make:
        make_folder(prefix, ENVIRONMENTS)
    return prefix
