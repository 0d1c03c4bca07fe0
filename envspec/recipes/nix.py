"""A flake that stands on its own: the target's environment out of the carried lock, by Nix."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from envspec.errors import InputError
from envspec.recipes.heading import hash_heading
from envspec.recipes.plan import CARRIED, ENVIRONMENT, PYTHON, WORKSPACE, Plan
from envspec.recipes.quote import nix, shell

FILE = "flake.nix"
ENVIRONMENT_FILE = "environment.nix"
"""The Nix code that makes environments; the repository's own flake imports the same."""

NIXPKGS = "github:NixOS/nixpkgs/nixos-25.11"
"""The release of nixpkgs that a flake without flake.lock uses, by its branch: the last one that has Python 3.10."""

_DRIVER = "/run/opengl-driver/lib"
_OF_CONTAINERS = "NVIDIA_"
"""What these variables say, only container engines read."""
_OF_IMAGES = (CARRIED, ENVIRONMENT, PYTHON, WORKSPACE)
"""Folders that a container image has and the user's machine has not."""


def render(plan: Plan) -> dict[str, str]:
    """`flake.nix`, and the `environment.nix` that it imports.

    Raises InputError for a target with conda packages: a Nix environment is made from wheels.
    """
    if not plan.has_pip or plan.explicit:
        raise InputError(
            f"{plan.spec}, target {plan.target} has conda packages, and a Nix environment is made from wheels",
            hint="use another --format: dockerfile, apptainer or conda-explicit; or `envspec install`",
        )
    lines = [
        *hash_heading(plan, _usage(plan)),
        "{",
        f"  description = {nix(plan.description or plan.title)};",
        "",
        f"  inputs.nixpkgs.url = {nix(NIXPKGS)};",
        "",
        "  outputs =",
        "    { self, nixpkgs }:",
        "    let",
        f"      system = {nix(f'{plan.machine}-linux')};",
        f"      target = {nix(plan.target)};",
        "      pkgs = nixpkgs.legacyPackages.${system};",
        "      lock = builtins.fromTOML (builtins.readFile ./envspec/envspec.lock);",
        "      environmentFrom = { pkgs, indexes ? { }, libraries ? [ ] }:",
        "        (import ./environment.nix { inherit pkgs lock indexes; }).environment {",
        "          inherit target libraries;",
        "          carried = ./envspec;",
        "        };",
        "      environment = environmentFrom {",
        "        inherit pkgs;",
        "        indexes = if builtins.pathExists ./indexes.nix then import ./indexes.nix else { };",
        "      };",
        "    in",
        "    {",
        "      packages.${system}.default = environment;",
        "",
        "      devShells.${system}.default = pkgs.mkShell {",
        "        packages = [ environment ];",
        f"        shellHook = {nix(_exports(plan) + _driver(plan))};",
        "      };",
        *_check(plan),
        "",
        "      # for other flakes: an environment with their own nixpkgs, indexes and libraries",
        "      lib.environment = environmentFrom;",
        "    };",
        "}",
    ]
    return {FILE: "\n".join(lines) + "\n", ENVIRONMENT_FILE: environment_nix()}


@cache
def environment_nix() -> str:
    """The text of `environment.nix`."""
    return (Path(__file__).parent / "data" / ENVIRONMENT_FILE).read_text(encoding="utf-8")


def _usage(plan: Plan) -> list[str]:
    told = [
        "nix build path:.       the environment, as ./result",
        "nix develop path:.     a shell with it",
    ]
    if "check.py" in plan.files:
        told.append("nix run path:.#check   the smoke check")
    if plan.indexes:
        told += [
            "",
            "indexes.nix beside this file says where the other indexes have their files:",
            f"  {{ {' '.join(f'{index} = …;' for index in plan.indexes)} }}",
        ]
    return told


def _exports(plan: Plan) -> str:
    kept = [
        (name, value)
        for name, value in plan.env
        if not name.startswith(_OF_CONTAINERS) and not any(folder in value for folder in _OF_IMAGES)
    ]
    return "".join(f"export {name}={shell(value)}\n" for name, value in kept)


def _driver(plan: Plan) -> str:
    """Triton links what it compiles with the driver, for which it asks /sbin/ldconfig. NixOS has none."""
    if not plan.is_cuda:
        return ""
    return f"if [ -e {_DRIVER}/libcuda.so.1 ]; then export TRITON_LIBCUDA_PATH={_DRIVER}; fi\n"


def _check(plan: Plan) -> list[str]:
    if "check.py" not in plan.files:
        return []
    return [
        "",
        "      apps.${system}.check = {",
        '        type = "app";',
        '        program = "${pkgs.writeShellScript "check" \'\'',
        "          # torch.compile compiles while it runs",
        "          PATH=${pkgs.stdenv.cc}/bin:$PATH",
        *(f"          {line}" for line in _driver(plan).splitlines()),
        "          cd ${./envspec}",
        "          exec ${environment}/bin/python check.py \\",
        '            --lock envspec.lock --config target.json --target ${target} "$@"',
        "        ''}\";",
        "      };",
    ]
