"""An image of one target, built into a layout: its layers packed, its configuration, its manifest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from envspec.base.errors import InputError
from envspec.base.open_folder import open_folder
from envspec.base.progress import Progress
from envspec.configuration.settings import load_settings
from envspec.export.apptainer import render_in_bundle
from envspec.export.plan import ENTRYPOINT, EPOCH, HEALTH_CHECK, UID, WORKSPACE, Plan, image_variables, labels
from envspec.image.base import BaseImage, BaseSource
from envspec.image.layer import KINDS, Descriptor, LayerPlan, PackedLayer, pack
from envspec.image.layout import Layout
from envspec.image.manifest import CONFIG, INDEX, MANIFEST, document_bytes, oci_layer, variables_of
from envspec.image.python import ImagePython, image_python
from envspec.image.requirements import refuse_poor
from envspec.install.bundle import BASE, BASE_SUMS, DEFINITION, PYTHON
from envspec.install.interpreter import fetch_build
from envspec.lock.model import LockedPython, LockedTarget, SoundLock

# The configuration and the manifest of an image: what a Dockerfile's last lines say, over what the base has.


LAYER = "envspec.layer"
KEY = "envspec.layer.key"
"""The annotations of a layer: its name, and the digest of what it is made from."""
WITHOUT = "envspec.without"
BUILT = "envspec.built"
"""The wheels that were built where the image was made, of what the lock has as source: each by its digest."""
VERSION = "envspec.version"
"""The envspec that made the image: another one may make others of the same lock."""
SBOM = "envspec.sbom"
"""The annotation with the bill of materials: in the manifest, so that it takes no layer, and no layer has to be pulled
to read it."""
SBOM_DIGEST = "envspec.sbom.digest"
DATES = "envspec.dates"
"""The annotation with what the policy of the image's maker had to know of its packages, as a bundle's `dates.json`."""
_NANOSECONDS = 10**9


def config_document(
    plan: Plan, base: BaseImage, layers: Sequence[PackedLayer], more: Mapping[str, str]
) -> dict[str, Any]:
    """Make the configuration. `more` are labels besides those of recipes."""
    old = base.manifest.config
    own = old.get("config") if isinstance(old.get("config"), dict) else {}
    assert isinstance(own, dict)
    created = datetime.fromtimestamp(EPOCH, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    history = old.get("history") if isinstance(old.get("history"), list) else []
    labels = {**(own.get("Labels") or {}), **image_labels(plan, base), **more}
    config = {
        **own,
        "User": f"{UID}:{UID}",
        "WorkingDir": WORKSPACE,
        "Env": _variables(own.get("Env"), image_variables(plan)),
        "Labels": labels,
        "Entrypoint": list(ENTRYPOINT),
        "Healthcheck": {
            "Test": ["CMD", *HEALTH_CHECK.command],
            "Interval": HEALTH_CHECK.interval * _NANOSECONDS,
            "Timeout": HEALTH_CHECK.timeout * _NANOSECONDS,
            "StartPeriod": HEALTH_CHECK.start_period * _NANOSECONDS,
        },
    }
    config.pop("Cmd", None)
    if plan.runtime.on_base:
        # how it starts, and as whom, is the vendor's
        config = {**own, "Env": _variables(own.get("Env"), dict(plan.runtime.env)), "Labels": labels}
    if plan.image.services:
        ports: dict[str, Any] = {f"{service.port}/tcp": {} for service in plan.image.services}
        config["ExposedPorts"] = {**(own.get("ExposedPorts") or {}), **ports}
    platform = {name: old[name] for name in ("os", "architecture", "variant", "os.version") if name in old}
    steps = [{"created": created, "created_by": f"envspec image: {layer.name}"} for layer in layers]
    return {
        **platform,
        "created": created,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [*base.manifest.diff_ids, *(layer.diff_id for layer in layers)]},
        "history": [*(history or []), *steps],
    }


def image_labels(plan: Plan, base: BaseImage) -> dict[str, str]:
    """Make the labels of recipes, with the base that the image really has."""
    own_labels = labels(plan)
    own_labels["org.opencontainers.image.base.digest"] = base.digest
    if base.digest != plan.image.base.digest and not plan.image.base.name.endswith(f"@{base.digest}"):
        # wherever the same base comes from, it makes the same image
        own_labels.pop("org.opencontainers.image.base.name", None)
    return own_labels


def manifest_document(
    config: Descriptor, base: BaseImage, layers: Sequence[PackedLayer], annotations: Mapping[str, str]
) -> dict[str, Any]:
    """Make the manifest: the base's layers as they are, then the image's own."""
    return {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": Descriptor(CONFIG, config.digest, config.size).document(),
        "layers": [
            *(oci_layer(layer).document() for layer in base.manifest.layers),
            *({**layer.blob.document(), "annotations": {LAYER: layer.name, KEY: layer.key}} for layer in layers),
        ],
        "annotations": dict(sorted(annotations.items())),
    }


def _variables(old: Any, own: Mapping[str, str]) -> list[str]:
    """Put variables over those of the base, as ENV does."""
    return [f"{name}={value}" for name, value in {**variables_of(old), **own}.items()]


_PIECE = 1 << 20


class BuiltImage(Struct, frozen=True):
    """An image of one target: its manifest, its configuration, and the layers that it has above its base's."""

    plan: Plan
    base: BaseImage
    manifest: Descriptor
    config: Descriptor
    layers: tuple[PackedLayer, ...]

    @property
    def platform(self) -> str:
        return self.plan.runtime.oci_platform

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
    packed = tuple(_pack(layer, layout, kind, EPOCH, progress) for layer in layers)
    config = layout.add(document_bytes(config_document(plan, base, packed, labels)), CONFIG)
    document = manifest_document(config, base, packed, {**image_labels(plan, base), **labels, **annotations})
    manifest = layout.add(document_bytes(document), MANIFEST)
    return BuiltImage(plan, base, manifest, config, packed)


