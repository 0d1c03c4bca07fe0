"""A review as a comment of a pull request: GitHub's Markdown, details folded, never longer than a comment may be.

Names, licences and URLs come from packages, so any author controls them. None of these may become markup, a link, or
a mention that notifies people.
"""

from __future__ import annotations

import re
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

_HEAD = 10
"""Lines before the first fold."""


def markdown(review: Review, limit: int = LIMIT) -> str:
    """Render a review as Markdown of at most `limit` characters (1000 or more); the rest is cut, with a count.

    It begins like a changelog, in at most `_HEAD` lines, which are cut last. Of the details each part keeps its first
    line before any gets its second.
    """
    named = f"{review.name}: {words.summary(review)}" if review.name else words.summary(review)
    out = f"### {_within(named, limit // 4)}\n\n"
    titles = f"Compared: {inert(review.old_title)} → {inert(review.new_title)}\n\n"
    advice = f"**{words.ADVICE[review.risk]}** " if review else ""
    if len(out) + len(advice) + len(titles) < limit // 2:
        out += f"{advice}{titles}"
    elif advice:
        out += f"{advice}\n\n"
    out += "".join(_changelog(review, limit - len(out) - _TAIL, limit // 3)) + "\n"
    sections = list(_sections(review))
    # as much for each as leaves the others room for what they begin with, or for the note that they are cut
    least = [section.least for section in sections]
    if len(out) + sum(least) > limit:
        least = [_NOTE] * len(sections)
    if len(out) + sum(least) > limit:
        lines = sum(len(section.lines) for section in sections)
        return f"{out}*{plural(lines, 'more line')}: `envspec diff` shows them.*\n"
    for number, section in enumerate(sections, 1):
        out += section.text(limit - len(out) - sum(least[number:]))
    return out


def _changelog(review: Review, room: int, longest: int) -> Iterator[str]:
    gaps = [*review.verified.gaps()] if review.verified else []
    # of a database that doesn't answer one line; below are all
    gaps += [*review.looked_up.gaps()][:1] if review.looked_up else []
    lines = [f"- {_MARKS['medium']} {_within(line, longest)}\n" for line in gaps]
    ordered = words.by_kind(review.shouted, lambda pair: pair[1].code)
    shouted = [f"> {_within(f'{row.name}: {words.fact(fact)}', longest)}\n" for row, fact in ordered]
    alarm = "> [!CAUTION]\n"
    if shouted:
        shouted = [alarm, *_first(shouted, 3, room - len(alarm) - _TAIL, "> and {} more of this kind\n"), "\n"]
        yield from shouted
    lines += [f"- {_MARKS[risk]} {_within(line, longest)}\n" for risk, line in words.changelog(review)]
    most = _HEAD - 2 - max(len(shouted) - 1, 0)
    yield from _first(lines, most, room - sum(map(len, shouted)), "- and {} more, folded below\n")


def _first(lines: list[str], most: int, room: int, more: str) -> list[str]:
    """Return the first lines, at most so many and of so many characters, the last of which counts the others."""
    if len(lines) <= most and sum(map(len, lines)) <= room:
        return lines
    room -= len(more)
    shown: list[str] = []
    for line in lines[: most - 1]:
        if len(line) > room:
            break
        room -= len(line)
        shown.append(line)
    return [*shown, more.format(len(lines) - len(shown))]


def _within(text: str, room: int) -> str:
    """Escape a text and cut it to a room."""
    while len(shown := inert(text)) > room:
        text = f"{text[: len(text) * 3 // 4]}..."
    return shown


def inert(text: str) -> str:
    """Escape a foreign text so that Markdown shows it and does nothing else: no markup, table cell, link or mention.

    It stands in the middle of a line. Characters that could be structure there become entities, which never are; all
    others stay, for readers of the raw text. An entity still reads as a mention or an issue's number once it is
    rendered, so `@` and `#` stand in code, where neither is looked for.
    """
    text = clean_text(text)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}..."
    return _STRUCTURE.sub(lambda match: _entity(match[0]), text)


_STRUCTURE = re.compile(
    r"""
      [\\`*~&|$@\#] | <(?![0-9=\ ])
    | (?<![A-Za-z0-9])_ | _(?![A-Za-z0-9])  # inside a word it is no emphasis
    | \](?=[(\[])                           # the end of a link's text
    | (?<!\d):(?=\S) | :(?=[^\s\d])        # https://, :emoji:; not 12:30
    | (?<=www)\.                            # a link without a scheme
    """,
    re.VERBOSE | re.IGNORECASE,
)


def _entity(character: str) -> str:
    entity = f"&#{ord(character)};"
    return f"<code>{entity}</code>" if character in "@#" else entity


class _Section(Struct, frozen=True):
    """`lines` are what may be cut, one by one; `before` and `after` are there as soon as one of them is.

    `what` says how many lines of which kind there are, for when no line fits.
    """

    what: str
    before: str
    lines: tuple[str, ...]
    after: str

    @property
    def least(self) -> int:
        """The room for its first line, and for the count of the others."""
        return len(self.before) + len(self.lines[0]) + len(self.after) + _NOTE

    def text(self, room: int) -> str:
        """Return as many lines as fit, and the count of those that don't. `room` is at least `_NOTE`."""
        used = len(self.before) + len(self.after)
        if used + sum(map(len, self.lines)) <= room:
            return self.before + "".join(self.lines) + self.after
        shown: list[str] = []
        for line in self.lines:
            if used + len(line) > room - _NOTE:
                break
            used += len(line)
            shown.append(line)
        if not shown:
            return f"\n*{self.what} not shown: `envspec diff` shows them.*\n\n"
        left = len(self.lines) - len(shown)
        note = f"*… and {left} more, cut here: `envspec diff` shows them.*"
        return f"{self.before}{''.join(shown)}{self.after}{note}\n\n"


_NOTE = 200
"""Room for the line that says how much of a part was cut."""
_TAIL = 80
"""Room for the line that says how much there is below the head."""


def _sections(review: Review) -> Iterator[_Section]:
    yield from _fold(words.FLAWS, "what can't be right", map(_bullet, review.flaws))
    yield from _fold("GPU", "GPUs", map(_bullet, review.gpu))
    sizes = (f"- {inert(line)}\n" for line in words.downloads(review))
    yield from _fold("Spec and targets", "the spec and targets", (*map(_bullet, review.settings), *sizes))
    plain = (
        ("Chosen", "what was chosen", review.chosen),
        ("Indexes", "what was looked up", review.verified.lines() if review.verified else ()),
        ("Audit", "what was looked up", review.looked_up.lines() if review.looked_up else ()),
    )
    for title, what, texts in plain:
        yield from _fold(title, what, [f"- {inert(line)}\n" for line in texts])
    for section in words.sections(review):
        table = "| package | change | size | asked for | what it means |\n|---|---|---|---|---|\n"
        before = f"<details><summary>{_MARKS[section.risk]} {section.title}</summary>\n\n{table}"
        yield _Section(section.title, before, tuple(map(_row, section.rows)), "\n</details>\n\n")


def _fold(title: str, what: str, lines: Iterable[str]) -> Iterator[_Section]:
    if texts := tuple(lines):
        count = f"{plural(len(texts), 'line')} on {what}"
        yield _Section(count, f"<details><summary>{title}</summary>\n\n", texts, "\n</details>\n\n")


def _bullet(fact: Fact) -> str:
    return f"- {_MARKS[fact.risk]} {inert(words.fact(fact))}\n"


def _row(row: Row) -> str:
    # new packages of all risks stand together
    mark = f"{_MARKS[row.risk]} " if row.new else ""
    name = f"{mark}**{inert(row.name)}**" + (" (conda)" if row.kind == "conda" else "")
    changes = "<br>".join(_change(move) for move in row.moves)
    sizes = "<br>".join(" ".join(filter(None, (size, inert(where)))) for size, where in words.sizes(row))
    links = (f"[releases]({page})" for page in words.releases(row))
    means = "<br>".join(dict.fromkeys((*(inert(line) for _, line in words.meaning(row)), *links)))
    return f"| {name} | {changes} | {sizes} | {inert(words.origin(row))} | {means} |\n"


def _change(move: Move) -> str:
    return " ".join(filter(None, (inert(words.versions(move)), words.jump(move), inert(words.where(move.targets)))))
