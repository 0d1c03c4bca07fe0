"""The freshness of exported recipes: whether `envspec export` would write the same."""

from __future__ import annotations

from collections.abc import Iterable

from envspec.base.finding import Finding
from envspec.export.folder import ExportedRecipes
from envspec.export.leftovers import Read, leftovers
from envspec.export.plan import SpecPlan
from envspec.lock.freshness import reason


def recipe_reasons(plan: SpecPlan, standing: ExportedRecipes, paths: Iterable[str], read: Read) -> tuple[Finding, ...]:
    """Compare a spec's folder of recipes with its plan.

    Takes the recognised recipes, the paths of the files, and a function that reads a file. Other files are the user's
    own, except in the folders that targets share.
    """
    there = set(paths)
    out = [
        reason("recipe-extra", f"{path} belongs to no recipe of the lock", file=path)
        for path in leftovers(plan, standing.files, there, read)
    ]
    for path, text in standing.files.items():
        if path not in there:
            out.append(reason("recipe-missing", f"{path} is missing from its recipe", file=path))
        elif read(path) != text:
            message = f"{path} differs from what the spec and its lock give"
            out.append(reason("recipe-differs", message, file=path))
    return tuple(sorted(out, key=lambda one: str(one.file)))
