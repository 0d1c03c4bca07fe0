"""A Nix flake of a spec: an environment per target, from the target's slice of the lock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from envspec.base.errors import InputError
from envspec.base.texts import fill
from envspec.export import compat, nvcc
from envspec.export.carried import carried_files
from envspec.export.plan import (
    CARRIED,
    CHECK,
    ENVIRONMENT,
    ENVIRONMENT_FILE,
    PYTHON,
    SLICE,
    WORKSPACE,
    Plan,
    SpecPlan,
    hash_heading,
)
from envspec.export.quote import nix, shell

FILE = "flake.nix"
_TEMPLATE = Path(__file__).with_name("templates") / FILE

NIXPKGS = "github:NixOS/nixpkgs/nixos-25.11"
"""The branch of nixpkgs for a flake without flake.lock: the last release with Python 3.10."""

_DRIVER = "/run/opengl-driver/lib"
_LIBCUDA = f"if [ -e {_DRIVER}/libcuda.so.1 ]; then export TRITON_LIBCUDA_PATH={_DRIVER}; fi"
"""Set Triton's path to the driver: Triton finds the driver with /sbin/ldconfig, which NixOS lacks."""
_OF_CONTAINERS = ("SSH_PORT", "NVIDIA_", "MELLANOX_")
"""The variables that only container engines read."""
OF_IMAGES = (CARRIED, ENVIRONMENT, PYTHON, WORKSPACE)
"""The folders that a container image has and the user's machine hasn't."""


def admits(plan: Plan) -> bool:
    """Return whether Nix can make an environment of a target: it needs wheels only."""
    return bool(plan.sources.pip) and plan.sources.explicit is None


def shared_files(plan: Plan) -> Iterable[str]:
    """List the shared files of a target's environment, by path: its slice of the lock, and the carried files."""
    carried = (path for path in plan.sources.files if path.startswith(f"{plan.carried_folder}/"))
    return (plan.slice, *plan.sources.parts, *carried) if admits(plan) else ()


def render(plan: SpecPlan) -> dict[str, str]:
    """Render `flake.nix`, and the `environment.nix` that it imports where the specs don't share one. It reads the
    targets' slices of the lock.

    Raises InputError where every target has conda packages: a Nix environment is made from wheels.
    """
    plans = [of for of in plan.targets if admits(of)]
    if not plans:
        raise InputError(
            f"{plan.spec}, target {', '.join(plan.names)} has conda packages, "
            "and a Nix environment is made from wheels",
            hint="use another --format: dockerfile, apptainer or conda-explicit; or `envspec install`",
        )
    own = plans[0].sources.project
    carried = f"./{'../' if plan.shares else ''}{plans[0].carried_folder}"
    code = f"{carried}/{ENVIRONMENT_FILE}" if plan.shares else f"./{ENVIRONMENT_FILE}"
    values = {
        "description": nix(plan.description or plan.spec),
        "nixpkgs": nix(NIXPKGS),
        "targets": "\n".join(_targets(plans)),
        "given": ", project ? null" if own else "",
        "slice": SLICE,
        "code": code,
        "project": " project" if own else "",
        "carried": carried,
        "libcuda": f"            {_LIBCUDA}\n" if any(of.runtime.is_cuda for of in plans) else "",
        "check": CHECK,
    }
    head = "\n".join(hash_heading(plan, _usage(plan, plans)))
    made = {FILE: f"{head}\n{fill(_TEMPLATE.read_text(encoding='utf-8'), values)}"}
    return made if plan.shares else {**made, ENVIRONMENT_FILE: carried_files()[ENVIRONMENT_FILE]}


def _usage(plan: SpecPlan, plans: list[Plan]) -> list[str]:
    target = next((of.target for of in plans if "." not in of.target), plans[0].target)
    flake = f"./recipes/{plan.spec}" if plan.shares else "path:."
    lines = [
        *(["In the repository's own folder, once git knows these files:"] if plan.shares else []),
        f"nix build {shell(f'{flake}#{target}')}       # an environment, as ./result",
        f"nix develop {shell(f'{flake}#{target}')}     # a shell with it",
        f"nix run {shell(f'{flake}#{target}-check')}   # the smoke check",
    ]
    if any(of.runtime.build for of in plans):
        lines.append(f"Python {plans[0].runtime.python} is that of nixpkgs, not the build that the lock names.")
    if any("." in of.target for of in plans):
        lines.append(f"A name with a dot is quoted twice: nix build '{flake}#\"a.b\"'")
    without = [of.target for of in plan.targets if of not in plans]
    if without:
        lines.append(f"Not here, as they have conda packages: {', '.join(without)}")
    bringing = [of.target for of in plans if any(source.name == compat.NAME for source in of.image.toolkit)]
    if bringing:
        lines.append(f"Without cuda-compat, which images bring, so with a driver of its CUDA: {', '.join(bringing)}")
    if own := plans[0].sources.project:
        lines += [
            f"Without {own.name} itself. With it, from a flake in its folder that has this one as an input:",
            f'  recipes.lib.environment {{ pkgs = …; target = "{target}"; project = ./.; }}',
        ]
    indexes = sorted({step.index for of in plans for step in of.sources.pip if step.index})
    if indexes:
        lines += [
            "",
            "indexes.nix beside this file says where the other indexes have their files:",
            f"  {{ {' '.join(f'{index} = …;' for index in indexes)} }}",
        ]
    return lines


def _targets(plans: Iterable[Plan]) -> Iterator[str]:
    """Render the table of targets by system."""
    by_system: dict[str, list[Plan]] = {}
    for plan in plans:
        by_system.setdefault(plan.runtime.system, []).append(plan)
    yield "      variables = {"
    for system, of_system in sorted(by_system.items()):
        yield f"        {nix(system)} = {{"
        yield from (f"          {nix(plan.target)} = {nix(_hook(plan))};" for plan in of_system)
        yield "        };"
    yield "      };"


def _hook(plan: Plan) -> str:
    lines = [
        (name, value)
        for name, value in plan.runtime.env
        if not name.startswith(_OF_CONTAINERS) and not any(folder in value for folder in OF_IMAGES)
        if value != nvcc.FOLDER
    ]
    exports = "".join(f"export {name}={shell(value)}\n" for name, value in lines)
    return f"unset PYTHONPATH\n{exports}" + (f"{_LIBCUDA}\n" if plan.runtime.is_cuda else "")
