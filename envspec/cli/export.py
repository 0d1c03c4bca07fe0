"""`envspec export`."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import click

from envspec.cli import options
from envspec.cli.main import say
from envspec.errors import InputError, Place, StorageError
from envspec.lock.model import Lock, LockedTarget
from envspec.spec.model import Spec

EPILOG = """\b
Examples:
  envspec export specs/mm-v2.9.toml --target cpu --format requirements > requirements.txt
  envspec export specs/mm-v2.9.toml --format pylock --format requirements -o out/
"""

Urls = Mapping[tuple[str, str], str]
"""(index name, file name) → URL."""


@dataclass(frozen=True)
class Format:
    """A format that a locked target can be written in: the name of its file, and its text, made from the lock and,
    where it wants them, the URLs of the target's files."""

    file: str
    render: Callable[[Lock, LockedTarget, Urls], str]
    wants_urls: bool = False


def _requirements(lock: Lock, target: LockedTarget, urls: Urls) -> str:
    from envspec.lock.requirements import requirements_txt

    return requirements_txt(lock, target)


def _pylock(lock: Lock, target: LockedTarget, urls: Urls) -> str:
    from envspec.lock.pylock import pylock_toml

    return pylock_toml(lock, target, urls)


FORMATS = {
    "requirements": Format("requirements.txt", _requirements),
    "pylock": Format("pylock.toml", _pylock, wants_urls=True),
}


@click.command(epilog=EPILOG)
@options.spec
@options.target
@click.option(
    "--format",
    "-f",
    "formats",
    type=click.Choice(list(FORMATS)),
    multiple=True,
    required=True,
    help="The format; may be given several times.",
)
@click.option(
    "--output",
    "-o",
    metavar="DIR|-",
    default="-",
    help="Write DIR/<target>/<file>; `-` is stdout, for one target in one format.",
)
@options.locks_dir
def command(path: str, targets: tuple[str, ...], formats: tuple[str, ...], output: str, locks_dir: Path | None) -> None:
    """Write a lock in another tool's format.

    Taken from the lock alone, so nothing is resolved anew. pylock gives every file a URL and asks your own indexes for
    it; a file whose hash there isn't the lock's is refused.
    """
    spec, lock = options.read_lock(path, locks_dir)
    options.warn_if_stale(spec, lock)
    chosen = options.locked_targets(lock, targets)
    wanted = {name: FORMATS[name] for name in formats}
    if output == "-":
        _refuse_several(path, chosen, wanted)
    texts = _render(spec, lock, chosen, tuple(wanted.values()))
    if output == "-":
        click.echo(next(iter(texts.values())), nl=False)
        return
    for relative, text in texts.items():
        write_atomically(Path(output, relative), text)
        say(f"wrote {Path(output, relative)}")


def _refuse_several(path: str, targets: Sequence[LockedTarget], formats: Mapping[str, Format]) -> None:
    if len(targets) > 1:
        names = ", ".join(target.name for target in targets)
        raise InputError(
            f"{len(targets)} targets don't go into one file: {names}",
            hint=f"choose one with --target {targets[0].name}, or give them a folder with -o DIR",
        )
    if len(formats) > 1:
        raise InputError(f"{len(formats)} formats don't go into one file", hint="give them a folder with -o DIR")


def _render(spec: Spec, lock: Lock, targets: Sequence[LockedTarget], formats: Sequence[Format]) -> dict[str, str]:
    """Texts by path, relative to the output folder: all of them before the first is written."""
    urls: Urls = {}
    if any(wanted.wants_urls for wanted in formats):
        from envspec.resolve.artifact_urls import artifact_urls

        with _progress() as on_page:
            urls = artifact_urls((pin for target in targets for pin in target.pins), spec, os.environ, on_page)
    return {f"{t.name}/{wanted.file}": wanted.render(lock, t, urls) for t in targets for wanted in formats}


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr for the pages of indexes, where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("asking the indexes", total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that whoever reads it finds the old text or the new one, whole. Raises StorageError."""
    staged = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            staged.write_text(text, encoding="utf-8", newline="\n")
            staged.replace(path)
        except BaseException:
            with suppress(OSError):
                staged.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StorageError(
            f"can't be written: {error.strerror}",
            place=Place(str(path)),
            hint="give -o a folder that can be written, with room in it",
        ) from None
