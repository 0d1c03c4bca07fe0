"""A SIF, made by Apptainer from an image's archive. No writer of ours: Apptainer knows best what it reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from envspec.base import programs
from envspec.base.errors import ToolError
from envspec.base.redact import redact

_PROGRAMS = ("apptainer", "singularity")
_REPRODUCIBLE = "--reproducible"
_TOLD = 600


def build_sif(archive: Path, sif: Path, env: Mapping[str, str], epoch: int) -> bool:
    """Make the SIF of an OCI archive, by `--reproducible` where this Apptainer has it, and say whether it has. Raises
    ToolError."""
    program = next(filter(None, (programs.find_program(name, env) for name in _PROGRAMS)), None)
    if program is None:
        raise ToolError(
            "a SIF is made by Apptainer, and PATH has no apptainer or singularity",
            hint="leave out --sif, and run `apptainer build FILE.sif oci-archive:FILE.tar` where Apptainer is",
        )
    more = [_REPRODUCIBLE] if _REPRODUCIBLE in _build_help(program, env) else []
    command = [program, "build", *more, str(sif.absolute()), f"oci-archive:{archive.absolute()}"]
    # mksquashfs takes the times of its own tables from there
    done = programs.run(command, {**env, "SOURCE_DATE_EPOCH": str(epoch)})
    if done.returncode or not sif.is_file():
        told = " ".join(redact(done.stderr.decode(errors="replace")).split())[-_TOLD:]
        raise ToolError(f"{os.path.basename(program)} can't build the SIF: {told}", hint="see what it needs here")
    return bool(more)


def _build_help(program: str, env: Mapping[str, str]) -> str:
    return programs.run([program, "build", "--help"], env).stdout.decode(errors="replace")
