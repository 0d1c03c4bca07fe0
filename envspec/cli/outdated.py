"""`envspec outdated`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from envspec.app.outdated import Outdated, horizons, newer_releases
from envspec.base.errors import IndexFailure
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.console import say, wants_json, warn
from envspec.cli.table import align, heading

if TYPE_CHECKING:
    from envspec.review.outdated import Newer, TargetHorizon
    from envspec.rules.horizon import Advance

EPILOG = """\b
Examples:
  envspec outdated specs/mm-v2.9.toml
  envspec outdated specs/mm-v2.9.toml --target cpu --all
  envspec outdated specs/mm-v2.9.toml --horizon       how far each target's GPUs, driver and CUDA get
"""

_NAMES = {"pip": "torch", "conda": "pytorch"}


@click.command(epilog=EPILOG)
@options.spec
@options.target
@click.option("--all", "everything", is_flag=True, help="List indirect packages too.")
@click.option("--direct", is_flag=True, help="Only packages that the spec asks for by name [default].")
@click.option("--offline", is_flag=True, help="Use no network: take the cached pages.")
@click.option(
    "--horizon", is_flag=True, help="Show the last torch for each target's GPUs, driver and CUDA. Uses no network."
)
@options.locks_dir
@options.as_json
def command(
    path: str,
    targets: tuple[str, ...],
    everything: bool,
    direct: bool,
    offline: bool,
    horizon: bool,
    locks_dir: Path | None,
) -> int:
    """List newer releases of locked packages, and the bounds that hold each back

    For each package that the spec names, envspec shows the locked release, the newest that `exclude-newer` admits, the
    newest on its own index, and the bound that holds it back: a requirement, the target, a cap of the spec, or
    `exclude-newer`. If targets have different releases of a package, envspec shows the reason. It doesn't look up conda
    packages, and writes nothing.
    """
    if horizon:
        _show_horizons(path, targets, locks_dir)
        return 0
    outdated = newer_releases(path, targets, locks_dir, direct=direct or not everything, offline=offline)
    unread = [{"package": name, "reason": reason} for name, reason in outdated.unread.items()]
    lists = {"newer": outdated.newer, "differing": outdated.differing, "variants": outdated.variants}
    options.answer("outdated", {"lock": outdated.lock.name, **lists, "unread": unread}, _lines(outdated))
    for name, reason in outdated.unread.items():
        warn(f"{name}: {printable(reason)}")
    moving = [release.name for release in outdated.newer if release.upgrade != release.locked.partition("+")[0]]
    if moving and not wants_json():
        command_line = f"envspec lock {outdated.spec.path} --upgrade-package {moving[0]}"
        say(f"hint: `{command_line}` takes one, `--upgrade` all that fit")
    return IndexFailure.exit_code if outdated.unread else 0


def _lines(outdated: Outdated) -> Iterator[str]:
    rows = [
        (
            release.name,
            release.locked.partition("+")[0],
            release.within,
            release.newest,
            _why(release),
            heading(release.targets, outdated.lock),
        )
        for release in outdated.newer
    ]
    if rows:
        yield from align((("PACKAGE", "LOCKED", "WITHIN", "NEWEST", "HELD BY", "TARGETS"), *rows), heading=True)
    for package in outdated.differing:
        yield f"{package.name} differs:"
        for row in package.versions:
            yield f"  {row.version} in {', '.join(row.targets)}{f': {printable(row.reason)}' if row.reason else ''}"
    for variant in outdated.variants:
        where = heading(variant.targets, outdated.lock)
        yield f"{variant.name} {variant.version}, variant {variant.locked} -> {variant.better}, {where}"
        yield "  published since, and better for these machines"
    yield _summary(outdated)


def _why(newer: Newer) -> str:
    if not newer.holds:
        return "nothing"
    (hold,) = newer.holds
    way = f", required by {' <- '.join(reversed(hold.path[:-1]))}" if len(hold.path) > 1 else ""
    partly = hold.kind not in ("bound", "policy") and newer.upgrade != newer.locked.partition("+")[0]
    return f"{f'{newer.upgrade} comes; then ' if partly else ''}{printable(hold.reason)}{way}"


def _summary(outdated: Outdated) -> str:
    conda = any(pin.kind == "conda" for target in outdated.targets for pin in target.pins)
    names = len({newer.name for newer in outdated.newer})
    free = len({newer.name for newer in outdated.newer if newer.upgrade != newer.locked.partition("+")[0]})
    rest = "; conda packages aren't looked up" if conda else ""
    moving = f"; `envspec upgrade` moves {free} of them" if free else ", each held back"
    return f"{names} of {outdated.total} packages have newer releases{moving if names else ''}{rest}"


def _show_horizons(path: str, names: tuple[str, ...], locks_dir: Path | None) -> None:
    lock, target_horizons = horizons(path, names, locks_dir)
    rows = [
        {"target": target.target, "locked": target.locked, "channel": target.channel, **asdict(target.horizon)}
        for target in target_horizons
    ]
    lines = [line for target in target_horizons for line in _horizon(target)]
    none = ["no target asks for a torch that envspec's tables describe"]
    options.answer("horizon", {"lock": lock.name, "targets": rows}, lines or none)


def _horizon(target: TargetHorizon) -> Iterator[str]:
    name, case, horizon = _NAMES[target.channel], target.case, target.horizon
    gpus = ", ".join(dict.fromkeys(gpu.name for gpu in case.gpus))
    shown = gpus if len(gpus) <= 60 else f"{len({gpu.name for gpu in case.gpus})} GPUs"
    of = [shown, f"CUDA {case.cuda}" if case.cuda else "CPU", f"driver {case.driver}" if case.driver else ""]
    locked = target.locked.partition("+")[0]
    yield f"{target.target} ({', '.join(part for part in of if part)}): {name} {locked} is locked"
    if horizon.last is None:
        yield f"  no {name} that envspec knows works as it is"
    elif horizon.last == horizon.newest:
        yield f"  last: {name} {horizon.last}, the newest that envspec knows"
    else:
        yield f"  last: {name} {horizon.last}"
    for reason in horizon.reasons:
        yield f"    {reason}"
    if horizon.last != horizon.newest and not horizon.moves:
        yield "  nothing newer can be locked for it"
    for move in horizon.moves:
        yield f"  to {name} {move.torch}: {', '.join(_costs(move)) or 'nothing has to change'}"


def _costs(move: Advance) -> Iterator[str]:
    if move.cuda:
        yield f"CUDA {move.cuda}"
    if move.driver:
        yield f"{'' if move.driver.startswith('JetPack') else 'driver '}{move.driver} or newer"
    if move.python:
        yield f"Python {move.python}"
    if move.glibc:
        yield f"glibc {move.glibc} or newer"
    if move.dropped:
        names = move.dropped if len(move.dropped) <= 3 else (*move.dropped[:2], f"{len(move.dropped) - 2} more")
        yield f"without {', '.join(names)}"
