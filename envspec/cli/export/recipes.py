"""Exported recipes in recipes/<name>: how they differ from the lock, and the command that renews them."""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from envspec.cli.export.files import Superseded
from envspec.recipes.folder import BY_NAME, FORMATS, SHARED, ExportedRecipes, exported_recipes, place_of
from envspec.recipes.freshness import recipe_reasons
from envspec.recipes.leftovers import CONTAINERS, OWN, leftovers, removable
from envspec.recipes.make import make_spec_plan
from envspec.recipes.plan import CARRIED_FOLDER, SUMS
from envspec.recipes.sums import digest, read_sums, sums_text

if TYPE_CHECKING:
    from envspec.lock.freshness import Reason
    from envspec.lock.judge import SoundLock
    from envspec.recipes.plan import SpecPlan
    from envspec.spec.model import Spec

_LIST = f"{CARRIED_FOLDER}/{SUMS}"


def recipe_drift(spec: Spec, lock: SoundLock, recipes: Path) -> tuple[tuple[Reason, ...], str]:
    """Compare the folder with what a spec and its lock give; also give the command that writes the recipes again.

    Without differences both are empty. Raises InputError for a spec that admits no recipe.
    """
    plan = make_spec_plan(spec, lock, place_of(spec.name))
    paths = list(_paths(recipes, plan))
    there = exported_recipes(plan, paths)
    found = recipe_reasons(plan, there, paths, lambda path: _text(recipes / path))
    return found, _command(spec.path, there, recipes) if found else ""


def superseded(plan: SpecPlan, recipes: Path, targets: Container[str], written: Mapping[str, str]) -> Superseded:
    """Find the files of earlier exports that no recipe uses once these files of these targets are written. Shared files
    stay while other targets there may need them.
    """
    paths = list(_paths(recipes, plan))
    there = exported_recipes(plan, [*paths, *written])

    def read(path: str) -> str | None:
        return _text(recipes / path)

    left = leftovers(plan, there.files, paths, read)
    sums = read_sums(read(_LIST) or "")
    own = list(removable(left, sums, read))
    whole = all(target in targets for target, formats in there.targets.items() if formats)
    gone = tuple(path for path in own if whole or path.partition("/")[0] not in SHARED)
    if _LIST not in written:
        return Superseded(gone, {}, {})
    new = read_sums(written[_LIST])
    stay = (path for path in own if path not in gone and path.startswith(f"{CARRIED_FOLDER}/"))
    kept = new | {(path.partition("/")[2], digest(read(path) or "")) for path in stay}
    return Superseded(gone, {_LIST: sums_text(new | sums)}, {_LIST: sums_text(kept)} if kept != new else {})


def _paths(recipes: Path, plan: SpecPlan) -> Iterator[str]:
    """List the files of a folder that recipes could have, by path below it. A link counts as a file: an export would
    refuse to write through it.
    """
    for place in sorted(recipes.iterdir()) if recipes.is_dir() else []:
        if _is_entry(place):
            yield place.name
        elif place.name in SHARED:
            yield from (path.relative_to(recipes).as_posix() for path in place.rglob("*") if _is_entry(path))
        elif place.is_dir():
            yield from (f"{place.name}/{path.name}" for path in place.iterdir() if path.name in OWN and _is_entry(path))
    up = "../" * len(PurePosixPath(plan.targets[0].place).parts)
    containers = recipes / f"{up}{CONTAINERS}"
    for place in sorted(containers.iterdir()) if containers.is_dir() and not containers.is_symlink() else []:
        if place.name.startswith(f"{plan.spec}-") and place.is_dir() and not place.is_symlink():
            yield from (f"{up}{CONTAINERS}/{place.name}/{path.name}" for path in place.iterdir() if _is_entry(path))


def _is_entry(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def _text(path: Path) -> str | None:
    if path.is_symlink():
        return None
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return None


def _command(spec: str, there: ExportedRecipes, recipes: Path) -> str:
    """Give the `envspec export` command for the targets and formats that the folder has, and no more."""
    names = {name for formats in there.targets.values() for name in formats} | set(there.spec)
    formats = [name for name in FORMATS if name in names and not (there.whole and name not in BY_NAME)]
    formats = ["all", *formats] if there.whole else formats
    targets = [target for target, of_target in there.targets.items() if of_target]
    words = ["envspec", "export", spec]
    if len(targets) < len(there.targets):
        words += [word for target in targets for word in ("--target", target)]
    words += [word for name in formats for word in ("--format", name)]
    return shlex.join([*words, "-o", str(recipes)])
