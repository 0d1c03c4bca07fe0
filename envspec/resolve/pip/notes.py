"""Notes about solutions: releases that they pass over, variants that they take, indexes that say no dates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from envspec.lock.model import Pin
from envspec.resolve.pip.answer import Resolution, tell_undated
from envspec.resolve.pip.direct import DirectFiles
from envspec.resolve.pip.newest import Releases, behind
from envspec.resolve.pip.passed_over import passed_over, tell_passed_over
from envspec.resolve.pip.request import Request
from envspec.resolve.pip.unbounded import Lag, tell_lags
from envspec.resolve.pip.variants import tell_variants
from envspec.resolve.torch_index.choice import TorchIndex
from envspec.rules.finding import Finding


@dataclass(frozen=True)
class Solution:
    """A solved request, with what notes about it need.

    kept    the versions of the old lock, which were told when they were chosen
    direct  the files that its requirements name by their URL
    """

    request: Request
    answer: Resolution
    index: TorchIndex
    kept: Mapping[str, str]
    direct: DirectFiles
    pins: tuple[Pin, ...]


def last_solutions(
    made: Mapping[str, Sequence[Solution]], pins: Mapping[str, tuple[Pin, ...]]
) -> dict[Request, tuple[Solution, tuple[str, ...]]]:
    """Find the solutions that gave pins, with the names of their targets. `made` has all solutions by target, in their
    order: targets are solved again where what was found can't work."""
    found: dict[Request, tuple[Solution, tuple[str, ...]]] = {}
    for name, several in pins.items():
        last = next((one for one in reversed(made.get(name, ())) if one.pins == several), None)
        if last is not None:
            _, names = found.get(last.request, (last, ()))
            found[last.request] = (last, (*names, name))
    return found


def tell_notes(
    solutions: Mapping[Request, tuple[Solution, tuple[str, ...]]],
    lags: Mapping[Request, Sequence[Lag]],
    releases: Callable[[Request], Releases],
    refusal: Callable[[Request, tuple[str, ...]], str],
    undated: Callable[[tuple[str, str]], bool],
    notice: Callable[[Finding], None],
) -> None:
    """Write what there is to say of solutions. `lags` are the packages that stay behind uv's unbounded answers,
    `refusal` says in uv's words what keeps a request from meeting bounds, and `undated` whether a flat index has no
    dates."""
    groups = {request: names for request, (_, names) in solutions.items()}
    over = {}
    for request, (one, _) in solutions.items():
        of = releases(request)
        several = behind(one.answer.found, request, one.answer.asks, one.kept, of)
        far = {lag.name for lag in lags.get(request, ()) if lag.far}
        near = [one for one in several if one.name not in far]
        over[request] = tuple(passed_over(near, request, one.index, of, partial(refusal, request)))
    said = {request: {one.name for one in several} for request, several in over.items()}
    tell_lags(lags, said, groups, notice)
    tell_passed_over(over, groups, notice)
    tell_variants({request: one.answer.found for request, (one, _) in solutions.items()}, groups, notice)
    tell_undated(groups, undated, notice)
