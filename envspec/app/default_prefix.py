"""The prefix of an environment that the user gives no place."""

from __future__ import annotations

import os
from pathlib import Path

from envspec.base.places import ENVIRONMENTS
from envspec.base.settings import load_settings
from envspec.install.environments.make import make_folder, prefix_of
from envspec.install.host import this_host
from envspec.lock.judge import SoundLock
from envspec.lock.model import LockedTarget
from envspec.spec.model import Spec


def default_prefix(spec: Spec, lock: SoundLock, target: LockedTarget, *, make: bool) -> Path:
    """Give the default prefix of a target, and with `make`, make the folder in which it lies. Raises InputError for a
    folder that others may write to, StorageError."""
    prefix = prefix_of(load_settings(os.environ).environments, spec, lock, target, this_host())
    if make:
        make_folder(prefix, ENVIRONMENTS)
    return prefix
