"""The users who may change a file or a folder: its content deserves no more trust than they do."""

from __future__ import annotations

import os
import stat

_ROOT = 0


def stranger(found: os.stat_result, user: int | None, *, shared_group: bool = True) -> str | None:
    """The users besides root and `user` who may write to the entry, in words; None without any.

    `user` is a user id; None where the system has none (Windows), and then nothing is told. With `shared_group`, a
    group counts that others than the user are in.
    """
    if user is None:
        return None
    if found.st_uid not in (_ROOT, user):
        return f"another user owns it (uid {found.st_uid})"
    if found.st_mode & stat.S_IWOTH:
        return "every user may write to it"
    if found.st_mode & stat.S_IWGRP and shared_group and not _is_own_group(found.st_gid, user):
        return f"its group may write to it (gid {found.st_gid})"
    return None


def this_user() -> int | None:
    """The user id that this process acts as."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def _is_own_group(group: int, user: int) -> bool:
    """Whether a group is the user's alone, as systems make one for each: of the user's name, and without others."""
    import grp
    import pwd

    try:
        entry, owner = grp.getgrgid(group), pwd.getpwuid(user)
    except KeyError:
        return False
    return entry.gr_name == owner.pw_name and set(entry.gr_mem) <= {owner.pw_name}
