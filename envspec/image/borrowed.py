"""Files that an image takes from another one: a service's program, NVIDIA's cuda-compat or compiler, as COPY --from
does."""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from shutil import copyfileobj
from typing import IO

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base.errors import InputError
from envspec.export.plan import Borrowed
from envspec.image.base import BaseSource
from envspec.image.layer import FILE, PROGRAM, LayerEntry, folder_entry, link_entry
from envspec.image.layer_stream import Refused, is_gone, is_within, read_layer
from envspec.image.manifest import read_image
from envspec.packages.archive_entries import path_fault


class _Taken(Struct):
    """The files taken so far, by their paths in the other image. `folder` holds the files."""

    copies: Sequence[tuple[str, str]]
    folder: Path
    entries: dict[str, LayerEntry] = field(default_factory=dict)
    count: int = 0

    def look(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        place = _place(path, self.copies)
        if place is None:
            return
        if path_fault(place):
            raise Refused(f"the entry {member.name!r} can't be taken: {path_fault(place)}")
        if member.isdir():
            self.entries[path] = folder_entry(place)
        elif member.issym():
            self.entries[path] = link_entry(place, member.linkname)
        elif member.islnk():
            other = self.entries.get(posixpath.normpath(member.linkname).lstrip("/"))
            if other is None or other.content is None:
                raise Refused(f"the entry {member.name!r} is a link to {member.linkname!r}, which isn't taken")
            self.entries[path] = replace(other, path=place)
        elif member.isfile():
            self.entries[path] = self._file(archive, member, place)
        else:
            raise Refused(f"the entry {member.name!r} is neither a file nor a folder nor a link")

    def _file(self, archive: tarfile.TarFile, member: tarfile.TarInfo, place: str) -> LayerEntry:
        content = archive.extractfile(member)
        assert content is not None
        self.count += 1
        copy = self.folder / str(self.count)
        with copy.open("wb") as out:
            copyfileobj(content, out, 1 << 20)
        return LayerEntry(place, member.size, partial(_open, copy), mode=PROGRAM if member.mode & 0o111 else FILE)


def borrowed_entries(borrowed: Borrowed, source: BaseSource, oci_platform: str, folder: Path) -> list[LayerEntry]:
    """Give the entries that an image takes from another one; an empty folder gets their files. Raises InputError for an
    image that differs from its digests or lacks these paths, IndexFailure, OSError."""
    manifest = read_image(source.top, source.read, oci_platform, source.where)
    taken = _Taken(borrowed.copies, folder)
    for layer, diff_id in zip(manifest.layers, manifest.diff_ids, strict=True):
        before, taken.entries = taken.entries, {}
        with source.open(layer) as file:
            removed = read_layer(layer, diff_id, file, taken.look, source.where)
        # a file in a folder's place takes away what is below it, too
        removed |= {path for path, entry in taken.entries.items() if not entry.is_folder}
        remaining = {path: entry for path, entry in before.items() if not is_gone(path, removed)}
        taken.entries = {**remaining, **taken.entries}
    for origin, _ in borrowed.copies:
        if not any(_place(path, [(origin, "/")]) for path in taken.entries):
            hint = "lock again with --upgrade-images, or leave it out of the spec"
            raise InputError(
                f"the image {source.where} has no {origin}, from where {borrowed.name} is taken", hint=hint
            )
    return [*taken.entries.values(), *(link_entry(path.strip("/"), link) for path, link in borrowed.links)]


def _place(path: str, copies: Sequence[tuple[str, str]]) -> str | None:
    """Give the place of another image's path here, without a slash at its begin; None where it isn't taken."""
    for origin, destination in copies:
        origin, target = origin.strip("/"), destination.strip("/")
        parent, _, pattern = origin.rpartition("/")
        if "*" in pattern and is_within(path, parent) and path != parent:
            name = path.removeprefix(f"{parent}/")
            if fnmatchcase(name.partition("/")[0], pattern):
                return f"{target}/{name}"
        elif is_within(path, origin):
            return f"{target}{path.removeprefix(origin)}"
    return None


def _open(path: Path) -> IO[bytes]:
    return path.open("rb")
