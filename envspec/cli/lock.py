"""`envspec lock`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envspec.app.cache_size import prune_to_limit
from envspec.app.find_specs import all_specs
from envspec.base.errors import AnswerNo, EnvspecError, Place, parts
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.console import Failure, out_json, print_failure, say, wants_json
from envspec.cli.locked import lock_document, print_lock_json, print_missing_digests, refuse_dry_edit, show_lock
from envspec.configuration.user_config import BINDING

if TYPE_CHECKING:
    from envspec.app.lock.make import Locked
    from envspec.spec.model import Spec

EPILOG = """\b
Examples:
  envspec lock                           every spec in specs/
  envspec lock specs/mm-v2.9.toml
  envspec lock specs/mm-v2.9.toml --upgrade-package transformers
  envspec lock specs/mm-v2.9.toml --upgrade --dry-run
  envspec lock specs/mm-v2.9.toml --pins-from uv.lock
  envspec lock specs/*.toml --upgrade --locks-dir /tmp/tryout
"""


@click.command(epilog=EPILOG)
@click.argument("specs", nargs=-1, metavar="[SPEC...]", shell_complete=options.complete("spec_paths"))
@options.target
@click.option("--upgrade", "-U", is_flag=True, help="Ignore the old pins: take the newest versions that fit.")
@click.option(
    "--upgrade-package",
    "-P",
    "packages",
    multiple=True,
    metavar="NAME",
    help="Let this package's version change; may be given several times.",
)
@click.option(
    "--exit-code",
    "tell_by_code",
    is_flag=True,
    help="Exit with 1 if a package of --upgrade-package has a newer release but stays.",
)
@click.option("--upgrade-images", "images", is_flag=True, help="Look up the images' digests again; packages stay.")
@click.option(
    "--pins-from",
    "pins",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Prefer fitting versions of another tool's lock: uv.lock, poetry.lock, pylock.toml,"
    " requirements.txt, pixi.lock, conda-lock.yml or an explicit list.",
)
@options.allow_needed
@options.dry_run
@options.offline
@click.option(
    "--refresh",
    "--refresh-index",
    "refresh",
    is_flag=True,
    help="Read all pages again, and the live PyTorch index besides the built-in facts.",
)
@click.option(
    "--trust-index",
    "trusted",
    multiple=True,
    metavar="NAME=HOST",
    help="Write into envspec's configuration that an index of this name, and its login, belong to this host.",
)
@options.locks_dir
@options.quiet
@options.verbose
@options.as_json
def command(
    specs: tuple[str, ...],
    upgrade: bool,
    packages: tuple[str, ...],
    trusted: tuple[str, ...],
    tell_by_code: bool,
    **arguments: Any,
) -> int:
    """Resolve specs and write their locks

    envspec resolves each target of a spec for its own platform, Python and CUDA. Pins of the old lock stay while they
    fit. envspec also looks up the digests of the recipes' images; a known digest stays. envspec writes the whole lock
    or nothing. With several specs, the first that can't be locked ends the run; with --dry-run, envspec solves all of
    them and lists the refused ones. It solves a fresh lock again only with --upgrade or --dry-run. Without a spec,
    envspec locks every one in specs/, here or above in the same git repository.
    """
    from envspec.app.lock.make import lock_spec
    from envspec.app.lock.read import LockRequest, read_specs
    from envspec.app.lock.resolvers import trust_index
    from envspec.resolve.workflow.keep import Upgrade

    for text in trusted:
        binding = BINDING.fullmatch(text)
        if binding is None:
            raise click.UsageError(f"--trust-index takes NAME=HOST, and {printable(text)} isn't that")
        path = trust_index(os.environ, *binding.groups())
        say(f"{path}: logins of the index {binding[1]} may go to {binding[2]}")
    request = LockRequest(Upgrade(everything=upgrade, packages=frozenset(packages)), **arguments)
    refuse_dry_edit(request)
    if request.pins and (upgrade or packages):
        raise click.UsageError("--upgrade asks for newer versions, and --pins-from for those of another lock")
    parsed = read_specs(all_specs(specs), request.locks_dir)
    results: list[dict[str, object]] = []
    locked: list[Locked] = []
    refused = 0
    for number, spec in enumerate(parsed, start=1):
        try:
            done = lock_spec(spec, request)
        except EnvspecError as error:
            if len(parsed) == 1:
                raise
            failure = print_failure(Failure.of(_place_at_spec(error, spec)))
            if request.dry_run and isinstance(error, AnswerNo):
                # nothing is written, so that all are asked
                results.append({"spec": spec.path, "status": "refused", "errors": failure.document()["errors"]})
                refused = failure.exit_code
                continue
            print_missing_digests(locked)
            if left := parsed[number:]:
                say(f"not tried: {', '.join(spec.path for spec in left)}")
            if wants_json():
                out_json(failure.document())
            return failure.exit_code
        show_lock(done)
        locked.append(done)
        results.append(lock_document(done))
        if tell_by_code and done.held:
            refused = refused or AnswerNo.exit_code
    print_missing_digests(locked)
    prune_to_limit()
    print_lock_json(results)
    return refused


def _place_at_spec(error: EnvspecError, spec: Spec) -> EnvspecError:
    """Give an error without a place, such as the resolver's, the spec as its place."""
    for part in parts(error):
        part.place = part.place or Place(spec.path)
    return error
