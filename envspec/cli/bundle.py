"""`envspec bundle`."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any

import click

from envspec.app.bundle import BundleRequest, make_bundle
from envspec.app.observer import interruption_says
from envspec.base.texts import byte_size
from envspec.cli import options
from envspec.cli.console import out, say, wants_json

EPILOG = """\b
Examples:
  envspec bundle specs/mm-v2.9.toml --target cpu -o mm-cpu.tar
  mkdir mm-cpu && tar xf mm-cpu.tar -C mm-cpu && sh mm-cpu/install.sh ~/envs/mm     (on the machine without internet)
  envspec bundle specs/mm-v2.9.toml --target cu128-hopper --build-wheels --with-base --base ./base -o mm.tar
  envspec bundle specs/mm-v2.9.toml --target cpu --since mm-cpu.tar -o mm-cpu-2.tar
"""


@click.command(epilog=EPILOG)
@options.spec
@options.target_option("The target to bundle; needed only when the lock has several.")
@click.option("--output", "-o", "output", type=click.Path(path_type=Path), required=True, help="The tar file to write.")
@click.option(
    "--since",
    metavar="OLD",
    type=click.Path(path_type=Path),
    help="An earlier bundle, its SHA256SUMS or its lock: leave out its files.",
)
@click.option(
    "--build-wheels",
    is_flag=True,
    help="Build wheels of locked sources here, so that the other machine compiles nothing.",
)
@click.option(
    "--with-base",
    is_flag=True,
    help="Add the image's base, with a definition for Apptainer that needs no network.",
)
@click.option(
    "--base",
    metavar="WHERE",
    help="That base: an OCI layout's folder, or an image's name with its digest [default: the spec's locked base].",
)
@options.locks_dir
@options.as_json
def command(**arguments: Any) -> int:
    """Put all files of a target into one tar, for a machine without internet

    envspec checks every file against its hash and looks through it. The tar holds the target's slice of the lock, the
    wheels (and conda packages), the lock's build of Python, the smoke check, and `install.sh`, which makes the
    environment without envspec and without a network. envspec prints the bundle's digest, which `install.sh --expect`
    takes.
    """
    request = BundleRequest(**arguments)
    with interruption_says("run the same command again to continue"):
        made = make_bundle(request)
    if wants_json():
        document = {
            "spec": request.path,
            "target": made.target,
            "file": request.output,
            "size": made.size,
            "files": made.files,
            "needed": made.needed,
            "digest": made.digest,
            "built": made.built,
            "base": made.base,
        }
        options.print_json("bundle", document)
        return 0
    elsewhere = f", {made.needed} more from {request.since}" if made.is_partial else ""
    out(f"{request.output}: {made.target}, {made.files} packages{elsewhere}, {byte_size(made.size)}")
    if made.base:
        out(f"base {made.base}")
    out(f"digest {made.digest}")
    old = " --with DIR" if made.is_partial else ""
    unpack = f"mkdir bundle && tar xf {quote(request.output.name)} -C bundle"
    say(f"hint: {unpack} && sh bundle/install.sh --expect {made.digest}{old} PREFIX")
    if made.build:
        say(f"hint: or an image: cd bundle && {made.build}")
    return 0
