"""The places of this user's files: the cache, the configuration, the environments, by the XDG Base Directory rules; of
the files of whoever runs this machine; and whether a link leads from a repository to them."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING

from envspec.base.errors import InputError, Place

if TYPE_CHECKING:
    import pwd
    from pathlib import Path

ENVIRONMENTS = "ENVSPEC_ENVIRONMENTS_DIR"
"""The variable that names the folder of environments."""
KEEP_PYTHONPATH = "ENVSPEC_KEEP_PYTHONPATH"
"""The variable that leaves PYTHONPATH in environments as the caller has it: its modules come before the lock's."""
OF_OTHER_PYTHONS = (
    "PYTHONHOME", "PYTHONPATH", "PYTHONPLATLIBDIR", "PYTHONEXECUTABLE", "PYTHONSTARTUP", "PYTHONUSERBASE",
    "PYTHONSAFEPATH", "PYTHONWARNINGS", "PYTHONOPTIMIZE", "PYTHONINSPECT",
)  # fmt: skip
"""The variables that a caller may have set for a Python of its own, and by which another one doesn't find its modules,
imports other ones, or runs programs otherwise. Python reads an empty one as none. Source: its documentation, "Command
line and environment"."""
LIBRARIES = "ENVSPEC_LIBRARIES"
"""The variable with the folders of libraries that the site's fabric needs, for `run` and for jobs under pyxis."""


def link_out_of(path: str) -> str | None:
    """Give the git repository around a path, or else the current folder, where a link takes the path out of it."""
    root = repository_of(path)
    return None if root is None or _is_below(os.path.realpath(path), os.path.realpath(root)) else root


def repository_of(path: str) -> str | None:
    """Give the git repository around a path, or else the current folder; None for a path that is in neither."""
    whole = os.path.abspath(path)
    above = os.path.dirname(whole)
    while not os.path.lexists(os.path.join(above, ".git")) and above != os.path.dirname(above):
        above = os.path.dirname(above)
    root = above if os.path.lexists(os.path.join(above, ".git")) else os.getcwd()
    return root if _is_below(whole, root) else None


def is_beside(path: str, page: str) -> bool:
    """Return whether a file is in the repository of the page that names it, links aside. A page in none may name
    any."""
    root = repository_of(page)
    return root is None or _is_below(os.path.abspath(path), root)


def refuse_link_out(path: Path) -> None:
    """Raise InputError for a file or folder to which a link leads out of the repository that has the link."""
    if (root := link_out_of(str(path))) is not None:
        hint = "if it's yours, give the path that it leads to"
        raise InputError(
            f"a symbolic link leads from here out of {root}, and isn't followed", hint=hint, place=Place(str(path))
        )


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def home_of(env: Mapping[str, str]) -> Path:
    """Give the user's home, an absolute path: HOME, or the account's where HOME is empty, relative or not set."""
    return _path(home_path(env))


def home_path(env: Mapping[str, str]) -> str:
    """Give the user's home as a text: commands that need no more of paths start sooner. A relative HOME would make the
    files of the current folder, such as a clone's, the user's own. `/` for an account without an entry."""
    named = env.get("HOME", "")
    if os.path.isabs(named):
        return named
    user = this_user()
    if user is None:  # Windows
        return os.path.expanduser("~")
    account = _account(user)
    return account.pw_dir if account else os.sep


def xdg_path(env: Mapping[str, str], variable: str, home: str | Path, *usual: str) -> str:
    """Give the folder that a variable of the XDG Base Directory Specification names, `usual` below the home without it.

    A relative path is ignored. Source: https://specifications.freedesktop.org/basedir-spec/latest/ ("If an
    implementation encounters a relative path in any of these variables it should consider the path invalid").
    """
    named = env.get(variable, "")
    return named if os.path.isabs(named) else os.path.join(home, *usual)


def cache_dir(env: Mapping[str, str], home: Path) -> Path:
    """Give the folder of envspec's cache, an absolute path: the links in it and programs that start elsewhere need
    one."""
    named = env.get("ENVSPEC_CACHE_DIR")
    return _path(os.path.abspath(named or os.path.join(xdg_path(env, "XDG_CACHE_HOME", home, ".cache"), "envspec")))


def config_home(env: Mapping[str, str], home: Path) -> Path:
    """Give the folder of the user's configurations, of any program."""
    return _path(xdg_path(env, "XDG_CONFIG_HOME", home, ".config"))


def data_home(env: Mapping[str, str]) -> Path:
    """Give the folder of the data that programs keep for the user."""
    return _path(xdg_path(env, "XDG_DATA_HOME", home_path(env), ".local", "share"))


