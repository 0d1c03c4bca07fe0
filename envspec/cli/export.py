"""`envspec export`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from envspec import atomic
from envspec.cli import options
from envspec.cli.main import say
from envspec.errors import InputError, Place, StorageError
from envspec.lock import conda_environment, conda_explicit, conda_files, conda_lock
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.spec.model import Spec

EPILOG = """\b
Examples:
  envspec export specs/mm-v2.9.toml --target cpu --format requirements > requirements.txt
  envspec export specs/mm-v2.9.toml --format pylock --format requirements -o out/
  envspec export specs/hpc.toml --target cpu --format conda-env -o out/
"""

Urls = Mapping[tuple[str, str], str]
"""(index name, file name) → URL."""


@dataclass(frozen=True)
class Format:
    """A format that a locked target can be written in.

    file        the name of its file
    render      its text, made from the lock and the URLs of the files that it wants one of
    wants_url   of which packages that are from an index it wants the file's URL
    needs_conda it's only for targets with conda packages
    """

    file: Callable[[LockedTarget], str]
    render: Callable[[Lock, LockedTarget, Urls], str]
    wants_url: Callable[[Pin], bool] = lambda pin: False
    needs_conda: bool = False


def _requirements(lock: Lock, target: LockedTarget, urls: Urls) -> str:
    from envspec.lock.requirements import requirements_txt

    return requirements_txt(lock, target)


def _pylock(lock: Lock, target: LockedTarget, urls: Urls) -> str:
    from envspec.lock.pylock import pylock_toml

    return pylock_toml(lock, target, urls)


def _conda_lock(lock: Lock, target: LockedTarget, urls: Urls) -> str:
    lacking = conda_lock.without_md5(target)
    if lacking:
        raise InputError(
            f"conda-lock.yml wants an MD5, and the channel gives none for {', '.join(pin.name for pin in lacking)}",
            hint="--format conda-explicit takes SHA-256, too",
        )
    return conda_lock.conda_lock(lock, target, urls)


def _sbom(lock: Lock, target: LockedTarget, urls: Urls) -> str:
    from envspec.lock.sbom import sbom

    return sbom(lock, target)


FORMATS = {
    "requirements": Format(lambda target: "requirements.txt", _requirements),
    "pylock": Format(lambda target: "pylock.toml", _pylock, lambda pin: pin.kind == "pip"),
    "conda-lock": Format(lambda target: conda_lock.FILE_NAME, _conda_lock, lambda pin: True, needs_conda=True),
    "conda-explicit": Format(
        lambda target: conda_explicit.file_name(target.inputs.platform),
        conda_explicit.explicit,
        lambda pin: True,
        needs_conda=True,
    ),
    "conda-env": Format(
        lambda target: conda_environment.FILE_NAME,
        conda_environment.conda_environment,
        conda_environment.wants_url,
        needs_conda=True,
    ),
    "sbom": Format(lambda target: "sbom.cdx.json", _sbom),
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

    Taken from the lock alone, so nothing is resolved anew. pylock, conda-lock and conda-explicit give every file a URL
    and ask your own indexes for it; a file whose hash there isn't the lock's is refused. conda-env does so for pip
    packages that aren't on PyPI.
    """
    spec, lock = options.read_lock(path, locks_dir)
    options.warn_if_stale(spec, lock)
    chosen = options.locked_targets(lock, targets)
    wanted = {name: FORMATS[name] for name in formats}
    if output == "-":
        _refuse_several(path, chosen, wanted)
    _refuse_without_conda(chosen, wanted)
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


def _refuse_without_conda(targets: Sequence[LockedTarget], formats: Mapping[str, Format]) -> None:
    without = [target.name for target in targets if all(pin.kind != "conda" for pin in target.pins)]
    names = [name for name, wanted in formats.items() if wanted.needs_conda]
    if without and names:
        raise InputError(
            f"{', '.join(names)} is for conda packages, and there are none in the target {', '.join(without)}",
            hint="choose targets with --target, or use --format requirements or --format pylock",
        )


def _render(spec: Spec, lock: Lock, targets: Sequence[LockedTarget], formats: Sequence[Format]) -> dict[str, str]:
    """Texts by path, relative to the output folder: all of them before the first is written."""
    pins = [pin for target in targets for pin in target.pins if any(wanted.wants_url(pin) for wanted in formats)]
    urls: dict[tuple[str, str], str] = {}
    if any(pin.kind == "conda" for pin in pins):
        from envspec.resolve.channel_urls import channel_urls

        conda = [pin for pin in pins if pin.kind == "conda"]
        channels = channel_urls({conda_files.channel_of(pin)[0] for pin in conda}, spec, os.environ)
        urls.update(conda_files.urls_in_channels(conda, channels))
    if any(pin.kind == "pip" for pin in pins):
        from envspec.resolve.artifact_urls import artifact_urls

        with _progress() as on_page:
            urls.update(artifact_urls(pins, spec, os.environ, on_page))
    return {f"{t.name}/{wanted.file(t)}": wanted.render(lock, t, urls) for t in targets for wanted in formats}


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
    """Write an exported file whole or not at all. Raises StorageError."""
    try:
        atomic.write_text(path, text)
    except OSError as error:
        raise StorageError(
            f"can't be written: {error.strerror}",
            place=Place(str(path)),
            hint="give -o a folder that can be written, with room in it",
        ) from None
