"""A stage of a Dockerfile: the values of its variables, its folder, and the files that COPY and ADD put there."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

_VARIABLE = re.compile(r"\\\$|\$(?:\{(\w+)(?:(:?[-+])([^}]*))?\}|(\w+))")
_MOST = 20_000
"""The length of an instruction, in characters, that grows no more by its variables."""
_BIND = re.compile(r"--mount=(\S*type=bind\S*)")


def expand(text: str, values: Mapping[str, str]) -> str:
    """Write the variables of an instruction out, as Docker's reference has it; what has no value stays."""

    def value(match: re.Match[str]) -> str:
        name, sign, other = match[1] or match[4], match[2], match[3]
        if name is None:
            return match[0]
        if sign and sign.endswith("+"):
            return other if name in values else ""
        known = values.get(name)
        if sign and (known is None or (sign == ":-" and not known)):
            return expand(other, values)
        return match[0] if known is None else known

    expanded = _VARIABLE.sub(value, text) if len(text) < _MOST else text
    return expanded if len(expanded) < _MOST else text


class Stage:
    """A stage. `file` is the Dockerfile; files of the build context lie beside it, or below the folder `root`."""

    def __init__(self, file: Path, root: Path, values: Mapping[str, str], defaults: Mapping[str, str]) -> None:
        self.file, self.root = file, root
        self.values = dict(values)
        self.defaults = defaults
        self.folder = "/"
        self.files: list[tuple[str, Path]] = []

    def copy(self) -> Stage:
        """Return a stage that begins as this one is."""
        stage = Stage(self.file, self.root, self.values, self.defaults)
        stage.folder, stage.files = self.folder, list(self.files)
        return stage

    def move_to(self, folder: str) -> None:
        self.folder = self._absolute(folder.strip("'\""))

    def add_files(self, rest: str) -> None:
        """Note what COPY or ADD puts into the stage; what comes from another stage or the network is unknown."""
        try:
            words = re.findall(r'"([^"]*)"', rest) if rest.lstrip().startswith("[") else shlex.split(rest)
        except ValueError:
            return
        if any(word.startswith("--from=") for word in words):
            return
        *sources, target = [word for word in words if not word.startswith("--")] or [""]
        into = self._absolute(target)
        for source in sources:
            for path in self._in_context(source):
                is_within = len(sources) > 1 or target.endswith(("/", ".")) or into == self.folder
                self.files.append((into if path.is_dir() or not is_within else posixpath.join(into, path.name), path))

    def with_mounts(self, rest: str) -> Stage:
        """Return the stage as a RUN sees it, with what it mounts of the build context."""
        within = self.copy()
        for mount in _BIND.findall(rest[:_MOST]):
            keys: dict[str, str] = {key: value for key, _, value in (part.partition("=") for part in mount.split(","))}
            source, target = keys.get("source", keys.get("src", ".")), keys.get("target", keys.get("dst", ""))
            if "from" not in keys and target:
                within.files += [(within._absolute(target), path) for path in self._in_context(source)]
        return within

    def host(self, path: str) -> str | None:
        """Return where a path of the stage lies beside the Dockerfile; None for one that no instruction put there."""
        bare, bracket, extras = path.partition("[")
        place_of_image = self._absolute(bare)
        for into, source in reversed(self.files):
            within = posixpath.relpath(place_of_image, into)
            place = source if within == "." else source / within
            if not within.startswith("..") and (within == "." or source.is_dir()) and place.exists():
                relative = os.path.relpath(place, self.file.parent)
                return f"{relative if relative.startswith('.') else f'./{relative}'}{bracket}{extras}"
        return None

    def _absolute(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self.folder, path))

    def _in_context(self, pattern: str) -> list[Path]:
        """List what a pattern of COPY names in the build context: the Dockerfile's folder, or the repository's."""
        relative = posixpath.normpath(pattern.lstrip("/") or ".")
        if relative.startswith("..") or "://" in pattern or "\0" in pattern:
            return []
        for folder in (self.file.parent, self.root):
            try:
                matches = [folder] if relative == "." else sorted(folder.glob(relative))[:100]
            except (OSError, ValueError, NotImplementedError):
                return []
            if matches:
                return matches
        return []
