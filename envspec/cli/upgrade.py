"""`envspec upgrade`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from envspec.app import inputs
from envspec.cli import options
from envspec.cli.locked import lock_document, lock_options, print_lock_json, print_missing_digests, show_lock

if TYPE_CHECKING:
    from envspec.app.lock.read import LockRequest

EPILOG = """\b
Examples:
  envspec upgrade specs/mm-v2.9.toml                   every package that may
  envspec upgrade specs/mm-v2.9.toml transformers      this one, and what must move with it
  envspec upgrade specs/mm-v2.9.toml --dry-run
"""


@click.command(epilog=EPILOG)
@options.spec_and("packages", "[PKG...]")
@options.target
@lock_options
def command(path: str, packages: tuple[str, ...], targets: tuple[str, ...], request: LockRequest) -> int:
    """Lock the newest versions that a spec allows, of all or of named packages

    This is `envspec lock` with --upgrade or --upgrade-package. The spec's requirements stay; `envspec outdated` shows
    the bound that holds a package back.
    """
    from envspec.app.lock.make import lock_spec
    from envspec.resolve.workflow.keep import Upgrade

    upgrade = Upgrade(everything=not packages, packages=frozenset(packages))
    done = lock_spec(inputs.read_spec(path), replace(request, upgrade=upgrade, targets=targets, named_by=""))
    show_lock(done)
    print_missing_digests([done])
    print_lock_json([lock_document(done)])
    return 0
