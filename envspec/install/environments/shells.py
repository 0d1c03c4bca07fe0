"""Interactive shells in an environment: the user's own settings first, then the environment, so that it comes before
whatever these put into PATH."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from envspec.install.activation import quote_for_fish
from envspec.install.environments.in_use import ACTIVATE, RECORDS, Ready
from envspec.install.prefix import storage, write_file

_FOLDER = Path(RECORDS) / "shell"


def shell_of(env: Mapping[str, str]) -> str:
    """Find the user's shell: $SHELL, or the one of the user's account, or /bin/sh."""
    named = env.get("SHELL") or _of_account()
    return named if named and os.path.isabs(named) and os.access(named, os.X_OK) else "/bin/sh"


def shell_command(shell: str, ready: Ready, env: Mapping[str, str]) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """Give the program of a shell, its command, and more variables for it. Writes its start files into the
    environment's records. Raises StorageError."""
    name, prefix = os.path.basename(shell), Path(ready.prefix)
    activate = shlex.quote(f"{ready.prefix}/{ACTIVATE}")
    with storage(prefix):
        if name == "bash":
            write_file(prefix, _FOLDER / "bashrc", f"[ ! -f ~/.bashrc ] || . ~/.bashrc\n. {activate}\n")
            return shell, (name, "--rcfile", str(prefix / _FOLDER / "bashrc")), {}
        if name == "zsh":
            for file, text in _zsh(activate).items():
                write_file(prefix, _FOLDER / file, text)
            return shell, (name,), {"ZDOTDIR": str(prefix / _FOLDER), "ENVSPEC_ZDOTDIR": env.get("ZDOTDIR", "")}
    if name == "fish":
        return shell, (name, "--init-command", f"source {quote_for_fish(f'{ready.prefix}/{ACTIVATE}.fish')}"), {}
    # sh, dash and ksh read one file at their start, the user's own: they get all by variables
    words = ready.command((shell,), env)
    return words[0], words, {"PS1": f"({ready.spec}) $ "}


def _zsh(activate: str) -> dict[str, str]:
    """Make zsh's start files: the user's own, in the order in which zsh reads them, then the environment."""
    back = 'if [ -n "$ENVSPEC_ZDOTDIR" ]; then ZDOTDIR="$ENVSPEC_ZDOTDIR"; else unset ZDOTDIR; fi\n'
    own = 'if [ -f "${ZDOTDIR:-$HOME}/.zshrc" ]; then . "${ZDOTDIR:-$HOME}/.zshrc"; fi\n'
    return {
        ".zshenv": 'if [ -f "${ENVSPEC_ZDOTDIR:-$HOME}/.zshenv" ]; then . "${ENVSPEC_ZDOTDIR:-$HOME}/.zshenv"; fi\n',
        ".zshrc": f"{back}unset ENVSPEC_ZDOTDIR\n{own}. {activate}\n",
    }


def _of_account() -> str | None:
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_shell
    except (ImportError, KeyError):
        return None
