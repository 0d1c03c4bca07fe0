"""A site's modules (Lmod, Environment Modules) as its users load them: by `module load` in a clean shell."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from envspec.base.errors import InputError, ToolError
from envspec.base.programs import run
from envspec.base.texts import printable
from envspec.lock.model import Lock

SEARCH = "/usr/local/bin:/usr/bin:/bin"
"""PATH before a site's own start files set theirs."""
_OF_THE_USER = ("HOME", "USER", "LOGNAME", "LANG", "TERM", "LMOD_SYSTEM_NAME", "LMOD_CONFIG_DIR")
_SECONDS = 120.0
_NO_MODULE, _NO_LOAD = 71, 72
# the site's start files, without the user's own; `module use` of the user's counts. Lmod's `load` tells of a failure
# by its status since 7.0 only, and both programs' `is-loaded` answers for one name
_SCRIPT = f"""
. /etc/profile >/dev/null 2>&1
command -v module >/dev/null 2>&1 || exit {_NO_MODULE}
if [ -n "$1" ]; then export MODULEPATH="$1"; fi
shift
module load "$@" >&2 || exit {_NO_LOAD}
for one; do module is-loaded "$one" >&2 || exit {_NO_LOAD}; done
exec env -0
"""


def load_modules(names: str, env: Mapping[str, str]) -> dict[str, str]:
    """Give the variables of a clean shell in which these modules, words with spaces between, are loaded. `env` is this
    process's environment; only the variables of the user's identity, and MODULEPATH, count. Raises InputError for a
    module that can't be loaded, ToolError."""
    own = {name: env[name] for name in _OF_THE_USER if name in env} | {"PATH": SEARCH}
    words = ("bash", "--noprofile", "--norc", "-c", _SCRIPT, "envspec", env.get("MODULEPATH", ""), *names.split())
    try:
        done = run(words, own, seconds=_SECONDS, session=True)
    except subprocess.TimeoutExpired:
        raise ToolError(f"module load {names} took longer than {_SECONDS:.0f} s", hint="try it in a shell") from None
    except OSError as error:
        raise ToolError(f"bash can't be started: {error.strerror}", hint="a module is loaded in bash") from None
    message = printable(" ".join(done.stderr.decode("utf-8", "replace").split()))[:500]
    if done.returncode == _NO_MODULE:
        hint = "envspec reads the site's /etc/profile, which defines it: use a node that has modules"
        raise ToolError("this machine has no `module` command", hint=hint)
    if done.returncode:
        hint = "`module spider NAME` and `module avail` list what there is"
        raise InputError(f"module load {names} failed: {message or 'it said nothing'}", hint=hint)
    rows = (row.partition("=") for row in done.stdout.decode("utf-8", "surrogateescape").split("\0") if "=" in row)
    return {name: value for name, _, value in rows if not name.startswith("BASH_FUNC_")}


def with_modules(lock: Lock, env: Mapping[str, str]) -> Mapping[str, str]:
    """Give the variables for programs of a lock's base: its modules' beside this process's own. Raises as
    `load_modules`."""
    base = lock.inputs.base
    if base is None or base.kind != "module":
        return env
    loaded = load_modules(base.place, env)
    # the base's packages come behind those of the environment (`envspec.install.on_base`)
    loaded.pop("PYTHONPATH", None)
    path = os.pathsep.join(dict.fromkeys([*loaded["PATH"].split(os.pathsep), *env.get("PATH", "").split(os.pathsep)]))
    return {**env, **loaded, "PATH": path}
