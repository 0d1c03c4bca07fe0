"""An Lmod modulefile: `module load` of an environment that `envspec install` made.

One file serves all targets of a spec: the name under which Lmod found it selects the target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from envspec.base.places import OF_OTHER_PYTHONS
from envspec.base.texts import fill
from envspec.export.plan import Plan, SpecPlan, heading
from envspec.export.quote import fill as wrap, lua

FILE = "modulefile.lua"
_WIDTH = 90
"""The greatest length of a string on a line."""
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
    if any(of.sources.explicit for of in plan.targets):
        usage += [
            "Loading runs no activation script of conda's packages. A program that needs what one sets:",
            "  . $CONDA_PREFIX/bin/activate",
        ]
    values = {
        "targets": "\n".join(line for of in plan.targets for line in _table(of)),
        "spec": lua(plan.spec),
        "whatis": _write_text(f"Description: {plan.description or plan.spec}"),
        "help": _write_text(f"{plan.description or plan.spec}. "),
        "others": _write_list(map(lua, OF_OTHER_PYTHONS)),
        "hint": _write_text(f" of {plan.spec}: name the file after one of {', '.join(plan.names)}"),
    }
    head = "".join(f"-- {line}".rstrip() + "\n" for line in heading(plan, usage))
    return {FILE: head + fill(_TEMPLATE.read_text(encoding="utf-8"), values)}


def _write_text(text: str) -> str:
    """Write a string on lines of their own, where it is long."""
    return " ..\n        ".join(map(lua, _split_text(text)))


def _split_text(text: str) -> Iterator[str]:
    while len(text) > _WIDTH and (end := text.rfind(" ", 0, _WIDTH) + 1):
        yield text[:end]
        text = text[end:]
    yield text


def _write_list(elements: Iterable[str]) -> str:
    """Write a list on as many lines as it takes."""
    lines = list(wrap((f"{element}," for element in elements), 100))
    return f"{{ {lines[0].rstrip(',')} }}" if len(lines) == 1 else "\n            ".join(["{", *lines]) + "\n        }"


def _table(plan: Plan) -> Iterator[str]:
    cuda = f", CUDA {plan.runtime.cuda}" if plan.runtime.cuda else ""
    active = "CONDA_PREFIX" if plan.sources.explicit else "VIRTUAL_ENV"
    variables = [f"{{ {lua(name)}, {lua(value)} }}" for name, value in plan.runtime.env if name in _ALSO_OUTSIDE]
    yield f"    [{lua(plan.target)}] = {{"
    yield f"        about = {lua(f'Python {plan.runtime.python}{cuda}.')}, active = {lua(active)},"
    yield f"        variables = {_write_list(variables)},"
    yield "    },"
