"""The base that `envspec bundle --with-base` carries, so that a machine without internet builds the SIF from the bundle
alone: an OCI layout, the definition that stands on it, and a build of Python where the base has none."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from envspec.app.image.base import open_base
from envspec.app.observer import observer
from envspec.base.errors import InputError
from envspec.base.open_folder import open_folder
from envspec.base.settings import load_settings
from envspec.export.apptainer import render_in_bundle
from envspec.export.plan import Plan
from envspec.image.base import BaseImage
from envspec.image.build import copy_base
from envspec.image.layout import Layout
from envspec.image.python import ImagePython, image_python
from envspec.image.requirements import refuse_poor
from envspec.install.bundle import BASE, BASE_SUMS, DEFINITION, PYTHON
from envspec.install.python_builds import fetch_build
from envspec.lock.judge import SoundLock
from envspec.lock.model import LockedPython, LockedTarget

_NAME = "base"
_MICROMAMBA = ("bin/micromamba", "usr/bin/micromamba", "usr/local/bin/micromamba")


@dataclass(frozen=True)
class BundledBase:
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


def bundled_base(
    plan: Plan, lock: SoundLock, target: LockedTarget, given: str | None, path: str, scratch: Path
) -> BundledBase:
    """Get the base into an empty folder: that of the spec at `path`, or the one that is `given`. Raises InputError for
    one that lacks what the image needs, IndexFailure, StorageError."""
    settings = load_settings(os.environ)
    if plan.borrowed:
        names = ", ".join(f"{one.name} from {one.image.name}" for one in plan.borrowed)
        raise InputError(
            f"the image of {target.name} takes {names}, which a bundle doesn't bring",
            hint="leave it out of the spec's [image] and targets, or carry the image of `envspec image` over",
        )
    with ExitStack() as stack:
        progress = stack.enter_context(observer().progress())
        source = stack.enter_context(open_base(plan, given, progress.came, offline=False))
        progress.phase("reading the base")
        base = source.image(plan.oci_platform, settings.cache())
        python = _python(plan, lock, target, base)
        refuse_poor(plan, base, python, None, path)
        (scratch / BASE).mkdir()
        layout = Layout(stack.enter_context(open_folder(scratch / BASE)))
        copy_base(base, layout, progress)
        manifest = base.manifest.descriptor
        for blob in (manifest, base.manifest.config_blob):
            layout.add(source.read(blob), blob.media_type)
        layout.put_index(manifest, _NAME)
        files = {str(path.relative_to(scratch / BASE)): path for path in (scratch / BASE).rglob("*") if path.is_file()}
        build = python.build if python else None
        brought = (build, fetch_build(build, settings, os.environ)) if build else None
        return BundledBase(plan, manifest.digest, files, brought)


def _python(plan: Plan, lock: SoundLock, target: LockedTarget, base: BaseImage) -> ImagePython | None:
    """Choose the Python of the image; None where conda brings it, for which the base needs micromamba."""
    if target.pin("python", "conda") is None:
        return image_python(plan, base.files, lock.python(target))
    if not any(path in base.files.paths for path in _MICROMAMBA):
        raise InputError(
            f"the base {base.source.where} has no micromamba, which installs a bundle's conda packages",
            hint="give --base one that has it in /usr/local/bin",
        )
    return None
