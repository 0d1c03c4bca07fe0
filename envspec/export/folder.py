"""The folder of a spec's recipes: the formats, the files of each, and the shared files.

Paths are below the spec's folder. Only development containers are elsewhere, where editors look: see `Plan.place`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from posixpath import relpath

from envspec.base.errors import InputError
from envspec.export.plan import CARRIED_FOLDER, REQUIREMENTS, SHARED_FOLDER, Plan, SpecPlan

OF_A_TARGET = ("dockerfile", "apptainer", "kubernetes", "htcondor", "devcontainer")
"""Formats with files of each target's own."""
OF_A_SPEC = ("compose", "nix", "slurm", "lmod")
"""Formats with one set of files for all targets of a spec."""
FORMATS = ("dockerfile", "compose", "apptainer", "nix", "devcontainer", "slurm", "lmod", "kubernetes", "htcondor")
"""All formats, in the order of messages. The first file of each is the one that is run."""
BY_NAME = ("htcondor",)
"""The formats that `all` leaves out."""
SHARED = (CARRIED_FOLDER, REQUIREMENTS, f"../{SHARED_FOLDER}")
"""The folders that contain only the shared files of all targets, or of all specs."""


def place_of(spec: str) -> str:
    """`Plan.place` of recipes in a repository's usual place."""
    return f"recipes/{spec}"


def of_a_target() -> Mapping[str, Callable[[Plan], dict[str, str]]]:
    """The renderers of `OF_A_TARGET`: of each, files by path."""
    from envspec.export import apptainer, devcontainer, dockerfile, htcondor, kubernetes

    return {
        "dockerfile": dockerfile.render,
        "apptainer": apptainer.render,
        "kubernetes": kubernetes.render,
        "htcondor": htcondor.render,
        "devcontainer": devcontainer.render,
    }


def of_a_spec() -> Mapping[str, Callable[[SpecPlan], dict[str, str]]]:
    """The renderers of `OF_A_SPEC`."""
    from envspec.export import compose, lmod, nix, slurm

    return {"compose": compose.render, "nix": nix.render, "slurm": slurm.render, "lmod": lmod.render}


def render(plan: Plan, name: str) -> dict[str, str]:
    """Render one of `OF_A_TARGET`, with the shared files that it needs. Raises InputError for an unsuitable target."""
    return of_a_target()[name](plan) | shared_files(plan, name)


def render_spec(plan: SpecPlan, name: str) -> dict[str, str]:
    """Render one of `OF_A_SPEC`, with the shared files that it needs. Raises InputError for an unsuitable spec."""
    made = of_a_spec()[name](plan)
    return made | {path: text for of in plan.targets for path, text in shared_files(of, name).items()}


def shared_files(plan: Plan, name: str) -> dict[str, str]:
    """Pick a format's part of the shared files: images use all of them, Nix's environments the carried files, and other
    formats none, because they use an existing image or environment.
    """
    if name in ("dockerfile", "apptainer"):
        return below_the_spec(plan, plan.files)
    if name == "nix":
        from envspec.export.nix import admits

        carried = (path for path in plan.files if path.startswith(f"{plan.carried_folder}/"))
        return below_the_spec(plan, (plan.slice, *plan.parts, *carried)) if admits(plan) else {}
    return {}


def below_the_spec(plan: Plan, paths: Iterable[str]) -> dict[str, str]:
    """Give files of a plan by path below the spec's folder: those of all specs stand beside it."""
    return {_relative(path, plan.own or "."): plan.files[path] for path in paths}


@cache
def _relative(path: str, own: str) -> str:
    """Most formats of most targets have the same files, and `relpath` asks for the working folder each time."""
    return relpath(path, own)


def render_all(plan: Plan, names: Iterable[str] = OF_A_TARGET) -> dict[str, dict[str, str]]:
    """Render every one of these formats that suits this target, as `render` does."""
    return _render_all(lambda name: render(plan, name), names)


def render_all_of_spec(plan: SpecPlan, names: Iterable[str] = OF_A_SPEC) -> dict[str, dict[str, str]]:
    """Render every one of these formats that suits this spec, as `render_spec` does."""
    return _render_all(lambda name: render_spec(plan, name), names)


def _render_all(render: Callable[[str], dict[str, str]], names: Iterable[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for name in names:
        try:
            found[name] = render(name)
        except InputError:
            continue
    return found


@dataclass(frozen=True)
class ExportedRecipes:
    """The recipes of a spec that a folder contains.

    targets  the formats of each target, in the plan's order
    spec     the formats of the whole spec
    whole    every possible format of `all`, of each target that has any
    files    the files as they should be: path -> text
    """

    targets: Mapping[str, tuple[str, ...]]
    spec: tuple[str, ...]
    whole: bool
    files: Mapping[str, str]


def exported_recipes(plan: SpecPlan, paths: Iterable[str]) -> ExportedRecipes:
    """Recognise the recipes in a folder with these paths: the formats whose first file exists."""
    there = set(paths)
    targets: dict[str, tuple[str, ...]] = {}
    files: dict[str, str] = {}
    whole = True
    for of in plan.targets:
        rendered = render_all(of)
        targets[of.target] = _there(rendered, there, files)
        whole = whole and _of_all(targets[of.target]) in ((), _of_all(rendered))
    rendered = render_all_of_spec(plan)
    spec = _there(rendered, there, files)
    return ExportedRecipes(targets, spec, whole and len(spec) == len(rendered), files)


def _of_all(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in BY_NAME)


def _there(rendered: Mapping[str, Mapping[str, str]], there: set[str], files: dict[str, str]) -> tuple[str, ...]:
    """Collect the existing formats, and add their files to the others."""
    found = tuple(name for name, made in rendered.items() if next(iter(made)) in there)
    for name in found:
        files.update(rendered[name])
    return found
