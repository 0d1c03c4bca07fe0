"""OCI image layouts: a folder with blobs under their digests and an index, and the same as one tar.

Source: OCI's image-spec, image-layout.md. A blob is in its place once it is whole, and the index is written last: a run
that is killed leaves an older image whole, and blobs that the next run takes.
"""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from envspec.base.documents import read_json
from envspec.base.errors import InputError, NotPlain, Place
from envspec.base.open_folder import OpenFolder
from envspec.base.plain_files import open_plain
from envspec.image.base import BaseSource
from envspec.image.layer import Descriptor, OnBytes
from envspec.image.manifest import DIGEST, DOCUMENT_BYTES, check_content, descriptor_of, document_bytes
from envspec.packages.archive_entries import TarMember

_VERSION = {"imageLayoutVersion": "1.0.0"}
_MARK, INDEX_FILE, BLOBS = "oci-layout", "index.json", "blobs/sha256"
REF_NAME = "org.opencontainers.image.ref.name"


class Layout:
    """A layout in an open folder, which may be empty at first."""

    def __init__(self, folder: OpenFolder) -> None:
        self.folder = folder

    def refuse_other(self) -> None:
        """Raise InputError where the folder holds something else than a layout."""
        if self.folder.names() and self.folder.look(_MARK) is None:
            message = "the folder isn't empty, and isn't an OCI image layout"
            hint = "give -o a new folder, or one that an earlier run wrote"
            raise InputError(message, hint=hint, place=Place(str(self.folder.path)))

    @contextmanager
    def open_blob(self) -> Iterator[tuple[BinaryIO, _Adding]]:
        """Open a file for a blob whose digest is known at the end: `keep` of what comes with it gives it its place."""
        with self.folder.descend(BLOBS, make=True) as blobs:
            adding = _Adding(blobs, f".{secrets.token_hex(8)}.part")
            try:
                with blobs.create(adding.name) as file:
                    yield file, adding
                adding.finish()
            finally:
                with suppress(OSError):
                    blobs.unlink(adding.name)

    def add(self, content: bytes, media_type: str) -> Descriptor:
        """Add a small blob."""
        blob = Descriptor(media_type, f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))
        with self.open_blob() as (file, adding):
            file.write(content)
            adding.keep(blob.digest)
        return blob

    def has(self, blob: Descriptor) -> bool:
        """Return whether a blob is there, by its size."""
        try:
            with self.folder.descend(BLOBS) as blobs:
                status = blobs.refuse_odd(_name(blob.digest))
        except FileNotFoundError:
            return False
        return status is not None and status.st_size == blob.size

    def open(self, blob: Descriptor) -> BinaryIO:
        """Open a blob. Raises InputError where it isn't there."""
        try:
            with self.folder.descend(BLOBS) as blobs:
                return blobs.open_plain(_name(blob.digest))
        except FileNotFoundError:
            raise InputError(f"the layout has no blob {blob.digest}", place=Place(str(self.folder.path))) from None

    def read(self, blob: Descriptor) -> bytes:
        """Read a small blob. Raises InputError."""
        with self.open(blob) as file:
            return file.read(DOCUMENT_BYTES + 1)

    def put_index(self, top: Descriptor, name: str) -> None:
        """Write the index, which makes the layout that of one image, and remove what no earlier image left."""
        with self.folder.create(f".{_MARK}") as file:
            file.write(json.dumps(_VERSION).encode())
        self.folder.move(f".{_MARK}", self.folder, _MARK)
        with self.folder.create(f".{INDEX_FILE}") as file:
            file.write(index_bytes(top, name))
        self.folder.move(f".{INDEX_FILE}", self.folder, INDEX_FILE)
        self.folder.sync()

    def sweep(self, digests: set[str]) -> None:
        """Remove the blobs of earlier images and of killed runs: all but those of these digests."""
        names = {_name(digest) for digest in digests}
        with self.folder.descend(BLOBS) as blobs:
            for name in blobs.names():
                if name not in names and (name.endswith(".part") or len(name) == 64):
                    blobs.unlink(name)

    def clear_leftovers(self) -> None:
        """Remove what a killed run may have left of the index."""
        for name in (f".{_MARK}", f".{INDEX_FILE}"):
            with suppress(OSError, NotPlain):
                self.folder.unlink(name)


