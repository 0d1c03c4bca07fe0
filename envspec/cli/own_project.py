"""The wheel of a spec's own project, built for another place than this machine: a bundle or an image."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.cli.collecting import collect_conda_too
from envspec.cli.console import say

if TYPE_CHECKING:
    from envspec.lock.model import LockedTarget
    from envspec.spec.model import Spec


def built_project(spec: Spec, target: LockedTarget, scratch: Path, *, quiet: bool) -> Path | None:
    """Build the wheel of the spec's own project in an empty folder; None without one. Raises InputError, IndexFailure,
    ToolError, StorageError."""
    from envspec.install.build import BuildRules, WheelBuilder
    from envspec.install.host import this_host
    from envspec.install.model import SilentInstall
    from envspec.install.project import bundled_project
    from envspec.recipes.project import project_of
    from envspec.settings import load_settings
    from envspec.uv.program import find_uv

    project = project_of(spec, target)
    if project is None:
        return None
    builder = WheelBuilder(
        rules=BuildRules.of(spec, target),
        uv=find_uv(os.environ),
        prefix=scratch / "env",
        host=this_host(),
        collect=lambda pins: collect_conda_too(spec, target, pins, quiet=quiet),
        cache=load_settings(os.environ).cache(),
        scratch=scratch,
        progress=SilentInstall(),
    )
    say(f"building {project.name}")
    return bundled_project(spec, project, builder)
