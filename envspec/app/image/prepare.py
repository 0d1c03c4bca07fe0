"""The inputs of an image, by its order: the base, the files of packages, the carried files."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import Struct

from envspec import __version__
from envspec.app import inputs
from envspec.app.collecting import collect_wheels
from envspec.app.image.base import read_within, registry_source
from envspec.app.malicious import refuse_malicious
from envspec.app.observer import report
from envspec.app.own_project import build_project, built_sources
from envspec.app.policy import refuse_target
from envspec.base.errors import InputError
from envspec.base.progress import Progress
from envspec.base.scratch import scratch_folder
from envspec.configuration.settings import load_settings
from envspec.export.make import make_plan
from envspec.export.on_base import refuse_unknown
from envspec.export.plan import ENVIRONMENT, SLICE, Borrowed, Plan, digest
from envspec.image.base import BaseFiles, BaseImage, BaseSource
from envspec.image.borrowed import borrowed_entries
from envspec.image.build import BUILT, SBOM, SBOM_DIGEST, VERSION, WITHOUT
from envspec.image.conda import LinkedPackages, link_packages
from envspec.image.holdings import paths_of, records_of
from envspec.image.layer import LayerEntry, LayerPlan
from envspec.image.layers import LayerInputs, layer_of, layer_plans, split_slice
from envspec.image.manifest import read_image
from envspec.image.python import image_python
from envspec.image.requirements import FEATURES, base_recipe, drop_features, refuse_newer, refuse_poor
from envspec.image.standalone import open_build
from envspec.install.host import this_host
from envspec.install.interpreter import fetch_build
from envspec.lock.formats.sbom import sbom
from envspec.lock.model import LockedPython, LockedTarget, SoundLock
from envspec.net.file_store import sha256_of
from envspec.packages.own_extras import require_extra
from envspec.review.audit.store import Stored
from envspec.rules.secret_variables import refuse_secret_variables
from envspec.spec.model import Spec

BuiltHere = dict[str, tuple[Path, str]]
"""Wheels that were built on this machine, by package, each with the key of what it was built from."""

_ARENA_MAX = -8
"""M_ARENA_MAX of glibc's malloc.h."""
_ARENAS = 2


class ImageOrder(Struct, frozen=True):
    """An image, a SIF of it, a squashfs, or all of them. `without` names what the base may lack."""

    spec: Spec
    lock: SoundLock
    targets: tuple[LockedTarget, ...]
    output: str | None = None
    sif: Path | None = None
    squashfs: Path | None = None
    base: str | None = None
    without: tuple[str, ...] = ()
    compression: str = "zstd"
    build_sources: bool = False
    offline: bool = False


def linux_targets(
    path: str, names: Sequence[str], locks_dir: Path | None
) -> tuple[Spec, SoundLock, tuple[LockedTarget, ...]]:
    """Read a lock and pick the named targets, or all of Linux; each is for another platform. Raises InputError and as
    `read_lock`."""
    spec, lock = inputs.read_lock(path, locks_dir, on_base=True)
    targets = inputs.locked_targets(lock, names)
    if not names:
        targets = tuple(target for target in targets if target.inputs.platform.startswith("linux-")) or targets
    if len({target.inputs.platform for target in targets}) < len(targets):
        raise InputError(
            "an image has one target for each platform, and these are more: "
            + ", ".join(target.name for target in targets),
            hint=f"choose with --target {targets[0].name}",
        )
    return spec, lock, targets


