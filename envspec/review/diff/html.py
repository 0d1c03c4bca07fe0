"""A review as one self-contained page: no script, no network, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from envspec.base.html_page import frame, text
from envspec.review.diff import words
from envspec.review.diff.rows import Fact, Move, Review, Row

_HEADS = ("package", "change", "size", "asked for", "what it means")


def html(review: Review) -> str:
    """Return the page. Everything foreign is escaped; the page's own policy forbids scripts and any loading."""
    title = text(f"{review.name}: {words.summary(review)}" if review.name else words.summary(review))
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    whole = (
        "<main>",
        f"<h1>{title}</h1>",
        f"<p>{text(review.old_title)} → {text(review.new_title)}</p>",
        *body(review),
        "</main>",
    )
    return frame(title, f"\n{style}", whole)


def body(review: Review, heading: str = "h2") -> Iterator[str]:
    """Yield the review without a page around it: pieces of HTML, whose own titles are `heading`s."""
    for row, fact in review.shouted:
        yield f'<p class="alarm"><strong>{text(row.name)}</strong>: {_escape(words.fact(fact))}</p>'
    for how in (review.verified, review.looked_up):
        yield from (f'<p class="medium">{text(line)}</p>' for line in (how.gaps() if how else ()))
    yield from _facts(words.FLAWS, review.flaws, heading=heading)
    yield from _facts("GPU", review.gpu, heading=heading)
    more = [_escape(f"download {size} {words.where(names)}") for size, names in words.downloads(review)]
    yield from _facts("Spec and targets", review.settings, more, heading=heading)
    if review.chosen:
        yield from _facts("Chosen", (), map(text, review.chosen), heading=heading)
    if review.verified:
        yield from _facts("Indexes", (), map(text, review.verified.lines()), heading=heading)
    if review.looked_up:
        yield from _facts("Audit", (), map(text, review.looked_up.lines()), heading=heading)
    for section in words.sections(review):
        yield f"<details{' open' if section.opened else ''}>"
        yield f'<summary class="{section.risk}">{section.title}</summary>'
        yield f'<div class="scroll" role="region" aria-label="{section.title}" tabindex="0"><table class="cards">'
        yield f"<thead><tr>{''.join(f'<th scope=col>{head}</th>' for head in _HEADS)}</tr></thead>"
        yield "<tbody>"
        yield from map(_row, section.rows)
        yield "</tbody></table></div></details>"


def _escape(value: str) -> str:
    """Escape a text, its arrows as one character: a narrow screen breaks a line between the two of `->`."""
    return text(value).replace("-&gt;", "→")


def _facts(title: str, facts: tuple[Fact, ...], more: Iterable[str] = (), *, heading: str) -> Iterator[str]:
    lines = [f'<li><span class="{fact.risk}">{fact.risk}</span> {_escape(words.fact(fact))}</li>' for fact in facts]
    lines += [f"<li>{line}</li>" for line in more]
    if lines:
        yield f"<{heading}>{title}</{heading}>"
        yield f"<ul>{''.join(lines)}</ul>"


def _row(row: Row) -> str:
    kind = " (conda)" if row.kind == "conda" else ""
    cells = [
        "".join(_change(move) for move in row.moves),
        "".join(f"<p>{size}{_where(where)}</p>" for size, where in words.sizes(row)),
        text(words.origin(row)),
        "".join(dict.fromkeys(_meaning(row))),
    ]
    name = f"<th scope=row>{text(row.name)}{kind}</th>"
    # a cell names its column itself, where a phone shows a row as a card
    labelled = zip(_HEADS[1:], cells, strict=True)
    return "".join(["<tr>", name, *(f'<td data-head="{head}">{cell}</td>' for head, cell in labelled), "</tr>"])


def _change(move: Move) -> str:
    return f"<p>{_escape(words.versions(move))} {words.jump(move)}{_where(words.where(move.targets))}</p>"


def _where(targets: str) -> str:
    return f' <span class="targets">{text(targets)}</span>' if targets else ""


def _meaning(row: Row) -> Iterator[str]:
    for move in row.moves:
        yield from (f'<p class="{fact.risk}">{_escape(words.fact(fact))}</p>' for fact in move.facts)
        yield from (f"<p>{_escape(edge)}</p>" for edge in words.edges(move))
        if move.releases:
            yield f'<p><a href="{text(move.releases)}" rel="noreferrer">releases</a></p>'
