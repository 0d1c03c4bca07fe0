"""The places of this user's files: the cache, the configuration, the environments, by the XDG Base Directory rules; and
whether a link leads from a repository to them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ENVIRONMENTS = "ENVSPEC_ENVIRONMENTS_DIR"
"""The variable that names the folder of environments."""
KEEP_PYTHONPATH = "ENVSPEC_KEEP_PYTHONPATH"
"""The variable that leaves PYTHONPATH in environments as the caller has it: its modules come before the lock's."""


def link_out_of(path: str) -> str | None:
    """Give the git repository around a path, or else the current folder, where a link takes the path out of it."""
    whole = os.path.abspath(path)
    above = os.path.dirname(whole)
    while not os.path.lexists(os.path.join(above, ".git")) and above != os.path.dirname(above):
        above = os.path.dirname(above)
    root = above if os.path.lexists(os.path.join(above, ".git")) else os.getcwd()
    stays = not _is_below(whole, root) or _is_below(os.path.realpath(path), os.path.realpath(root))
    return None if stays else root


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def home_of(env: Mapping[str, str]) -> Path:
    """Give the user's home."""
    return _path(env.get("HOME", "~")).expanduser()


def cache_dir(env: Mapping[str, str], home: Path) -> Path:
    """Give the folder of envspec's cache."""
    return _path(env.get("ENVSPEC_CACHE_DIR") or _path(env.get("XDG_CACHE_HOME") or home / ".cache") / "envspec")


def config_home(env: Mapping[str, str], home: Path) -> Path:
    """Give the folder of the user's configurations, of any program."""
    return _path(env.get("XDG_CONFIG_HOME") or home / ".config")


def config_file(env: Mapping[str, str], home: Path) -> Path:
    """Give envspec's own configuration: the file that ENVSPEC_CONFIG names, or the usual one."""
    return _path(config_path(env, str(home)))


def config_path(env: Mapping[str, str], home: str) -> str:
    """Give the same as a text: every command looks there, and few need more of paths."""
    usual = env.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return env.get("ENVSPEC_CONFIG") or os.path.join(usual, "envspec", "config.toml")


def environments_dir(env: Mapping[str, str], home: Path, configured: str | None) -> Path:
    """Give the folder of environments that have no prefix of their own. `configured` is the setting, in which `~` and
    variables stand for what they are on this machine."""
    named = env.get(ENVIRONMENTS) or configured
    if named:
        return _path(os.path.abspath(os.path.expanduser(os.path.expandvars(named))))
    return _path(env.get("XDG_DATA_HOME") or home / ".local" / "share") / "envspec" / "environments"


def _path(named: str | os.PathLike[str]) -> Path:
    # its module takes as long to load as the facts of a GPU
    from pathlib import Path

    return Path(named)
