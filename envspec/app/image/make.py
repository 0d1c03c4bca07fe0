"""Making an image as it is ordered: the base, the files of packages, the layers, and where they go."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct, field

from envspec.app.cache_size import prune_to_limit
from envspec.app.carried_facts import facts_text
from envspec.app.image.base import Output, ToArchive, ToFolder, ToRegistry, open_base, output_of, registry_of
from envspec.app.image.prepare import ImageOrder, permit, prepare, source_wheels
from envspec.app.image.squashfs import MadeSquashfs, make_squashfs
from envspec.app.observer import note, observer
from envspec.app.outputs import location, open_output
from envspec.base.errors import InputError, NotPlain
from envspec.base.open_folder import Location, open_folder
from envspec.base.progress import Progress
from envspec.base.scratch import scratch_folder
from envspec.base.storage import storage_error
from envspec.base.texts import byte_size, printable
from envspec.configuration.settings import load_settings
from envspec.export.make import make_plan
from envspec.export.plan import EPOCH
from envspec.image.build import DATES, BuiltImage, build_image, copy_base, image_index
from envspec.image.layer import Descriptor
from envspec.image.layout import Layout, write_archive
from envspec.image.push import push_image
from envspec.image.requirements import require_digests
from envspec.image.squashfs import build_sif


class MadeImage(Struct, frozen=True):
    """The made images of the targets, the manifest or index that names them, and a line for each place."""

    images: tuple[BuiltImage, ...]
    top: Descriptor
    lines: tuple[str, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        return {
            "digest": self.top.digest,
            "images": [
                {
                    "target": image.plan.target,
                    "platform": image.platform,
                    "digest": image.manifest.digest,
                    "base": image.base.digest,
                    "layers": [
                        {
                            "name": layer.name,
                            "key": layer.key,
                            "digest": layer.blob.digest,
                            "diff_id": layer.diff_id,
                            "size": layer.blob.size,
                        }
                        for layer in image.layers
                    ],
                }
                for image in self.images
            ],
            **self.places,
        }


def make_images(order: ImageOrder) -> tuple[MadeImage | None, MadeSquashfs | None]:
    """Make the images of an order. Raises InputError, Forbidden, IndexFailure, ToolError, StorageError."""
    for kind, file in (("SIF", order.sif), ("squashfs", order.squashfs)):
        if file is not None and len(order.targets) > 1:
            raise InputError(f"a {kind} is for one platform", hint=f"choose with --target {order.targets[0].name}")
    permit(order)
    image = None
    if order.output is not None or order.sif is not None:
        with ExitStack() as stack:
            image = _make_image(order, stack)
    squashfs = make_squashfs(order, order.squashfs) if order.squashfs is not None else None
    prune_to_limit()
    return image, squashfs


def _make_image(order: ImageOrder, stack: ExitStack) -> MadeImage:
    output = output_of(order.output) if order.output else None
    plans = [
        (target, require_digests(make_plan(order.spec, order.lock, target), target, order.without))
        for target in order.targets
    ]
    built = {target.name: source_wheels(order, target, stack) for target in order.targets}
    progress = stack.enter_context(observer().progress())
    bases = [
        (target, plan, stack.enter_context(open_base(plan, order.base, progress.came, offline=order.offline)))
        for target, plan in plans
    ]
    layout = _layout(output, order, stack)
    images = []
    for target, plan, source in bases:
        ready = prepare(order, target, plan, built[target.name], source, progress, stack)
        known = facts_text(target)
        own = (ready.labels, {**ready.annotations, **({DATES: known} if known else {})})
        images.append(build_image(ready.plan, ready.base, ready.layers, *own, layout, order.compression, progress))
    top = image_index(tuple(images), layout)
    lines, places = _put(order, output, tuple(images), top, layout, progress)
    return MadeImage(tuple(images), top, (*lines, f"digest {top.digest}"), places)


def _layout(output: Output | None, order: ImageOrder, stack: ExitStack) -> Layout:
    """Open the layout that blobs are written to: the one that is asked for, or one of this run."""
    if isinstance(output, ToFolder):
        place = location(output.path, [order.spec.path])
        if not output.path.exists():
            stack.callback(_remove_empty, place)
        try:
            layout = Layout(stack.enter_context(place.open(make=True)))
        except OSError as error:
            raise storage_error(error, output.path, option="-o") from None
        layout.refuse_other()
        layout.clear_leftovers()
        return layout
    scratch = stack.enter_context(scratch_folder(load_settings(os.environ).scratch()))
    return Layout(stack.enter_context(open_folder(scratch)))


def _remove_empty(place: Location) -> None:
    """Leave no folder of an image that was refused."""
    with suppress(OSError, NotPlain):
        place.remove_empty()


def _put(
    order: ImageOrder,
    output: Output | None,
    images: tuple[BuiltImage, ...],
    top: Descriptor,
    layout: Layout,
    progress: Progress,
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Bring the image to where it is asked for. Gives a line and a name for each place."""
    lines: list[str] = []
    places: dict[str, str] = {}
    name = images[0].plan.image_name if len(images) == 1 else order.spec.name
    if isinstance(output, ToRegistry):
        lines.append(_push(output, images, top, layout, progress))
        places["name"] = output.name
    if not isinstance(output, ToRegistry) or order.sif is not None:
        for image in images:
            copy_base(image.base, layout, progress)
    blobs = _blobs(images, top)
    write = partial(write_archive, layout, top, name, blobs, epoch=EPOCH)
    if isinstance(output, ToFolder):
        layout.put_index(top, name)
        layout.sweep({blob.digest for blob in blobs})
        lines.append(f"{output.path}: an OCI layout of {name}")
        places["folder"] = str(output.path)
    if isinstance(output, ToArchive):
        progress.phase(f"writing {output.path}", sum(blob.size for blob in blobs))
        with open_output(output.path, "-o", [order.spec.path]) as file:
            write(file, on_bytes=progress.came)
        lines.append(f"{output.path}: {name}")
        places["file"] = str(output.path)
    if order.sif is not None:
        _make_sif(order, order.sif, output, write, EPOCH, progress)
        lines.append(f"{order.sif}: {name}")
        places["sif"] = str(order.sif)
    return tuple(lines), places


