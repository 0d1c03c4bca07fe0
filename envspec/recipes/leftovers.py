"""Files of earlier exports that no recipe of a spec uses any more, and which of them envspec may remove.

envspec removes only files with a name that it gives, and whose content proves that an export wrote them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from envspec.documents import read_json
from envspec.lock.write import HEADER
from envspec.recipes import apptainer, devcontainer, dockerfile, htcondor, kubernetes, nix
from envspec.recipes.folder import SHARED, place_of
from envspec.recipes.heading import owner
from envspec.recipes.plan import CARRIED_FOLDER, REQUIREMENTS, SLICE, SpecPlan
from envspec.recipes.sums import Sums, digest

OWN = (
    *(dockerfile.FILE, apptainer.FILE, apptainer.OFFLINE_FILE),
    *(kubernetes.FILE, kubernetes.SERVE_FILE, htcondor.FILE, SLICE),
)
"""The names in a target's folder."""
CONTAINERS = devcontainer.FOLDER
LOCK = "envspec.lock"
_REQUIREMENTS = re.compile(REQUIREMENTS + r"/[a-z]+-([0-9a-f]{8})\.txt")

Read = Callable[[str], str | None]
"""Reads the text of a path; None where it can't be read."""


def leftovers(plan: SpecPlan, files: Mapping[str, str], paths: Iterable[str], read: Read) -> Iterator[str]:
    """List the paths that belong to no recipe of the lock. `files` are the expected ones.

    Earlier exports wrote the whole lock. It goes in a repository's usual place alone; elsewhere it may be the user's.
    """
    there = set(paths)
    flake = _nix_that_is_gone(plan, there, read)
    if LOCK in there and plan.targets[0].place == place_of(plan.spec) and _head(read(LOCK) or "") == _head(HEADER):
        yield LOCK
    for path in sorted(there - set(files)):
        first, _, name = path.partition("/")
        if first in SHARED or path in flake or _is_of_a_target_that_is_gone(plan, path, first, name, read):
            yield path


def _nix_that_is_gone(plan: SpecPlan, there: Container[str], read: Read) -> frozenset[str]:
    """Pick the flake of a spec whose targets all got conda packages, and what it imports. It goes last, as it proves
    the other.
    """
    found = _owner(nix.FILE, read) if nix.FILE in there and not any(map(nix.admits, plan.targets)) else None
    if found is None or found[0] != plan.spec:
        return frozenset()
    beside = {nix.ENVIRONMENT_FILE: nix.environment_nix()}
    return frozenset({nix.FILE, *(path for path, text in beside.items() if _head(read(path) or "") == _head(text))})


def _head(text: str) -> str:
    return text.partition("\n")[0]


def _is_of_a_target_that_is_gone(plan: SpecPlan, path: str, first: str, name: str, read: Read) -> bool:
    if name in OWN and first not in plan.names:
        found = _owner(path, read)
        return found is not None and found[0] == plan.spec
    if path.endswith(f"/{devcontainer.FILE}"):
        found = _owner(path, read)
        return found is not None and found[0] == plan.spec and found[1] not in plan.names
    return False


def _owner(path: str, read: Read) -> tuple[str, str] | None:
    text = read(path) or ""
    if not path.endswith(f"/{SLICE}"):
        return owner(text)
    try:
        document = read_json(text)
        return str(document["spec"]), str(document["target"])
    except (ValueError, LookupError, TypeError):
        return None


def removable(paths: Iterable[str], sums: Sums, read: Read) -> Iterator[str]:
    """Pick the leftovers that exports have written. `sums` lists the carried files of earlier exports."""
    for path in paths:
        folder, _, name = path.partition("/")
        if folder not in SHARED:
            yield path
        elif (text := read(path)) is not None:
            named, found = _REQUIREMENTS.fullmatch(path), digest(text)
            if (named and found.startswith(named[1])) or (folder == CARRIED_FOLDER and (name, found) in sums):
                yield path
