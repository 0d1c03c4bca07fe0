"""A squashfs of a tree: one file, read-only, the same bytes for the same tree by the same mksquashfs.

No writer of ours: mksquashfs reads the tree as a tar from its stdin, so nothing is unpacked to a disk. A SIF is made
by Apptainer, from an image's archive.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

from envspec.base import programs
from envspec.base.errors import ToolError
from envspec.base.redact import redact
from envspec.image.layer import LayerEntry, OnBytes, tar_pieces

PROGRAM = "mksquashfs"
_LEAST = (4, 5)
"""The first squashfs-tools whose mksquashfs reads a tar (their CHANGES)."""
_OPTIONS = {"zstd": ("-comp", "zstd", "-Xcompression-level", "3"), "gzip": ("-comp", "gzip")}
"""What packs the blocks, by one of `compress.KINDS`."""
_BLOCK = "131072"
_TOLD = 600
_GET = "install squashfs-tools 4.5 or newer (apt install squashfs-tools; on conda-forge: squashfs-tools)"


def find_mksquashfs(env: Mapping[str, str]) -> str:
    """Find a mksquashfs that reads a tar. Raises ToolError."""
    program = programs.find_program(PROGRAM, env)
    if program is None:
        raise ToolError(f"a squashfs is written by {PROGRAM}, and PATH has none", hint=_GET)
    said = programs.run([program, "-version"], env).stdout.decode(errors="replace")
    found = re.match(r"mksquashfs version (\d+)\.(\d+)", said)
    if found and (int(found[1]), int(found[2])) < _LEAST:
        raise ToolError(f"{program} is of squashfs-tools {found[1]}.{found[2]}, which reads no tar", hint=_GET)
    return program


def write_squashfs(
    program: str,
    entries: Iterable[LayerEntry],
    out: BinaryIO,
    kind: str,
    epoch: int,
    env: Mapping[str, str],
    on_bytes: OnBytes = lambda count: None,
) -> None:
    """Write entries into an open, empty file by a mksquashfs: sorted, owned by root, `epoch` as the time of all. `kind`
    is one of `compress.KINDS`. Raises ToolError, OSError."""
    time = str(epoch)
    command = [
        *(program, "-", f"/dev/fd/{out.fileno()}", "-tar", "-noappend", "-quiet", "-no-progress", "-reproducible"),
        *("-all-root", "-root-mode", "0755", "-no-xattrs", "-mkfs-time", time, "-all-time", time, "-b", _BLOCK),
        *_OPTIONS[kind],
    ]
    # mksquashfs refuses its own options for times beside the variable
    own = {name: value for name, value in env.items() if name != "SOURCE_DATE_EPOCH"}
    with tempfile.TemporaryFile() as said:
        streams = programs.Streams(subprocess.PIPE, stdout=said, stderr=said)
        with programs.start(command, own, streams=streams, pass_fds=(out.fileno(),)) as running:
            assert running.stdin is not None
            try:
                for piece in tar_pieces(entries, epoch):
                    running.stdin.write(piece)
                    on_bytes(len(piece))
                running.stdin.close()
            except BrokenPipeError:
                pass
            except BaseException:
                running.kill()
                raise
        if running.returncode or not os.fstat(out.fileno()).st_size:
            said.seek(0)
            told = " ".join(redact(said.read().decode("utf-8", "replace")).split())[-_TOLD:]
            raise ToolError(f"{PROGRAM} can't write the file: {told}", hint=f"see what it needs here, or {_GET}")


_PROGRAMS = ("apptainer", "singularity")
_REPRODUCIBLE = "--reproducible"


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