def _make_sif(
    order: ImageOrder,
    sif: Path,
    output: Output | None,
    write: Callable[[BinaryIO], object],
    epoch: int,
    progress: Progress,
) -> None:
    """Make the SIF beside its place of an archive, and rename it once it is whole."""
    with scratch_folder(load_settings(os.environ).scratch()) as scratch:
        archive = output.path.absolute() if isinstance(output, ToArchive) else scratch / "image.tar"
        if not isinstance(output, ToArchive):
            with archive.open("wb") as file:
                write(file)
        progress.phase(f"building {sif}")
        if not build_sif(archive, scratch / "image.sif", os.environ, epoch):
            note(f"another build of {printable(str(sif))} has other bytes: this Apptainer has no --reproducible")
        with (scratch / "image.sif").open("rb") as made, open_output(sif, "--sif", [order.spec.path]) as file:
            shutil.copyfileobj(made, file, 1 << 20)


def _push(
    output: ToRegistry, images: tuple[BuiltImage, ...], top: Descriptor, layout: Layout, progress: Progress
) -> str:
    repository = registry_of(output.name, writes=True).repository
    done = push_image(images, top, layout, repository, output.address.tag, progress)
    sent = f"{done.sent} blobs sent ({byte_size(done.bytes)})"
    return f"{output.name}: {sent}, {done.mounted} mounted, {done.existing} there already"


def _blobs(images: tuple[BuiltImage, ...], top: Descriptor) -> list[Descriptor]:
    own = [blob for image in images for blob in (*image.blobs, *image.base.manifest.layers)]
    return [top, *own]
