"""`envspec image --verify`: whether an image is this lock's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from envspec.app.image.base import ToArchive, ToFolder, ToRegistry, open_base, output_of, registry_of
from envspec.app.image.prepare import ImageOrder, permit, prepare, source_wheels
from envspec.app.observer import observer
from envspec.app.outputs import location
from envspec.base.errors import IndexFailure, InputError
from envspec.base.finding import Finding
from envspec.export.make import make_plan
from envspec.image.base import BaseSource
from envspec.image.build import WITHOUT
from envspec.image.layer import Descriptor
from envspec.image.layout import layout_source, open_archive
from envspec.image.manifest import read_image
from envspec.image.requirements import FEATURES, require_digests
from envspec.image.verify import by_content, by_labels, label_of
from envspec.net.file_store import ARTIFACTS


def verify_image(order: ImageOrder, where: str) -> dict[str, tuple[Finding, ...]]:
    """Compare an image with what the lock gives, target by target. Raises InputError, Forbidden, IndexFailure,
    ToolError, StorageError."""
    permit(order)
    found = {}
    with ExitStack() as stack:
        image_source = stack.enter_context(_open(where, offline=order.offline))
        progress = stack.enter_context(observer().progress())
        for target in order.targets:
            plan = make_plan(order.spec, order.lock, target)
            image = read_image(image_source.top, image_source.read, plan.oci_platform, where)
            differences = by_labels(plan, image)
            if not differences:
                said = label_of(image, WITHOUT).split(",")
                own = replace(order, without=tuple(name for name in FEATURES if name in said))
                plan, built = require_digests(plan, target, own.without), source_wheels(own, target, stack)
                source = stack.enter_context(open_base(plan, order.base, progress.came, offline=order.offline))
                ready = prepare(own, target, plan, built, source, progress, stack)
                differences = tuple(
                    by_content(
                        ready.plan,
                        image,
                        ready.base,
                        ready.layers,
                        ready.labels,
                        ready.annotations,
                        lambda name: progress.phase(f"making {name} anew"),
                        progress.came,
                    )
                )
            found[target.name] = differences
    return found


@contextmanager
def _open(where: str, *, offline: bool) -> Iterator[BaseSource]:
    """Open an image: a folder, a tar or one of a registry. Raises InputError, IndexFailure."""
    place = output_of(where.partition("@")[0]) if "@" in where else output_of(where)
    if isinstance(place, ToRegistry):
        yield _of_registry(where, offline=offline)
        return
    path = place.path
    if not path.exists():
        raise InputError(
            f"{path} doesn't exist", hint="give --verify an OCI layout's folder, FILE.tar, or registry/name:tag"
        )
    if isinstance(place, ToFolder):
        with location(Path(path)).open() as folder:
            yield layout_source(path, folder)
    elif isinstance(place, ToArchive):
        with open_archive(path) as source:
            yield source


def _of_registry(name: str, *, offline: bool) -> BaseSource:
    registry = registry_of(name.removeprefix("docker://"), offline=offline)
    repository, cache = registry.repository, registry.cache / ARTIFACTS
    address = repository.address
    found = repository.manifest(address.digest or address.tag)
    if found is None:
        raise IndexFailure(f"{name} doesn't exist", hint="check the image's name and tag")

    content, kind = found
    top = Descriptor(kind, f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))

    def read(blob: Descriptor) -> bytes:
        if blob.digest == top.digest:
            return content
        manifest = repository.manifest(blob.digest) if "manifest" in blob.media_type else None
        return manifest[0] if manifest else repository.blob(blob.digest, blob.size)

    return BaseSource(name, top, read, lambda blob: repository.fetch(blob.digest, blob.size, cache).open("rb"))
