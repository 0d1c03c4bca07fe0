"""The runners of `envspec smoke`, with this machine's programs."""

from __future__ import annotations

import os
from pathlib import Path

from envspec.app.smoke.request import SmokeRequest
from envspec.base.errors import ToolError
from envspec.base.programs import ENVSPEC, find_program
from envspec.base.settings import load_settings
from envspec.base.texts import printable
from envspec.prove.smoke.run.apptainer import Apptainer
from envspec.prove.smoke.run.case import Folders
from envspec.prove.smoke.run.docker import Docker, user_of
from envspec.prove.smoke.run.process import ask_program
from envspec.prove.smoke.run.runner import Local, Runner
from envspec.prove.smoke.run.site_builds import SiteBuilds


def make_runner(name: str, asked: SmokeRequest, folders: Folders) -> Runner:
    """Make the runner of this name. Raises ToolError where its program is missing and would run."""
    if name == "docker":
        engine = asked.engine or _first_in_path("docker", "podman")
        if engine is None and not asked.dry_run:
            raise ToolError("neither docker nor podman is in PATH", hint="install one, or use --runner apptainer")
        engine = engine or "docker"
        if engine == "docker" and not asked.image and not asked.dry_run:
            _need_buildx()
        user = user_of(engine, (os.getuid(), os.getgid()))
        return Docker(folders, engine, user, asked.image, site=SiteBuilds(load_settings(), os.environ))
    if name == "apptainer":
        program = _first_in_path("apptainer", "singularity")
        if program is None and not asked.dry_run:
            raise ToolError("neither apptainer nor singularity is in PATH", hint="on clusters: module load apptainer")
        sif = Path(os.path.abspath(asked.sif)) if asked.sif else None
        return Apptainer(folders, program or "apptainer", sif, site=SiteBuilds(load_settings(), os.environ))
    return Local(folders, ENVSPEC, asked.offline)


def _first_in_path(*programs: str) -> str | None:
    return next((program for program in programs if find_program(program, os.environ)), None)


def _need_buildx() -> None:
    """Test that docker can build the recipe. Raises ToolError where it can't."""
    done = ask_program(["docker", "buildx", "version"])
    if done.status:
        said = done.said.strip().splitlines()
        raise ToolError(
            f"docker has no buildx, which builds the image: {printable(said[0]) if said else 'docker gave no reason'}",
            hint="install docker's buildx plugin, use --engine podman, or name a built image with --image",
        )
