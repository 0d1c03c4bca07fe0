"""The folder of one target's recipes: which formats there are, and what files each is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module

from envspec.errors import InputError
from envspec.recipes.plan import CARRIED_FOLDER, Plan

FORMATS = ("dockerfile", "apptainer", "nix", "devcontainer", "slurm", "lmod", "kubernetes")
"""Each is the module of that name here, with `render(plan) -> {path: text}`. Its first file is the one that is run."""

_SELF_SUFFICIENT = frozenset({"slurm", "lmod", "kubernetes"})
"""They use an image or an environment that is there, and so need none of the carried files."""


def render(plan: Plan, name: str) -> dict[str, str]:
    """The files of one format, by path in the target's folder. Raises InputError for a target that it isn't for."""
    made: dict[str, str] = import_module(f"envspec.recipes.{name}").render(plan)
    return made


def admitted(plan: Plan, names: Iterable[str] = FORMATS) -> dict[str, dict[str, str]]:
    """The files of every one of these formats that is for this target."""
    found: dict[str, dict[str, str]] = {}
    for name in names:
        try:
            found[name] = render(plan, name)
        except InputError:
            continue
    return found


def carried(plan: Plan, names: Iterable[str]) -> dict[str, str]:
    """The files that these formats share; none where no format needs them."""
    if all(name in _SELF_SUFFICIENT for name in names):
        return {}
    return {f"{CARRIED_FOLDER}/{path}": text for path, text in plan.files.items()}


def exported(rendered: Mapping[str, Mapping[str, str]], paths: Iterable[str]) -> tuple[str, ...]:
    """Which formats stand in a folder that has these paths: those whose first file is there."""
    there = set(paths)
    return tuple(name for name, files in rendered.items() if next(iter(files)) in there)
