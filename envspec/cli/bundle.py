"""`envspec bundle`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envspec.cli import inputs, options
from envspec.cli.console import out, say, warn
from envspec.cli.export.file_urls import file_urls
from envspec.cli.outputs import written
from envspec.cli.progress import bars
from envspec.texts import byte_size

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from envspec.install.collect import Paths
    from envspec.lock.judge import SoundLock
    from envspec.lock.model import LockedTarget, Pin
    from envspec.spec.model import Spec

EPILOG = """\b
Examples:
  envspec bundle specs/mm-v2.9.toml --target cpu -o mm-cpu.tar
  tar xf mm-cpu.tar && sh install.sh ~/envs/mm       (on the machine without internet)
"""


@click.command(epilog=EPILOG)
@options.spec
@click.option(
    "--target",
    "-t",
    metavar="NAME",
    shell_complete=options.complete("target_names"),
    help="The target to bundle; needed only when the lock has several.",
)
@click.option("--output", "-o", "output", type=click.Path(path_type=Path), required=True, help="The tar file to write.")
@options.locks_dir
@options.as_json
def command(path: str, target: str | None, output: Path, locks_dir: Path | None, as_json: bool) -> int:
    """Put all files of a target into one tar, for a machine without internet.

    envspec checks every file against its hash. The tar holds the target's slice of the lock, the wheels (and conda
    packages), the smoke check, and `install.sh`, which makes the environment without envspec and without a network.
    """
    from envspec.install.bundle import write_bundle
    from envspec.install.collect import refuse_git

    spec, lock = inputs.read_lock(path, locks_dir)
    inputs.warn_if_stale(spec, lock)
    chosen = inputs.one_target(lock, target)
    refuse_git(chosen.pins, "a bundle")
    sources = [pin.name for pin in chosen.pins if pin.kind == "pip" and not pin.is_wheel]
    if sources:
        warn(f"installing builds these sources and needs their build tools: {', '.join(sources)}")
    try:
        found = _collect(spec, chosen.pins, quiet=as_json)
        with written(output, "-o", [path]) as file:
            size = write_bundle(file, chosen, _carried(spec, lock, chosen), found)
    except KeyboardInterrupt:
        say("interrupted: run the same command again to continue")
        return 130
    if as_json:
        document = {
            "spec": path,
            "target": chosen.name,
            "file": str(output),
            "size": size,
            "files": len(chosen.pins),
        }
        options.print_json("bundle", document)
    else:
        out(f"{output}: {chosen.name}, {len(chosen.pins)} packages, {byte_size(size)}")
        say(f"hint: tar xf {output.name} && sh install.sh PREFIX")
    return 0


def _collect(spec: Spec, pins: Sequence[Pin], *, quiet: bool) -> Paths:
    """Get every file, from this machine's caches or from the user's own indexes."""
    from envspec.install.collect import at_hand, collect
    from envspec.net.fetch import Fetcher, read_timeout
    from envspec.net.logins import credentials_of
    from envspec.settings import load_settings

    settings = load_settings(os.environ)
    asked = [pin for pin in pins if pin.kind == "conda" or not at_hand(pin, settings.find_links)]
    urls = file_urls(asked, spec, os.environ)
    named = settings.index_urls(spec.pip.indexes)
    fetcher = Fetcher(
        credentials=credentials_of(settings, named, os.environ), env=os.environ, read_seconds=read_timeout(os.environ)
    )
    total = sum(pin.artifact.size or 0 for pin in pins if pin.artifact)
    with _progress(total, quiet=quiet) as on_bytes:
        return collect(
            pins,
            urls,
            fetcher,
            settings.cache_dir / "artifacts",
            settings.find_links,
            on_bytes,
            lambda: say("waiting: another envspec is downloading into the same cache"),
        )


def _carried(spec: Spec, lock: SoundLock, target: LockedTarget) -> dict[str, str]:
    """Give the carried files, as in an image, and the lists of pip's and conda's packages."""
    from envspec.install.bundle import REQUIREMENTS, explicit_list
    from envspec.lock.formats.requirements import requirements_txt
    from envspec.recipes.make import make_plan
    from envspec.recipes.plan import CARRIED_FOLDER

    plan = make_plan(spec, lock, target)
    carried = {f"{CARRIED_FOLDER}/{name}": text for name, text in plan.carried.items()}
    pip = {REQUIREMENTS: requirements_txt(lock, target)} if plan.pip else {}
    return carried | pip | explicit_list(target)


@contextmanager
def _progress(total: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show a bar for downloads on stderr, if stderr is a terminal."""
    with bars(_columns, quiet=quiet) as drawn:
        if drawn is None:
            yield lambda count: None
        else:
            task = drawn.add_task("", total=total or None)
            yield lambda count: drawn.update(task, advance=count)


def _columns() -> tuple[ProgressColumn, ...]:
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn

    return TextColumn("fetching"), BarColumn(bar_width=30), DownloadColumn(), TransferSpeedColumn()
