"""The rule that keeps the paths of archives and records inside a folder.

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
"""The greatest number of links that one path may go through: the kernel's own bound (path_resolution(7))."""


def fold(path: str) -> str:
    """Normalise a path as file systems do that fold case (`A`, `a`) and Unicode forms (of `é`)."""
    return unicodedata.normalize("NFC", path).casefold()


@dataclass(frozen=True)
class Inside:
    """A folder, `root`, with its links on disk and those to be added.

    links   path below the root → what the link says, for links that aren't there yet. One that is reached by another
            spelling counts too: on a file system that folds case it is the same.
    """

    root: Path
    links: Mapping[str, str] = field(default_factory=dict)
    _folded: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)
    _known: dict[str, str | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    _real: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._folded.update({fold(path): target for path, target in self.links.items()})
        self._real.append(os.path.realpath(self.root))

    def holds(self, path: str) -> bool:
        """Return whether writing or removing `path` (plain, below the root) stays in the root: whether its parent
        folder, with all links followed, is inside. The last part isn't followed, as with `unlink` and `rename`.
        """
        return self.folder(path.rpartition("/")[0]) is not None

    def folder(self, path: str) -> str | None:
        """Resolve a folder with every link followed, relative to the root; None outside the root."""
        if path not in self._known:
            self._known[path] = self._follow(path)
        return self._known[path]

    def leads_out(self, path: str) -> bool:
        """Return whether the link at `path` leads outside the root."""
        return self.folder(path) is None

    def _follow(self, path: str) -> str | None:
        parts = [part for part in reversed(path.split("/")) if part]
        resolved: list[str] = []
        followed = 0
        while parts:
            part = parts.pop()
            if part == ".":
                continue
            if part == "..":
                if not resolved:
                    return None
                resolved.pop()
                continue
            target = self._link("/".join([*resolved, part]))
            if target is None:
                resolved.append(part)
                continue
            followed += 1
            if followed > _MOST_LINKS:
                return None
            if target.startswith("/"):
                relative = self._below(target)
                if relative is None:
                    return None
                resolved, target = [], relative
            parts += [name for name in reversed(target.split("/")) if name]
        return "/".join(resolved)

    def _link(self, path: str) -> str | None:
        """Read the link at a path; None where there is none."""
        coming = self._folded.get(fold(path))
        if coming is not None:
            return coming
        try:
            return os.readlink(os.path.join(self.root, path))
        except (OSError, ValueError):
            return None

    def _below(self, target: str) -> str | None:
        """Make an absolute path relative to the root."""
        for root in (str(self.root), self._real[0]):
            if target == root or target.startswith(f"{root}/"):
                return target[len(root) + 1 :]
        return None


def cannot_exist(error: OSError | ValueError) -> bool:
    """Return whether a system's error means that no file can have such a name: it has a NUL, is too long, or goes
    through a loop of links.
    """
    return not isinstance(error, OSError) or error.errno in (errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL)


def stays_inside(path: Path, root: Path) -> bool:
    """Return whether removing `path` stays in `root`, by the links on disk now. Raises for no name."""
    try:
        return Path(os.path.realpath(path.parent)).is_relative_to(os.path.realpath(root)) and path.name not in (
            "",
            "..",
        )
    except (OSError, ValueError):
        return False
