"""Whether exported recipes are still what `envspec export` would write: one type a cause."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from envspec.lock.freshness import Reason
from envspec.recipes.folder import admitted, carried, exported
from envspec.recipes.plan import CARRIED_FOLDER, Plan


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


def recipe_reasons(
    plans: Iterable[Plan], paths: Iterable[str], read: Callable[[str], str | None]
) -> tuple[Reason, ...]:
    """How a spec's folder of recipes differs from what its plans give.

    Takes the paths of all files in that folder, `<target>/…`, and what reads one of them. Which formats were exported
    for a target is told by their first files; the rest of the folder is the user's own, but for `envspec/`.
    """
    by_target: dict[str, set[str]] = {}
    for path in paths:
        target, _, rest = path.partition("/")
        if rest:
            by_target.setdefault(target, set()).add(rest)
    out: list[Reason] = []
    names: set[str] = set()
    for plan in plans:
        there = by_target.pop(plan.target, None)
        if there is None:
            continue
        rendered = admitted(plan)
        names.update(path for files in rendered.values() for path in files)
        formats = exported(rendered, there)
        expected = {path: text for name in formats for path, text in rendered[name].items()}
        expected |= carried(plan, formats)
        out += _of_target(plan.target, expected, there, read)
    for target, there in by_target.items():
        out += [RecipeExtra(f"{target}/{path}") for path in sorted(there) if path in names or _is_carried(path)]
    return tuple(out)


def _of_target(
    target: str, expected: Mapping[str, str], there: set[str], read: Callable[[str], str | None]
) -> Iterable[Reason]:
    for path in sorted({*expected, *(path for path in there if _is_carried(path))}):
        full = f"{target}/{path}"
        if path not in expected:
            yield RecipeExtra(full)
        elif path not in there:
            yield RecipeMissing(full)
        elif read(full) != expected[path]:
            yield RecipeDiffers(full)


def _is_carried(path: str) -> bool:
    return path.startswith(f"{CARRIED_FOLDER}/")
