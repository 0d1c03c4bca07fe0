"""Making an image as the command line orders it: the base, the files of packages, the layers, and where they go."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envspec.cli.collecting import collect
from envspec.cli.image.base import opened_base
from envspec.cli.image.output import Output, ToArchive, ToFolder, ToRegistry, output_of
from envspec.cli.image.progress import image_progress
from envspec.cli.outputs import location, written
from envspec.image.base import BaseSource
from envspec.image.build import BuiltImage, ImageProgress, build_image, copy_base, image_index
from envspec.image.conda import LinkedPackages
from envspec.image.config import SBOM_DIGEST, WITHOUT
from envspec.image.entry import Entry
from envspec.image.layer import Descriptor
from envspec.image.layers import SBOM, LayerInputs, layer_plans, refuse_sources
from envspec.image.layout import Layout, write_archive
from envspec.image.python import ImagePython, image_python
from envspec.image.requirements import refuse_poor
from envspec.lock.formats.sbom import sbom
from envspec.lock.judge import SoundLock
from envspec.lock.model import LockedTarget
from envspec.open_folder import open_folder
from envspec.recipes.make import make_plan
from envspec.recipes.plan import ENVIRONMENT, SLICE, Plan
from envspec.recipes.sums import digest
from envspec.recipes.target_json import dumps as target_json
from envspec.scratch import scratch_folder
from envspec.settings import load_settings
from envspec.spec.model import Spec
from envspec.storage import storage_error


@dataclass(frozen=True)
class ImageOrder:
    """What the command line asks for. `without` names what the base may lack."""

    spec: Spec
    lock: SoundLock
    targets: tuple[LockedTarget, ...]
    output: str | None
    sif: Path | None
    base: str | None
    without: tuple[str, ...]
    compression: str
    offline: bool
    quiet: bool


@dataclass(frozen=True)
class MadeImage:
    """What was made: the images of the targets, the manifest or index that names them, and a line for each place."""

    images: tuple[BuiltImage, ...]
    top: Descriptor
    told: tuple[str, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        return {
            "digest": self.top.digest,
            "images": [
                {
                    "target": one.plan.target,
                    "platform": one.platform,
                    "digest": one.manifest.digest,
                    "base": one.base.digest,
                    "layers": [
                        {
                            "name": layer.name,
                            "key": layer.key,
                            "digest": layer.blob.digest,
                            "diff_id": layer.diff_id,
                            "size": layer.blob.size,
                        }
                        for layer in one.layers
                    ],
                }
                for one in self.images
            ],
            **self.places,
        }


def make_image(order: ImageOrder, stack: ExitStack) -> MadeImage:
    """Make the image. Raises InputError, IndexFailure, ToolError, StorageError."""
    output = output_of(order.output) if order.output else None
    for target in order.targets:
        refuse_sources(target)
    plans = [(target, make_plan(order.spec, order.lock, target)) for target in order.targets]
    progress = stack.enter_context(image_progress(quiet=order.quiet))
    bases = [
        (target, plan, stack.enter_context(opened_base(plan, order.base, offline=order.offline)))
        for target, plan in plans
    ]
    layout = _layout(output, order, stack)
    images = tuple(_build(order, target, plan, source, layout, progress, stack) for target, plan, source in bases)
    top = image_index(images, layout)
    told, places = _put(order, output, images, top, layout, progress)
    return MadeImage(images, top, told, places)


def _layout(output: Output | None, order: ImageOrder, stack: ExitStack) -> Layout:
    """Open the layout that blobs are written to: the one that is asked for, or one of this run."""
    if isinstance(output, ToFolder):
        try:
            layout = Layout(stack.enter_context(location(output.path, [order.spec.path]).open(make=True)))
        except OSError as error:
            raise storage_error(error, output.path, option="-o") from None
        layout.refuse_other()
        layout.clear_begun()
        return layout
    scratch = stack.enter_context(scratch_folder(load_settings(os.environ).cache()))
    return Layout(stack.enter_context(open_folder(scratch)))


def _build(
    order: ImageOrder,
    target: LockedTarget,
    plan: Plan,
    source: BaseSource,
    layout: Layout,
    progress: ImageProgress,
    stack: ExitStack,
) -> BuiltImage:
    progress.phase("reading the base")
    base = source.image(plan.oci_platform)
    python = None if target.pin("python", "conda") else image_python(plan, base.files, order.lock.python(target))
    left_out = refuse_poor(plan, base, python, order.without)
    wheels = [pin for pin in target.pins if pin.kind == "pip"]
    files = collect(order.spec, wheels, again=True, offline=order.offline, quiet=order.quiet)
    carried, labels = _carried(order, target, plan, left_out)
    conda = _linked(order, target, progress, stack)
    brought = _brought(order, python, stack) if python else ()
    inputs = LayerInputs(plan, target, base.files, python, carried, files, conda, brought)
    return build_image(plan, base, layer_plans(inputs), labels, layout, order.compression, progress)


def _linked(
    order: ImageOrder, target: LockedTarget, progress: ImageProgress, stack: ExitStack
) -> LinkedPackages | None:
    """Link the conda packages into a folder of this run; None without any."""
    if all(pin.kind != "conda" for pin in target.pins):
        return None
    from envspec.image.conda import link_packages
    from envspec.install.model import SilentInstall

    progress.phase("linking conda packages")
    folder = stack.enter_context(scratch_folder(load_settings(os.environ).cache())) / "env"
    channels = order.spec.conda.channels
    return link_packages(target, channels, Path(ENVIRONMENT), folder, SilentInstall(), offline=order.offline)


def _brought(order: ImageOrder, python: ImagePython, stack: ExitStack) -> Sequence[Entry]:
    """Fetch the build of Python that an image brings, and open it; nothing for the base's own."""
    if python.build is None:
        return ()
    from envspec.image.standalone import opened_build
    from envspec.install.python_builds import fetched_build

    settings = load_settings(os.environ)
    archive = fetched_build(python.build, settings, os.environ, offline=order.offline)
    scratch = stack.enter_context(scratch_folder(settings.cache()))
    return stack.enter_context(opened_build(archive, scratch, python.prefix))