def features(text: str) -> tuple[str, ...]:
    """Read the list of features that an image may lack. Raises InputError."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in names:
        if name not in FEATURES:
            raise InputError(f"--without knows no `{name}`", hint=f"it takes {', '.join(FEATURES)}, split by commas")
    return names


def base_recipes(order: ImageOrder) -> Iterator[str]:
    """Give a Dockerfile for each target, of a base that it can stand on. Raises InputError for a spec that has one."""
    inputs.refuse_base(order.spec, "--base-recipe")
    return (base_recipe(make_plan(order.spec, order.lock, target)) for target in order.targets)


def permit(order: ImageOrder, carried: Stored | None = None) -> None:
    """Begin to make an image that the site's policy allows, or to compare one that carries what is known of it. Raises
    Forbidden, Malicious, PolicyError, OutsideError.

    All threads take memory from the same few arenas, where the C library is glibc: it gives each thread an arena of its
    own, and each keeps the pieces of a stream that passed through it. With 16 downloads, two packers and two hashers,
    that is 60 MB.
    """
    base = order.spec.base
    if base and base.kind != "image" and (base.kind != "sif" or order.squashfs is None or order.output or order.sif):
        inputs.refuse_base(order.spec, f"an image on a {base.kind}")
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)
    require_extra("image", "images need")
    refuse_secret_variables(order.spec, [target.name for target in order.targets])
    for target in order.targets:
        offline, path = order.offline, order.spec.path
        refuse_target(order.spec, order.lock, target, path, offline=offline, carried=carried)
        report(refuse_malicious(order.spec, (target,), path, offline=offline, carried=carried))


class ReadyImage(Struct, frozen=True):
    """A target's image before any of it is packed: the plan of what it has, its base, its layers, and its further
    labels and annotations."""

    plan: Plan
    base: BaseImage
    layers: tuple[LayerPlan, ...]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def prepare(
    order: ImageOrder,
    target: LockedTarget,
    plan: Plan,
    built: BuiltHere,
    source: BaseSource,
    progress: Progress,
    stack: ExitStack,
) -> ReadyImage:
    """Read the base, and bring the files of all packages. `built` are the wheels of sources, `stack` holds what layers
    are read from. Raises InputError, IndexFailure, ToolError, StorageError."""
    if plan.runtime.on_base:
        return _prepare_on_base(order, target, plan, source)
    progress.phase("reading the base")
    base = source.image(plan.runtime.oci_platform, load_settings(os.environ).cache())
    python = None if target.pin("python", "conda") else image_python(plan, base.files, order.lock.python(target))
    plan = drop_features(plan, refuse_poor(plan, base, python, order.without, order.spec.path))
    refuse_newer(base, {name: path for name, (path, _) in built.items()}, this_host())
    wheels = [pin for pin in target.pins if pin.kind == "pip" and pin.name not in built]
    files = collect_wheels(order.spec, target, wheels, offline=order.offline)
    document = json.loads(plan.image.carried[SLICE])
    slice_parts = split_slice(document, layer_of)
    bill = sbom(order.lock, target)
    labels = {VERSION: __version__, SBOM_DIGEST: f"sha256:{digest(bill)}"}
    if document.get("without"):
        labels[WITHOUT] = ",".join(document["without"])
    if built:
        # what a compiler made elsewhere may be another file
        labels[BUILT] = " ".join(f"{name}@sha256:{sha256_of(path)}" for name, (path, _) in sorted(built.items()))
    conda = linked_packages(order, target, progress, stack)
    build = python.build if python else None
    brought = fetch_python(order, build, python.prefix, stack) if python and build else ()
    project = own_project(order, target, stack)
    carried = {**plan.image.carried, SLICE: slice_parts.target}
    borrowed = [
        (borrowed_files, _reach_image(order, plan, borrowed_files, progress, stack))
        for borrowed_files in plan.image.borrowed
    ]
    inputs = LayerInputs(
        *(plan, target, base.files, python, carried, slice_parts.of_layers, files),
        *(conda, brought, project, built, borrowed),
    )
    return ReadyImage(plan, base, layer_plans(inputs), labels, {SBOM: bill})


def _prepare_on_base(order: ImageOrder, target: LockedTarget, plan: Plan, source: BaseSource) -> ReadyImage:
    """Bring what comes on top of a base, of which layers are read only for what is replaced."""
    if source.top.digest != plan.image.base.digest:
        hint = "leave --base out, or give the same image"
        raise InputError(f"the lock is on {plan.image.base.pinned}, and this base is {source.top.digest}", hint=hint)
    manifest = read_image(source.top, source.read, plan.runtime.oci_platform, source.where)
    bill = sbom(order.lock, target)
    labels = {VERSION: __version__, SBOM_DIGEST: f"sha256:{digest(bill)}"}
    layers = layer_plans(contents_on_base(order, target, plan, lambda: source))
    return ReadyImage(plan, BaseImage(source, manifest, BaseFiles()), layers, labels, {SBOM: bill})


def contents_on_base(
    order: ImageOrder, target: LockedTarget, plan: Plan, image: Callable[[], BaseSource]
) -> LayerInputs:
    """Bring the files of what a lock adds to a base, and list the base's own that go. `image` opens a base that is an
    image. Raises InputError, IndexFailure, StorageError."""
    refuse_unknown(plan)
    inventory = order.lock.inventories[target.inputs.platform]
    names = {pin.name for pin in target.pins} & inventory.packages.keys()
    records = read_within(order.spec, plan, records_of(names, inventory), image) if names else BaseFiles()
    gone = paths_of(names, inventory, records)
    files = collect_wheels(order.spec, target, target.pins, offline=order.offline)
    slice_parts = split_slice(json.loads(plan.image.carried[SLICE]), layer_of)
    carried = {**plan.image.carried, SLICE: slice_parts.target}
    return LayerInputs(plan, target, BaseFiles(), None, carried, slice_parts.of_layers, files, gone=gone)


def linked_packages(
    order: ImageOrder, target: LockedTarget, progress: Progress, stack: ExitStack, placed: str = ENVIRONMENT
) -> LinkedPackages | None:
    """Link the conda packages into a folder of this run, for the prefix `placed`; None without any."""
    if all(pin.kind != "conda" for pin in target.pins):
        return None

    progress.phase("linking conda packages")
    folder = stack.enter_context(scratch_folder(load_settings(os.environ).scratch())) / "env"
    channels = order.spec.conda.channels
    return link_packages(target, channels, Path(placed), folder, progress, offline=order.offline)


def fetch_python(order: ImageOrder, build: LockedPython, prefix: str, stack: ExitStack) -> Sequence[LayerEntry]:
    """Fetch a build of Python, and open it for its place in an image."""
    settings = load_settings(os.environ)
    archive = fetch_build(build, settings, os.environ, offline=order.offline)
    scratch = stack.enter_context(scratch_folder(settings.scratch()))
    return stack.enter_context(open_build(archive, scratch, prefix))


def _reach_image(
    order: ImageOrder, plan: Plan, borrowed: Borrowed, progress: Progress, stack: ExitStack
) -> Callable[[], list[LayerEntry]]:
    """Reach an image that files are borrowed from. The returned function reads it, into a folder of this run."""
    source = registry_source(borrowed.image.pinned, progress.came, offline=order.offline)
    folder = stack.enter_context(scratch_folder(load_settings(os.environ).scratch()))

    def entries() -> list[LayerEntry]:
        progress.phase(f"reading {borrowed.image.name}")
        return borrowed_entries(borrowed, source, plan.runtime.oci_platform, folder)

    return entries


def source_wheels(order: ImageOrder, target: LockedTarget, stack: ExitStack) -> BuiltHere:
    """Give the wheels of what the lock has as source: those that were built here for this very lock, as an installation
    or a bundle keeps them; where the order says so, the others are built now. Raises as `built_sources`."""
    scratch = stack.enter_context(scratch_folder(load_settings(os.environ).scratch()))
    subject = (order.spec, order.lock, target, scratch)
    return built_sources(*subject, "an image", building=order.build_sources)


def own_project(order: ImageOrder, target: LockedTarget, stack: ExitStack) -> Path | None:
    """Build the wheel of the spec's own project; None without one."""
    settings = load_settings(os.environ)
    return build_project(order.spec, target, stack.enter_context(scratch_folder(settings.scratch())))
