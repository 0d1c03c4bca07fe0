"""The folder of a spec's recipes: which formats there are, what files each is, and what they share.

Paths are below the spec's folder. Only a development container lies elsewhere, where editors look: see `Plan.place`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from envspec.errors import InputError
from envspec.recipes.plan import CARRIED_FOLDER, REQUIREMENTS, Plan, SpecPlan

OF_A_TARGET = ("dockerfile", "apptainer", "kubernetes", "devcontainer")
"""Formats with files of each target's own."""
OF_A_SPEC = ("compose", "nix", "slurm", "lmod")
"""Formats with one set of files for all targets of a spec."""
FORMATS = ("dockerfile", "compose", "apptainer", "nix", "devcontainer", "slurm", "lmod", "kubernetes")
"""All formats, in the order of messages. The first file of each is the one that is run."""
SHARED = (CARRIED_FOLDER, REQUIREMENTS)
"""The folders that have files of all targets, and of nobody else."""


def place_of(spec: str) -> str:
    """`Plan.place` of recipes that lie where a repository has them."""
    return f"recipes/{spec}"


def of_a_target() -> Mapping[str, Callable[[Plan], dict[str, str]]]:
    """The renderers of `OF_A_TARGET`: of each, files by path."""
    from envspec.recipes import apptainer, devcontainer, dockerfile, kubernetes

    return {
        "dockerfile": dockerfile.render,
        "apptainer": apptainer.render,
        "kubernetes": kubernetes.render,
        "devcontainer": devcontainer.render,
    }


def of_a_spec() -> Mapping[str, Callable[[SpecPlan], dict[str, str]]]:
    """The renderers of `OF_A_SPEC`."""
    from envspec.recipes import compose, lmod, nix, slurm

    return {"compose": compose.render, "nix": nix.render, "slurm": slurm.render, "lmod": lmod.render}


def render(plan: Plan, name: str) -> dict[str, str]:
    """The files of one of `OF_A_TARGET`, with all that it needs besides. Raises InputError for a target that it isn't
    for."""
    return of_a_target()[name](plan) | shared_files(plan, name)


def render_spec(plan: SpecPlan, name: str) -> dict[str, str]:
    """The files of one of `OF_A_SPEC`, with all that it needs. Raises InputError for a spec that it isn't for."""
    made = of_a_spec()[name](plan)
    return made | {path: text for of in plan.targets for path, text in shared_files(of, name).items()}


def shared_files(plan: Plan, name: str) -> dict[str, str]:
    """What a format uses of the files that targets and formats share: images are made from all of them, Nix's
    environments keep what is carried, and the others use an image or an environment that is there."""
    if name in ("dockerfile", "apptainer"):
        return dict(plan.files)
    if name == "nix":
        from envspec.recipes.nix import admits

        kept = (path for path in plan.files if path == plan.slice or path.startswith(f"{CARRIED_FOLDER}/"))
        return {path: plan.files[path] for path in kept} if admits(plan) else {}
    return {}


def admitted(plan: Plan, names: Iterable[str] = OF_A_TARGET) -> dict[str, dict[str, str]]:
    """The files of every one of these formats that is for this target, as `render` gives them."""
    return _admitted(lambda name: render(plan, name), names)


def admitted_spec(plan: SpecPlan, names: Iterable[str] = OF_A_SPEC) -> dict[str, dict[str, str]]:
    """The files of every one of these formats that is for this spec, as `render_spec` gives them."""
    return _admitted(lambda name: render_spec(plan, name), names)


def _admitted(render: Callable[[str], dict[str, str]], names: Iterable[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for name in names:
        try:
            found[name] = render(name)
        except InputError:
            continue
    return found


@dataclass(frozen=True)
class ExportedRecipes:
    """What of a spec's recipes stands in a folder.

    targets  the formats of each target, in the plan's order
    spec     the formats of the whole spec
    whole    every format that there could be, of each target that has any
    files    what all of it should be: path -> text
    """

    targets: Mapping[str, tuple[str, ...]]
    spec: tuple[str, ...]
    whole: bool
    files: Mapping[str, str]


def exported_recipes(plan: SpecPlan, paths: Iterable[str]) -> ExportedRecipes:
    """What stands in a folder that has these paths: the formats whose first file is there."""
    there = set(paths)
    targets: dict[str, tuple[str, ...]] = {}
    files: dict[str, str] = {}
    whole = True
    for of in plan.targets:
        rendered = admitted(of)
        targets[of.target] = _there(rendered, there, files)
        whole = whole and len(targets[of.target]) in (0, len(rendered))
    rendered = admitted_spec(plan)
    spec = _there(rendered, there, files)
    return ExportedRecipes(targets, spec, whole and len(spec) == len(rendered), files)


def _there(rendered: Mapping[str, Mapping[str, str]], there: set[str], files: dict[str, str]) -> tuple[str, ...]:
    """The formats that are there; their files are put to the others."""
    found = tuple(name for name, made in rendered.items() if next(iter(made)) in there)
    for name in found:
        files.update(rendered[name])
    return found
