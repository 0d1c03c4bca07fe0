"""`envspec outdated --horizon`: the last torch that each target gets, and what leads further."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.app import inputs
from envspec.cli import options
from envspec.cli.console import out

if TYPE_CHECKING:
    from envspec.rules.case import Case
    from envspec.rules.horizon import Advance, Horizon

_NAMES = {"pip": "torch", "conda": "pytorch"}


def tell(path: str, names: Sequence[str], locks_dir: Path | None, *, as_json: bool) -> None:
    """Print the horizon of each target that has a torch of the tables. Raises InputError for an unknown target."""
    from envspec.rules.horizon import horizon
    from envspec.rules.judge import case_of
    from envspec.rules.wanted import torch_of

    spec, lock = inputs.read_lock(path, locks_dir)
    found = []
    for target in inputs.locked_targets(lock, names):
        of_spec = spec.target(target.name)
        wanted = torch_of(spec, of_spec) if of_spec else None
        pin = next((pin for pin in target.pins if pin.name in _NAMES.values()), None)
        if of_spec is None or wanted is None or pin is None:
            continue
        case = case_of(spec, of_spec)
        found.append((target.name, pin.version, wanted.channel, case, horizon(case, wanted.channel)))
    if as_json:
        rows = [
            {"target": name, "locked": locked, "channel": channel, **asdict(one)}
            for name, locked, channel, _, one in found
        ]
        options.print_json("horizon", {"lock": lock.name, "targets": rows})
        return
    for name, locked, channel, case, one in found:
        for line in lines(name, locked, _NAMES[channel], case, one):
            out(line)
    if not found:
        out("no target asks for a torch that envspec's tables describe")


def lines(target: str, locked: str, name: str, case: Case, found: Horizon) -> Iterator[str]:
    """Write a target's horizon for people."""
    gpus = ", ".join(dict.fromkeys(gpu.name for gpu in case.gpus))
    shown = gpus if len(gpus) <= 60 else f"{len({gpu.name for gpu in case.gpus})} GPUs"
    of = [shown, f"CUDA {case.cuda}" if case.cuda else "CPU", f"driver {case.driver}" if case.driver else ""]
    yield f"{target} ({', '.join(part for part in of if part)}): {name} {locked.partition('+')[0]} is locked"
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
