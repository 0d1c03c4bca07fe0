"""`envspec upgrade`."""

from __future__ import annotations

from pathlib import Path

import click

from envspec.cli import inputs, options
from envspec.cli.lock.command import LockChoices, lock_spec

EPILOG = """\b
Examples:
  envspec upgrade specs/mm-v2.9.toml                   every package that may
  envspec upgrade specs/mm-v2.9.toml transformers      this one, and what must move with it
  envspec upgrade specs/mm-v2.9.toml --dry-run
"""


@click.command(epilog=EPILOG)
@options.spec
@click.argument("packages", nargs=-1, metavar="[PKG...]")
@options.target
@options.dry_run
@options.offline
@options.locks_dir
@options.as_json
def command(
    path: str,
    packages: tuple[str, ...],
    targets: tuple[str, ...],
    dry_run: bool,
    offline: bool,
    locks_dir: Path | None,
    as_json: bool,
) -> int:
    """Lock a spec with the newest versions that it allows, of all packages or of those named.

    The same as `envspec lock` with --upgrade or --upgrade-package. The spec stays as it is; `envspec outdated` shows
    what holds a package back.
    """
    from envspec.workflow.keep import Upgrade

    spec = inputs.read_spec(path)
    choices = LockChoices(
        Upgrade(everything=not packages, packages=frozenset(packages)),
        targets,
        locks_dir=locks_dir,
        offline=offline,
        dry_run=dry_run,
        quiet=as_json,
    )
    done = lock_spec(spec, choices)
    if as_json:
        options.print_json("lock", {"specs": [done]})
    return 0
