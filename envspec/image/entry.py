"""One entry of a layer: a file, a folder or a link at a path of the image."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import IO

FILE = 0o644
PROGRAM = 0o755
"""The modes of files, whatever the umask of who packed them: root's, and readable by everyone."""

Open = Callable[[], IO[bytes]]


@dataclass(frozen=True, slots=True)
class LayerEntry:
    """path   below the image's root, without a slash at its begin or end
    size     of a file, in bytes
    content  gives a file's bytes from its begin; None for a folder or a link
    link     what a symbolic link names
    owner    number of the user and of its group
    """

    path: str
    size: int = 0
    content: Open | None = None
    link: str | None = None
    mode: int = FILE
    owner: int = 0

    @property
    def is_folder(self) -> bool:
        return self.content is None and self.link is None


def text_entry(path: str, text: str | bytes, mode: int = FILE, owner: int = 0) -> LayerEntry:
    """Make the entry of a small file."""
    content = text.encode() if isinstance(text, str) else text
    return LayerEntry(path, len(content), lambda: io.BytesIO(content), mode=mode, owner=owner)


def folder_entry(path: str, mode: int = PROGRAM, owner: int = 0) -> LayerEntry:
    """Make the entry of a folder."""
    return LayerEntry(path, mode=mode, owner=owner)


def link_entry(path: str, link: str) -> LayerEntry:
    """Make the entry of a symbolic link."""
    return LayerEntry(path, link=link, mode=0o777)


def in_order(entries: Iterable[LayerEntry]) -> Iterator[LayerEntry]:
    """Sort entries, each below its folders, which are added: all but the root's own, which bases have their own modes
    for. Of two entries with one path the later one counts, as where installers write one file after another.
    """
    found = {entry.path: entry for entry in entries}
    for path in list(found):
        parts = path.split("/")
        for count in range(2, len(parts)):
            above = "/".join(parts[:count])
            if above not in found:
                found[above] = folder_entry(above)
    for path in sorted(found, key=lambda path: path.encode("utf-8", "surrogateescape").split(b"/")):
        yield found[path]
