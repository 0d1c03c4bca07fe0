"""Exported recipes in recipes/<name>: how they differ from the lock, and the command that renews them."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Container, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from envspec.recipes.folder import FORMATS, SHARED, ExportedRecipes, exported_recipes, place_of
from envspec.recipes.freshness import recipe_reasons
from envspec.recipes.leftovers import CONTAINERS, OWN, leftovers, read_sums, removable
from envspec.recipes.make import make_spec_plan
from envspec.recipes.plan import CARRIED_FOLDER, SUMS

if TYPE_CHECKING:
    from envspec.lock.freshness import Reason
    from envspec.lock.judge import SoundLock
    from envspec.recipes.plan import SpecPlan
    from envspec.spec.model import Spec


def recipe_drift(spec: Spec, lock: SoundLock, recipes: Path) -> tuple[tuple[Reason, ...], str]:
    """Compare the folder with what a spec and its lock give; also give the command that writes the recipes again.

    Without differences both are empty. Raises InputError for a spec that admits no recipe.
    """
    plan = make_spec_plan(spec, lock, place_of(spec.name))
    paths = list(_paths(recipes, plan))
    there = exported_recipes(plan, paths)
    found = recipe_reasons(plan, there, paths, lambda path: _text(recipes / path))
    return found, _command(spec.path, there, recipes) if found else ""


def superseded_files(plan: SpecPlan, recipes: Path, targets: Container[str], written: Collection[str]) -> list[str]:
    """List the files of earlier exports that no recipe uses once these paths of these targets are written, by path
    below the folder. Shared files stay while other targets there may need them.
    """
    paths = list(_paths(recipes, plan))
    there = exported_recipes(plan, [*paths, *written])
    left = leftovers(plan, there.files, paths, lambda path: _text(recipes / path))
    whole = all(target in targets for target, formats in there.targets.items() if formats)
    sums = read_sums(_text(recipes / CARRIED_FOLDER / SUMS) or "")
    return list(removable(left, sums, lambda path: _text(recipes / path), shared=whole))


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
    formats = ["all"] if there.whole else [name for name in FORMATS if name in names]
    targets = [target for target, of_target in there.targets.items() if of_target]
    words = ["envspec", "export", spec]
    if len(targets) < len(there.targets):
        words += [word for target in targets for word in ("--target", target)]
    words += [word for name in formats for word in ("--format", name)]
    return shlex.join([*words, "-o", str(recipes)])
