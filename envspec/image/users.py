"""The user of an image, written into the base's own lists: what `useradd` does where a recipe runs it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from envspec.base.errors import InputError
from envspec.export.plan import ENVIRONMENT, GROUP, UID, WORKSPACE, Plan
from envspec.image.base_files import BaseFiles
from envspec.image.entry import LayerEntry, folder_entry, text_entry

_PASSWD, _GROUP, _SHADOW = "etc/passwd", "etc/group", "etc/shadow"
_HOME = 0o700
_SKELETON = re.compile(r"etc/skel/([^/]+)")


@dataclass(frozen=True)
class _Accounts:
    """The lines of the three lists, each split at its colons."""

    passwd: list[list[str]]
    group: list[list[str]]
    shadow: list[list[str]]


def system_entries(plan: Plan, base: BaseFiles) -> Iterator[LayerEntry]:
    """Give what an image has of its user: the lists with it, its home, the workspace, and the path of login shells.

    Raises InputError where the base has a user of that name with another number.
    """
    accounts = _with_user(_accounts(base), plan.user)
    for path, lines in ((_PASSWD, accounts.passwd), (_GROUP, accounts.group), (_SHADOW, accounts.shadow)):
        if lines:
            _, _, mode = base.modes.get(path, (0, 0, 0o644))
            yield text_entry(path, "".join(f"{':'.join(line)}\n" for line in lines), mode)
    home = f"home/{plan.user}"
    yield folder_entry(home, _HOME, UID)
    for path, content in base.files.items():
        if found := _SKELETON.fullmatch(path):
            yield text_entry(f"{home}/{found[1]}", content, owner=UID)
    yield folder_entry(WORKSPACE.strip("/"), owner=UID)
    # a login shell's profile sets PATH anew
    yield text_entry("etc/profile.d/envspec.sh", f"PATH={ENVIRONMENT}/bin:$PATH\n")


def _accounts(base: BaseFiles) -> _Accounts:
    return _Accounts(*(_lines(base.text(path)) for path in (_PASSWD, _GROUP, _SHADOW)))


def _lines(text: str) -> list[list[str]]:
    return [line.split(":") for line in text.splitlines() if line]


def _with_user(accounts: _Accounts, user: str) -> _Accounts:
    number = str(UID)
    old = {line[0] for line in accounts.passwd if len(line) > 2 and line[2] == number}
    taken = next((line for line in accounts.passwd if line[0] == user and user not in old), None)
    if taken:
        raise InputError(
            f'the base image has a user "{user}" with the number {taken[2]}, and the image\'s has {number}',
            hint="give the spec's [image] user another name",
        )
    # of a user of this number the base's own group goes with it, as userdel has it
    groups = [line for line in accounts.group if not (line[0] in old and line[2:3] == [number])]
    for line in groups:
        line[3:4] = [",".join(name for name in line[3].split(",") if name not in old)] if len(line) > 3 else []
    if all(line[2:3] != [number] for line in groups):
        groups.append([GROUP, "x", number, ""])
    passwd = [line for line in accounts.passwd if line[0] not in old]
    passwd.append([user, "x", number, number, "", f"/home/{user}", "/bin/bash"])
    shadow = [line for line in accounts.shadow if line[0] not in old]
    if shadow:
        # no password, and none ever
        shadow.append([user, "!", "", "", "", "", "", "", ""])
    return _Accounts(passwd, groups, shadow)
