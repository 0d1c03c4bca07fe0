"""The page as one HTML file: the script's data, the content that needs no script, and the style."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from string import Template
from typing import Any

from msgspec.structs import asdict

from envspec.base.html_page import frame, text
from envspec.base.texts import clean_text
from envspec.lock.graph import Node
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


_SECTIONS = {
    "changes": "Changes",
    "vulnerabilities": "Vulnerabilities",
    "packages": "Packages",
    "targets": "Targets",
    "size": "Download size",
    "graph": "Dependencies",
    "licences": "Licences",
    "gpus": "GPU coverage",
}
"""In the order of a review: what changed and what is known to be wrong come first."""


def html(page: Page) -> str:
    """Render the page: the same bytes for the same values. All foreign text is escaped, and the page loads nothing."""
    style, script = _asset("style.css"), _asset("script.js")
    title = f"{text(page.name)}: {len(page.packages)} packages, {len(page.targets)} targets"
    body = (
        '<a class="skip" href="#main">Skip to the content</a>',
        *_header(page),
        '<main id="main">',
        *_section("changes", sections.comparison(page)),
        *_section("vulnerabilities", sections.vulnerabilities(page)),
        *_section("packages", _packages(page)),
        *_section("targets", (*sections.targets(page), *sections.pythons(page))),
        *_section("size", [_asset("size.html")]),
        *_section("graph", [_asset("graph.html")]),
        *_section("licences", sections.licences(page)),
        *_section("gpus", sections.gpus(page)),
        "</main>",
        f"<footer><p>{text(page.lock)} <span>{text(page.digest)}</span></p></footer>",
        f'<script type="application/json" id="data">{page_data(page)}</script>',
        f"<script>{script}</script>",
    )
    return frame(title, style, body, content_policy(style, script), ['<meta name="referrer" content="no-referrer">'])


def _asset(name: str) -> str:
    return Path(__file__).with_name("assets").joinpath(name).read_text(encoding="utf-8")


def _header(page: Page) -> Iterator[str]:
    pinned = (
        f' · nothing newer than <span class="whole">{text(page.exclude_newer)}</span>' if page.exclude_newer else ""
    )
    yield f'<header><h1>{text(page.name)}</h1><p class="lead">{text(page.description)}</p>'
    yield f'<p class="quiet">{text(page.spec)}{pinned}</p>'
    yield from sections.eyes(page)
    yield f'<ul class="figures">{"".join(sections.figures(page))}</ul></header>'
    links = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title in _SECTIONS.items())
    yield f'<nav aria-label="Sections"><ul>{links}</ul></nav>'


def _section(name: str, body: Iterable[str]) -> Iterator[str]:
    yield f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{_SECTIONS[name]}</h2>'
    yield from body
    yield "</section>"


def _packages(page: Page) -> Iterator[str]:
    licences = (
        f'<option value="{number}">'
        f"{text(licence.name) if licence.name else 'not stated'} ({len(licence.packages)})</option>"
        for number, licence in enumerate(page.licences)
        if licence.packages
    )
    boxes = (
        f'<label><input type="checkbox" name="target" value="{place}" checked> {text(target.name)}</label>'
        for place, target in enumerate(page.targets)
    )
    yield Template(_asset("packages.html")).substitute(
        licences="".join(licences),
        targets="".join(boxes),
        disabled="" if page.audit else " disabled",
        uncompared="" if page.review else " disabled",
        changed="Changed" if page.review is not None else "Changed (not compared)",
        vulnerable="Vulnerable" if page.audit else "Vulnerable (not checked)",
        count=len(page.packages),
        direct="".join(sections.direct_packages(page)),
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


def content_policy(style: str, script: str) -> str:
    """Return a Content-Security-Policy for a page that has exactly this style and this script, and loads nothing."""
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )


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
