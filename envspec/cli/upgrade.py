"""`envspec upgrade`."""

from __future__ import annotations

from dataclasses import replace

import click

from envspec.app import inputs
from envspec.app.edition import edition_document
from envspec.app.lock.choices import LockChoices
from envspec.cli import options
from envspec.cli.lock.choices import lock_choices
from envspec.cli.lock.command import lock_spec
from envspec.resolve.workflow.keep import Upgrade

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
@lock_choices
def command(
    path: str,
    packages: tuple[str, ...],
    targets: tuple[str, ...],
    choices: LockChoices,
) -> int:
    """Lock a spec with the newest versions that it allows, of all packages or of those named

    The same as `envspec lock` with --upgrade or --upgrade-package. The spec stays as it is; `envspec outdated` shows
    what holds a package back.
    """
    spec = inputs.read_spec(path)
    upgrade = Upgrade(everything=not packages, packages=frozenset(packages))
    done = lock_spec(spec, replace(choices, upgrade=upgrade, targets=targets, named_by=""))
    if choices.quiet:
        options.print_json("lock", {"specs": [done], "facts": edition_document()})
    return 0
