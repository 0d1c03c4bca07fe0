"""An image of one target, built into a layout: its layers packed, its configuration, its manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

from envspec.base.errors import InputError
from envspec.base.progress import Progress
from envspec.export.plan import Plan
from envspec.image.base import BaseImage
from envspec.image.compress import KINDS
from envspec.image.config import config_document, image_labels, manifest_document
from envspec.image.layer import Descriptor, LayerPlan, PackedLayer, pack
from envspec.image.layout import Layout
from envspec.image.manifest import CONFIG, INDEX, MANIFEST, document_bytes

_PIECE = 1 << 20


@dataclass(frozen=True)
class BuiltImage:
    """An image of one target: its manifest, its configuration, and the layers that it has above its base's."""

    plan: Plan
    base: BaseImage
    manifest: Descriptor
    config: Descriptor
    layers: tuple[PackedLayer, ...]

    @property
    def platform(self) -> str:
        return self.plan.oci_platform

    @property
    def diff_ids(self) -> tuple[str, ...]:
        return (*self.base.manifest.diff_ids, *(layer.diff_id for layer in self.layers))

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """All blobs but the base's layers."""
        return (self.manifest, self.config, *(layer.blob for layer in self.layers))


def build_image(
    plan: Plan,
    base: BaseImage,
    layers: tuple[LayerPlan, ...],
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    layout: Layout,
    kind: str,
    progress: Progress,
) -> BuiltImage:
    """Pack an image's layers into a layout, and write what names them. `kind` is one of `compress.KINDS`, `labels`
    those beside a recipe's, `annotations` those beside the labels. Raises ToolError, IndexFailure, InputError,
    OSError."""
    assert kind in KINDS, kind
    packed = tuple(_pack(one, layout, kind, plan.epoch, progress) for one in layers)
    config = layout.add(document_bytes(config_document(plan, base, packed, labels)), CONFIG)
    document = manifest_document(config, base, packed, {**image_labels(plan, base), **labels, **annotations})
    manifest = layout.add(document_bytes(document), MANIFEST)
    return BuiltImage(plan, base, manifest, config, packed)


def _pack(one: LayerPlan, layout: Layout, kind: str, epoch: int, progress: Progress) -> PackedLayer:
    progress.phase(f"packing {one.name}")
    with layout.adding() as (file, adding):
        made = pack(one, file, kind, epoch, progress.came)
        adding.keep(made.blob.digest)
    return made


def copy_base(base: BaseImage, layout: Layout, progress: Progress) -> None:
    """Copy a base's layers into a layout, each by its digest. Raises InputError, IndexFailure, OSError."""
    missing = [layer for layer in base.manifest.layers if not layout.has(layer)]
    progress.phase("copying the base", sum(layer.size for layer in missing))
    for layer in missing:
        with base.source.open(layer) as source, layout.adding() as (file, adding):
            _copy(source, file, layer, progress)
            adding.keep(layer.digest)


def _copy(source: BinaryIO, file: BinaryIO, layer: Descriptor, progress: Progress) -> None:
    digest = hashlib.sha256()
    while piece := source.read(_PIECE):
        file.write(piece)
        digest.update(piece)
        progress.came(len(piece))
    if f"sha256:{digest.hexdigest()}" != layer.digest:
        raise InputError(
            f"the content of the base's layer {layer.digest} isn't what its digest says",
            hint="get the base anew: its files were changed",
        )


def image_index(images: tuple[BuiltImage, ...], layout: Layout) -> Descriptor:
    """Write the index of images for several platforms; a single one is its own. Raises InputError for two of one
    platform."""
    if len(images) == 1:
        return images[0].manifest
    platforms = [one.platform for one in images]
    for one in images:
        if platforms.count(one.platform) > 1:
            same = ", ".join(other.plan.target for other in images if other.platform == one.platform)
            raise InputError(
                f"an image index has one image for {one.platform}, and these targets are all for it: {same}",
                hint="choose one target for each platform with --target",
            )
    rows = [
        {**one.manifest.document(), "platform": dict(zip(("os", "architecture"), one.platform.split("/"), strict=True))}
        for one in sorted(images, key=lambda one: one.platform)
    ]
    return layout.add(document_bytes({"schemaVersion": 2, "mediaType": INDEX, "manifests": rows}), INDEX)
