"""What changed, by package and target, for the matrix and the map: from the review's rows."""

from __future__ import annotations

from typing import Any

from envspec.lock.graph import Node
from envspec.review.diff.rows import Move
from envspec.review.report.model import Page


def changes_data(page: Page) -> list[dict[str, Any]] | None:
    """Give each changed package: its place in `Page.packages` (None for one that is gone), its risk, and its moves.
    None where nothing was compared. In place of a list of targets, null stands for all of them."""
    if page.review is None:
        return None
    places = {Node(one.kind, one.name): number for number, one in enumerate(page.packages)}
    names = {target.name: place for place, target in enumerate(page.targets)}
    return [
        {
            "package": places.get(Node(row.kind, row.name)),
            "name": row.name,
            "kind": row.kind,
            "risk": row.risk,
            "moves": [_move(move, names) for whole in row.moves for move in whole.exact],
        }
        for row in page.review.rows
    ]


def _move(move: Move, names: dict[str, int]) -> dict[str, Any]:
    old, new = move.old, move.new
    return {
        "old": old.version if old else None,
        "new": new.version if new else None,
        "size": [old.size if old else 0, new.size if new else 0],
        "targets": [names[name] for name in move.targets if name in names] if move.targets else None,
    }
