"""Files of earlier exports that no recipe of a spec uses any more, and which of them envspec may remove.

envspec removes only files with a name that it gives, and whose content proves that an export wrote them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from envspec.recipes import apptainer, devcontainer, dockerfile, kubernetes
from envspec.recipes.folder import SHARED
from envspec.recipes.heading import owner
from envspec.recipes.plan import CARRIED_FOLDER, REQUIREMENTS, SLICE, SpecPlan

OWN = (dockerfile.FILE, apptainer.FILE, apptainer.OFFLINE_FILE, kubernetes.FILE, SLICE)
"""The names in a target's folder."""
CONTAINERS = devcontainer.FOLDER
_REQUIREMENTS = re.compile(REQUIREMENTS + r"/[a-z]+-([0-9a-f]{8})\.txt")

Read = Callable[[str], str | None]
"""Reads the text of a path; None where it can't be read."""


def leftovers(plan: SpecPlan, files: Mapping[str, str], paths: Iterable[str], read: Read) -> Iterator[str]:
    """List the paths that belong to no recipe of the lock. `files` are the expected ones."""
    for path in sorted(set(paths) - set(files)):
        first, _, name = path.partition("/")
        if first in SHARED or _is_of_a_target_that_is_gone(plan, path, first, name, read):
            yield path


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
        document = json.loads(text)
        return str(document["spec"]), str(document["target"])
    except (ValueError, LookupError, TypeError):
        return None


def removable(paths: Iterable[str], sums: Mapping[str, str], read: Read, *, shared: bool) -> Iterator[str]:
    """Pick the leftovers that exports have written. `sums` are the digests of the carried files that the last export
    wrote; `shared` says whether shared files may go too.
    """
    for path in paths:
        folder, _, name = path.partition("/")
        if folder not in SHARED:
            yield path
        elif shared and (text := read(path)) is not None:
            digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()
            named = _REQUIREMENTS.fullmatch(path)
            if (named and digest.startswith(named[1])) or (folder == CARRIED_FOLDER and sums.get(name) == digest):
                yield path


def read_sums(text: str) -> dict[str, str]:
    """Read the digests of a `SHA256SUMS`, by path."""
    pairs = (line.partition("  ") for line in text.splitlines())
    return {path: digest for digest, _, path in pairs}
