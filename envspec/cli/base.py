"""`envspec base`."""

from __future__ import annotations

import platform as machine
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from envspec.app.base import compare_bases, read_base
from envspec.app.outputs import write_text
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.console import out, say, wants_json
from envspec.cli.table import align

if TYPE_CHECKING:
    from envspec.lock.inventory import Difference

EPILOG = """\b
Examples:
  envspec base read nvcr.io/nvidia/pytorch:25.09-py3 -o bases/ngc-25.09.toml
  envspec base read pytorch.sif
  envspec base diff bases/ngc-25.09.toml bases/ngc-25.12.toml
"""


@click.group(epilog=EPILOG)
def command() -> None:
    """Show the contents of a base: a vendor's image, a centre's SIF, prefix or module

    A base has a Python, packages, often a torch built for its machines. envspec reads the base's files and runs none of
    its code.
    """


@command.command()
@click.argument("base", metavar="IMAGE|SIF|FOLDER")
@click.option(
    "--platform", metavar="SUBDIR", help="The image's platform, linux-64 or linux-aarch64: else this machine's."
)
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write the inventory here.")
@options.offline
@options.as_json
def read(base: str, platform: str | None, output: Path | None, offline: bool) -> int:
    """Read a base's Python, packages, C library, CUDA libraries and their environment variables

    BASE is an image's name in a registry, an OCI layout's folder or tar, a SIF (FILE.sif), a system's root folder, or
    the folder of an environment: a virtual environment's or conda's prefix. The inventory is TOML with a line a
    package; -o writes it.
    """
    arm = machine.machine().lower() in ("aarch64", "arm64")
    inventory = read_base(base, platform or ("linux-aarch64" if arm else "linux-64"), offline=offline)
    if output:
        write_text(output, inventory.text)
    if wants_json():
        options.print_json("base", {"inventory": asdict(inventory)})
    elif output:
        say(f"wrote {output}: {inventory.summary}")
    else:
        out(inventory.text.rstrip("\n"))
    return 0


@command.command()
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@options.as_json
def diff(old: Path, new: Path) -> int:
    """Compare the inventories in two files, such as of two tags of a vendor's image"""
    summary, differences = compare_bases(old, new)
    lines = [*([printable(summary)] if summary else []), *_lines(differences)]
    options.answer(
        "base", {"differences": [asdict(difference) for difference in differences]}, lines or ["no difference"]
    )
    return 0


def _lines(differences: tuple[Difference, ...]) -> Iterator[str]:
    for part in dict.fromkeys(difference.part for difference in differences):
        own = [difference for difference in differences if difference.part == part]
        if part not in ("python", "glibc", "digest", "platform", "executable"):
            yield f"{part}:"
        yield from align(
            [
                (f"  {printable(difference.name)}" if part != difference.name else part, _change(difference))
                for difference in own
            ]
        )


def _change(difference: Difference) -> str:
    if difference.part in ("constraints", "folders"):
        return "new" if difference.old is None else "gone"
    if difference.old is None:
        return f"new: {printable(difference.new or '')}"
    return (
        f"{printable(difference.old)} -> {printable(difference.new)}"
        if difference.new is not None
        else f"gone: {printable(difference.old)}"
    )
