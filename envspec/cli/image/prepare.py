"""What an image is made from, as the command line orders it: the base, the files of packages, the carried files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from envspec import __version__
from envspec.cli.collecting import collect
from envspec.errors import InputError
from envspec.image.base import BaseImage, BaseSource
from envspec.image.build import ImageProgress
from envspec.image.conda import LinkedPackages
from envspec.image.config import SBOM_DIGEST, VERSION, WITHOUT
from envspec.image.entry import LayerEntry
from envspec.image.layer import LayerPlan
from envspec.image.layers import SBOM, LayerInputs, layer_plans
from envspec.image.python import ImagePython, image_python
from envspec.image.requirements import refuse_poor
from envspec.lock.formats.sbom import sbom
from envspec.lock.judge import SoundLock
from envspec.lock.model import LockedTarget
from envspec.recipes.plan import ENVIRONMENT, SLICE, Plan
from envspec.recipes.sums import digest
from envspec.recipes.target_json import dumps as target_json
from envspec.record import dataclass
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
    built = _built(order, target, stack) if order.build_sources else {}
    wheels = [pin for pin in target.pins if pin.kind == "pip" and pin.name not in built]
    files = collect(order.spec, wheels, again=True, offline=order.offline, quiet=order.quiet)
    carried, labels = _carried(order, target, plan, left_out)
    conda = _linked(order, target, progress, stack)
    brought = _brought(order, python, stack) if python else ()
    project = _project(order, target, stack)
    inputs = LayerInputs(plan, target, base.files, python, carried, files, conda, brought, project, built)
    return ReadyImage(base, layer_plans(inputs), labels)


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


def _brought(order: ImageOrder, python: ImagePython, stack: ExitStack) -> Sequence[LayerEntry]:
    """Fetch the build of Python that an image brings, and open it; nothing for the base's own."""
    if python.build is None:
        return ()
    from envspec.image.standalone import opened_build
    from envspec.install.python_archive import fetched_build

    settings = load_settings(os.environ)
    archive = fetched_build(python.build, settings, os.environ, offline=order.offline)
    scratch = stack.enter_context(scratch_folder(settings.cache()))
    return stack.enter_context(opened_build(archive, scratch, python.prefix))


def _built(order: ImageOrder, target: LockedTarget, stack: ExitStack) -> dict[str, tuple[Path, str]]:
    """Build the wheels of what the lock has as source, as an installation does, on a machine that the target fits.
    Raises InputError where it doesn't, and for a package whose build the spec says nothing of."""
    from envspec.cli.console import say
    from envspec.cli.own_project import wheel_builder
    from envspec.install.collect import refuse_git
    from envspec.install.host import refuse_unfit
    from envspec.lock.conda_files import artifact_of

    sources = [pin for pin in target.pins if pin.kind == "pip" and not pin.is_wheel]
    if not sources:
        return {}
    refuse_git(sources, "an image")
    scratch = stack.enter_context(scratch_folder(load_settings(os.environ).cache()))
    builder = wheel_builder(order.spec, target, scratch, quiet=order.quiet)
    refuse_unfit(builder.host, order.lock, target)
    unknown = [pin.name for pin in sources if not builder.rules.concerns(pin)]
    if unknown:
        raise InputError(
            f"the spec doesn't say what the builds of {', '.join(unknown)} need",
            hint=f'add to [pip], then lock again: build-dependencies = {{ {unknown[0]} = ["setuptools"] }}',
        )
    files = builder.collect(sources)
    found = {}
    for pin in builder.rules.ordered(sources):
        say(f"building {pin.name} {pin.version}")
        key = builder.rules.key(pin, builder.host)
        found[pin.name] = (builder.wheel(pin, files[pin.index, artifact_of(pin).file]), key)
    return found


def _carried(
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


def _project(order: ImageOrder, target: LockedTarget, stack: ExitStack) -> Path | None:
    """Build the wheel of the spec's own project; None without one."""
    from envspec.cli.own_project import built_project

    settings = load_settings(os.environ)
    return built_project(order.spec, target, stack.enter_context(scratch_folder(settings.cache())), quiet=order.quiet)
