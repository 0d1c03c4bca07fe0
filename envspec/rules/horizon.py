"""The horizon of a target: its last torch, why none comes after it, and the cost of each next move.

Pure, from the tables alone: a torch that is newer than they are isn't in the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from envspec.facts import conda_builds, gpus, toolkits, torch_builds
from envspec.facts.gpus import Gpu
from envspec.packages.version_numbers import numbers
from envspec.rules import machine as machine_rules
from envspec.rules.build import problems, works
from envspec.rules.case import CandidateBuild, Case, conda_builds_of, pip_builds
from envspec.rules.wanted import known_releases

Channel = Literal["pip", "conda"]


class Advance(Struct, frozen=True):
    """A newer torch that the target gets by changing something else.

    driver   the oldest driver that it needs, a version, "R570" or "JetPack 7.2"; None where the machine's will do
    cuda     the CUDA to change to, None where the target's stays
    dropped  the GPUs (by name) that it doesn't run on
    python   the nearest Python with a wheel, None where the spec's has one
    glibc    the least glibc, None where the target's will do
    """

    torch: str
    cuda: str | None = None
    driver: str | None = None
    dropped: tuple[str, ...] = ()
    python: str | None = None
    glibc: str | None = None

    @property
    def price(self) -> tuple[bool, ...]:
        """The changes that the move needs, the dearest first."""
        return bool(self.dropped), self.driver is not None, self.glibc is not None, bool(self.python), bool(self.cuda)


class Horizon(Struct, frozen=True):
    """last    the newest torch that works as the target is; None where none does
    reasons    why the release after it doesn't; empty where `last` is the newest that is known
    newest     the newest torch in the table
    moves      the changes that lead further, each to the newest torch that it gives, the cheapest first
    """

    last: str | None
    reasons: tuple[str, ...]
    newest: str
    moves: tuple[Advance, ...] = ()


def horizon(case: Case, channel: Channel) -> Horizon:
    """Look as far as the tables reach, for wheels ("pip") or for conda-forge's builds ("conda")."""
    known = known_releases(channel)
    builds = _builds(channel, known, case.cuda, case.platform)
    machine = [p.message for p in machine_rules.problems(case) if p.severity == "error"]
    working = (
        [build for build in builds if build.is_lockable(case.python) and works(build, case)] if not machine else []
    )
    last = working[-1].version if working else None
    if last == known[-1]:
        return Horizon(last, (), known[-1])
    after = known[known.index(last) + 1 :] if last else known
    reasons = machine or (_reasons(after[0], builds, channel, case) if last else _never(builds, channel, case))
    return Horizon(last, tuple(reasons), known[-1], _moves(after, channel, case))


def _builds(channel: Channel, versions: Iterable[str], cuda: str | None, platform: str) -> list[CandidateBuild]:
    return (conda_builds_of if channel == "conda" else pip_builds)(versions, cuda, platform)


def _reasons(version: str, builds: Sequence[CandidateBuild], channel: Channel, case: Case) -> list[str]:
    """Give the reasons why a release doesn't work: no build for the target's CUDA, or the nearest build's errors."""
    of_it = [build for build in builds if build.version == version]
    if not of_it:
        name = "conda-forge's pytorch" if channel == "conda" else "torch"
        of = f"CUDA {case.cuda}" if case.cuda else "CPU"
        newer = not builds or torch_builds.order(builds[-1].version) > torch_builds.order(version)
        last = "" if newer else f": the last is of {name} {builds[-1].version}"
        return [f"{name} {version} has no {of} build for {case.platform}{last}"]
    against = [problems(build, case) for build in of_it]
    messages = [[p.message for p in every if p.severity == "error" or p.code == "build-not-seen"] for every in against]
    of = f"CUDA {case.cuda}" if case.cuda else "the CPU"
    unheld = f"the facts have no file of torch {version} for {of}, {case.platform}, Python {case.python}"
    return min(messages, key=len) or [unheld]


def _never(builds: Sequence[CandidateBuild], channel: Channel, case: Case) -> list[str]:
    if builds:
        return _reasons(builds[-1].version, builds, channel, case)
    return _reasons(known_releases(channel)[-1], builds, channel, case)


def _moves(after: Sequence[str], channel: Channel, case: Case) -> tuple[Advance, ...]:
    """List the moves that lead to newer releases. A move that costs no less than one that leads further isn't told."""
    moves: list[Advance] = []
    for version in reversed(after):
        every = [_move(build, case) for build in _of_release(version, channel, case)]
        for move in sorted((move for move in every if move), key=lambda move: _weight(move, case)):
            if not any(_is_no_dearer(other, move) for other in moves):
                moves.append(move)
    return tuple(sorted(moves, key=lambda move: _weight(move, case)))


