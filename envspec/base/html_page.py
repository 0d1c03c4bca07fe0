"""Self-contained HTML pages: the frame around a page that loads nothing, and foreign texts escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from envspec.base.texts import clean_text

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The Content-Security-Policy of a page without scripts."""


def text(value: str) -> str:
    """Escape a foreign text so that HTML shows it and does nothing else."""
    return escape(clean_text(value))


def frame(title: str, style: str, body: Iterable[str], policy: str = POLICY, head: Iterable[str] = ()) -> str:
    """Make a page of its body's lines. `title` is escaped already."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            *head,
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            f"<title>{title}</title>",
            f"<style>{style}</style>",
            "</head>",
            "<body>",
            *body,
            "</body>",
            "</html>",
            "",
        ]
    )
