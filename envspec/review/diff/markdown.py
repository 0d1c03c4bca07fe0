"""A review as a comment of a pull request: GitHub's Markdown, details folded, never longer than a comment may be.

Names, licences and URLs come from packages, so any author controls them. None of these may become markup, a link, or
a mention that notifies people.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from envspec.base.texts import clean_text, plural
from envspec.review.diff import words
from envspec.review.diff.rows import Fact, Move, Review, Row

LIMIT = 65_000
"""Characters. GitHub takes 65,536 in a comment; the rest is for what a workflow adds of its own."""

_LONGEST = 400
"""Characters of a single foreign text before it is cut; the JSON output has all of it."""

_MARKS = {"high": "🔴", "medium": "🟡", "low": "🟢"}
_PLAIN = " ,;/+%?-.'"
"""ASCII punctuation without a meaning in Markdown in the middle of a line."""


_HEAD = 10
"""Lines before the first fold."""


def markdown(review: Review) -> str:
    """Render a review as Markdown of at most `LIMIT` characters; what doesn't fit is cut, with a count. It begins like
    a changelog, in at most `_HEAD` lines."""
    name = f"{inert(review.name)}: " if review.name else ""
    head = [
        f"### {name}{inert(words.summary(review))}",
        "",
        f"{inert(review.old_title)} → {inert(review.new_title)}",
        "",
    ]
    out = "\n".join((*head, *_changelog(review), "")) + "\n"
    sections = list(_sections(review))
    for number, section in enumerate(sections, 1):
        # whatever comes first, there is room left to say of each of the others that it isn't shown
        out += section.text(LIMIT - len(out) - _NOTE * (len(sections) - number))
    return out


def _changelog(review: Review) -> Iterator[str]:
    gaps = [line for how in (review.asked, review.looked_up) if how for line in how.gaps()]
    lines = [f"- {_MARKS['medium']} {inert(line)}" for line in gaps]
    shouted = [f"> **{inert(row.name)}**: {inert(words.fact(fact))}" for row, fact in review.shouted]
    if shouted:
        yield from ("> [!CAUTION]", *_first(shouted, 3, "> and {} more of this kind"), "")
    lines += [f"- {_MARKS[risk]} {inert(line)}" for risk, line in words.changelog(review)]
    yield from _first(lines, _HEAD - 2 - (min(len(shouted), 4) + 1 if shouted else 0), "- and {} more lines below")


def _first(lines: list[str], most: int, more: str) -> list[str]:
    return lines if len(lines) <= most else [*lines[: most - 1], more.format(len(lines) - most + 1)]


def inert(text: str) -> str:
    """Escape a foreign text so that Markdown shows it and does nothing else: no markup, table cell, link or mention.

    Special characters become entities, which are never structure. An entity still reads as a mention or an issue's
    number once it is rendered, so `@` and `#` stand in code, where neither is looked for.
    """
    text = clean_text(text)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}..."
    # "www." would start a link
    return text.translate(_INERT).replace("www.", "www&#46;").replace("WWW.", "WWW&#46;")


_INERT = {
    code: f"<code>&#{code};</code>" if chr(code) in "@#" else f"&#{code};"
    for code in range(33, 127)
    if not chr(code).isalnum() and chr(code) not in _PLAIN
}


class _Section(Struct, frozen=True):
    """`lines` are what may be cut, one by one; `before` and `after` are there as soon as one of them is.

    `what` says how many lines of which kind there are, for when no line fits.
    """

    what: str
    before: str
    lines: tuple[str, ...]
    after: str

    def text(self, room: int) -> str:
        """Return as many lines as fit, and the count of those that don't. `room` is at least `_NOTE`."""
        used = len(self.before) + len(self.after)
        if used + sum(map(len, self.lines)) <= room:
            return self.before + "".join(self.lines) + self.after
        kept: list[str] = []
        for line in self.lines:
            if used + len(line) > room - _NOTE:
                break
            used += len(line)
            kept.append(line)
        if not kept:
            return f"\n*{self.what} not shown: `envspec diff` shows them.*\n"
        left = len(self.lines) - len(kept)
        return f"{self.before}{''.join(kept)}{self.after}\n*… and {left} more, cut here: `envspec diff` shows them.*\n"


_NOTE = 200
"""Room for the line that says how much was cut."""


def _sections(review: Review) -> Iterator[_Section]:
    plain = (
        ("Chosen", "what was chosen", review.chosen),
        ("Indexes", "what was looked up", review.asked.lines() if review.asked else ()),
        ("Audit", "what was looked up", review.looked_up.lines() if review.looked_up else ()),
    )
    for title, what, told in plain:
        yield from _fold(title, what, [f"- {inert(line)}\n" for line in told])
    yield from _fold(words.FLAWS, "what can't be right", map(_bullet, review.flaws))
    yield from _fold("GPU", "GPUs", map(_bullet, review.gpu))
    sizes = (f"- download {inert(size)} {inert(words.where(names))}\n" for size, names in words.downloads(review))
    yield from _fold("Spec and targets", "the spec and targets", (*map(_bullet, review.settings), *sizes))
    for section in words.sections(review):
        table = "| package | change | size | asked for | what it means |\n|---|---|---|---|---|\n"
        before = f"<details><summary>{_MARKS[section.risk]} {section.title}</summary>\n\n{table}"
        yield _Section(section.title, before, tuple(map(_row, section.rows)), "\n</details>\n\n")


def _fold(title: str, what: str, lines: Iterable[str]) -> Iterator[_Section]:
    if found := tuple(lines):
        count = f"{plural(len(found), 'line')} on {what}"
        yield _Section(count, f"<details><summary>{title}</summary>\n\n", found, "\n</details>\n\n")


def _bullet(fact: Fact) -> str:
    return f"- {_MARKS[fact.risk]} {inert(words.fact(fact))}\n"


def _row(row: Row) -> str:
    # new packages of all risks stand together
    mark = f"{_MARKS[row.risk]} " if row.new else ""
    name = f"{mark}**{inert(row.name)}**" + (" (conda)" if row.kind == "conda" else "")
    changes = "<br>".join(_change(move) for move in row.moves)
    sizes = "<br>".join(" ".join(filter(None, (size, inert(where)))) for size, where in words.sizes(row))
    means = "<br>".join(dict.fromkeys(inert(text) for move in row.moves for text in _means(move)))
    return f"| {name} | {changes} | {sizes} | {inert(words.origin(row))} | {means} |\n"


def _change(move: Move) -> str:
    return " ".join(filter(None, (inert(words.versions(move)), words.jump(move), inert(words.where(move.targets)))))


def _means(move: Move) -> Iterable[str]:
    yield from (words.fact(fact) for fact in move.facts)
    yield from words.edges(move)
