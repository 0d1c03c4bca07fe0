"""A squashfs of a tree: one file, read-only, the same bytes for the same tree by the same mksquashfs.

No writer of ours: mksquashfs reads the tree as a tar from its stdin, so nothing is unpacked to a disk. A SIF is made
by Apptainer, from an image's archive.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base import programs
from envspec.base.errors import ToolError
from envspec.base.redact import redact
from envspec.export.plan import Plan
from envspec.export.sif import SIF_VARIABLES, environment_lines_on_base
from envspec.image.conda import LinkedPackages, history_entry
from envspec.image.layer import PROGRAM, LayerEntry, OnBytes, folder_entry, in_order, link_entry, tar_pieces, text_entry
from envspec.image.layers import LayerInputs, layer_plans, package_entries, project_entries
from envspec.image.wheel import Scheme
from envspec.install import activation
from envspec.install.collect import Paths
from envspec.install.prefix import FOLDER
from envspec.lock.model import LockedTarget
from envspec.lock.shared_paths import in_install_order

# An environment that stands on no base, as the entries of one tree: for a single file that is mounted or unpacked.
#
# Its Python is in it. Where pip's packages are all there is, the tree works at any path: the packages are the Python's
# own, not those of a virtual environment, whose `pyvenv.cfg` would name a path. Conda's packages name theirs.


MOUNT = "mount"
"""The note, beside the carried files, of the path where a tree works; `ANYWHERE` if it has none."""
ANYWHERE = "anywhere"
MOUNTER = "bin/envspec-mount"
"""The carried script that mounts the file that it lies in."""
_BROUGHT = re.compile(r"lib/python3\.\d+/site-packages/.*|bin/pip[\d.]*")
"""The package of a build of Python: its own pip, which no lock names."""


class TreeInputs(Struct, frozen=True):
    """The inputs of a tree.

    path     where it is going to be; it decides the content with conda packages alone
    build    the files of the build of Python below `path`; empty where conda brings it
    carried, wheels, conda, project, built: as of `envspec.image.layers.LayerInputs`
    """

    plan: Plan
    target: LockedTarget
    path: str
    build: Sequence[LayerEntry]
    carried: Mapping[str, str]
    wheels: Paths
    conda: LinkedPackages | None = None
    project: Path | None = None
    built: Mapping[str, tuple[Path, str]] = field(default_factory=dict)

    @property
    def scheme(self) -> Scheme:
        return Scheme(self.path, self.plan.runtime.python, anywhere=self.conda is None)


def tree_entries(inputs: TreeInputs) -> list[LayerEntry]:
    """List the entries of a tree from its own root, each below its folder. Raises InputError, IndexFailure."""
    root = f"{inputs.scheme.root}/"
    entries = [replace(entry, path=entry.path.removeprefix(root)) for entry in _first_entries(inputs)]
    tops = {PurePosixPath(entry.path).parts[0] for entry in entries if "/" in entry.path}
    return list(in_order([*map(folder_entry, sorted(tops)), *entries, *_own(inputs)]))


def overlay_entries(inputs: LayerInputs) -> list[LayerEntry]:
    """List the entries of what lies over a base: its layers in one tree, with a whiteout of overlayfs at each path
    that goes and doesn't come again, and the image's variables, which Apptainer reads from there."""
    variables = "".join(f"{line}\n" for line in environment_lines_on_base(inputs.plan))
    own = text_entry(SIF_VARIABLES, variables, PROGRAM)
    entries = [*(entry for layer in layer_plans(replace(inputs, gone=())) for entry in layer.entries()), own]
    added = {
        str(parent) for entry in entries for parent in (PurePosixPath(entry.path), *PurePosixPath(entry.path).parents)
    }
    entries += [LayerEntry(path, mode=0, gap=True) for path in inputs.gone if path not in added]
    tops = {PurePosixPath(entry.path).parts[0] for entry in entries}
    return list(in_order([*map(folder_entry, sorted(tops)), *entries]))


def _first_entries(inputs: TreeInputs) -> Iterator[LayerEntry]:
    """Give the entries of Python, the packages and the project, whose paths begin with the tree's."""
    scheme = inputs.scheme
    for entry in inputs.build:
        if not _BROUGHT.fullmatch(entry.path.removeprefix(f"{scheme.root}/")):
            yield entry
    if inputs.conda:
        yield history_entry(scheme.root)
    yield from package_entries(in_install_order(inputs.target), scheme, inputs.wheels, inputs.conda, inputs.built)
    if inputs.project:
        yield from project_entries(inputs.project, inputs.plan, scheme)