def _carried(
    order: ImageOrder, target: LockedTarget, plan: Plan, left_out: tuple[str, ...]
) -> tuple[dict[str, str], dict[str, str]]:
    """Give the carried files, and the labels that go with them."""
    carried = dict(plan.carried)
    labels = {}
    if left_out:
        carried[SLICE] = target_json({**json.loads(carried[SLICE]), "without": list(left_out)})
        labels[WITHOUT] = ",".join(left_out)
    carried[SBOM] = sbom(order.lock, target)
    labels[SBOM_DIGEST] = f"sha256:{digest(carried[SBOM])}"
    return carried, labels


def _put(
    order: ImageOrder,
    output: Output | None,
    images: tuple[BuiltImage, ...],
    top: Descriptor,
    layout: Layout,
    progress: ImageProgress,
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Bring the image to where it is asked for. Gives a line and a name for each place."""
    told: list[str] = []
    places: dict[str, str] = {}
    name = images[0].plan.image if len(images) == 1 else order.spec.name
    if isinstance(output, ToRegistry):
        told.append(_push(output, images, top, layout, progress))
        places["name"] = output.name
    if not isinstance(output, ToRegistry) or order.sif is not None:
        for image in images:
            copy_base(image.base, layout, progress)
    blobs = _blobs(images, top)
    if isinstance(output, ToFolder):
        layout.put_index(top, name)
        layout.sweep({blob.digest for blob in blobs})
        told.append(f"{output.path}: an OCI layout of {name}")
        places["folder"] = str(output.path)
    if isinstance(output, ToArchive):
        progress.phase(f"writing {output.path}")
        with written(output.path, "-o", [order.spec.path]) as file:
            write_archive(layout, top, name, blobs, file, images[0].plan.epoch)
        told.append(f"{output.path}: {name}")
        places["file"] = str(output.path)
    return tuple(told), places


def _push(
    output: ToRegistry, images: tuple[BuiltImage, ...], top: Descriptor, layout: Layout, progress: ImageProgress
) -> str:
    from envspec.cli.image.registry import registry_of
    from envspec.image.push import push_image
    from envspec.texts import byte_size

    repository = registry_of(output.name, writes=True).repository
    done = push_image(images, top, layout, repository, output.address.tag, progress)
    sent = f"{done.sent} blobs sent ({byte_size(done.bytes)})"
    return f"{output.name}: {sent}, {done.mounted} mounted, {done.there} there already"


def _blobs(images: tuple[BuiltImage, ...], top: Descriptor) -> list[Descriptor]:
    own = [blob for image in images for blob in (*image.blobs, *image.base.manifest.layers)]
    return [top, *own]
