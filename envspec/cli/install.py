"""`envspec install`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envspec.app.install import Installed, InstallRequest, install
from envspec.app.observer import interruption_says
from envspec.base.errors import InputError
from envspec.base.texts import plural, printable
from envspec.cli import options
from envspec.cli.console import out, say, style_text, wants_json

if TYPE_CHECKING:
    from envspec.install.model import Change

EPILOG = """\b
Examples:
  envspec install specs/mm-v2.9.toml --target cu128-hopper --prefix ~/envs/mm
  . ~/envs/mm/bin/activate                 (fish: source ~/envs/mm/bin/activate.fish)
  envspec install specs/mm-v2.9.toml --target cu128-hopper --prefix ~/envs/mm --dry-run
  envspec install specs/mm-v2.9.toml --target cu128-hopper --squashfs mm.sqfs
  envspec install specs/mm-v2.9.toml --target cu128-hopper      (for `envspec run`, before a job needs it)
"""

_SIGNS = {"install": ("+", "green"), "change": ("~", "yellow"), "repair": ("!", "yellow"), "remove": ("-", "red")}


@click.command(epilog=EPILOG)
@options.spec
@options.target_option(
    "The target to install [default: the only one; without --prefix, the one that `envspec run` takes]."
)
@click.option(
    "--prefix",
    "-p",
    type=click.Path(path_type=Path),
    help="The folder of the environment: new, empty, or made from this spec"
    " [default: the one that `envspec run` uses].",
)
@click.option(
    "--squashfs",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the environment as one file, with mksquashfs; --prefix is then its mount point.",
)
@click.option("--offline", is_flag=True, help="Use no network, only the caches.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@options.locks_dir
@options.quiet
@options.as_json
def command(squashfs: Path | None, dry_run: bool, **arguments: Any) -> int:
    """Install a locked target into a folder, every hash checked

    envspec brings a folder with an older state of the same spec up to date: it touches only what changed. The next run
    finishes an interrupted one. A run that finds everything in place changes nothing.
    """
    request = InstallRequest(**arguments, ask=not (dry_run or wants_json()))
    if squashfs is not None and dry_run:
        raise InputError("--dry-run shows what an installation changes, and --squashfs changes none", hint="give one")
    if squashfs is not None:
        from envspec.app.image.squashfs import install_squashfs

        with interruption_says("nothing was written; run the same command again"):
            file = install_squashfs(request, squashfs)
        if wants_json():
            options.print_json("install", {"spec": request.path, "target": file.target, "squashfs": file})
        else:
            for line in file.lines:
                out(line)
            say(f"hint: {file.start}")
        return 0
    with interruption_says("run the same command again to continue"):
        made = install(request, dry_run=dry_run)
    if wants_json():
        options.print_json("install", _document(request.path, made, dry_run=dry_run))
    else:
        _tell(made, dry_run=dry_run)
    return 0


def _tell(made: Installed, *, dry_run: bool) -> None:
    target, prefix, outcome = made.target, made.prefix, made.outcome
    for change in outcome.changes:
        sign, colour = _SIGNS[change.action]
        out(f"{style_text(sign, colour)} {_line(change)}")
    if outcome.status == "unchanged":
        out(f"{prefix} is {target.name} already: nothing to do")
        return
    counted = plural(len(target.pins), "package")
    if dry_run:
        out(f"{prefix} would be {outcome.status}: {target.name}, {counted}")
        return
    out(f"{outcome.status} {prefix}: {target.name}, {counted}")
    say(f"hint: . {shlex.quote(str(prefix / 'bin' / 'activate'))}")


def _line(change: Change) -> str:
    versions = " → ".join(text for text in (change.old, change.new) if text)
    if change.old == change.new:
        versions = f"{change.new} ({change.reason or 'another file'})"
    return printable(f"{change.kind:<5} {change.name} {versions}")


def _document(path: str, made: Installed, *, dry_run: bool) -> dict[str, object]:
    return {
        "spec": path,
        "target": made.target.name,
        "prefix": made.prefix,
        "dry_run": dry_run,
        "status": made.outcome.status,
        "packages": len(made.target.pins),
        "changes": made.outcome.changes,
        "warnings": made.outcome.warnings,
    }
