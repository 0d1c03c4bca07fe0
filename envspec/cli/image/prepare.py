"""What an image is made from, as the command line orders it: the base, the files of packages, the carried files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from envspec import __version__
from envspec.cli.collecting import collect
from envspec.image.base import BaseImage, BaseSource
from envspec.image.build import ImageProgress
from envspec.image.conda import LinkedPackages
from envspec.image.config import SBOM_DIGEST, VERSION, WITHOUT
from envspec.image.entry import LayerEntry
from envspec.image.layer import LayerPlan
from envspec.image.layers import SBOM, LayerInputs, layer_plans
from envspec.image.python import image_python
from envspec.image.requirements import refuse_poor
from envspec.lock.formats.sbom import sbom
from envspec.lock.judge import SoundLock
from envspec.lock.model import LockedPython, LockedTarget
from envspec.recipes.plan import ENVIRONMENT, SLICE, Plan
from envspec.recipes.sums import digest
from envspec.recipes.target_json import dumps as target_json
from envspec.scratch import scratch_folder
from envspec.settings import load_settings
from envspec.spec.model import Spec


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
    build_sources: bool
    offline: bool
    quiet: bool


@dataclass(frozen=True)
class ReadyImage:
    """The base, the layers and the further labels of a target's image, before any is packed."""

    base: BaseImage
    layers: tuple[LayerPlan, ...]
    labels: Mapping[str, str]


def prepared(
    order: ImageOrder,
    target: LockedTarget,
    plan: Plan,
    source: BaseSource,
    progress: ImageProgress,
    stack: ExitStack,
) -> ReadyImage:
    """Read the base, and bring the files of all packages. `stack` holds what layers are read from. Raises InputError,
    IndexFailure, ToolError, StorageError."""
    progress.phase("reading the base")
    base = source.image(plan.oci_platform, load_settings(os.environ).cache())
    python = None if target.pin("python", "conda") else image_python(plan, base.files, order.lock.python(target))
    left_out = refuse_poor(plan, base, python, order.without)
    built = built_wheels(order, target, stack) if order.build_sources else {}
    wheels = [pin for pin in target.pins if pin.kind == "pip" and pin.name not in built]
    files = collect(order.spec, wheels, again=True, offline=order.offline, quiet=order.quiet)
    carried, labels = carried_files(order, target, plan, left_out)
    conda = linked_packages(order, target, progress, stack)
    build = python.build if python else None
    brought = brought_python(order, build, python.prefix, stack) if python and build else ()
    project = own_project(order, target, stack)
    inputs = LayerInputs(plan, target, base.files, python, carried, files, conda, brought, project, built)
    return ReadyImage(base, layer_plans(inputs), labels)


def linked_packages(
    order: ImageOrder, target: LockedTarget, progress: ImageProgress, stack: ExitStack, placed: str = ENVIRONMENT
) -> LinkedPackages | None:
    """Link the conda packages into a folder of this run, for the prefix `placed`; None without any."""
    if all(pin.kind != "conda" for pin in target.pins):
        return None
    from envspec.image.conda import link_packages
    from envspec.install.model import SilentInstall

    progress.phase("linking conda packages")
    folder = stack.enter_context(scratch_folder(load_settings(os.environ).cache())) / "env"
    channels = order.spec.conda.channels
    return link_packages(target, channels, Path(placed), folder, SilentInstall(), offline=order.offline)


def brought_python(order: ImageOrder, build: LockedPython, prefix: str, stack: ExitStack) -> Sequence[LayerEntry]:
    """Fetch a build of Python, and open it for its place in an image."""
    from envspec.image.standalone import opened_build
    from envspec.install.python_archive import fetched_build

    settings = load_settings(os.environ)
    archive = fetched_build(build, settings, os.environ, offline=order.offline)
    scratch = stack.enter_context(scratch_folder(settings.cache()))
    return stack.enter_context(opened_build(archive, scratch, prefix))


def built_wheels(order: ImageOrder, target: LockedTarget, stack: ExitStack) -> dict[str, tuple[Path, str]]:
    """Build the wheels of what the lock has as source, each with the key of what shaped it."""
    from envspec.cli.own_project import built_sources

    scratch = stack.enter_context(scratch_folder(load_settings(os.environ).cache()))
    return built_sources(order.spec, order.lock, target, scratch, "an image", quiet=order.quiet)


def carried_files(
    order: ImageOrder, target: LockedTarget, plan: Plan, left_out: tuple[str, ...]
) -> tuple[dict[str, str], dict[str, str]]:
    """Give the carried files, and the labels that go with them."""
    carried = dict(plan.carried)
    labels = {VERSION: __version__}
    if left_out:
        carried[SLICE] = target_json({**json.loads(carried[SLICE]), "without": list(left_out)})
        labels[WITHOUT] = ",".join(left_out)
    carried[SBOM] = sbom(order.lock, target)
    labels[SBOM_DIGEST] = f"sha256:{digest(carried[SBOM])}"
    return carried, labels


def own_project(order: ImageOrder, target: LockedTarget, stack: ExitStack) -> Path | None:
    """Build the wheel of the spec's own project; None without one."""
    from envspec.cli.own_project import built_project

    settings = load_settings(os.environ)
    return built_project(order.spec, target, stack.enter_context(scratch_folder(settings.cache())), quiet=order.quiet)
