"""`envspec image`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envspec.app import inputs
from envspec.app.cache_size import keep_bounded
from envspec.base.errors import InputError
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.console import out, say

if TYPE_CHECKING:
    from envspec.app.image.make import MadeImage
    from envspec.app.image.prepare import ImageOrder
    from envspec.app.image.squashfs import MadeSquashfs
    from envspec.lock.judge import SoundLock
    from envspec.lock.model import LockedTarget

EPILOG = """\b
Examples:
  envspec image specs/mm-v2.9.toml --target cu128-hopper -o mm.tar
  envspec image specs/mm-v2.9.toml --target cu128-hopper -o registry.example/team/mm:2.9
  envspec image specs/mm-v2.9.toml --target cpu --base ./base --without compile -o ./mm-cpu --sif mm-cpu.sif
  envspec image specs/mm-v2.9.toml --target cu128-hopper --squashfs mm.sqfs
  envspec image specs/mm-v2.9.toml --target cpu --base-recipe > Dockerfile
  envspec image specs/mm-v2.9.toml --target cpu --verify registry.example/team/mm:2.9
"""


@click.command(epilog=EPILOG)
@options.spec
@options.target
@click.option(
    "--output", "-o", metavar="WHERE", help="A folder (an OCI layout), FILE.tar, or registry/name:tag to push to."
)
@click.option("--sif", type=click.Path(path_type=Path), metavar="FILE", help="Also make a SIF, with Apptainer.")
@click.option(
    "--squashfs",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the environment without the base as one file, with mksquashfs: to be mounted, or bound into an image.",
)
@click.option(
    "--base",
    metavar="WHERE",
    help="The base: an OCI layout's folder, or an image's name with its digest [default: the spec's, as locked].",
)
@click.option(
    "--without",
    metavar="LIST",
    default="",
    help="What the image may lack: compile, fabric, ssh, code-server.",
)
@click.option(
    "--compression",
    type=click.Choice(("zstd", "gzip")),
    default="zstd",
    show_default=True,
    help="How layers are packed.",
)
@click.option(
    "--build-sources",
    is_flag=True,
    help="Build wheels of what is locked as source here; other machines may then give another image.",
)
@click.option("--base-recipe", is_flag=True, help="Print a Dockerfile of a base that the target can stand on.")
@click.option("--verify", metavar="WHERE", help="Say whether an image is this lock's, and make none.")
@options.offline
@options.locks_dir
@options.as_json
def command(
    path: str,
    targets: tuple[str, ...],
    output: str | None,
    sif: Path | None,
    squashfs: Path | None,
    base: str | None,
    without: str,
    compression: str,
    build_sources: bool,
    base_recipe: bool,
    verify: str | None,
    offline: bool,
    locks_dir: Path | None,
    as_json: bool,
) -> int:
    """Make an OCI image straight from a lock: no daemon, no root, nothing is run

    The same lock, base and envspec give the same image, by digest. Layers, from the bottom: the base, the user, Python,
    CUDA's libraries, torch, everything else, the spec's project, the carried files. Nothing is installed into the
    base, so it has to have the Debian packages of the recipe: --base-recipe prints one that does.
    """
    left_out = _features(without)
    spec, lock = inputs.read_lock(path, locks_dir)
    inputs.warn_if_stale(spec, lock)
    chosen = _chosen(lock, targets)
    if base_recipe:
        from envspec.export.make import make_plan
        from envspec.image.requirements import base_recipe as rendered

        for target in chosen:
            out(rendered(make_plan(spec, lock, target)).rstrip("\n"))
        return 0
    if (verify, output, sif, squashfs) == (None, None, None, None):
        hint = "give -o DIR, -o FILE.tar, -o registry/name:tag, --sif, --squashfs or --verify"
        raise InputError("nothing is asked for", hint=hint)
    from envspec.app.image.memory import share_arenas
    from envspec.app.image.prepare import ImageOrder
    from envspec.app.policy import refuse_fetched

    share_arenas()

    for kind, file in (("SIF", sif), ("squashfs", squashfs)):
        if file is not None and len(chosen) > 1:
            raise InputError(f"a {kind} is for one platform", hint=f"choose with --target {chosen[0].name}")
    for target in chosen:
        refuse_fetched(spec, lock, target, path, offline=offline)
    order = ImageOrder(
        spec=spec,
        lock=lock,
        targets=chosen,
        output=output,
        sif=sif,
        base=base,
        without=left_out,
        compression=compression,
        build_sources=build_sources,
        offline=offline,
    )
    if verify is not None:
        return _verify(path, order, verify, as_json=as_json)
    try:
        made = _image(order) if output is not None or sif is not None else None
        one_file = _squashfs(order, squashfs) if squashfs is not None else None
    except KeyboardInterrupt:
        say("interrupted: run the same command again; what isn't whole wasn't written")
        return 130
    keep_bounded()
    _tell(path, made, one_file, as_json=as_json)
    return 0


def _image(order: ImageOrder) -> MadeImage:
    from envspec.app.image.make import make_image

    with ExitStack() as stack:
        return make_image(order, stack)


def _squashfs(order: ImageOrder, file: Path) -> MadeSquashfs:
    from envspec.app.image.squashfs import make_squashfs

    return make_squashfs(order, file)


def _verify(path: str, order: ImageOrder, where: str, *, as_json: bool) -> int:
    """Compare an image with the lock, and say how it differs. Gives the exit code."""
    from envspec.app.image.verify import verified

    found = verified(order, where)
    if as_json:
        rows = [
            {"target": target, "differences": [{"code": one.code, "message": one.message} for one in differences]}
            for target, differences in found.items()
        ]
        options.print_json("image", {"spec": path, "verified": {"image": where, "targets": rows}})
    else:
        for target, differences in found.items():
            for one in differences:
                out(printable(f"{target}: {one.message}  [{one.code}]"))
            if not differences:
                out(f"{where} is the image of {path}, target {target}: every layer is the lock's")
    return 1 if any(found.values()) else 0


def _features(text: str) -> tuple[str, ...]:
    from envspec.image.requirements import FEATURES

    found = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in found:
        if name not in FEATURES:
            raise InputError(f"--without knows no `{name}`", hint=f"it takes {', '.join(FEATURES)}, split by commas")
    return found


def _chosen(lock: SoundLock, names: Iterable[str]) -> tuple[LockedTarget, ...]:
    """Pick the targets: the named ones, or all of Linux where each is for another platform. Raises InputError."""
    named = tuple(names)
    found = inputs.locked_targets(lock, named)
    if not named:
        found = tuple(target for target in found if target.inputs.platform.startswith("linux-")) or found
    platforms = [target.inputs.platform for target in found]
    if len(set(platforms)) < len(platforms):
        told = ", ".join(target.name for target in found)
        raise InputError(
            f"an image has one target for each platform, and these are more: {told}",
            hint=f"choose with --target {found[0].name}",
        )
    return found


def _tell(path: str, made: MadeImage | None, one_file: MadeSquashfs | None, *, as_json: bool) -> None:
    if as_json:
        own = {"squashfs": one_file.document()} if one_file else {}
        options.print_json("image", {"spec": path, **(made.document() if made else {}), **own})
        return
    from envspec.base.texts import byte_size

    for image in made.images if made else ():
        for layer in image.layers:
            out(f"{image.plan.target}: {layer.name:<8} {byte_size(layer.blob.size):>9}  {layer.diff_id}")
    if made:
        for line in (*made.told, f"digest {made.top.digest}"):
            out(line)
    if one_file:
        from envspec.cli.squashfs import tell

        tell(one_file)