def _of_release(version: str, channel: Channel, case: Case) -> list[CandidateBuild]:
    known = conda_builds.builds() if channel == "conda" else torch_builds.builds(version)
    published = {build.cuda for build in known if build.cuda and build.version == version}
    cudas: list[str | None] = [*sorted(published, key=numbers)] if case.cuda else [None]
    candidates = [build for cuda in cudas for build in _builds(channel, [version], cuda, case.platform)]
    return [build for build in dict.fromkeys(candidates) if channel == "conda" or build.files_for]


def _is_no_dearer(move: Advance, other: Advance) -> bool:
    """Return whether a move asks nothing that the other doesn't ask too."""
    if not set(move.dropped) <= set(other.dropped):
        return False
    return all(mine is None or mine == theirs for mine, theirs in zip(_demands(move), _demands(other), strict=True))


def _demands(move: Advance) -> tuple[str | None, ...]:
    return move.driver, move.glibc, move.python, move.cuda


def _weight(move: Advance, case: Case) -> tuple[int, ...]:
    changed = numbers(move.cuda or case.cuda or "0")[0] - numbers(case.cuda or "0")[0]
    newest_first = tuple(-number for number in numbers(move.torch))
    return (len(move.dropped), *map(int, move.price[1:]), abs(changed), *newest_first)


def _move(build: CandidateBuild, case: Case) -> Advance | None:
    """Price a build; None where no GPU of the target is left, or no driver runs those that are."""
    cuda = build.cuda
    if case.cuda and build.channel == "conda" and cuda and numbers(cuda) <= numbers(case.cuda) and _same(cuda, case):
        cuda = case.cuda  # conda-forge's builds run with a newer minor of their CUDA
    python = None if build.is_lockable(case.python) else _nearest(case.python, build.files_for)
    short = build.glibc and case.platform.startswith("linux") and numbers(case.glibc) < numbers(build.glibc)
    eased = replace(
        case, cuda=cuda, python=python or case.python, glibc=build.glibc if short and build.glibc else case.glibc
    )
    retained = tuple(gpu for gpu in eased.gpus if _runs(build, replace(eased, gpus=(gpu,), driver=None)))
    update = _update(replace(eased, gpus=retained), case)
    if update:
        retained = tuple(gpu for gpu in retained if _admits(gpu, update))
        update = _update(replace(eased, gpus=retained), case)
    if case.gpus and not retained:
        return None
    left = replace(eased, gpus=retained)
    if update and cuda and left.integrated and (jetpack := machine_rules.first_jetpack(left, cuda)):
        update = f"JetPack {jetpack}"
    return Advance(
        build.version,
        cuda if cuda != case.cuda else None,
        update,
        tuple(dict.fromkeys(gpu.name for gpu in case.gpus if gpu not in retained)),
        python,
        build.glibc if short else None,
    )


def _same(cuda: str, case: Case) -> bool:
    return numbers(cuda)[0] == numbers(case.cuda or "0")[0]


def _runs(build: CandidateBuild, case: Case) -> bool:
    """Return whether a build runs on the one GPU of a case, whatever the driver."""
    of_chip = [problem for problem in machine_rules.chip_problems(case) if problem.severity == "error"]
    return not of_chip and works(build, case)


def _update(eased: Case, case: Case) -> str | None:
    """Find the driver that a CUDA asks for where the target's, or the oldest for its own CUDA, is too old."""
    if eased.cuda is None:
        return None
    lowest = machine_rules.find_lowest_driver(eased, eased.cuda)
    if case.driver is not None:
        too_old = [
            p for p in machine_rules.driver_problems(eased) if p.severity == "error" and p.code != "driver-dropped-gpu"
        ]
        return lowest if too_old else None
    before = machine_rules.find_lowest_driver(case, case.cuda) if case.cuda else None
    if lowest is None or before is None:
        return lowest
    return lowest if numbers(lowest.lstrip("R")) > numbers(before.lstrip("R")) else None


def _admits(gpu: Gpu, lower_bound: str) -> bool:
    """Return whether some driver from this one on still supports a GPU."""
    last = gpus.capabilities()[gpu.capability].last_driver
    return last is None or toolkits.branch(lower_bound.lstrip("R")) <= last


def _nearest(python: str, pythons: Sequence[str]) -> str:
    minor = numbers(python)[1]
    return min(pythons, key=lambda known: (abs(numbers(known)[1] - minor), -numbers(known)[1]))
