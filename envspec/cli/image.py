"""`envspec image`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from envspec.app.image.make import make_images
from envspec.app.image.prepare import ImageOrder, base_recipes, features, linux_targets
from envspec.app.image.verify import verify_image
from envspec.app.observer import interruption_says
from envspec.base.errors import InputError
from envspec.base.texts import byte_size, printable
from envspec.cli import options
from envspec.cli.console import out, say, wants_json

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
    help="Write the environment without the base as one file, with mksquashfs, for mounting or binding into an image.",
)
@click.option(
    "--base",
    metavar="WHERE",
    help="The base: an OCI layout's folder, or an image's name with its digest [default: the spec's locked base].",
)
@click.option(
    "--without",
    metavar="LIST",
    default="",
    help="Parts that the image may lack: compile, fabric, ssh, code-server.",
)
@click.option(
    "--compression",
    type=click.Choice(("zstd", "gzip")),
    default="zstd",
    show_default=True,
    help="The layers' compression.",
)
@click.option(
    "--build-sources",
    is_flag=True,
    help="Build wheels of locked sources here; other machines may then give another image.",
)
@click.option("--base-recipe", is_flag=True, help="Print a Dockerfile of a base for the target.")
@click.option("--verify", metavar="WHERE", help="Check that an image is this lock's, and make none.")
@options.offline
@options.locks_dir
@options.as_json
def command(
    path: str,
    targets: tuple[str, ...],
    locks_dir: Path | None,
    without: str,
    base_recipe: bool,
    verify: str | None,
    **arguments: Any,
) -> int:
    """Make an OCI image straight from a lock: no daemon, no root, nothing is run

    The same lock, base and envspec give the same image, by digest. Layers, from the bottom: the base, the user, Python,
    CUDA's libraries, torch, everything else, the spec's project, the carried files. Nothing is installed into the
    base, so it needs the Debian packages of the recipe: --base-recipe prints a Dockerfile for such a base.
    """
    left_out = features(without)
    order = ImageOrder(*linux_targets(path, targets, locks_dir), without=left_out, **arguments)
    if base_recipe:
        for text in base_recipes(order):
            out(text.rstrip("\n"))
        return 0
    if (verify, order.output, order.sif, order.squashfs) == (None, None, None, None):
        hint = "give -o DIR, -o FILE.tar, -o registry/name:tag, --sif, --squashfs or --verify"
        raise InputError("nothing is asked for", hint=hint)
    if verify is not None:
        return _verify(path, order, verify)
    with interruption_says("run the same command again; what isn't whole wasn't written"):
        made, squashfs_file = make_images(order)
    if wants_json():
        own = {"squashfs": squashfs_file} if squashfs_file else {}
        options.print_json("image", {"spec": path, **(made.document() if made else {}), **own})
        return 0
    for image in made.images if made else ():
        for layer in image.layers:
            out(f"{image.plan.target}: {layer.name:<8} {byte_size(layer.blob.size):>9}  {layer.diff_id}")
    for line in (*(made.lines if made else ()), *(squashfs_file.lines if squashfs_file else ())):
        out(line)
    if squashfs_file:
        say(f"hint: {squashfs_file.start}")
    return 0


def _verify(path: str, order: ImageOrder, where: str) -> int:
    """Compare an image with the lock, and print the differences. Return the exit code."""
    differences_by_target = verify_image(order, where)
    rows = [
        {"target": target, "differences": [finding.document for finding in findings]}
        for target, findings in differences_by_target.items()
    ]
    lines = [
        printable(f"{target}: {finding.message}  [{finding.code}]")
        for target in differences_by_target
        for finding in differences_by_target[target]
    ]
    same = [target for target, differences in differences_by_target.items() if not differences]
    lines += [f"{where} is the image of {path}, target {target}: every layer is the lock's" for target in same]
    options.answer("image", {"spec": path, "verified": {"image": where, "targets": rows}}, lines)
    return 1 if any(differences_by_target.values()) else 0
