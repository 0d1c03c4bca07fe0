"""CUDA's libraries under new names: with another CUDA major, each is another package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from envspec.facts.cuda_stack import is_toolkit, same_library
from envspec.review.diff.model import Diff, PinChange
from envspec.review.diff.rows import Move, Row, View, highest, in_order

TITLE = "CUDA libraries"
"""Their title, in place of a package's name."""

Partners = Mapping[tuple[str, str], str]
"""By a package's name and a target: the package whose place it took, or that took its place."""


def partners(change: Diff) -> Partners:
    """Pair the libraries that came with those that went, target by target."""
    came: dict[str, list[str]] = {}
    went: dict[str, list[str]] = {}
    for package in change.packages:
        if package.kind == "pip" and is_toolkit(package.name):
            for pin_change in package.changes:
                side = came if pin_change.old is None else went if pin_change.new is None else None
                for target in pin_change.targets if side is not None else ():
                    side.setdefault(target, []).append(package.name)  # type: ignore[union-attr]
    pairs: dict[tuple[str, str], str] = {}
    for target, names in came.items():
        for name in names:
            old = next((other for other in went.get(target, ()) if same_library(name, other)), None)
            if old is not None:
                pairs[name, target], pairs[old, target] = old, name
    return pairs


def partner_of(name: str, change: PinChange, known: Partners) -> str | None:
    """Return the partner that a package has in all targets of a change."""
    names = {known.get((name, target)) for target in change.targets}
    return names.pop() if len(names) == 1 else None


def fold(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows for a reader, with single rows merged: one for all CUDA libraries that only have another name,
    one for those that moved with torch, and one for the files of another Python."""
    return _fold_followers(_fold_renames(tuple(rows)))


def _fold_followers(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Fold the rows of low risk that follow from one cause alone."""
    causes: dict[str, list[Row]] = {}
    for row in rows:
        row_causes = {move.cause or "" for move in row.moves}
        if row.risk != "low" or row.fixes or any(move.needs or move.drops for move in row.moves):
            continue
        if all(cause.startswith("Python ") for cause in row_causes):
            causes.setdefault(_FILES, []).append(row)
        elif "" not in row_causes and is_toolkit(row.name):
            causes.setdefault(TITLE, []).append(row)
    folded = {title: followers for title, followers in causes.items() if len(followers) >= _FEWEST}
    gone = {id(row) for followers in folded.values() for row in followers}
    more = [Row("pip", title, False, None, tuple(_followers(followers)), "low") for title, followers in folded.items()]
    return in_order((*more, *(row for row in rows if id(row) not in gone)))


_FILES = "compiled packages"


def _followers(rows: Iterable[Row]) -> Iterator[Move]:
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[Row, Move]]] = {}
    for row in rows:
        for move in row.moves:
            groups.setdefault((move.cause or "", move.targets), []).append((row, move))
    for (cause, targets), members in groups.items():
        is_python = cause.startswith("Python ")
        yield Move(
            action="changed",
            old=_together(move.old for _, move in members),
            new=_together(move.new for _, move in members),
            jump="none",
            targets=targets,
            facts=(),
            needs=(),
            drops=(),
            renamed=tuple(
                f"{row.name} {_version(move.new)}"
                if _version(move.old) == _version(move.new)
                else f"{row.name} {_version(move.old)} -> {_version(move.new)}"
                for row, move in members
            ),
            what=f"of the same versions, in their files for {cause}" if is_python else f"moved with {cause}",
        )


def _fold_renames(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    by_name = {row.name: row for row in rows if row.kind == "pip"}
    pairs = [
        (row, move, other, gone)
        for row in rows
        for move in row.moves
        if move.action == "added" and move.partner
        for other in [by_name.get(move.partner)]
        for gone in (other.moves if other else ())
        if other and gone.partner == row.name and gone.targets == move.targets
    ]
    if len(pairs) < _FEWEST:
        return rows
    done = {id(side) for _, move, _, gone in pairs for side in (move, gone)}
    left = (replace(row, moves=tuple(m for m in row.moves if id(m) not in done)) for row in rows)
    groups: dict[tuple[str, ...], list[tuple[Move, Move, str]]] = {}
    for row, move, other, gone in pairs:
        text = f"{other.name} {_version(gone.old)} is {row.name} {_version(move.new)} now"
        groups.setdefault(move.targets, []).append((gone, move, text))
    risk = highest(side.risk for row, _, other, _ in pairs for side in (row, other))
    folded = Row("pip", TITLE, False, None, tuple(_fold_moves(*group) for group in groups.items()), risk)
    return in_order((folded, *(row for row in left if row.moves)))


_FEWEST = 2


def _fold_moves(targets: tuple[str, ...], members: list[tuple[Move, Move, str]]) -> Move:
    facts = tuple(dict.fromkeys(fact for gone, move, _ in members for fact in (*gone.facts, *move.facts)))
    return Move(
        action="changed",
        old=_together(gone.old for gone, _, _ in members),
        new=_together(move.new for _, move, _ in members),
        jump="none",
        targets=targets,
        facts=facts,
        needs=(),
        drops=(),
        renamed=tuple(text for _, _, text in members),
    )


def _together(views: Iterable[View | None]) -> View:
    sizes = [view.size if view else None for view in views]
    total = sum(size for size in sizes if size is not None) if None not in sizes else None
    return View("", None, None, None, None, total)


def _version(view: View | None) -> str:
    return view.version if view else ""
