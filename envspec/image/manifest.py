"""Manifests, indexes and configurations of images that others made, read within limits.

Source: OCI's image-spec (manifest.md, image-index.md, config.md); Docker's image manifest version 2, schema 2,
differs in its media types alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from envspec.base.documents import read_json
from envspec.base.errors import InputError
from envspec.image.layer import Descriptor

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
_DOCKER = "application/vnd.docker."
_INDEXES = (INDEX, f"{_DOCKER}distribution.manifest.list.v2+json")
_MANIFESTS = (MANIFEST, f"{_DOCKER}distribution.manifest.v2+json")
_LAYERS = {
    "application/vnd.oci.image.layer.v1.tar": "",
    "application/vnd.oci.image.layer.v1.tar+gzip": "gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd": "zstd",
    f"{_DOCKER}image.rootfs.diff.tar.gzip": "gzip",
    f"{_DOCKER}image.rootfs.diff.tar": "",
    f"{_DOCKER}image.rootfs.diff.tar.zstd": "zstd",
}
"""The media types of layers, and how each is packed. Layers that can't be handed on (`nondistributable`, `foreign`) are
no part of a base."""

DOCUMENT_BYTES = 4 << 20
"""Of a manifest or a configuration: the largest that the distribution specification wants registries to take."""
_MOST_LAYERS = 127
"""As many as container engines can mount."""
_MOST_INDEXES = 100
"""Of an image, one below the other or side by side: each is a document to fetch and to read."""
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HINT = "choose another base image, or make this one anew: `envspec image --base-recipe` prints a recipe for one"

Read = Callable[[Descriptor], bytes]
"""Gives the bytes of a small blob."""


class ImageManifest(Struct, frozen=True):
    """An image of one platform: its descriptor, its configuration as it was read, its layers from the bottom, and how
    each is packed."""

    descriptor: Descriptor
    config_blob: Descriptor
    config: Mapping[str, Any]
    layers: tuple[Descriptor, ...]
    annotations: Mapping[str, str]
    layer_annotations: tuple[Mapping[str, str], ...]

    @property
    def diff_ids(self) -> tuple[str, ...]:
        return tuple(self.config["rootfs"]["diff_ids"])


def compression_of(layer: Descriptor) -> str:
    """Name the packing of a layer: "gzip", "zstd", or "" for a plain tar."""
    return _LAYERS[layer.media_type]


def oci_layer(layer: Descriptor) -> Descriptor:
    """Give a layer with OCI's own media type for the same bytes."""
    kind = compression_of(layer)
    return Descriptor(f"application/vnd.oci.image.layer.v1.tar{f'+{kind}' if kind else ''}", layer.digest, layer.size)


def read_image(top: Descriptor, read: Read, oci_platform: str, where: str) -> ImageManifest:
    """Read the image of a platform ("linux/amd64") that a manifest or an index is, or leads to. `where` names it.

    Raises InputError for documents that aren't what they should be, and where the platform isn't there.
    """
    for manifest in choose(top, read, oci_platform, where):
        return _image(manifest, read, oci_platform, where)
    raise InputError(f"{where} has no image for {oci_platform}", hint=_HINT)


def choose(
    top: Descriptor, read: Read, oci_platform: str, where: str, known: set[str] | None = None
) -> list[Descriptor]:
    """List the manifests of a platform below an index; a manifest is its own. An index that is `known` was read
    before: each is read once, however often others name it. Raises InputError."""
    known = set() if known is None else known
    if top.media_type in _MANIFESTS:
        return [top]
    known.add(top.digest)
    if top.media_type not in _INDEXES or len(known) > _MOST_INDEXES:
        raise _odd(where, f"{top.media_type} isn't an image, or one of more than {_MOST_INDEXES} indexes")
    rows = _document(top, read, where).get("manifests")
    manifests: list[Descriptor] = []
    for row in rows if isinstance(rows, list) else []:
        descriptor = descriptor_of(row, where)
        if descriptor.media_type in _INDEXES and descriptor.digest not in known:
            manifests += choose(descriptor, read, oci_platform, where, known)
        elif descriptor.media_type in _MANIFESTS and _platform_of(row) in (None, oci_platform):
            manifests.append(descriptor)
    return manifests


