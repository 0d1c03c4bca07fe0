"""A review as one self-contained page: no script, no network, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from envspec.base.texts import clean_text
from envspec.review.diff import words
from envspec.review.diff.rows import Fact, Move, Review, Row

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --high: #c62828; --medium: #8a5a00; --low: #2e7d32; }
@media (prefers-color-scheme: dark) { :root { --high: #ff8a80; --medium: #ffcc66; --low: #81c784; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin: 1.5rem 0 .3rem; }
summary { font-size: 1.1rem; font-weight: 600; cursor: pointer; margin: 1rem 0 .3rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
td p { margin: 0; } ul { padding-left: 1.2rem; }
.high { color: var(--high); font-weight: 600; } .medium { color: var(--medium); } .low { color: var(--low); }
.alarm { border: 2px solid var(--high); border-radius: .4rem; padding: .6rem 1rem; }
.targets { opacity: .75; } td[data-head=size] { white-space: nowrap; }
@media (max-width: 40rem) {
  .cards, .cards tbody, .cards tr, .cards th, .cards td { display: block; } .cards thead { display: none; }
  .cards tr { border: 1px solid var(--line); border-radius: .4rem; margin: .5rem 0; padding: .3rem 0; }
  .cards th, .cards td { border: 0; padding: .15rem .6rem; overflow-wrap: anywhere; } .cards td:empty { display: none; }
  .cards td::before { content: attr(data-head); display: block; font-size: .8rem; opacity: .75; }
}
@media print { details::details-content { content-visibility: visible; display: block; height: auto; } }
"""

_HEADS = ("package", "change", "size", "asked for", "what it means")

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def html(review: Review) -> str:
    """Return the page. Everything foreign is escaped; the page's own policy forbids scripts and any loading."""
    title = _text(f"{review.name}: {words.summary(review)}" if review.name else words.summary(review))
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<title>{title}</title>",
            f"<style>{_STYLE}</style>",
            "</head>",
            "<body>",
            "<main>",
            f"<h1>{title}</h1>",
            f"<p>{_text(review.old_title)} → {_text(review.new_title)}</p>",
            *body(review),
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


def body(review: Review, heading: str = "h2") -> Iterator[str]:
    """Yield the review without a page around it: pieces of HTML, whose own titles are `heading`s."""
    for row, fact in review.shouted:
        yield f'<p class="alarm"><strong>{_text(row.name)}</strong>: {_text(words.fact(fact))}</p>'
    if review.chosen:
        yield from _facts("Chosen", (), map(_text, review.chosen), heading=heading)
    if review.asked:
        yield from _facts("Indexes", (), map(_text, review.asked.lines()), heading=heading)
    if review.looked_up:
        yield from _facts("Audit", (), map(_text, review.looked_up.lines()), heading=heading)
    yield from _facts(words.FLAWS, review.flaws, heading=heading)
    yield from _facts("GPU", review.gpu, heading=heading)
    more = [_text(f"download {size} {words.where(names)}") for size, names in words.downloads(review)]
    yield from _facts("Spec and targets", review.settings, more, heading=heading)
    for section in words.sections(review):
        yield f"<details{' open' if section.opened else ''}>"
        yield f'<summary class="{section.risk}">{section.title}</summary>'
        yield f'<div class="scroll" role="region" aria-label="{section.title}" tabindex="0"><table class="cards">'
        yield f"<thead><tr>{''.join(f'<th scope=col>{head}</th>' for head in _HEADS)}</tr></thead>"
        yield "<tbody>"
        yield from map(_row, section.rows)
        yield "</tbody></table></div></details>"


def _facts(title: str, facts: tuple[Fact, ...], more: Iterable[str] = (), *, heading: str) -> Iterator[str]:
    lines = [f'<li><span class="{fact.risk}">{fact.risk}</span> {_text(words.fact(fact))}</li>' for fact in facts]
    lines += [f"<li>{line}</li>" for line in more]
    if lines:
        yield f"<{heading}>{title}</{heading}>"
        yield f"<ul>{''.join(lines)}</ul>"


def _row(row: Row) -> str:
    kind = " (conda)" if row.kind == "conda" else ""
    cells = [
        "".join(_change(move) for move in row.moves),
        "".join(f"<p>{size}{_where(where)}</p>" for size, where in words.sizes(row)),
        _text(words.origin(row)),
        "".join(dict.fromkeys(_meaning(row))),
    ]
    name = f"<th scope=row>{_text(row.name)}{kind}</th>"
    # a cell names its column itself, where a phone shows a row as a card
    told = zip(_HEADS[1:], cells, strict=True)
    return "".join(["<tr>", name, *(f'<td data-head="{head}">{cell}</td>' for head, cell in told), "</tr>"])


def _change(move: Move) -> str:
    return f"<p>{_text(words.versions(move))} {words.jump(move)}{_where(words.where(move.targets))}</p>"


def _where(targets: str) -> str:
    return f' <span class="targets">{_text(targets)}</span>' if targets else ""


def _meaning(row: Row) -> Iterator[str]:
    for move in row.moves:
        yield from (f'<p class="{fact.risk}">{_text(words.fact(fact))}</p>' for fact in move.facts)
        yield from (f"<p>{_text(edge)}</p>" for edge in words.edges(move))


def _text(text: str) -> str:
    return escape(clean_text(text))
