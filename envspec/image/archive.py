"""Reading an OCI layout that is one tar: its documents and its blobs, by where they lie in it."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from envspec.base.errors import InputError, Place
from envspec.image.base import BaseSource
from envspec.image.layer import Descriptor
from envspec.image.layout import BLOBS, INDEX_FILE, top_of_index
from envspec.image.manifest import DOCUMENT_BYTES, checked
from envspec.packages.archive_entries import TarMember

_ENTRIES = 10_000
"""More than any image has blobs."""


@contextmanager
def opened_archive(path: Path) -> Iterator[BaseSource]:
    """Open an archive until the block ends. Raises InputError for a file that isn't one, OSError."""
    try:
        with tarfile.open(path, mode="r:", tarinfo=TarMember) as archive:
            members = {}
            for count, member in enumerate(archive):
                if count > _ENTRIES:
                    raise InputError(f"the tar has more than {_ENTRIES} entries", place=Place(str(path)))
                if member.isfile():
                    members[member.name.removeprefix("./")] = member
            yield _source(path, archive, members)
    except tarfile.TarError as error:
        raise InputError(f"the file isn't a tar: {error}", place=Place(str(path))) from None


def _source(path: Path, archive: tarfile.TarFile, members: dict[str, tarfile.TarInfo]) -> BaseSource:
    where = str(path)

    def opened(name: str) -> BinaryIO:
        member = members.get(name)
        file = archive.extractfile(member) if member else None
        if file is None:
            raise InputError(f"the tar has no {name}", place=Place(where))
        return cast("BinaryIO", file)

    def blob(one: Descriptor) -> BinaryIO:
        return opened(f"{BLOBS}/{one.digest.removeprefix('sha256:')}")

    def read(one: Descriptor) -> bytes:
        return checked(blob(one).read(DOCUMENT_BYTES + 1), one, where)

    content = opened(INDEX_FILE).read(DOCUMENT_BYTES) if INDEX_FILE in members else b""
    return BaseSource(where, top_of_index(content, where), read, blob)
