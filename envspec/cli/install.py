"""`envspec install`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envspec.app import inputs
from envspec.app.cache_size import keep_bounded
from envspec.app.observer import observer
from envspec.base.errors import InputError
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.console import out, say, styled

if TYPE_CHECKING:
    from envspec.install.model import Change, InstallOutcome
    from envspec.lock.judge import SoundLock
    from envspec.lock.model import LockedTarget
    from envspec.spec.model import Spec

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
@click.option(
    "--target",
    "-t",
    metavar="NAME",
    shell_complete=options.complete("target_names"),
    help="The target to install [default: the only one; without --prefix, the one that `envspec run` takes].",
)
@click.option(
    "--prefix",
    "-p",
    type=click.Path(path_type=Path),
    help="The folder of the environment: new, empty, or one that this spec made"
    " [default: the one that `envspec run` uses].",
)
@click.option(
    "--squashfs",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the environment as one file, with mksquashfs; --prefix is then where it is going to be mounted.",
)
@click.option("--offline", is_flag=True, help="Use no network, only the caches.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@options.locks_dir
@options.quiet
@options.as_json
def command(
    path: str,
    target: str | None,
    prefix: Path | None,
    squashfs: Path | None,
    offline: bool,
    dry_run: bool,
    locks_dir: Path | None,
    as_json: bool,
) -> int:
    """Install a locked target into a folder, every hash checked

    envspec brings a folder with an older state of the same spec up to date: it touches only what changed. The next run
    finishes an interrupted one. A run that finds everything in place changes nothing.
    """
    from envspec.app.default_prefix import default_prefix
    from envspec.app.malicious import refuse_malicious
    from envspec.app.policy import refuse_fetched
    from envspec.cli.enter import tell_outcome
    from envspec.install.environment import Installation
    from envspec.install.prefix import checked_prefix

    spec, lock = inputs.read_lock(path, locks_dir)
    inputs.warn_if_stale(spec, lock)
    chosen = _target(spec, lock, target, by_machine=prefix is None and squashfs is None, ask=not (dry_run or as_json))
    inputs.tell_lacking_compat(spec, (chosen,), "the environment")
    refuse_fetched(spec, lock, chosen, path, offline=offline)
    refuse_malicious(spec, (chosen,), path, offline=offline)
    if squashfs is not None:
        if dry_run:
            raise InputError(
                "--dry-run shows what an installation changes, and --squashfs changes none", hint="give one"
            )
        return _squashfs(path, spec, lock, chosen, squashfs, prefix, offline=offline, as_json=as_json)
    place = checked_prefix(prefix or default_prefix(spec, lock, chosen, make=not dry_run))
    try:
        with observer().progress("reading the installed packages") as progress:
            installation = Installation(spec, lock, chosen, place, os.environ, offline=offline, progress=progress)
            waiting = f"waiting: another envspec is working on {place}"
            outcome = installation.look() if dry_run else installation.run(lambda: say(waiting))
    except KeyboardInterrupt:
        say("interrupted: run the same command again to continue")
        return 130
    if not dry_run:
        keep_bounded()
    tell_outcome(outcome)
    if as_json:
        options.print_json("install", _document(path, chosen, place, outcome, dry_run=dry_run))
    else:
        _tell(chosen, place, outcome, dry_run=dry_run)
    return 0


def _target(spec: Spec, lock: SoundLock, name: str | None, *, by_machine: bool, ask: bool) -> LockedTarget:
    """Give the named target or the only one; where the environment is `run`'s, the one that `run` takes."""
    if name is not None or not by_machine or len(lock.targets) == 1:
        return inputs.one_target(lock, name)
    from envspec.base.settings import load_settings
    from envspec.cli.enter import chosen

    target, because = chosen(spec, tuple(lock), load_settings(os.environ), ask=ask)
    if because:
        say(f"note: target {target.name} of {spec.name}: {because}", style="cyan")
    return target


def _squashfs(
    path: str,
    spec: Spec,
    lock: SoundLock,
    target: LockedTarget,
    file: Path,
    prefix: Path | None,
    *,
    offline: bool,
    as_json: bool,
) -> int:
    """Write the environment as one file, sources built here. Gives the exit code."""
    from envspec.app.image.prepare import ImageOrder
    from envspec.cli.image.squashfs import make_squashfs
    from envspec.export.plan import ENVIRONMENT
    from envspec.install.prefix import checked_prefix

    order = ImageOrder(
        spec=spec,
        lock=lock,
        targets=(target,),
        output=None,
        sif=None,
        base=None,
        without=(),
        compression="zstd",
        build_sources=True,
        offline=offline,
    )
    place = str(checked_prefix(prefix)) if prefix else ENVIRONMENT
    try:
        with observer().progress() as progress:
            made = make_squashfs(order, target, file, progress, place)
    except KeyboardInterrupt:
        say("interrupted: nothing was written; run the same command again")
        return 130
    keep_bounded()
    if as_json:
        options.print_json("install", {"spec": path, "target": target.name, "squashfs": made.document()})
    else:
        made.tell()
    return 0


def _tell(target: LockedTarget, prefix: Path, outcome: InstallOutcome, *, dry_run: bool) -> None:
    for change in outcome.changes:
        sign, colour = _SIGNS[change.action]
        out(f"{styled(sign, colour)} {_line(change)}")
    if outcome.status == "unchanged":
        out(f"{prefix} is {target.name} already: nothing to do")
        return
    counted = f"{len(target.pins)} packages" if len(target.pins) != 1 else "1 package"
    if dry_run:
        out(f"{prefix} would be {outcome.status}: {target.name}, {counted}")
        return
    import shlex

    out(f"{outcome.status} {prefix}: {target.name}, {counted}")
    say(f"hint: . {shlex.quote(str(prefix / 'bin' / 'activate'))}")


def _line(change: Change) -> str:
    versions = " → ".join(text for text in (change.old, change.new) if text)
    if change.old == change.new:
        versions = f"{change.new} ({change.reason or 'another file'})"
    return printable(f"{change.kind:<5} {change.name} {versions}")


def _document(
    path: str, target: LockedTarget, prefix: Path, outcome: InstallOutcome, *, dry_run: bool
) -> dict[str, object]:
    return {
        "spec": path,
        "target": target.name,
        "prefix": str(prefix),
        "dry_run": dry_run,
        "status": outcome.status,
        "packages": len(target.pins),
        "changes": [
            {
                "action": change.action,
                "kind": change.kind,
                "name": change.name,
                "old": change.old,
                "new": change.new,
                "reason": change.reason,
            }
            for change in outcome.changes
        ],
        "warnings": list(outcome.warnings),
    }
