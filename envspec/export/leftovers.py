"""Files of earlier exports that no recipe of a spec uses any more, and which of them envspec may remove.

envspec removes only files with a name that it gives, and whose content proves that an export wrote them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from envspec.base.documents import read_json
from envspec.base.finding import Finding
from envspec.base.texts import printable
from envspec.export import devcontainer, dockerfile, nix
from envspec.export.carried import carried_files, differing_entries
from envspec.export.folder import OWN, SHARED, ExportedRecipes, place_of
from envspec.export.plan import (
    CHECK_ARCHIVE,
    ENVIRONMENT_FILE,
    HEAD,
    MARK,
    REQUIREMENTS,
    SLICE,
    SUMS,
    SpecPlan,
    Sums,
    digest,
    owner,
    read_sums,
    sums_text,
)
from envspec.lock.freshness import differing, reason
from envspec.lock.write import HEADER

CONTAINERS = devcontainer.FOLDER
LOCK = "envspec.lock"
_REQUIREMENTS = re.compile(REQUIREMENTS + r"/[a-z-]+-([0-9a-f]{8})\.(?:txt|json)")
"""The names of earlier exports: by content."""
_PYTHON = '{\n  "cpython-'
"""The beginning of a table of builds of Python."""

Read = Callable[[str], str | None]
"""Reads the text of a path; None where it can't be read."""


def leftovers(plan: SpecPlan, files: Mapping[str, str], paths: Iterable[str], read: Read) -> Iterator[str]:
    """List the paths that belong to no recipe of the lock. `files` are the expected ones.

    Earlier exports wrote the whole lock. It goes in a repository's usual place alone; elsewhere it may be the user's.
    """
    existing = set(paths)
    flake = _orphaned_nix_files(plan, existing, read)
    if LOCK in existing and plan.targets[0].place == place_of(plan.spec) and _head(read(LOCK) or "") == _head(HEADER):
        yield LOCK
    for path in sorted(existing - set(files), key=lambda path: (path.endswith(f"/{SUMS}"), path)):
        first, _, name = path.partition("/")
        if (
            split_shared_path(path)
            or path in flake
            or _is_of_a_former_target(plan, path, first, name, read)
            or (plan.shares and _is_shared_now(path, read))
        ):
            yield path


def _is_shared_now(path: str, read: Read) -> bool:
    """Return whether earlier exports wrote a file for each spec that all specs share now."""
    heads = {dockerfile.IGNORE: f"# {MARK}", ENVIRONMENT_FILE: _head(carried_files()[ENVIRONMENT_FILE])}
    return path in heads and _head(read(path) or "") == heads[path]


def _orphaned_nix_files(plan: SpecPlan, existing: Container[str], read: Read) -> frozenset[str]:
    """Pick the flake of a spec whose targets all got conda packages, and what it imports. It goes last, as it proves
    the other.
    """
    owner = _owner(nix.FILE, read) if nix.FILE in existing and not any(map(nix.admits, plan.targets)) else None
    if owner is None or owner[0] != plan.spec:
        return frozenset()
    beside = {ENVIRONMENT_FILE: carried_files()[ENVIRONMENT_FILE]}
    return frozenset({nix.FILE, *(path for path, text in beside.items() if _head(read(path) or "") == _head(text))})


def _head(text: str) -> str:
    return text.partition("\n")[0]


def _is_of_a_former_target(plan: SpecPlan, path: str, first: str, name: str, read: Read) -> bool:
    if name in OWN and first not in plan.names:
        owner = _owner(path, read)
        return owner is not None and owner[0] == plan.spec
    if path.endswith(f"/{devcontainer.FILE}"):
        owner = _owner(path, read)
        return owner is not None and owner[0] == plan.spec and owner[1] not in plan.names
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


def split_shared_path(path: str) -> tuple[str, str] | None:
    """Split a path into its shared folder and the path below that."""
    return next(((folder, path.removeprefix(f"{folder}/")) for folder in SHARED if path.startswith(f"{folder}/")), None)


def sums_there(read: Read) -> dict[str, frozenset[tuple[str, str]]]:
    """Read the lists of the carried files, by folder."""
    return {folder: read_sums(read(f"{folder}/{SUMS}") or "") for folder in SHARED}


def removable(paths: Iterable[str], sums: Mapping[str, Sums], read: Read) -> Iterator[str]:
    """Pick the leftovers that exports have written. `sums` lists the carried files of earlier exports, by folder.

    Earlier exports named files by their content. One of them may have that of another there: a merge gave it that.
    """
    listed = list(paths)
    contents = tuple(named[1] for named in map(_REQUIREMENTS.fullmatch, listed) if named)
    for path in listed:
        shared = split_shared_path(path)
        if shared is None:
            yield path
        elif (text := read(path)) is not None:
            (folder, name), content = shared, digest(text)
            named = _REQUIREMENTS.fullmatch(path) and content.startswith(contents)
            named = named or (folder == REQUIREMENTS and text.startswith((HEAD, _PYTHON)))
            own_list = name == SUMS and text == sums_text(read_sums(text))
            if named or (name, content) in sums.get(folder, ()) or own_list:
                yield path


def recipe_reasons(plan: SpecPlan, standing: ExportedRecipes, paths: Iterable[str], read: Read) -> tuple[Finding, ...]:
    """Compare a spec's folder of recipes with its plan.

    Takes the recognised recipes, the paths of the files, and a function that reads a file. Other files are the user's
    own, except in the folders that targets share.
    """
    existing = set(paths)
    left = list(leftovers(plan, standing.files, existing, read))
    own = set(removable(left, sums_there(read), read))
    remedy = ", and no export wrote it: remove it, or keep it elsewhere"
    out = [
        reason("recipe-extra", f"{path} belongs to no recipe of the lock{'' if path in own else remedy}", file=path)
        for path in left
    ]
    for path, text in standing.files.items():
        if path not in existing:
            out.append(reason("recipe-missing", f"{path} is missing from its recipe", file=path))
        elif (stands := read(path)) != text:
            message = f"{path} differs from what the spec and its lock give"
            if path.endswith(f"/{CHECK_ARCHIVE}"):
                out.append(_differing_check(path, message, text, stands or ""))
            else:
                out.append(differing("recipe-differs", path, message, text, stands or ""))
    return tuple(sorted(out, key=lambda finding: str(finding.file)))


def _differing_check(path: str, message: str, expected: str, stands: str) -> Finding:
    """Make the finding of a changed smoke check, with the files in it that were changed, if it is a zipapp."""
    names = [printable(name) for name in differing_entries(expected, stands)]
    shown = [*names[:3], *([f"and {len(names) - 3} more"] if len(names) > 3 else [])]
    return reason("recipe-differs", ": ".join(filter(None, [message, ", ".join(shown)])), file=path)
