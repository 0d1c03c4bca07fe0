"""`envspec export`."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envspec.app import inputs
from envspec.app.export.recipes import Superseded, earlier_files, tell_missing_pins, write_files
from envspec.app.export.render import ALL, CHOICES, FORMATS, PROJECTS, render_files
from envspec.app.unmerged import take_in_command, unmerged_files
from envspec.base.errors import InputError
from envspec.cli import options
from envspec.cli.console import out_file, say, warn
from envspec.export import folder as recipes

if TYPE_CHECKING:
    from envspec.export.plan import SpecPlan
    from envspec.lock.model import LockedTarget
    from envspec.spec.model import Spec

EPILOG = """\b
Examples:
  envspec export specs/mm-v2.9.toml --target cpu --format requirements > requirements.txt
  envspec export specs/mm-v2.9.toml --format pylock --format requirements -o out/
  envspec export specs/hpc.toml --target cpu --format conda-env -o out/
  envspec export specs/mm-v2.9.toml --format uv-project -o ../mm
  envspec export specs/mm-v2.9.toml --format all -o recipes/mm-v2.9
  envspec export specs/*.toml --format all -o recipes
"""

_ENVIRONMENTS = (*(name for name in FORMATS if name != "sbom"), *PROJECTS, "nix", "lmod")
"""The values of --format that make or enter an environment beside the machine's own driver, and no image."""


@click.command(epilog=EPILOG)
@options.default_spec("[SPEC...]", nargs=-1)
@options.target
@click.option(
    "--format",
    "-f",
    "formats",
    type=click.Choice(CHOICES),
    metavar="FORMAT",
    multiple=True,
    required=True,
    help=f"The format; may be given several times: {', '.join(CHOICES)}. `all`: every recipe that a target admits.",
)
@click.option(
    "--output",
    "-o",
    metavar="DIR|-",
    default="-",
    help="The folder of the recipes; a lock's own format goes to DIR/<target>/<file>. `-` is stdout, for one file.",
)
@click.option("--tree", is_flag=True, help="Write into DIR/<spec>/, also for one spec.")
@click.option("--require-pinned", is_flag=True, help="Write nothing if a recipe has an unpinned part.")
@options.locks_dir
def command(
    paths: tuple[str, ...],
    targets: tuple[str, ...],
    formats: tuple[str, ...],
    output: str,
    tree: bool,
    require_pinned: bool,
    locks_dir: Path | None,
) -> None:
    """Write locks in another tool's format, or as recipes: images, definitions, jobs

    The output comes from the lock and its spec alone: envspec resolves nothing. pylock, conda-lock and conda-explicit
    contain the URL of every file. envspec gets the URLs from your own indexes and refuses a file whose hash there
    differs from the lock's. conda-env does the same for pip packages that aren't on PyPI.

    uv-project (a pyproject.toml) and pixi (a pixi.toml) give the spec's intent to uv and pixi, for all targets in one
    file, with the lock's pins as bounds. Other keys become comments in the file and lines on stderr.

    DIR is one complete build context: it holds the targets' shared files, and a folder for each target's own files.
    If DIR is the repository's recipes/<spec>, the build context is recipes/, whose _shared has the files of all specs,
    and development containers go to .devcontainer/ in the repository. envspec removes unused files of earlier exports.
    A warning names each part of the recipes that isn't pinned.
    """
    paths = tuple(dict.fromkeys(paths))
    if output == "-" and len(paths) > 1:
        raise InputError(f"{len(paths)} specs don't fit into one file", hint="write them into a folder with -o DIR")
    texts: dict[str, str] = {}
    superseded: list[Callable[[], Superseded]] = []
    of: dict[str, str] = {}
    plans: list[tuple[str, SpecPlan, Mapping[str, str]]] = []
    for path in paths:
        spec, lock = inputs.read_lock(path, locks_dir, on_base=True)
        chosen = inputs.locked_targets(lock, targets)
        folder = lock.name if tree or len(paths) > 1 else "."
        if output == "-":
            _refuse_several(chosen, formats)
        _tell_lacking_compat(spec, chosen, formats)
        made, plan = render_files(spec, lock, chosen, formats, _place(spec, Path(output, folder), locks_dir), warn)
        if plan:
            names = set(recipes.RECIPES if ALL in formats else formats)
            if Path(output, folder, "flake.lock").is_file():
                names.discard("nix")
            tell_missing_pins(path, plan, {target.name for target in chosen}, names, required=require_pinned)
        if output == "-":
            out_file(next(iter(made.values())))
            if len(made) > 1:
                more = "1 more file" if len(made) == 2 else f"{len(made) - 1} more files"
                say(f"note: the recipe needs {more}: write all of them with -o DIR")
            return
        named = {os.path.normpath(f"{folder}/{name}"): text for name, text in made.items()}
        # the specs of a repository's recipes/ share files of one text
        own = (name for name, text in named.items() if texts.get(name) != text)
        _refuse_twins(path, (os.path.normpath(f"{output}/{name}") for name in own), of)
        texts |= named
        if plan:
            plans.append((folder, plan, made))
            superseded.append(partial(_earlier_files, plan, output, folder, {target.name for target in chosen}, made))
    for name in write_files(Path(output), texts, superseded, paths):
        say(f"removed {os.path.normpath(f'{output}/{name}')}")
    _tell(output, texts)
    unmerged = unmerged_files() if plans else frozenset()
    for folder, _, _ in plans:
        if take_in := take_in_command(unmerged, Path(output, folder)):
            say(f"hint: {take_in}")
    if plans:
        from envspec.app.export.at_site import tell_site

        for folder, of_folder, written in plans:
            tell_site(output, folder, of_folder, written)


def _tell_lacking_compat(spec: Spec, targets: Sequence[LockedTarget], formats: Sequence[str]) -> None:
    for name in _ENVIRONMENTS:
        if name in formats or (ALL in formats and name in recipes.RECIPES):
            # a flake leaves out targets with conda's packages
            of = [target for target in targets if name != "nix" or all(pin.kind == "pip" for pin in target.pins)]
            inputs.tell_lacking_compat(spec, of, f"the environment of {name}")


def _place(spec: Spec, folder: Path, locks_dir: Path | None) -> str:
    """Give a folder's path from the one that editors open: the repository of a spec's own folder, else itself."""
    own = inputs.recipes_of(spec, locks_dir)
    return recipes.place_of(spec.name) if os.path.abspath(own) == os.path.abspath(folder) else "."


def _earlier_files(
    plan: SpecPlan, output: str, folder: str, targets: Container[str], made: Mapping[str, str]
) -> Superseded:
    """Find what becomes of earlier exports' files in a spec's folder below the named one."""

    return earlier_files(plan, Path(output, folder), targets, made).below(folder)


def _tell(output: str, texts: Mapping[str, str]) -> None:
    """Name the written files; shared files appear as their folders."""
    for name in dict.fromkeys(map(_display_name, texts)):
        say(f"wrote {os.path.normpath(Path(output, name))}")


def _display_name(name: str) -> str:
    for folder in recipes.SHARED:
        above, separator, _ = f"/{name}".partition(f"/{posixpath.basename(folder)}/")
        if separator:
            return f"{above}/{posixpath.basename(folder)}".lstrip("/")
    return name


def _refuse_twins(path: str, names: Iterable[str], of: dict[str, str]) -> None:
    """Refuse two specs with the same file. `of` holds the owner of each file so far."""
    for name in names:
        if of.setdefault(name, path) != path:
            hint = "give one of the specs, or its target, another name"
            raise InputError(f"{of[name]} and {path} would both be written to {name}", hint=hint)


def _refuse_several(targets: Sequence[LockedTarget], formats: Sequence[str]) -> None:
    if len(targets) > 1 and not set(formats) <= {*recipes.OF_A_SPEC, *PROJECTS}:
        names = ", ".join(target.name for target in targets)
        hint = f"choose one with --target {targets[0].name}, or write them into a folder with -o DIR"
        raise InputError(f"{len(targets)} targets don't fit into one file: {names}", hint=hint)
    if len(set(formats)) > 1 or ALL in formats:
        count = "all" if ALL in formats else len(set(formats))
        raise InputError(f"{count} formats don't fit into one file", hint="write them into a folder with -o DIR")
