"""The faults of the new lock in a comparison, as facts of a review. A review shows them and refuses nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from envspec.lock.formats.foreign.side import Side
from envspec.lock.inputs import spec_case
from envspec.lock.judge import flaws_of as _judged, judge
from envspec.review.diff.rows import RISKS, TARGETS, Asked, Fact, Move, Review, Row, View, highest, in_order
from envspec.spec.model import Spec


def with_flaws(review: Review, side: Side, spec: Spec | None) -> Review:
    """Add the flaws of the new side to a review. A package with a flaw has the flaw's risk."""
    return add_flaws(review, flaws_of(side, spec))


def add_flaws(review: Review, flaws: tuple[Fact, ...]) -> Review:
    """Add flaws to those of a review."""
    if not flaws:
        return review
    named = {flaw.package: flaw.risk for flaw in flaws}
    rows = (replace(row, risk=highest((row.risk, named.get(row.name, "low")))) for row in review.rows)
    return replace(review, flaws=(*review.flaws, *flaws), rows=in_order(rows))


def with_spec_changes(review: Review, facts: Iterable[Fact]) -> Review:
    """Add the spec's own changes to those that its locks show. Where both show a flat index, the spec has the whole
    address."""
    facts = tuple(facts)
    has_addresses = any(fact.code.startswith("index-") for fact in facts)
    moved = {fact.message for fact in facts if fact.code == "index-address-changed"}
    settings = (
        setting
        for setting in review.settings
        if setting.message not in moved and not (has_addresses and setting.code == "find-links-changed")
    )
    ordered = sorted((*settings, *facts), key=lambda fact: (fact.code not in TARGETS, RISKS.index(fact.risk)))
    return replace(review, settings=tuple(ordered))


def flaws_of(side: Side, spec: Spec | None) -> tuple[Fact, ...]:
    """Return the flaws of an envspec lock, judged by its spec where the spec is at hand and hasn't changed since. Files
    of other tools have none."""
    if side.format != "envspec" or not side.lock.targets:
        return ()
    flaws = judge(side.lock) if spec is None else _judged(side.lock, spec_case(spec))
    every = {target.name for target in side.lock}
    return tuple(
        Fact("high", flaw.code, flaw.message, () if set(flaw.targets) == every else flaw.targets, flaw.package)
        for flaw in flaws
    )


# An index's answer about another file of the same version: plain data in, a review out. This module asks no index.


File = tuple[str, str]
"""A file's name and its SHA-256."""


class Answers(Struct, frozen=True):
    """The indexes' answers about a change.

    held      the files that they hold, of either side, under these hashes
    refuted   pins of the new lock that its index contradicts, as facts of high risk
    verified  the number of pins asked about, and those that couldn't be asked about
    yanked    the index's reasons for versions that their publisher yanked, by kind, name and version: sentences
    """

    held: frozenset[File]
    refuted: tuple[Fact, ...]
    verified: Asked
    yanked: Mapping[tuple[str, str, str], str] = {}


def packages_in_doubt(review: Review) -> frozenset[tuple[str, str]]:
    """Return kind and name of the packages whose old files must be asked about, too: those with another file of the
    same version."""
    return frozenset(
        (row.kind, row.name)
        for row in review.rows
        for move in row.moves
        if any(fact.code == "file-changed" and fact.risk == "high" for fact in move.facts)
    )


def with_answers(review: Review, answers: Answers) -> Review:
    """Raise the risk of pins that the indexes refute, and lower that of files that they hold on both sides. Other risks
    stay."""
    raised = lower_risks(add_flaws(review, answers.refuted), answers.held)
    rows = in_order(_add_yanks(row, answers.yanked) for row in raised.rows)
    return replace(raised, verified=answers.verified, rows=rows)


def _add_yanks(row: Row, yanked: Mapping[tuple[str, str, str], str]) -> Row:
    def add(move: Move) -> Move:
        sentence = yanked.get((row.kind, row.name, move.new.version)) if move.new else None
        if sentence is None:
            return move
        fact = Fact("medium", "yanked", sentence)
        facts = tuple(sorted((*move.facts, fact), key=lambda fact: RISKS.index(fact.risk)))
        return replace(move, facts=facts, parts=tuple(map(add, move.parts)))

    moves = tuple(map(add, row.moves))
    return replace(row, moves=moves, risk=highest((row.risk, *(move.risk for move in moves))))


def lower_risks(review: Review, held: Collection[File]) -> Review:
    """Lower the risk of another file of the same version where its index holds both, the old and the new one."""
    risks_around = [(fact.package, fact.risk) for fact in (*review.flaws, *review.gpu)]
    rows = []
    for row in review.rows:
        moves = tuple(_move(move, held) for move in row.moves)
        if moves != row.moves:
            around = (risk for name, risk in risks_around if name == row.name)
            row = replace(row, moves=moves, risk=highest((*(move.risk for move in moves), *around)))
        rows.append(row)
    return replace(review, rows=in_order(rows))


def _move(move: Move, held: Collection[File]) -> Move:
    parts = tuple(_move(part, held) for part in move.parts)
    are_held = [_is_held(part.old, held) and _is_held(part.new, held) for part in move.exact]
    if not all(are_held):
        return replace(move, parts=parts)
    return replace(move, parts=parts, facts=tuple(map(_lower, move.facts)))


def _is_held(view: View | None, held: Collection[File]) -> bool:
    return view is not None and (view.file, view.sha256) in held


def _lower(fact: Fact) -> Fact:
    if fact.code != "file-changed":
        return fact
    return replace(fact, risk="low", message="a different file of the same version: its index holds both")
