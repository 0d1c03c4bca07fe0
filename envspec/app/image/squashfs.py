"""One file with a target's environment, a squashfs, as `envspec image` and `envspec install` order it."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from envspec.app import inputs
from envspec.app.cache_size import prune_to_limit
from envspec.app.collecting import collect_wheels
from envspec.app.image.base import open_base
from envspec.app.image.prepare import (
    ImageOrder,
    contents_on_base,
    fetch_python,
    linked_packages,
    own_project,
    source_wheels,
)
from envspec.app.install import InstallRequest, permit_target
from envspec.app.observer import observer
from envspec.app.outputs import open_output
from envspec.app.own_project import refuse_newer_glibc
from envspec.base.errors import InputError
from envspec.base.progress import Progress
from envspec.base.texts import byte_size
from envspec.export.make import make_plan
from envspec.export.plan import ENVIRONMENT, EPOCH, Plan
from envspec.image.layer import LayerEntry
from envspec.image.python import standalone_python
from envspec.image.squashfs import MOUNTER, TreeInputs, find_mksquashfs, overlay_entries, tree_entries, write_squashfs
from envspec.install.prefix import checked_prefix
from envspec.lock.formats.sbom import sbom
from envspec.lock.model import LockedTarget

OPTION = "--squashfs"
BILL = "sbom.cdx.json"
"""The bill of materials among the carried files."""
_PIECE = 1 << 20


class MadeSquashfs(Struct, frozen=True):
    """A squashfs that was written: its `inside` entries, bytes and digest ("sha256:…"), and the path that its content
    names; None where it works at any. `start` starts Python in it."""

    file: Path
    target: str
    packages: int
    inside: int
    size: int
    digest: str
    at: str | None
    start: str

    @property
    def lines(self) -> tuple[str, str]:
        """A line of its content, and its digest."""
        where = f", for {self.at} alone" if self.at else ""
        what = f"{self.target}, {self.packages} packages, {self.inside:,} files and folders in one{where}"
        return f"{self.file}: {what}, {byte_size(self.size)}", f"digest {self.digest}"


def make_squashfs(order: ImageOrder, file: Path, path: str = ENVIRONMENT) -> MadeSquashfs:
    """Write the file of the order's only target; `path` is where it is going to be. Raises InputError, IndexFailure,
    ToolError, StorageError."""
    (target,) = order.targets
    if not target.inputs.platform.startswith("linux-"):
        message = f"{target.name} is for {target.inputs.platform}, and a squashfs is mounted on Linux"
        raise InputError(message, hint="choose a target of Linux with --target")
    program = find_mksquashfs(os.environ)
    plan = make_plan(order.spec, order.lock, target)
    with ExitStack() as stack:
        progress = stack.enter_context(observer().progress())
        if plan.runtime.on_base:
            opened_base = open_base(plan, order.base, progress.came, offline=order.offline)
            content = contents_on_base(order, target, plan, lambda: stack.enter_context(opened_base))
            entries, at = overlay_entries(content), None
        else:
            tree = _inputs(order, target, plan, path, progress, stack)
            entries, at = tree_entries(tree), path if tree.conda else None
        progress.phase(f"writing {file}")
        with open_output(file, OPTION, [order.spec.path]) as opened:
            write_squashfs(program, entries, opened, order.compression, EPOCH, os.environ, progress.came)
            size, digest = _measure(opened.fileno())
    return MadeSquashfs(
        file, target.name, len(target.pins), len(entries), size, digest, at, _start(order, plan, file, at)
    )


def _start(order: ImageOrder, plan: Plan, file: Path, at: str | None) -> str:
    """Give the command that starts Python in a squashfs."""
    quoted = shlex.quote(str(file))
    if plan.runtime.on_base:
        of_spec = os.path.join(os.path.dirname(order.spec.path), plan.image.base.name)
        base = f"docker://{plan.image.base.pinned}" if plan.runtime.on_base.kind == "image" else of_spec
        return f"apptainer exec --overlay {quoted}:ro {shlex.quote(base)} {plan.runtime.on_base.python}"
    where = f" --at {shlex.quote(at)}" if at else ""
    return f"unsquashfs -cat {quoted} {MOUNTER} >envspec-mount && bash envspec-mount{where} {quoted} python"


def _inputs(
    order: ImageOrder, target: LockedTarget, plan: Plan, path: str, progress: Progress, stack: ExitStack
) -> TreeInputs:
    built = source_wheels(order, target, stack)
    refuse_newer_glibc(target, {name: path for name, (path, _) in built.items()})
    wheels = [pin for pin in target.pins if pin.kind == "pip" and pin.name not in built]
    files = collect_wheels(order.spec, target, wheels, offline=order.offline)
    carried = {**plan.image.carried, BILL: sbom(order.lock, target)}
    conda = linked_packages(order, target, progress, stack, path)
    build: Sequence[LayerEntry] = ()
    if not target.pin("python", "conda"):
        build = fetch_python(order, standalone_python(plan, order.lock.python(target)), path, stack)
    return TreeInputs(plan, target, path, build, carried, files, conda, own_project(order, target, stack), built)


def _measure(file: int) -> tuple[int, str]:
    """Take the size and the digest of an open file, which another program wrote."""
    digest, at = hashlib.sha256(), 0
    while piece := os.pread(file, _PIECE, at):
        digest.update(piece)
        at += len(piece)
    return at, f"sha256:{digest.hexdigest()}"


def install_squashfs(request: InstallRequest, file: Path) -> MadeSquashfs:
    """Write a target's environment as one squashfs file, to be mounted at the request's prefix. This machine builds the
    packages that are locked as sources. Raises EnvspecError."""
    spec, lock = inputs.read_lock(request.path, request.locks_dir)
    target = permit_target(request, spec, lock, inputs.pick_target(lock, request.target))
    order = ImageOrder(spec, lock, (target,), build_sources=True, offline=request.offline)
    made = make_squashfs(order, file, str(checked_prefix(request.prefix)) if request.prefix else ENVIRONMENT)
    prune_to_limit()
    return made
