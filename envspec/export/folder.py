"""The folder of a spec's recipes: the formats, the files of each, and the shared files.

Paths are below the spec's folder. Only development containers are elsewhere, where editors look: see `Plan.place`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from posixpath import relpath

from msgspec import Struct

from envspec.base.errors import InputError
from envspec.export import apptainer, compose, devcontainer, dockerfile, edf, htcondor, kubernetes, lmod, nix, slurm
from envspec.export.plan import CARRIED_FOLDER, REQUIREMENTS, SHARED_FOLDER, SLICE, Plan, SpecPlan

SHARED = (CARRIED_FOLDER, REQUIREMENTS, f"../{SHARED_FOLDER}")
"""The folders that contain only the shared files of all targets, or of all specs."""

Shared = Callable[[Plan], Iterable[str]]
"""The shared files, by path, that a format needs for a target."""


class Recipe(Struct, frozen=True):
    """A format with files of each target's own, or with one set for all targets of a spec.

    render  the files of a target, by path; the first one is run
    whole   the files of a spec likewise
    names   the names of its files in a target's folder
    shared  images use all of the shared files, most formats none: they use an existing image or environment
    listed  `all` exports it too
    """

    render: Callable[[Plan], dict[str, str]] | None = None
    whole: Callable[[SpecPlan], dict[str, str]] | None = None
    names: tuple[str, ...] = ()
    shared: Shared = lambda plan: ()
    listed: bool = True


RECIPES = {
    "dockerfile": Recipe(dockerfile.render, names=(dockerfile.FILE,), shared=lambda plan: plan.sources.files),
    "compose": Recipe(whole=compose.render),
    "apptainer": Recipe(
        apptainer.render, names=(apptainer.FILE, apptainer.OFFLINE_FILE), shared=lambda plan: plan.sources.files
    ),
    "nix": Recipe(whole=nix.render, shared=nix.shared_files),
    "devcontainer": Recipe(devcontainer.render),
    # what carries no image lies beside the job
    "slurm": Recipe(whole=slurm.render, shared=lambda plan: plan.sources.files if slurm.is_on_machine(plan) else ()),
    "lmod": Recipe(whole=lmod.render),
    "kubernetes": Recipe(kubernetes.render, names=(kubernetes.FILE,)),
    "htcondor": Recipe(htcondor.render, names=(htcondor.FILE,), listed=False),
    "edf": Recipe(edf.render, names=(edf.FILE,), listed=False),
}
"""All formats, in the order of messages: what else knows them by name follows from this."""
OF_A_TARGET = tuple(name for name, entry in RECIPES.items() if entry.render)
OF_A_SPEC = tuple(name for name, entry in RECIPES.items() if entry.whole)
OF_ALL = tuple(name for name, entry in RECIPES.items() if entry.listed)
"""The formats that `all` exports."""
OWN = frozenset({SLICE, *(name for value in RECIPES.values() for name in value.names)})
"""The names in a target's folder."""


def place_of(spec: str) -> str:
    """`Plan.place` of recipes in a repository's usual place."""
    return f"recipes/{spec}"


def render(plan: Plan, name: str) -> dict[str, str]:
    """Render one of `OF_A_TARGET`, with the shared files that it needs. Raises InputError for an unsuitable target."""
    recipe = RECIPES[name]
    assert recipe.render, name
    return recipe.render(plan) | below_the_spec(plan, recipe.shared(plan))


def render_spec(plan: SpecPlan, name: str) -> dict[str, str]:
    """Render one of `OF_A_SPEC`, with the shared files that it needs. Raises InputError for an unsuitable spec."""
    recipe = RECIPES[name]
    assert recipe.whole, name
    made = recipe.whole(plan)
    return made | {path: text for of in plan.targets for path, text in below_the_spec(of, recipe.shared(of)).items()}


def below_the_spec(plan: Plan, paths: Iterable[str]) -> dict[str, str]:
    """Give files of a plan by path below the spec's folder: those of all specs stand beside it."""
    return {_relative(path, plan.own or "."): plan.sources.files[path] for path in paths}


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
    rendered: dict[str, dict[str, str]] = {}
    for name in names:
        try:
            rendered[name] = render(name)
        except InputError:
            continue
    return rendered


class ExportedRecipes(Struct, frozen=True):
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
    existing = set(paths)
    targets: dict[str, tuple[str, ...]] = {}
    files: dict[str, str] = {}
    whole = True
    for of in plan.targets:
        rendered = render_all(of)
        targets[of.target] = _add_existing(rendered, existing, files)
        whole = whole and _of_all(targets[of.target]) in ((), _of_all(rendered))
    rendered = render_all_of_spec(plan)
    spec = _add_existing(rendered, existing, files)
    return ExportedRecipes(targets, spec, whole and len(spec) == len(rendered), files)


def _of_all(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in OF_ALL)


def _add_existing(
    rendered: Mapping[str, Mapping[str, str]], existing: set[str], files: dict[str, str]
) -> tuple[str, ...]:
    """Collect the existing formats, and add their files to the others."""
    names = tuple(name for name, made in rendered.items() if next(iter(made)) in existing)
    for name in names:
        files.update(rendered[name])
    return names
