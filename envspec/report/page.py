"""The page as one HTML file: what the script needs, what there is without it, and the style."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.resources import files
from string import Template

from envspec.report import embed, sections
from envspec.report.model import Page
from envspec.report.sections import text

_SECTIONS = {
    "targets": "Targets",
    "packages": "Packages",
    "size": "Download size",
    "graph": "Dependencies",
    "licences": "Licences",
    "gpus": "GPU coverage",
    "vulnerabilities": "Vulnerabilities",
    "changes": "Changes",
}


def html(page: Page) -> str:
    """The page, the same bytes for the same values. Everything foreign is escaped, and nothing is ever loaded."""
    style, script = _asset("style.css"), _asset("script.js")
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f'<meta http-equiv="Content-Security-Policy" content="{embed.policy(style, script)}">',
            f"<title>{text(page.name)}: {len(page.packages)} packages, {len(page.targets)} targets</title>",
            f"<style>{style}</style>",
            "</head>",
            "<body>",
            '<a class="skip" href="#main">Skip to the content</a>',
            *_header(page),
            '<main id="main">',
            *_section("targets", sections.targets(page)),
            *_section("packages", _packages(page)),
            *_section("size", [_asset("size.html")]),
            *_section("graph", [_asset("graph.html")]),
            *_section("licences", sections.licences(page)),
            *_section("gpus", sections.gpus(page)),
            *_section("vulnerabilities", sections.vulnerabilities(page)),
            *_section("changes", sections.compared(page)),
            "</main>",
            f"<footer><p>{text(page.lock)} <span>{text(page.digest)}</span></p></footer>",
            f'<script type="application/json" id="data">{embed.document(page)}</script>',
            f"<script>{script}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _asset(name: str) -> str:
    return files("envspec.report").joinpath(f"assets/{name}").read_text(encoding="utf-8")


def _header(page: Page) -> Iterator[str]:
    pinned = f" · nothing newer than {text(page.exclude_newer)}" if page.exclude_newer else ""
    yield f'<header><h1>{text(page.name)}</h1><p class="lead">{text(page.description)}</p>'
    yield f'<p class="quiet">{text(page.spec)}{pinned}</p>'
    yield f'<ul class="figures">{"".join(sections.figures(page))}</ul></header>'
    links = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title in _SECTIONS.items())
    yield f'<nav aria-label="Sections"><ul>{links}</ul></nav>'


def _section(name: str, body: Iterable[str]) -> Iterator[str]:
    yield f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{_SECTIONS[name]}</h2>'
    yield from body
    yield "</section>"


def _packages(page: Page) -> Iterator[str]:
    licences = (
        f'<option value="{number}">{text(one.name) if one.name else "not stated"} ({len(one.packages)})</option>'
        for number, one in enumerate(page.licences)
        if one.packages
    )
    boxes = (
        f'<label><input type="checkbox" name="target" value="{place}" checked> {text(target.name)}</label>'
        for place, target in enumerate(page.targets)
    )
    yield Template(_asset("packages.html")).substitute(
        licences="".join(licences),
        targets="".join(boxes),
        disabled="" if page.audit else " disabled",
        vulnerable="Vulnerable" if page.audit else "Vulnerable (not checked)",
        count=len(page.packages),
        direct="".join(sections.direct_packages(page)),
    )
