"""A SIF, made by Apptainer from an image's archive. No writer of ours: Apptainer knows best what it reads."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from envspec.errors import ToolError
from envspec.redact import redact

_PROGRAMS = ("apptainer", "singularity")
_REPRODUCIBLE = "--reproducible"
_TOLD = 600


def build_sif(archive: Path, sif: Path, env: Mapping[str, str], epoch: int) -> bool:
    """Make the SIF of an OCI archive, by `--reproducible` where this Apptainer has it, and say whether it has. Raises
    ToolError."""
    program = next((found for name in _PROGRAMS if (found := shutil.which(name, path=env.get("PATH")))), None)
    if program is None:
        raise ToolError(
            "a SIF is made by Apptainer, and PATH has no apptainer or singularity",
            hint="leave out --sif, and run `apptainer build FILE.sif oci-archive:FILE.tar` where Apptainer is",
        )
    more = [_REPRODUCIBLE] if _REPRODUCIBLE in _said(program) else []
    command = [program, "build", *more, str(sif), f"oci-archive:{archive}"]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        # mksquashfs takes the times of its own tables from there
        env={**env, "SOURCE_DATE_EPOCH": str(epoch)},
        check=False,
    )
    if done.returncode or not sif.is_file():
        told = " ".join(redact(done.stderr).split())[-_TOLD:]
        raise ToolError(f"{os.path.basename(program)} can't build the SIF: {told}", hint="see what it needs here")
    return bool(more)


def _said(program: str) -> str:
    done = subprocess.run([program, "build", "--help"], capture_output=True, text=True, errors="replace", check=False)
    return done.stdout
