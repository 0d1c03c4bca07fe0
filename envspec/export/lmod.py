"""An Lmod modulefile: `module load` of an environment that `envspec install` made.

One file serves all targets of a spec: the name under which Lmod found it selects the target.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from envspec.base.places import OF_OTHER_PYTHONS
from envspec.base.texts import fill
from envspec.export.plan import Plan, SpecPlan, heading
from envspec.export.quote import lua

FILE = "modulefile.lua"
_TEMPLATE = Path(__file__).with_name("templates") / FILE
_ALSO_OUTSIDE = ("ENVSPEC_SPEC", "ENVSPEC_TARGET", "PYTHONNOUSERSITE", "PYTORCH_VERSION", "TORCH_CUDA_ARCH_LIST")
"""The variables of an image that an environment also needs outside one. The spec's own name paths of the image."""


def render(plan: SpecPlan) -> dict[str, str]:
    """Render `modulefile.lua`. Link it as `<name>/<target>.lua` into a folder of MODULEPATH."""
    target = plan.names[0]
    usage = [
        f'envspec install SPEC --target {target} --prefix "${{ENVSPEC_ENVS:-$HOME/envs}}/{plan.spec}-{target}"',
        f'mkdir -p MODULES/{plan.spec} && ln -s "$PWD/{FILE}" MODULES/{plan.spec}/{target}.lua',
        "SPEC and MODULES, a folder of MODULEPATH, are yours. The link's name says which target it loads. ENVSPEC_ENVS",
        "is the folder of the environments; without it, envs in the home folder.",
    ]
    if any(of.explicit for of in plan.targets):
        usage += [
            "Loading runs no activation script of conda's packages. A program that needs what one sets:",
            "  . $CONDA_PREFIX/bin/activate",
        ]
    values = {
        "targets": "\n".join(line for of in plan.targets for line in _table(of)),
        "spec": lua(plan.spec),
        "whatis": lua(f"Description: {plan.description or plan.spec}"),
        "help": lua(f"{plan.description or plan.spec}. "),
        "others": f"{{ {', '.join(map(lua, OF_OTHER_PYTHONS))} }}",
        "hint": lua(f" of {plan.spec}: name the file after one of {', '.join(plan.names)}"),
    }
    head = "".join(f"-- {line}".rstrip() + "\n" for line in heading(plan, usage))
    return {FILE: head + fill(_TEMPLATE.read_text(encoding="utf-8"), values)}


def _table(plan: Plan) -> Iterator[str]:
    cuda = f", CUDA {plan.cuda}" if plan.cuda else ""
    active = "CONDA_PREFIX" if plan.explicit else "VIRTUAL_ENV"
    variables = [f"{{ {lua(name)}, {lua(value)} }}" for name, value in plan.env if name in _ALSO_OUTSIDE]
    yield f"    [{lua(plan.target)}] = {{"
    yield f"        about = {lua(f'Python {plan.python}{cuda}.')}, active = {lua(active)},"
    yield f"        variables = {{ {', '.join(variables)} }},"
    yield "    },"
