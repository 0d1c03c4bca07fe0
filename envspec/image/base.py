"""The image that a target's layers stand on: where it is, what it is, and what it brings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from envspec.base.cache import keep_value, read_value
from envspec.image.base_files import BaseFiles, read_layers
from envspec.image.layer import Descriptor
from envspec.image.manifest import ImageManifest, Read, read_image

FOLDER = "bases-v1"
"""The folder of what bases hold, below envspec's cache, by the digests of their manifests."""
Opened = Callable[[Descriptor], BinaryIO]
"""Opens a blob for reading."""


@dataclass(frozen=True)
class BaseSource:
    """The origin of a base.

    where   for messages: an image's name, or a folder
    top     its manifest or index
    read    gives the bytes of small blobs
    open    opens large ones
    origin  the registry's origin and the repository that has its blobs; None elsewhere
    """

    where: str
    top: Descriptor
    read: Read
    open: Opened
    origin: tuple[str, str] | None = None

    def image(self, oci_platform: str, cache: Path | None = None) -> BaseImage:
        """Read the image of a platform, with what is in its layers; `cache` is envspec's, which knows the bases that
        were read before by their digests. Raises InputError, IndexFailure, OSError."""
        manifest = read_image(self.top, self.read, oci_platform, self.where)
        place = cache / FOLDER / manifest.descriptor.digest.removeprefix("sha256:") if cache else None
        files = read_value(place, BaseFiles) if place else None
        if files is None:
            layers = zip(manifest.layers, manifest.diff_ids, strict=True)
            files = read_layers(layers, self.open, self.where)
            if place:
                keep_value(place, files)
        return BaseImage(self, manifest, files)


@dataclass(frozen=True)
class BaseImage:
    """A base for one platform. `digest` is what names it in labels and keys."""

    source: BaseSource
    manifest: ImageManifest
    files: BaseFiles

    @property
    def digest(self) -> str:
        return self.source.top.digest
