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

from envspec.base.places import KEEP_PYTHONPATH

PATHS = ("bin/activate", "bin/activate.fish")

_POSIX = """\
# For bash and zsh:  . {path}
# Written by envspec; it is written again by the next `envspec install`.

# Leave the environment that is active. A program of that name, which some have in PATH, isn't meant.
case "$(command -V deactivate 2>/dev/null)" in
    *function*) deactivate nondestructive ;;
esac

{finding}{load}deactivate () {{
    _envspec_run deactivate.d
    local name
    for name in {names}; do _envspec_restore "$name"; done
{unload}    if [ -n "${{_ENVSPEC_OLD_PS1+x}}" ]; then PS1="$_ENVSPEC_OLD_PS1"; unset _ENVSPEC_OLD_PS1; fi
    if [ "${{1:-}}" != nondestructive ]; then
        unset -f deactivate _envspec_run _envspec_save _envspec_restore
{forgetting}    fi
    hash -r 2>/dev/null || true
}}

_envspec_run () {{
    if [ -n "${{ZSH_VERSION:-}}" ]; then setopt localoptions nonomatch; fi
    local script
    for script in {prefix}/etc/conda/"$1"/*.sh; do
        if [ -f "$script" ]; then . "$script"; fi
    done
}}

# $1 becomes $2; what it was stays in _ENVSPEC_OLD_$1, and whether it was anything in _ENVSPEC_HAD_$1
_envspec_save () {{
    eval "_ENVSPEC_HAD_$1=\\${{$1+x}}; _ENVSPEC_OLD_$1=\\${{$1-}}; $1=\\$2; export $1"
}}

_envspec_restore () {{
    eval "if [ \\${{_ENVSPEC_HAD_$1:-n}} = x ]; then $1=\\$_ENVSPEC_OLD_$1; export $1; else unset $1; fi"
    unset "_ENVSPEC_HAD_$1" "_ENVSPEC_OLD_$1"
}}

{save}
if [ -z "${{VIRTUAL_ENV_DISABLE_PROMPT:-}}" ] && [ -n "${{PS1:-}}" ]; then
    _ENVSPEC_OLD_PS1="$PS1"
    PS1={prompt}"$PS1"
fi
_envspec_run activate.d
hash -r 2>/dev/null || true
"""

_FISH = """\
# For fish:  source {path}
# Written by envspec; it is written again by the next `envspec install`.

functions -q deactivate; and deactivate

{finding}{load}function deactivate -d 'Leave the environment {name}'
    _envspec_run deactivate.d
    for name in {names}
        set -l had _ENVSPEC_HAD_$name
        set -l old _ENVSPEC_OLD_$name
        if set -q $had
            set -gx $name $$old
        else
            set -e $name
        end
        set -e $had
        set -e $old
    end
{unload}    if functions -q _envspec_old_fish_prompt
        functions -e fish_prompt
        functions -c _envspec_old_fish_prompt fish_prompt
        functions -e _envspec_old_fish_prompt
    end
    functions -e _envspec_run _envspec_save
    functions -e deactivate
end

function _envspec_run
    for script in {prefix}/etc/conda/$argv[1]/*.fish
        source $script
    end
end

function _envspec_save
    if set -q $argv[1]
        set -g _ENVSPEC_HAD_$argv[1] x
        set -g _ENVSPEC_OLD_$argv[1] $$argv[1]
    end
    set -gx $argv[1] $argv[2..-1]
end

{save}
if test -z "$VIRTUAL_ENV_DISABLE_PROMPT"; and functions -q fish_prompt
    functions -c fish_prompt _envspec_old_fish_prompt
    function fish_prompt
        set -l status_before $status
        printf '%s' {prompt}
        # the prompt of before sees the status of before
        sh -c "exit $status_before"
        _envspec_old_fish_prompt
    end
end
_envspec_run activate.d
"""

_FINDING = """\
if [ -n "${BASH_VERSION:-}" ]; then _ENVSPEC_ROOT=${BASH_SOURCE[0]}; else _ENVSPEC_ROOT=${(%):-%x}; fi
_ENVSPEC_ROOT=$(CDPATH='' cd -- "$(dirname -- "$_ENVSPEC_ROOT")/.." && pwd)

"""
_FISH_FINDING = """\
set -g _ENVSPEC_ROOT (builtin realpath (dirname (status filename))/..)

"""


# `module` is a function, which a program's shell may lack: MODULESHOME of the site's start files leads to it
_LOAD = """\
if ! command -v module >/dev/null 2>&1; then
    if [ -z "${{MODULEPATH:-}}" ]; then export MODULEPATH={path}; fi
    if [ -n "${{ZSH_VERSION:-}}" ]; then _ENVSPEC_MODULES=zsh; else _ENVSPEC_MODULES=${{BASH_VERSION:+ba}}sh; fi
    . {home}/init/"$_ENVSPEC_MODULES"
fi
unset _ENVSPEC_MODULES
for _ENVSPEC_MODULE in {names}; do
    if ! module is-loaded "$_ENVSPEC_MODULE"; then
        module load "$_ENVSPEC_MODULE"
        if ! module is-loaded "$_ENVSPEC_MODULE"; then
            echo "envspec: module load $_ENVSPEC_MODULE failed" >&2
            return 1
        fi
        _ENVSPEC_MODULES=loaded
    fi
done

"""
_UNLOAD = """\
    if [ -n "${{_ENVSPEC_MODULES:-}}" ]; then module unload {names}; unset _ENVSPEC_MODULES; fi
"""
_FISH_LOAD = """\
if not functions -q module
    set -q MODULEPATH; or set -gx MODULEPATH {path}
    source {home}/init/fish
end
set -e _ENVSPEC_MODULES
for module in {names}
    if not module is-loaded $module
        module load $module
        if not module is-loaded $module
            echo "envspec: module load $module failed" >&2
            return 1
        end
        set -g _ENVSPEC_MODULES loaded
    end
end

"""
_FISH_UNLOAD = """\
    if set -q _ENVSPEC_MODULES
        module unload {names}
        set -e _ENVSPEC_MODULES
    end
"""