def _own(inputs: TreeInputs) -> Iterator[LayerEntry]:
    """Give what envspec adds: the carried files, the scripts that activate and mount, the note of the path."""
    folder = FOLDER.as_posix()
    for path, text in inputs.carried.items():
        yield text_entry(f"{folder}/{path}", text, PROGRAM)
    yield text_entry(f"{folder}/{MOUNT}", f"{inputs.path if inputs.conda else ANYWHERE}\n")
    yield text_entry(MOUNTER, files("envspec.carried").joinpath("mount.sh").read_bytes(), PROGRAM)
    if inputs.build:
        yield link_entry("bin/python3", f"python{inputs.plan.runtime.python}")
        yield link_entry("bin/python", f"python{inputs.plan.runtime.python}")
    place = Path(inputs.path) if inputs.conda else None
    for path, text in activation.scripts(place, inputs.plan.spec, conda=inputs.conda is not None).items():
        yield text_entry(path, activation.without_writer(text))


MKSQUASHFS = "mksquashfs"
_LEAST = (4, 5)
"""The first squashfs-tools whose mksquashfs reads a tar (their CHANGES)."""
_OPTIONS = {"zstd": ("-comp", "zstd", "-Xcompression-level", "3"), "gzip": ("-comp", "gzip")}
"""mksquashfs' options for the compression of blocks, by one of `compress.KINDS`."""
_BLOCK = "131072"
_SHOWN_CHARACTERS = 600
_GET = "install squashfs-tools 4.5 or newer (apt install squashfs-tools; on conda-forge: squashfs-tools)"


def find_mksquashfs(env: Mapping[str, str]) -> str:
    """Find a mksquashfs that reads a tar. Raises ToolError."""
    program = programs.find_program(MKSQUASHFS, env)
    if program is None:
        raise ToolError(f"a squashfs is written by {MKSQUASHFS}, and PATH has none", hint=_GET)
    output = programs.run([program, "-version"], env).stdout.decode(errors="replace")
    match = re.match(r"mksquashfs version (\d+)\.(\d+)", output)
    if match and (int(match[1]), int(match[2])) < _LEAST:
        raise ToolError(f"{program} is of squashfs-tools {match[1]}.{match[2]}, which reads no tar", hint=_GET)
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
    with tempfile.TemporaryFile() as output:
        streams = programs.Streams(subprocess.PIPE, stdout=output, stderr=output)
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
            output.seek(0)
            message = " ".join(redact(output.read().decode("utf-8", "replace")).split())[-_SHOWN_CHARACTERS:]
            raise ToolError(f"{MKSQUASHFS} can't write the file: {message}", hint=f"see what it needs here, or {_GET}")


_PROGRAMS = ("apptainer", "singularity")
_REPRODUCIBLE = "--reproducible"


def build_sif(archive: Path, sif: Path, env: Mapping[str, str], epoch: int) -> bool:
    """Make the SIF of an OCI archive, by `--reproducible` where this Apptainer has it; returns whether it has. Raises
    ToolError."""
    program = next(filter(None, (programs.find_program(name, env) for name in _PROGRAMS)), None)
    if program is None:
        hint = "leave out --sif, and run `apptainer build FILE.sif oci-archive:FILE.tar` where Apptainer is"
        raise ToolError("a SIF is made by Apptainer, and PATH has no apptainer or singularity", hint=hint)
    more = [_REPRODUCIBLE] if _REPRODUCIBLE in _build_help(program, env) else []
    command = [program, "build", *more, str(sif.absolute()), f"oci-archive:{archive.absolute()}"]
    # mksquashfs takes the times of its own tables from there
    done = programs.run(command, {**env, "SOURCE_DATE_EPOCH": str(epoch)})
    if done.returncode or not sif.is_file():
        message = " ".join(redact(done.stderr.decode(errors="replace")).split())[-_SHOWN_CHARACTERS:]
        raise ToolError(f"{os.path.basename(program)} can't build the SIF: {message}", hint="see what it needs here")
    return bool(more)


def _build_help(program: str, env: Mapping[str, str]) -> str:
    return programs.run([program, "build", "--help"], env).stdout.decode(errors="replace")
