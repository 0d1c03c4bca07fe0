"""What lies inside a folder and what leads out of it: one rule for all that archives and records name.

Packages are other people's files. What they name is a path below the environment, written plainly
(`envspec.packages.archive_entries`); where it goes is asked of the links that are there and of those that come.
"""

from __future__ import annotations

import errno
import os
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_MOST_LINKS = 40
"""How many links one path may go through: the kernel's own bound (path_resolution(7))."""


def folded(path: str) -> str:
    """A path as a file system sees it that doesn't tell `A` from `a`, nor one spelling of `é` from the other."""
    return unicodedata.normalize("NFC", path).casefold()


@dataclass(frozen=True)
class Inside:
    """A folder, `root`, with the links that it has on disk and those that will come to it.

    links   path below the root → what the link says, for links that aren't there yet. One that is reached by another
            spelling counts too: on a file system that folds case it is the same.
    """

    root: Path
    links: Mapping[str, str] = field(default_factory=dict)
    _folded: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)
    _known: dict[str, str | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    _real: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._folded.update({folded(path): target for path, target in self.links.items()})
        self._real.append(os.path.realpath(self.root))

    def holds(self, path: str) -> bool:
        """Whether what is written, or removed, at `path` (below the root, plain) stays in the root: the folder that
        holds it is, whatever links lead there. The last part is taken by itself, as `unlink` and `rename` do."""
        return self.folder(path.rpartition("/")[0]) is not None

    def folder(self, path: str) -> str | None:
        """Where a folder is, relative to the root, once every link to it is followed; None outside the root."""
        if path not in self._known:
            self._known[path] = self._follow(path)
        return self._known[path]

    def leads_out(self, path: str) -> bool:
        """Whether the link at `path` says a place outside the root."""
        return self.folder(path) is None

    def _follow(self, path: str) -> str | None:
        parts = [part for part in reversed(path.split("/")) if part]
        here: list[str] = []
        followed = 0
        while parts:
            part = parts.pop()
            if part == ".":
                continue
            if part == "..":
                if not here:
                    return None
                here.pop()
                continue
            target = self._link("/".join([*here, part]))
            if target is None:
                here.append(part)
                continue
            followed += 1
            if followed > _MOST_LINKS:
                return None
            if target.startswith("/"):
                below = self._below(target)
                if below is None:
                    return None
                here, target = [], below
            parts += [each for each in reversed(target.split("/")) if each]
        return "/".join(here)

    def _link(self, path: str) -> str | None:
        """What the link at a path says; None where there is none."""
        coming = self._folded.get(folded(path))
        if coming is not None:
            return coming
        try:
            return os.readlink(os.path.join(self.root, path))
        except (OSError, ValueError):
            return None

    def _below(self, target: str) -> str | None:
        """An absolute place as one below the root."""
        for root in (str(self.root), self._real[0]):
            if target == root or target.startswith(f"{root}/"):
                return target[len(root) + 1 :]
        return None


def cannot_exist(error: OSError | ValueError) -> bool:
    """Whether an error of the system says that no file can have such a name: it has a NUL, is too long, goes in a
    circle of links."""
    return not isinstance(error, OSError) or error.errno in (errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL)


def stays_inside(path: Path, root: Path) -> bool:
    """Whether what is removed at `path`, as the links on disk are now, lies in `root`. No error for any name."""
    try:
        return Path(os.path.realpath(path.parent)).is_relative_to(os.path.realpath(root)) and path.name not in (
            "",
            "..",
        )
    except (OSError, ValueError):
        return False
