"""Whether exported recipes are still what `envspec export` would write: one type a cause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from envspec.lock.freshness import Reason
from envspec.recipes.folder import Standing
from envspec.recipes.leftovers import Read, leftovers
from envspec.recipes.plan import SpecPlan


@dataclass(frozen=True)
class RecipeMissing(Reason):
    code = "recipe-missing"
    path: str

    @property
    def message(self) -> str:
        return f"{self.path} isn't there beside the others of its recipe"


@dataclass(frozen=True)
class RecipeDiffers(Reason):
    code = "recipe-differs"
    path: str

    @property
    def message(self) -> str:
        return f"{self.path} is not what the spec and its lock give"


@dataclass(frozen=True)
class RecipeExtra(Reason):
    code = "recipe-extra"
    path: str

    @property
    def message(self) -> str:
        return f"{self.path} belongs to no recipe of the lock"


def recipe_reasons(plan: SpecPlan, standing: Standing, paths: Iterable[str], read: Read) -> tuple[Reason, ...]:
    """How a spec's folder of recipes differs from what its plan gives.

    Takes what stands in it, the paths of its files, and what reads one of them. What envspec didn't write is the user's
    own, but for the folders that targets share.
    """
    there = set(paths)
    out: list[Reason] = [RecipeExtra(path) for path in leftovers(plan, standing.files, there, read)]
    for path, text in standing.files.items():
        if path not in there:
            out.append(RecipeMissing(path))
        elif read(path) != text:
            out.append(RecipeDiffers(path))
    return tuple(sorted(out, key=_path))


def _path(reason: Reason) -> str:
    return str(getattr(reason, "path", ""))