def config_file(env: Mapping[str, str], home: Path) -> Path:
    """Give the user's own configuration, to write to: the file that ENVSPEC_CONFIG names, or the usual one."""
    return _path(config_paths(env, str(home))[-1])


def config_paths(env: Mapping[str, str], home: str) -> tuple[str, ...]:
    """Give the files of envspec's configuration, what comes later over what came before: the site's, the user's usual
    one, and the one that ENVSPEC_CONFIG names. As texts: every command looks there, and few need more of paths."""
    usual = os.path.join(xdg_path(env, "XDG_CONFIG_HOME", home, ".config"), "envspec", "config.toml")
    return tuple(dict.fromkeys((etc("envspec", "config.toml"), usual, env.get("ENVSPEC_CONFIG") or usual)))


def environments_dir(env: Mapping[str, str], home: Path, configured: str | None) -> Path:
    """Give the folder of environments that have no prefix of their own. `configured` is the setting, in which `~` and
    variables stand for what they are on this machine."""
    named = env.get(ENVIRONMENTS) or configured
    if named:
        return expand(named, env)
    return _path(xdg_path(env, "XDG_DATA_HOME", home, ".local", "share")) / "envspec" / "environments"


def expand(named: str, env: Mapping[str, str]) -> Path:
    """Give a folder that a setting names, in which `~` and variables stand for what they are on this machine."""
    return expand_home(os.path.expandvars(named), env)


def expand_home(named: str, env: Mapping[str, str]) -> Path:
    """Give the absolute path of a folder or file whose name may begin with `~`."""
    if named == "~" or named.startswith("~/"):
        named = home_path(env) + named[1:]
    return _path(os.path.abspath(os.path.expanduser(named)))


def _path(named: str | os.PathLike[str]) -> Path:
    # its module takes as long to load as the facts
    from pathlib import Path

    return Path(named)


# The users who may change a file or a folder: its content deserves no more trust than they do.

_ROOT = 0


def stranger(status: os.stat_result, user: int | None) -> str | None:
    """Describe the users besides root and `user` who may write to the entry; None without any.

    `user` is a user id; None where the system has none (Windows), and then nothing is told. A group counts that
    others than the user are in.
    """
    if user is None:
        return None
    if status.st_uid not in (_ROOT, user):
        return f"another user owns it (uid {status.st_uid})"
    if status.st_mode & stat.S_IWOTH:
        return "every user may write to it"
    if status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid, user):
        return f"its group may write to it (gid {status.st_gid})"
    return None


def this_user() -> int | None:
    """The user id that this process acts as."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def _is_own_group(group: int, user: int) -> bool:
    """Return whether a group is the user's alone, as systems make one for each: of the user's name, and without
    others."""
    import grp

    owner = _account(user)
    try:
        entry = grp.getgrgid(group)
    except KeyError:
        return False
    return owner is not None and entry.gr_name == owner.pw_name and set(entry.gr_mem) <= {owner.pw_name}


def _account(user: int) -> pwd.struct_passwd | None:
    """Give the system's entry for a user id, None without one."""
    import pwd

    try:
        return pwd.getpwuid(user)
    except KeyError:
        return None


# Files of whoever runs this machine. The place is a constant: no variable, option, configuration or spec names another
# one, for whoever could name one would be free of the site's word. Tests move it in their own process.

ETC = "/etc"
OWNER: int | None = 0 if hasattr(os, "geteuid") else None
"""root."""
MOST_BYTES = 1 << 20


def etc(*names: str) -> str:
    """Give the path of a file of this machine: `etc("pip.conf")`."""
    return os.path.join(ETC, *names)


def read_site_file(path: str, what: str, hint: str, owner: int | None = None) -> str | None:
    """Read a file of the site, None for one that isn't there. `what` names the file in errors, `hint` ends them;
    `owner` is the user whose file it must be, root if left out.

    Raises InputError for one that others may write to, or whose folder they may, and for one that can't be read.
    """
    owner = OWNER if owner is None else owner
    try:
        folder = os.stat(os.path.dirname(path))
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR) and not os.path.islink(path):
            return None
        raise _fault(path, f"{what} can't be read: {error.strerror}", hint) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _fault(path, f"{what} isn't a plain file", hint)
        for where, checked in ((path, status), (os.path.dirname(path), folder)):
            if who := stranger(checked, owner):
                raise _fault(where, f"{what} can't be trusted: {who}", hint)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MOST_BYTES:
        raise _fault(path, f"{what} is larger than 1 MiB", hint)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise _fault(path, f"{what} isn't UTF-8", hint) from None


def _fault(path: str, message: str, hint: str) -> InputError:
    return InputError(message, hint=hint, place=Place(path))
