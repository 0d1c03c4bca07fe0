"""`envspec export`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from envspec.cli import options
from envspec.cli.export_files import no_longer_carried, write_files
from envspec.cli.export_formats import FORMATS, Format
from envspec.cli.file_urls import file_urls
from envspec.cli.main import say
from envspec.cli.progress import counting
from envspec.errors import InputError
from envspec.lock.judge import SoundLock
from envspec.lock.model import LockedTarget
from envspec.recipes import folder as recipes
from envspec.spec.model import Spec

EPILOG = """\b
Examples:
  envspec export specs/mm-v2.9.toml --target cpu --format requirements > requirements.txt
  envspec export specs/mm-v2.9.toml --format pylock --format requirements -o out/
  envspec export specs/hpc.toml --target cpu --format conda-env -o out/
  envspec export specs/mm-v2.9.toml --format all -o recipes/mm-v2.9
  envspec export specs/*.toml --format all -o recipes
"""

ALL = "all"
"""Every recipe that a target admits. The lock's own formats aren't among them: they have URLs, or stand beside the lock
already, or, like the SBOM, take long."""


@click.command(epilog=EPILOG)
@click.argument("paths", nargs=-1, required=True, metavar="SPEC...", shell_complete=options.complete("spec_paths"))
@options.target
@click.option(
    "--format",
    "-f",
    "formats",
    type=click.Choice([*FORMATS, *recipes.FORMATS, ALL]),
    multiple=True,
    required=True,
    help="The format; may be given several times. `all`: every recipe that a target admits.",
)
@click.option(
    "--output",
    "-o",
    metavar="DIR|-",
    default="-",
    help="Write DIR/<target>/<file>; `-` is stdout, for one target in one format.",
)
@click.option("--tree", is_flag=True, help="Write DIR/<spec>/<target>/<file>, as for several specs.")
@options.locks_dir
def command(
    paths: tuple[str, ...],
    targets: tuple[str, ...],
    formats: tuple[str, ...],
    output: str,
    tree: bool,
    locks_dir: Path | None,
) -> None:
    """Write locks in another tool's format, or as recipes: images, definitions, jobs.

    Taken from the lock and its spec alone, so nothing is resolved anew. pylock, conda-lock and conda-explicit give
    every file a URL and ask your own indexes for it; a file whose hash there isn't the lock's is refused. conda-env
    does so for pip packages that aren't on PyPI. The files that recipes share go into <target>/envspec/.
    """
    paths = tuple(dict.fromkeys(paths))
    if output == "-":
        _refuse_several_specs(paths)
    texts: dict[str, str] = {}
    for path in paths:
        spec, lock = options.read_lock(path, locks_dir)
        options.warn_if_stale(spec, lock)
        chosen = options.locked_targets(lock, targets)
        if output == "-":
            _refuse_several(path, chosen, formats)
        made = _files(spec, lock, chosen, formats)
        if output == "-":
            click.echo(next(iter(made.values())), nl=False)
            if len(made) > 1:
                say(f"note: it needs {len(made) - 1} more files: give them a folder with -o DIR")
            return
        texts.update({f"{lock.name}/{name}" if tree or len(paths) > 1 else name: made[name] for name in made})
    gone = no_longer_carried(Path(output), texts, paths)
    write_files(Path(output), texts, gone, paths)
    _tell(output, texts)


def _tell(output: str, texts: Mapping[str, str]) -> None:
    """Name the files; the many that recipes share only as folders."""
    shown = dict.fromkeys(
        f"{name.partition('/envspec/')[0]}/envspec" if "/envspec/" in name else name for name in texts
    )
    for name in shown:
        say(f"wrote {Path(output, name)}")


def _files(spec: Spec, lock: SoundLock, targets: Sequence[LockedTarget], names: Sequence[str]) -> dict[str, str]:
    """Texts by path, relative to the output folder: all of them before the first is written."""
    everything = ALL in names
    own = {name: FORMATS[name] for name in FORMATS if name in names}
    wanted = [name for name in recipes.FORMATS if name in names or everything]
    _refuse_without_conda(targets, own)
    made = _render(spec, lock, targets, tuple(own.values()))
    if not wanted:
        return made
    from envspec.lock.write import dumps
    from envspec.recipes.make import PLATFORMS, make_plan

    lock_text = dumps(lock)
    for target in targets:
        if everything and target.inputs.platform not in PLATFORMS:
            continue
        plan = make_plan(spec, lock, target, lock_text)
        rendered = recipes.admitted(plan, wanted) if everything else {n: recipes.render(plan, n) for n in wanted}
        rendered |= {name: recipes.render(plan, name) for name in names if name in recipes.FORMATS}
        files = {path: text for one in rendered.values() for path, text in one.items()}
        files |= recipes.carried(plan, rendered)
        made |= {f"{target.name}/{path}": text for path, text in files.items()}
    return made


def _refuse_several_specs(paths: Sequence[str]) -> None:
    if len(paths) > 1:
        raise InputError(f"{len(paths)} specs don't go into one file", hint="give them a folder with -o DIR")


def _refuse_several(path: str, targets: Sequence[LockedTarget], formats: Sequence[str]) -> None:
    if len(targets) > 1:
        names = ", ".join(target.name for target in targets)
        raise InputError(
            f"{len(targets)} targets don't go into one file: {names}",
            hint=f"choose one with --target {targets[0].name}, or give them a folder with -o DIR",
        )
    if len(set(formats)) > 1 or ALL in formats:
        count = "all" if ALL in formats else len(set(formats))
        raise InputError(f"{count} formats don't go into one file", hint="give them a folder with -o DIR")


def _refuse_without_conda(targets: Sequence[LockedTarget], formats: Mapping[str, Format]) -> None:
    without = [target.name for target in targets if all(pin.kind != "conda" for pin in target.pins)]
    names = [name for name, wanted in formats.items() if wanted.needs_conda]
    if without and names:
        raise InputError(
            f"{', '.join(names)} is for conda packages, and there are none in the target {', '.join(without)}",
            hint="choose targets with --target, or use --format requirements or --format pylock",
        )


def _render(spec: Spec, lock: SoundLock, targets: Sequence[LockedTarget], formats: Sequence[Format]) -> dict[str, str]:
    """Texts by path, relative to the output folder: all of them before the first is written."""
    pins = [pin for target in targets for pin in target.pins if any(wanted.wants_url(pin) for wanted in formats)]
    urls: Mapping[tuple[str, str], str] = {}
    if pins:
        with counting("asking the indexes") as on_page:
            urls = file_urls(pins, spec, os.environ, on_page)
    return {f"{t.name}/{wanted.file(t)}": wanted.render(lock, t, urls) for t in targets for wanted in formats}
