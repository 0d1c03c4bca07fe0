"""A review whole and uncut: as plain data for JSON, whose schema is `envspec/cli/schemas/diff.json`, and as a page."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from envspec.base.html_page import render
from envspec.lock.model import LockedPython
from envspec.review.diff import words
from envspec.review.diff.rows import Asked, LookedUp, Move, Review, Row


def html(review: Review) -> str:
    """Return a self-contained page. All foreign text is escaped; the page's policy forbids scripts and loading."""
    return render("review/diff/page.html.j2", review=review, words=words)


def as_json(review: Review) -> dict[str, Any]:
    """Return the document without its `schema` key."""
    return {
        "name": review.name,
        "old": review.old_title,
        "new": review.new_title,
        "changed": bool(review),
        "risk": review.risk if review else None,
        "chosen": list(review.chosen),
        "audit": _audit(review.looked_up) if review.looked_up else None,
        "verified": _answers(review.verified) if review.verified else None,
        "flaws": [to_builtins(fact) for fact in review.flaws],
        "spec": [to_builtins(fact) for fact in review.settings],
        "gpu": [to_builtins(fact) for fact in review.gpu],
        "pythons": [
            {"platform": move.platform, "old": _python(move.old), "new": _python(move.new)} for move in review.pythons
        ],
        "targets": {
            "added": list(review.came),
            "removed": list(review.went),
            "renamed": [{"old": old, "new": new} for old, new in review.renamed],
            "downloads": [{"target": size.name, "old": size.old, "new": size.new} for size in review.sizes],
        },
        "packages": [_row(row) for row in review.rows],
    }


def _python(build: LockedPython | None) -> dict[str, Any] | None:
    if build is None:
        return None
    return {"version": build.version, "build": build.build, "file": build.file, "sha256": build.sha256}


def _answers(how: Asked) -> dict[str, Any]:
    return {
        "complete": not how.unasked,
        "pins": {"asked": how.pins, "proved": how.proved, "refuted": how.refuted, "facts": how.by_facts},
        "unasked": [{"reason": reason, "packages": list(names)} for reason, names in how.unasked],
        "unproving": [{"server": server, "packages": list(names)} for server, names in how.brought],
    }


def _audit(how: LookedUp) -> dict[str, Any]:
    return {
        "complete": not how.unread,
        "database": {"name": how.database, "oldest": how.as_of},
        "not_asked": [
            {"codes": list(codes), "reason": reason, "packages": list(names)} for codes, reason, names in how.not_asked
        ],
        "unread": list(how.unread),
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "kind": row.kind,
        "name": row.name,
        "risk": row.risk,
        "direct": row.direct,
        "via": None if row.via is None else list(row.via),
        "new": row.new,
        "changes": [_move(part) for move in row.moves for part in move.exact],
    }


_MOVE = ("action", "targets", "old", "new", "jump", "facts", "needs", "drops", "partner", "cause", "releases")


def _move(move: Move) -> dict[str, Any]:
    values = to_builtins(replace(move, parts=()))
    return {key: values[key] for key in _MOVE}