def descriptor_of(row: Any, where: str) -> Descriptor:
    """Read a descriptor. Raises InputError for what isn't one."""
    if isinstance(row, dict):
        kind, digest, size = row.get("mediaType"), row.get("digest"), row.get("size")
        is_valid = isinstance(kind, str) and isinstance(digest, str) and type(size) is int and size >= 0
        if is_valid and DIGEST.fullmatch(str(digest)):
            return Descriptor(str(kind), str(digest), int(str(size)))
    raise _odd(where, "a descriptor has no media type, no sha256 or no size")


def check_content(content: bytes, blob: Descriptor, where: str) -> bytes:
    """Return the bytes of a blob, which have its descriptor's size and digest. Raises InputError."""
    if len(content) != blob.size or f"sha256:{hashlib.sha256(content).hexdigest()}" != blob.digest:
        raise _odd(where, f"the content of {blob.digest} isn't what its digest says")
    return content


def variables_of(lines: Any) -> dict[str, str]:
    """Read the environment's variables of an image's configuration, its `Env`; what isn't one counts for none."""
    texts = (line for line in lines if isinstance(line, str)) if isinstance(lines, list) else ()
    return dict(text.partition("=")[::2] for text in texts)


def document_bytes(document: Mapping[str, Any] | Sequence[Any]) -> bytes:
    """Write a document: the same values give the same bytes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _image(descriptor: Descriptor, read: Read, oci_platform: str, where: str) -> ImageManifest:
    manifest = _document(descriptor, read, where)
    config_blob = descriptor_of(manifest.get("config"), where)
    config = _document(config_blob, read, where)
    rows = manifest.get("layers")
    layers = tuple(descriptor_of(row, where) for row in rows) if isinstance(rows, list) else ()
    if len(layers) > _MOST_LAYERS:
        raise _odd(where, f"{len(layers)} layers are more than the {_MOST_LAYERS} that can be mounted")
    for layer in layers:
        if layer.media_type not in _LAYERS:
            raise _odd(where, f"{layer.media_type} isn't a layer that can be handed on")
    rootfs = config.get("rootfs")
    ids = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    are_digests = isinstance(ids, list) and all(isinstance(digest, str) and DIGEST.fullmatch(digest) for digest in ids)
    if not are_digests or len(ids or []) != len(layers):
        raise _odd(where, "its configuration doesn't name the digest of each layer's content")
    if f"{config.get('os')}/{config.get('architecture')}" != oci_platform:
        raise InputError(
            f"{where} is for {config.get('os')}/{config.get('architecture')}, and the target is for {oci_platform}",
            hint="choose a base image of the target's platform",
        )
    annotations = tuple(_texts(row.get("annotations")) for row in rows) if isinstance(rows, list) else ()
    return ImageManifest(descriptor, config_blob, config, layers, _texts(manifest.get("annotations")), annotations)


def _document(blob: Descriptor, read: Read, where: str) -> dict[str, Any]:
    if blob.size > DOCUMENT_BYTES:
        raise _odd(where, f"{blob.digest} has {blob.size} bytes, and {DOCUMENT_BYTES} are the most for a document")
    try:
        document = read_json(check_content(read(blob), blob, where))
    except (ValueError, RecursionError) as error:
        raise _odd(where, f"{blob.digest} isn't JSON: {error}") from None
    if not isinstance(document, dict):
        raise _odd(where, f"{blob.digest} isn't a JSON object")
    return document


def _platform_of(row: Any) -> str | None:
    platform = row.get("platform")
    if not isinstance(platform, dict):
        return None
    return f"{platform.get('os')}/{platform.get('architecture')}"


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {name: text for name, text in value.items() if isinstance(name, str) and isinstance(text, str)}


def _odd(where: str, what: str) -> InputError:
    return InputError(f"{where} can't be read as an image: {what}", hint=_HINT)
