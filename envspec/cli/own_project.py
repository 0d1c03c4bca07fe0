"""Wheels that are built here for another place than this machine, a bundle or an image: those of a spec's own project
and of what its lock has as source."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.cli.collecting import collect_conda_too
from envspec.cli.console import say

if TYPE_CHECKING:
    from envspec.install.build import WheelBuilder
    from envspec.lock.model import LockedTarget
    from envspec.spec.model import Spec


def wheel_builder(spec: Spec, target: LockedTarget, scratch: Path, *, quiet: bool) -> WheelBuilder:
    """Make the builder of a target's wheels; `scratch` is an empty folder of its own."""
    from envspec.install.build import BuildRules, WheelBuilder
    from envspec.install.host import this_host
    from envspec.install.model import SilentInstall
    from envspec.settings import load_settings
    from envspec.uv.program import find_uv

    return WheelBuilder(
        rules=BuildRules.of(spec, target),
        uv=find_uv(os.environ),
        prefix=scratch / "env",
        host=this_host(),
        collect=lambda pins: collect_conda_too(spec, target, pins, quiet=quiet),
        cache=load_settings(os.environ).cache(),
        scratch=scratch,
        progress=SilentInstall(),
    )


def built_project(spec: Spec, target: LockedTarget, scratch: Path, *, quiet: bool) -> Path | None:
    """Build the wheel of the spec's own project in an empty folder; None without one. Raises InputError, IndexFailure,
    ToolError, StorageError."""
    from envspec.install.project import bundled_project
    from envspec.recipes.project import project_of

    project = project_of(spec, target)
    if project is None:
        return None
    say(f"building {project.name}")
    return bundled_project(spec, project, wheel_builder(spec, target, scratch, quiet=quiet))
