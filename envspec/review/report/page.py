"""The page as one HTML file: the template's values and the script's data."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from msgspec.structs import asdict

from envspec.base.html_page import asset, render
from envspec.base.texts import clean_text
from envspec.lock.graph import Node
from envspec.review.diff import words
from envspec.review.diff.rows import Move
from envspec.review.report import sections
from envspec.review.report.model import Page, Variant


def changes_data(page: Page) -> list[dict[str, Any]] | None:
    """Give each changed package: its place in `Page.packages` (None for one that is gone), its risk, and its moves.
    None where nothing was compared. In place of a list of targets, null stands for all of them."""
    if page.review is None:
        return None
    places = {Node(package.kind, package.name): number for number, package in enumerate(page.packages)}
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


def html(page: Page) -> str:
    """Render the page: the same bytes for the same values. All foreign text is escaped, and the page loads nothing."""
    style, script = (asset(f"review/report/assets/{name}") for name in ("style.css", "script.js"))
    hashes = f"style-src {_hash(style)}; script-src {_hash(script)}"
    return render(
        "review/report/assets/page.html.j2",
        # a page that has exactly this style and this script, and loads nothing
        policy=f"default-src 'none'; {hashes}; base-uri 'none'; form-action 'none'",
        page=page,
        review=page.review,
        data=page_data(page),
        style=style,
        script=script,
        words=words,
        sections=sections,
    )


_INERT = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
"""What could end a script element, open a comment, or end a line in old engines, as JSON's own escapes."""


def page_data(page: Page) -> str:
    """Return the JSON that the script reads. In place of a list of targets, null stands for all of them."""
    whole = {
        "targets": [
            {"name": t.name, "packages": t.packages, "download": t.download, "unsized": list(t.unsized)}
            for t in page.targets
        ],
        "licences": [licence.name for licence in page.licences],
        "packages": [
            {
                "kind": package.kind,
                "name": package.name,
                "direct": bool(package.direct),
                "variants": [_variant(variant, len(page.targets)) for variant in package.variants],
            }
            for package in page.packages
        ],
        "links": [
            [-1 if link.source is None else link.source, link.target, link.requirement]
            + ([] if len(link.targets) == len(page.targets) else [list(link.targets)])
            for link in page.links
        ],
        "audited": page.audit is not None,
        "vulnerable": _vulnerable(page),
        "changes": changes_data(page),
    }
    return json.dumps(_clean(whole), ensure_ascii=False, separators=(",", ":")).translate(_INERT)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _variant(variant: Variant, targets: int) -> dict[str, Any]:
    return {**asdict(variant), "targets": None if len(variant.targets) == targets else list(variant.targets)}


def _vulnerable(page: Page) -> dict[str, list[str]]:
    """Return the identifiers of the vulnerabilities that count, by package."""
    identifiers: dict[str, list[str]] = {}
    for trouble in page.audit.vulnerabilities if page.audit else ():
        names = identifiers.setdefault(str(trouble.package), [])
        if trouble.id and trouble.id not in names:
            names.append(trouble.id)
    return identifiers


def _clean(value: Any) -> Any:
    """Remove the characters that steer a terminal or reverse a line's direction from every text."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {key: _clean(member) for key, member in value.items()}
    return [_clean(member) for member in value] if isinstance(value, list) else value