class SiteModules(Struct, frozen=True):
    """A site's modules below an environment: their names, where `module` itself is, and MODULEPATH."""

    names: tuple[str, ...]
    home: str
    path: str

    def fill(self, text: str, quote: Callable[[str], str]) -> str:
        """Fill in a script's part."""
        return text.format(names=" ".join(map(quote, self.names)), home=quote(self.home), path=quote(self.path))


_TOLD = f"envspec: PYTHONPATH is unset here: its modules came before the lock's. {KEEP_PYTHONPATH}=1 keeps it."
_UNSET = (
    f'if [ -z "${{{KEEP_PYTHONPATH}:-}}" ]; then',
    f'    if [ -n "$PYTHONPATH" ]; then echo {shlex.quote(_TOLD)} >&2; fi',
    "    unset PYTHONPATH",
    "fi",
)
_FISH_UNSET = (
    f'if test -z "${KEEP_PYTHONPATH}"',
    f'    test -n "$PYTHONPATH"; and echo "{_TOLD}" >&2',
    "    set -e PYTHONPATH",
    "end",
)


def scripts(prefix: Path | None, name: str, *, conda: bool, modules: SiteModules | None = None) -> dict[str, str]:
    """Render the activation scripts of an environment, by path relative to the prefix; without `prefix` they are for
    one that works at any path, and look where they lie.

    `name` is the spec's; `conda` says whether the environment is conda's, a virtual environment otherwise. `modules`
    are loaded first.
    """
    return {
        "bin/activate": _posix(prefix, name, modules, conda=conda),
        "bin/activate.fish": _fish(prefix, name, modules, conda=conda),
    }


def without_writer(text: str) -> str:
    """Give a script without the line that says who writes it again: for a place that is read-only."""
    return re.sub(r"\n# Written by envspec[^\n]*", "", text)


def _variables(prefix: Path | None, root: str, name: str, *, conda: bool) -> dict[str, str]:
    """List the variables of an environment with their values in words of a shell; `root` is the prefix so, `name` the
    spec's. What works at any path is no virtual environment."""
    own = {"CONDA_PREFIX": root, "CONDA_DEFAULT_ENV": name} if conda else {"VIRTUAL_ENV": root} if prefix else {}
    return {**own, "PYTHONNOUSERSITE": "1"}


def _posix(prefix: Path | None, name: str, modules: SiteModules | None, *, conda: bool) -> str:
    root = shlex.quote(str(prefix)) if prefix else '"$_ENVSPEC_ROOT"'
    folder = shlex.quote(f"{prefix}/bin") if prefix else '"$_ENVSPEC_ROOT/bin"'
    variables = _variables(prefix, root, shlex.quote(name), conda=conda)
    save = [f'_envspec_save PATH {folder}:"$PATH"']
    save += [f"_envspec_save {key} {value}" for key, value in variables.items()]
    # a PYTHONHOME of another Python would break this one
    save += ["_envspec_save PYTHONHOME ''", "unset PYTHONHOME", '_envspec_save PYTHONPATH "${PYTHONPATH-}"']
    # a module's own is no surprise
    save += [line for line in _UNSET if modules is None or "echo" not in line]
    return _POSIX.format(
        path=shlex.quote(f"{prefix}/bin/activate") if prefix else "FOLDER/bin/activate",
        finding="" if prefix else _FINDING,
        load=modules.fill(_LOAD, shlex.quote) if modules else "",
        unload=modules.fill(_UNLOAD, shlex.quote) if modules else "",
        forgetting="" if prefix else "        unset _ENVSPEC_ROOT\n",
        prefix=root,
        prompt=shlex.quote(f"({name}) "),
        names=" ".join(["PATH", *variables, "PYTHONHOME", "PYTHONPATH"]),
        save="\n".join(save),
    )


def _fish(prefix: Path | None, name: str, modules: SiteModules | None, *, conda: bool) -> str:
    root = quote_for_fish(str(prefix)) if prefix else '"$_ENVSPEC_ROOT"'
    folder = quote_for_fish(f"{prefix}/bin") if prefix else '"$_ENVSPEC_ROOT/bin"'
    variables = _variables(prefix, root, quote_for_fish(name), conda=conda)
    save = [f"_envspec_save PATH {folder} $PATH"]
    save += [f"_envspec_save {key} {value}" for key, value in variables.items()]
    save += ["_envspec_save PYTHONHOME ''", "set -e PYTHONHOME", '_envspec_save PYTHONPATH "$PYTHONPATH"']
    save += [line for line in _FISH_UNSET if modules is None or "echo" not in line]
    return _FISH.format(
        path=quote_for_fish(f"{prefix}/bin/activate.fish") if prefix else "FOLDER/bin/activate.fish",
        finding="" if prefix else _FISH_FINDING,
        load=modules.fill(_FISH_LOAD, quote_for_fish) if modules else "",
        unload=modules.fill(_FISH_UNLOAD, quote_for_fish) if modules else "",
        prefix=root,
        name=name,
        names=" ".join(["PATH", *variables, "PYTHONHOME", "PYTHONPATH"]),
        prompt=quote_for_fish(f"({name}) "),
        save="\n".join(save),
    )


def quote_for_fish(text: str) -> str:
    """Quote a word for fish: inside single quotes only the quote and the backslash are special."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
