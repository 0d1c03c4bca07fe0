"""Where environments lie that have no prefix of their own: a folder for each state of a target."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from envspec.export.project import project_of
from envspec.install.build import BuildRules
from envspec.install.host import InstallHost
from envspec.install.prefix import digest_of
from envspec.lock.judge import SoundLock
from envspec.lock.model import LockedTarget
from envspec.spec.model import Spec
from envspec.spec.project_file import project_location


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
    ]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    return folder / f"{lock.name}-{target.name}-{key}"
