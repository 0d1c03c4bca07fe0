"""The freshness of exported recipes: whether `envspec export` would write the same."""

from __future__ import annotations

from collections.abc import Iterable

from envspec.export.folder import ExportedRecipes
from envspec.export.leftovers import Read, leftovers
from envspec.export.plan import SpecPlan
from envspec.lock.freshness import FileDiffers


def recipe_reasons(
    plan: SpecPlan, standing: ExportedRecipes, paths: Iterable[str], read: Read
) -> tuple[FileDiffers, ...]:
    """Compare a spec's folder of recipes with its plan.

    Takes the recognised recipes, the paths of the files, and a function that reads a file. Other files are the user's
    own, except in the folders that targets share.
    """
    there = set(paths)
    out: list[FileDiffers] = [
        FileDiffers("recipe-extra", path) for path in leftovers(plan, standing.files, there, read)
    ]
    for path, text in standing.files.items():
        if path not in there:
            out.append(FileDiffers("recipe-missing", path))
        elif read(path) != text:
            out.append(FileDiffers("recipe-differs", path))
    return tuple(sorted(out, key=lambda reason: reason.path))
