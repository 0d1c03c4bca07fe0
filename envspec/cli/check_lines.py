"""Why a lock isn't fresh, as lines for people: files by their path from here, and many of one target as one line."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envspec.errors import MOST

if TYPE_CHECKING:
    from envspec.lock.freshness import Reason
    from envspec.lock.judge import Flaw
    from envspec.policy.model import Breach

_SEVERAL = {
    "rendered-missing": "are missing",
    "rendered-edited": "are not what the lock says",
    "rendered-extra": "belong to no target of the lock",
    "recipe-missing": "aren't there beside the others of their recipe",
    "recipe-differs": "are not what the spec and its lock give",
    "recipe-extra": "belong to no recipe of the lock",
}
"""What holds for several files, by the code of the reasons that say it of one."""

_FOLDER = re.compile(r"(?:\.\./)*[^/]*")
"""The folder of a path that several may share: a target's, or one that is elsewhere in the repository."""

_NAMED = 3
"""Files that a line names before it leaves out the rest: `--json` has them all."""


def lines(reasons: Iterable[Reason | Flaw | Breach], locks: Path, recipes: Path) -> list[str]:
    """One line a reason, with its code; one for all files of a target of which the same is true.

    At most `MOST`, and one that says how many more there are.

    `locks` and `recipes` are the spec's folders, to which the reasons' paths are relative.
    """
    groups: dict[tuple[str, ...], list[Any]] = {}
    for reason in reasons:
        path = getattr(reason, "path", None)
        folder = _folder(str(path)) if reason.code in _SEVERAL else reason.message
        groups.setdefault((reason.code, folder), []).append(reason)
    told = [f"{_message(group, locks, recipes)}  [{group[0].code}]" for group in islice(groups.values(), MOST)]
    return told if len(groups) <= MOST else [*told, f"and {len(groups) - MOST:,} more: --json has them all"]


def _message(group: list[Any], locks: Path, recipes: Path) -> str:
    first = group[0]
    if first.code not in _SEVERAL:
        return str(first.message)
    folder = recipes if first.code.startswith("recipe-") else locks
    if len(group) == 1:
        return str(replace(first, path=_shown(folder, first.path)).message)
    common = _folder(first.path)
    names = [reason.path.removeprefix(f"{common}/") for reason in group]
    named = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    return f"{_shown(folder, common)}/: {len(group)} files {_SEVERAL[first.code]}: {named}"


def _folder(path: str) -> str:
    found = _FOLDER.match(path)
    return found[0] if found else ""


def _shown(folder: Path, path: str) -> str:
    return posixpath.normpath((folder / path).as_posix())