def _pack(layer: LayerPlan, layout: Layout, kind: str, epoch: int, progress: Progress) -> PackedLayer:
    progress.phase(f"packing {layer.name}")
    with layout.open_blob() as (file, adding):
        made = pack(layer, file, kind, epoch, progress.came)
        adding.keep(made.blob.digest)
    return made


def copy_base(base: BaseImage, layout: Layout, progress: Progress) -> None:
    """Copy a base's layers into a layout, each by its digest. Raises InputError, IndexFailure, OSError."""
    missing = [layer for layer in base.manifest.layers if not layout.has(layer)]
    progress.phase("copying the base", sum(layer.size for layer in missing))
    for layer in missing:
        with base.source.open(layer) as source, layout.open_blob() as (file, adding):
            _copy(source, file, layer, progress)
            adding.keep(layer.digest)


def _copy(source: BinaryIO, file: BinaryIO, layer: Descriptor, progress: Progress) -> None:
    digest = hashlib.sha256()
    while piece := source.read(_PIECE):
        file.write(piece)
        digest.update(piece)
        progress.came(len(piece))
    if f"sha256:{digest.hexdigest()}" != layer.digest:
        hint = "get the base anew: its files were changed"
        raise InputError(f"the content of the base's layer {layer.digest} isn't what its digest says", hint=hint)


def image_index(images: tuple[BuiltImage, ...], layout: Layout) -> Descriptor:
    """Write the index of images for several platforms; a single one is its own. Raises InputError for two of one
    platform."""
    if len(images) == 1:
        return images[0].manifest
    platforms = [image.platform for image in images]
    for image in images:
        if platforms.count(image.platform) > 1:
            same = ", ".join(other.plan.target for other in images if other.platform == image.platform)
            message = f"an image index has one image for {image.platform}, and these targets are all for it: {same}"
            raise InputError(message, hint="choose one target for each platform with --target")
    rows = [
        {
            **image.manifest.document(),
            "platform": dict(zip(("os", "architecture"), image.platform.split("/"), strict=True)),
        }
        for image in sorted(images, key=lambda image: image.platform)
    ]
    return layout.add(document_bytes({"schemaVersion": 2, "mediaType": INDEX, "manifests": rows}), INDEX)


# The base that `envspec bundle --with-base` carries, so that a machine without internet builds the SIF from the bundle
# alone: an OCI layout, the definition that stands on it, and a build of Python where the base has none.


_NAME = "base"
_MICROMAMBA = ("bin/micromamba", "usr/bin/micromamba", "usr/local/bin/micromamba")


class BundledBase(Struct, frozen=True):
    """A base in a bundle: its digest, its files by their path in the layout, and the build of Python for images on it;
    None where that is the base's own, or conda's."""

    plan: Plan
    digest: str
    files: dict[str, Path]
    python: tuple[LockedPython, Path] | None

    def definition(self, carried: Iterable[str]) -> dict[str, str]:
        """Render the definition, by its path, for a bundle with these further paths."""
        own = {DEFINITION, BASE_SUMS, *([PYTHON] if self.python else [])}
        parts = sorted({path.partition("/")[0] for path in carried} | own)
        return {DEFINITION: render_in_bundle(self.plan, parts, BASE, self.digest)}


def copy_into_bundle(
    source: BaseSource, plan: Plan, lock: SoundLock, target: LockedTarget, path: str, scratch: Path, progress: Progress
) -> BundledBase:
    """Copy a base into an empty folder. `path` is the spec's. Raises InputError for one that lacks what the image
    needs, IndexFailure, StorageError."""
    settings = load_settings(os.environ)
    progress.phase("reading the base")
    base = source.image(plan.runtime.oci_platform, settings.cache())
    python = _image_python(plan, lock, target, base)
    refuse_poor(plan, base, python, None, path)
    (scratch / BASE).mkdir()
    with open_folder(scratch / BASE) as folder:
        layout = Layout(folder)
        copy_base(base, layout, progress)
        manifest = base.manifest.descriptor
        for blob in (manifest, base.manifest.config_blob):
            layout.add(source.read(blob), blob.media_type)
        layout.put_index(manifest, _NAME)
    files = {str(path.relative_to(scratch / BASE)): path for path in (scratch / BASE).rglob("*") if path.is_file()}
    build = python.build if python else None
    brought = (build, fetch_build(build, settings, os.environ)) if build else None
    return BundledBase(plan, manifest.digest, files, brought)


def _image_python(plan: Plan, lock: SoundLock, target: LockedTarget, base: BaseImage) -> ImagePython | None:
    """Choose the Python of the image; None where conda brings it, for which the base needs micromamba."""
    if target.pin("python", "conda") is None:
        return image_python(plan, base.files, lock.python(target))
    if not any(path in base.files.paths for path in _MICROMAMBA):
        message = f"the base {base.source.where} has no micromamba, which installs a bundle's conda packages"
        raise InputError(message, hint="give --base one that has it in /usr/local/bin")
    return None
