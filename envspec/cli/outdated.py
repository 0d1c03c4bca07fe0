"""`envspec outdated`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envspec.app.outdated import Outdated, TargetHorizon, horizons, newer_releases
from envspec.base.errors import IndexFailure
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.console import out, say, warn
from envspec.cli.table import heading

if TYPE_CHECKING:
    from envspec.resolve.workflow.outdated import Newer
    from envspec.rules.horizon import Advance

EPILOG = """\b
Examples:
  envspec outdated specs/mm-v2.9.toml
  envspec outdated specs/mm-v2.9.toml --target cpu --direct
  envspec outdated specs/mm-v2.9.toml --horizon       how far each target's GPUs, driver and CUDA get
"""

_NAMES = {"pip": "torch", "conda": "pytorch"}


@click.command(epilog=EPILOG)
@options.spec
@options.target
@click.option("--all", "everything", is_flag=True, help="List also what another package pins exactly.")
@click.option("--direct", is_flag=True, help="Only packages that the spec asks for by name.")
@click.option("--offline", is_flag=True, help="Use no network: take the pages as they were read last.")
@click.option(
    "--horizon", is_flag=True, help="Say the last torch for each target's GPUs, driver and CUDA. Uses no network."
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
    as_json: bool,
) -> int:
    """List newer releases of locked packages, and the bounds that hold each back

    Compares each pip pin with the newest final release on its own index, and names the requirements, the Python, the
    platform or the date that keep it out. What nothing holds back comes with `envspec lock --upgrade-package`.
    envspec doesn't look up conda packages. Changes nothing.
    """
    if horizon:
        _show_horizons(path, targets, locks_dir, as_json=as_json)
        return 0
    found = newer_releases(path, targets, locks_dir, direct=direct, offline=offline)
    if as_json:
        unread = [{"package": name, "reason": reason} for name, reason in found.unread.items()]
        told = {"newer": found.newer, "variants": found.variants, "unread": unread}
        options.print_json("outdated", {"lock": found.lock.name, **told})
    else:
        for line in _lines(found, everything=everything):
            out(line)
    for name, reason in found.unread.items():
        warn(f"{name}: {printable(reason)}")
    free = next((newer.name for newer in found.newer if not newer.holds), None)
    if free and not as_json:
        say(f"hint: `envspec lock {found.spec.path} --upgrade-package {free}` takes one, `--upgrade` all that fit")
    return IndexFailure.exit_code if found.unread else 0


def _lines(found: Outdated, *, everything: bool) -> Iterator[str]:
    folded: dict[str, set[str]] = {}
    for newer in found.newer:
        if newer.goes_with and not everything:
            folded.setdefault(newer.goes_with, set()).add(newer.name)
        else:
            yield from _newer(newer, heading(newer.targets, found.lock))
    for by, names in folded.items():
        yield f"with {by}: {', '.join(sorted(names))}"
    for one in found.variants:
        yield f"{one.name} {one.version}, variant {one.locked} -> {one.better}, {heading(one.targets, found.lock)}"
        yield "  published since, and better for these machines"
    yield _summary(found)


def _newer(newer: Newer, where: str) -> Iterator[str]:
    date = f" ({newer.uploaded[:10]})" if newer.uploaded else ""
    yield f"{newer.name} {newer.locked} -> {newer.newest}{date}, {where}"
    for hold in newer.holds:
        way = f", required by {' <- '.join(reversed(hold.path[:-1]))}" if len(hold.path) > 1 else ""
        yield f"  {printable(hold.reason)}{way}"
    if not newer.holds:
        yield "  nothing holds it back"


def _summary(found: Outdated) -> str:
    conda = any(pin.kind == "conda" for target in found.targets for pin in target.pins)
    names = len({newer.name for newer in found.newer})
    free = len({newer.name for newer in found.newer if not newer.holds})
    rest = "; conda packages aren't looked up" if conda else ""
    moving = f"; nothing holds back {free} of them, and `envspec upgrade` takes these" if free else ", each held back"
    return f"{names} of {found.total} packages have newer releases{moving if names else ''}{rest}"


def _show_horizons(path: str, names: tuple[str, ...], locks_dir: Path | None, *, as_json: bool) -> None:
    lock, found = horizons(path, names, locks_dir)
    if as_json:
        rows = [
            {"target": one.target, "locked": one.locked, "channel": one.channel, **vars(one.horizon)} for one in found
        ]
        options.print_json("horizon", {"lock": lock.name, "targets": rows})
        return
    for one in found:
        for line in _horizon(one):
            out(line)
    if not found:
        out("no target asks for a torch that envspec's tables describe")


def _horizon(one: TargetHorizon) -> Iterator[str]:
    name, case, found = _NAMES[one.channel], one.case, one.horizon
    gpus = ", ".join(dict.fromkeys(gpu.name for gpu in case.gpus))
    shown = gpus if len(gpus) <= 60 else f"{len({gpu.name for gpu in case.gpus})} GPUs"
    of = [shown, f"CUDA {case.cuda}" if case.cuda else "CPU", f"driver {case.driver}" if case.driver else ""]
    yield f"{one.target} ({', '.join(part for part in of if part)}): {name} {one.locked.partition('+')[0]} is locked"
    if found.last is None:
        yield f"  no {name} that envspec knows works as it is"
    elif found.last == found.newest:
        yield f"  last: {name} {found.last}, the newest that envspec knows"
    else:
        yield f"  last: {name} {found.last}"
    for reason in found.reasons:
        yield f"    {reason}"
    if found.last != found.newest and not found.moves:
        yield "  nothing newer runs on these GPUs"
    for move in found.moves:
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
    if not move.seen:
        yield "announced, not seen yet"
