"""Activation scripts: `bin/activate` for bash and zsh, `bin/activate.fish` for fish. Pure texts, quoted for any path.

They do what conda's and venv's scripts do: set PATH, CONDA_PREFIX or VIRTUAL_ENV and the prompt, and run the packages'
own scripts in `etc/conda/activate.d` and `deactivate.d`. They also set PYTHONNOUSERSITE=1, which keeps ~/.local out,
and unset PYTHONPATH, whose modules would come before the lock's, unless ENVSPEC_KEEP_PYTHONPATH is set.
`deactivate` restores everything.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from envspec.base.places import KEEP_PYTHONPATH, OF_OTHER_PYTHONS
from envspec.base.texts import fill

_FINDING = """\
if [ -n "${BASH_VERSION:-}" ]; then _ENVSPEC_ROOT=${BASH_SOURCE[0]}; else _ENVSPEC_ROOT=${(%):-%x}; fi
_ENVSPEC_ROOT=$(CDPATH='' cd -- "$(dirname -- "$_ENVSPEC_ROOT")/.." && pwd)

"""
_FISH_FINDING = """\
set -g _ENVSPEC_ROOT (builtin realpath (dirname (status filename))/..)

"""
_UNLOAD = """\
    if [ -n "${_ENVSPEC_MODULES:-}" ]; then module unload @names@; unset _ENVSPEC_MODULES; fi
"""
_FISH_UNLOAD = """\
    if set -q _ENVSPEC_MODULES
        module unload @names@
        set -e _ENVSPEC_MODULES
    end
"""


def _read(name: str) -> str:
    return Path(__file__).with_name("scripts").joinpath(name).read_text(encoding="utf-8")


class SiteModules(Struct, frozen=True):
    """A site's modules below an environment: their names, where `module` itself is, and MODULEPATH."""

    names: tuple[str, ...]
    home: str
    path: str

    def fill(self, text: str, quote: Callable[[str], str]) -> str:
        """Fill in a script's part."""
        return fill(
            text, {"names": " ".join(map(quote, self.names)), "home": quote(self.home), "path": quote(self.path)}
        )


_UNSET_NOTE = f"envspec: PYTHONPATH is unset here: its modules came before the lock's. {KEEP_PYTHONPATH}=1 keeps it."
_UNSET = (
    f'if [ -z "${{{KEEP_PYTHONPATH}:-}}" ]; then',
    f'    if [ -n "$PYTHONPATH" ]; then echo {shlex.quote(_UNSET_NOTE)} >&2; fi',
    "    unset PYTHONPATH",
    "fi",
)
_FISH_UNSET = (
    f'if test -z "${KEEP_PYTHONPATH}"',
    f'    test -n "$PYTHONPATH"; and echo "{_UNSET_NOTE}" >&2',
    "    set -e PYTHONPATH",
    "end",
)


def quote_for_fish(text: str) -> str:
    """Quote a word for fish: inside single quotes only the quote and the backslash are special."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class _Shell(Struct, frozen=True):
    """The words of a kind of shells.

    ending      of its scripts' names
    quote       quotes a word
    finding     the lines that find the environment's folder
    forgetting  the line that `deactivate` has then
    unload      the lines that unload modules
    unset       unsets a variable
    after       joins what PATH was to a folder
    pythonpath  what PYTHONPATH was
    dropping    the lines that unset it
    """

    ending: str
    quote: Callable[[str], str]
    finding: str
    forgetting: str
    unload: str
    unset: str
    after: str
    pythonpath: str
    dropping: tuple[str, ...]


_SHELLS = {
    "bin/activate": _Shell(
        "sh",
        shlex.quote,
        _FINDING,
        "        unset _ENVSPEC_ROOT\n",
        _UNLOAD,
        "unset",
        ':"$PATH"',
        '"${PYTHONPATH-}"',
        _UNSET,
    ),
    "bin/activate.fish": _Shell(
        "fish", quote_for_fish, _FISH_FINDING, "", _FISH_UNLOAD, "set -e", " $PATH", '"$PYTHONPATH"', _FISH_UNSET
    ),
}
PATHS = tuple(_SHELLS)


def scripts(prefix: Path | None, name: str, *, conda: bool, modules: SiteModules | None = None) -> dict[str, str]:
    """Render the activation scripts of an environment, by path relative to the prefix; without `prefix` they are for
    one that works at any path, and look where they lie.

    `name` is the spec's; `conda` says whether the environment is conda's, a virtual environment otherwise. `modules`
    are loaded first.
    """
    return {path: _script(path, shell, prefix, name, modules, conda=conda) for path, shell in _SHELLS.items()}


def without_writer(text: str) -> str:
    """Give a script without the line that says who writes it again: for a place that is read-only."""
    return re.sub(r"\n# Written by envspec[^\n]*", "", text)


def _script(
    path: str, shell: _Shell, prefix: Path | None, name: str, modules: SiteModules | None, *, conda: bool
) -> str:
    quote = shell.quote
    root = quote(str(prefix)) if prefix else '"$_ENVSPEC_ROOT"'
    folder = quote(f"{prefix}/bin") if prefix else '"$_ENVSPEC_ROOT/bin"'
    # what works at any path is no virtual environment
    own = {"CONDA_PREFIX": root, "CONDA_DEFAULT_ENV": quote(name)} if conda else {"VIRTUAL_ENV": root} if prefix else {}
    variables = {**own, "PYTHONNOUSERSITE": "1"}
    save = [f"_envspec_save PATH {folder}{shell.after}"]
    save += [f"_envspec_save {key} {value}" for key, value in variables.items()]
    # what is another Python's would break this one
    foreign = [name for name in OF_OTHER_PYTHONS if name != "PYTHONPATH"]
    save += [*(f"_envspec_save {name} ''" for name in foreign), f"{shell.unset} {' '.join(foreign)}"]
    save += [f"_envspec_save PYTHONPATH {shell.pythonpath}"]
    # a module's own is no surprise
    save += [line for line in shell.dropping if modules is None or "echo" not in line]
    load = _read(f"load_modules.{shell.ending}") + "\n" if modules else ""
    values = {
        "path": quote(f"{prefix}/{path}") if prefix else f"FOLDER/{path}",
        "finding": "" if prefix else shell.finding,
        "load": modules.fill(load, quote) if modules else "",
        "unload": modules.fill(shell.unload, quote) if modules else "",
        "forgetting": "" if prefix else shell.forgetting,
        "prefix": root,
        "name": name,
        "prompt": quote(f"({name}) "),
        "names": " ".join(["PATH", *variables, *foreign, "PYTHONPATH"]),
        "save": "\n".join(save),
    }
    return fill(_read(f"activate.{shell.ending}"), values)
