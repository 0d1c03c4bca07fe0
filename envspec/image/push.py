"""The push of an image into a registry: the missing blobs first and the name last, so that a name never leads to half
an image."""

from __future__ import annotations

from typing import BinaryIO

from msgspec import Struct

from envspec.base.progress import Progress
from envspec.image.base import BaseImage
from envspec.image.build import BuiltImage
from envspec.image.layer import Descriptor
from envspec.image.layout import Layout
from envspec.net.repository import Repository


class PushOutcome(Struct, frozen=True):
    """The numbers of blobs sent, taken over from the base's repository, and there already; and the bytes sent."""

    sent: int = 0
    mounted: int = 0
    existing: int = 0
    bytes: int = 0


def push_image(
    images: tuple[BuiltImage, ...],
    top: Descriptor,
    layout: Layout,
    repository: Repository,
    tag: str,
    progress: Progress,
) -> PushOutcome:
    """Push images and the manifest or index that names them, under a tag. Raises IndexFailure, InputError, OSError."""
    counts = _Counts(repository, layout, progress)
    for image in images:
        for layer in image.base.manifest.layers:
            counts.put(layer, image.base)
        for blob in (*(layer.blob for layer in image.layers), image.config):
            counts.put(blob)
        if image.manifest != top:
            repository.put_manifest(image.manifest.digest, layout.read(image.manifest), image.manifest.media_type)
    repository.put_manifest(tag, layout.read(top), top.media_type)
    return PushOutcome(counts.sent, counts.mounted, counts.existing, counts.bytes)


class _Counts:
    def __init__(self, repository: Repository, layout: Layout, progress: Progress) -> None:
        self._repository, self._layout, self._progress = repository, layout, progress
        self._done: set[str] = set()
        self.sent = self.mounted = self.existing = self.bytes = 0

    def put(self, blob: Descriptor, base: BaseImage | None = None) -> None:
        """Bring a blob into the repository, if it lacks it."""
        if blob.digest in self._done:
            return
        self._done.add(blob.digest)
        if self._repository.has_blob(blob.digest):
            self.existing += 1
        elif base is not None and self._mount(blob, base):
            self.mounted += 1
        else:
            self._progress.phase(f"pushing {blob.digest[:19]}", blob.size)
            with self._open(blob, base) as file:
                self._repository.upload(blob.digest, file, blob.size, self._progress.came)
            self.sent, self.bytes = self.sent + 1, self.bytes + blob.size

    def _mount(self, blob: Descriptor, base: BaseImage) -> bool:
        if base.source.origin is None or base.source.origin[0] != self._repository.origin:
            return False
        return self._repository.mount(blob.digest, base.source.origin[1])

    def _open(self, blob: Descriptor, base: BaseImage | None) -> BinaryIO:
        return base.source.open(blob) if base else self._layout.open(blob)