class _Adding:
    def __init__(self, blobs: OpenFolder, name: str) -> None:
        self._blobs, self.name, self._digest = blobs, name, ""

    def keep(self, digest: str) -> None:
        self._digest = digest

    def finish(self) -> None:
        if self._digest:
            self._blobs.move(self.name, self._blobs, _name(self._digest))


def index_bytes(top: Descriptor, name: str) -> bytes:
    """Write the index.json of a layout with one image, by its name there."""
    row = {**top.document(), "annotations": {REF_NAME: name}}
    return document_bytes(
        {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [row]}
    )


def write_archive(
    layout: Layout,
    top: Descriptor,
    name: str,
    blobs: list[Descriptor],
    out: BinaryIO,
    epoch: int,
    on_bytes: OnBytes = lambda count: None,
) -> None:
    """Write a layout's image as one tar. No name in it begins with `./`: Apptainer refuses such names. `on_bytes` gets
    the bytes of blobs as they are written."""
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for folder in ("blobs", BLOBS):
            info = tarfile.TarInfo(folder)
            info.type, info.mode, info.mtime = tarfile.DIRTYPE, 0o755, epoch
            archive.addfile(info)
        for blob in sorted(
            {descriptor.digest: descriptor for descriptor in blobs}.values(), key=lambda descriptor: descriptor.digest
        ):
            with layout.open(blob) as file:
                archive.addfile(_info(f"{BLOBS}/{_name(blob.digest)}", blob.size, epoch), _Counted(file, on_bytes))
        for path, content in ((INDEX_FILE, index_bytes(top, name)), (_MARK, json.dumps(_VERSION).encode())):
            archive.addfile(_info(path, len(content), epoch), io.BytesIO(content))


class _Counted(io.RawIOBase):
    """A file that tells how much of it is read."""

    def __init__(self, file: BinaryIO, on_bytes: OnBytes) -> None:
        self._file, self._on_bytes = file, on_bytes

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        self._on_bytes(len(piece))
        return piece


def _info(path: str, size: int, epoch: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.size, info.mode, info.mtime = size, 0o644, epoch
    return info


def top_of(layout: Layout, where: str) -> Descriptor:
    """Give the one image of a layout: its manifest or index. Raises InputError."""
    return top_of_index(layout.folder.read(INDEX_FILE) or b"", where)


def top_of_index(content: bytes, where: str) -> Descriptor:
    """Give the one image that the content of an index.json names. Raises InputError."""
    try:
        rows = read_json(content or b"{}").get("manifests")
    except (ValueError, AttributeError, RecursionError) as error:
        raise InputError(f"{INDEX_FILE} can't be read: {error}", place=Place(where)) from None
    if not isinstance(rows, list) or len(rows) != 1:
        count = len(rows) if isinstance(rows, list) else 0
        message = f"the folder is an OCI image layout of {count} images instead of one"
        hint = "copy the one that is meant to a layout of its own, with `skopeo copy`"
        raise InputError(message, hint=hint, place=Place(where))
    return descriptor_of(rows[0], where)


def layout_source(path: Path, folder: OpenFolder) -> BaseSource:
    """Read a layout as a base. Raises InputError."""
    layout, where = Layout(folder), str(path)

    def read(blob: Descriptor) -> bytes:
        return check_content(layout.read(blob), blob, where)

    return BaseSource(where, top_of(layout, where), read, layout.open)


def _name(digest: str) -> str:
    assert DIGEST.fullmatch(digest), digest
    return digest.removeprefix("sha256:")


_ENTRIES = 10_000
"""More than any image has blobs."""


@contextmanager
def open_archive(path: Path) -> Iterator[BaseSource]:
    """Open an archive until the block ends. Raises InputError for a file that isn't one, OSError."""
    try:
        with open_plain(path) as file, tarfile.open(fileobj=file, mode="r:", tarinfo=TarMember) as archive:
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

    def open_member(name: str) -> BinaryIO:
        member = members.get(name)
        file = archive.extractfile(member) if member else None
        if file is None:
            raise InputError(f"the tar has no {name}", place=Place(where))
        return cast("BinaryIO", file)

    def blob(descriptor: Descriptor) -> BinaryIO:
        return open_member(f"{BLOBS}/{descriptor.digest.removeprefix('sha256:')}")

    def read(descriptor: Descriptor) -> bytes:
        return check_content(blob(descriptor).read(DOCUMENT_BYTES + 1), descriptor, where)

    content = open_member(INDEX_FILE).read(DOCUMENT_BYTES) if INDEX_FILE in members else b""
    return BaseSource(where, top_of_index(content, where), read, blob)
