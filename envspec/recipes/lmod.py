"""An Lmod modulefile: `module load` of an environment that `envspec install` made."""

from __future__ import annotations

from envspec.recipes.heading import heading
from envspec.recipes.plan import Plan
from envspec.recipes.quote import lua

FILE = "modulefile.lua"
_ALSO_OUTSIDE = ("ENVSPEC_SPEC", "ENVSPEC_TARGET", "PYTHONNOUSERSITE", "PYTORCH_VERSION", "TORCH_CUDA_ARCH_LIST")
"""The variables of an image that an environment wants without one. The spec's own are about paths of the image."""


def render(plan: Plan) -> dict[str, str]:
    """`modulefile.lua`. Copy it as `<name>/<version>.lua` into a folder of MODULEPATH."""
    usage = [
        f"Install the environment:  envspec install SPEC --target {plan.target} --prefix $ENVSPEC_ENVS/{plan.title}",
        f"Install this file:        cp {FILE} MODULEPATH/{plan.spec}/{plan.target}.lua",
        "ENVSPEC_ENVS is the folder of the environments; without it, envs in the home folder.",
    ]
    if plan.explicit:
        usage += [
            "Loading runs no activation script of conda's packages. A program that needs what one sets:",
            "  . $CONDA_PREFIX/bin/activate",
        ]
    cuda = f", CUDA {plan.cuda}" if plan.cuda else ""
    summary = plan.description or plan.title
    lines = [
        *(f"-- {line}".rstrip() for line in heading(plan, usage)),
        f"whatis({lua(f'Name: {plan.title}')})",
        f"whatis({lua(f'Description: {summary}')})",
        f"help({lua(f'{summary}. Python {plan.python}{cuda}.')})",
        "",
        'local envs = os.getenv("ENVSPEC_ENVS") or pathJoin(os.getenv("HOME"), "envs")',
        f"local prefix = pathJoin(envs, {lua(plan.title)})",
        'if mode() == "load" and not isFile(pathJoin(prefix, "bin", "python")) then',
        '    LmodError("there is no environment in " .. prefix .. ": install it, or set ENVSPEC_ENVS to its folder")',
        "end",
        "",
        "-- two environments at once would mix their packages",
        'family("envspec")',
        'prepend_path("PATH", pathJoin(prefix, "bin"))',
        f'setenv("{"CONDA_PREFIX" if plan.explicit else "VIRTUAL_ENV"}", prefix)',
        'unsetenv("PYTHONHOME")',
        'unsetenv("PYTHONPATH")',
        *(f"setenv({lua(name)}, {lua(value)})" for name, value in plan.env if name in _ALSO_OUTSIDE),
    ]
    return {FILE: "\n".join(lines) + "\n"}
