"""The phrases that text, Markdown and HTML share.

The phrases quote files and indexes as they are. Each renderer passes all its texts through one function, which removes
what would steer a terminal or become markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from envspec.base.texts import plural
from envspec.review.diff.facts import RISKS, Fact, Risk, highest
from envspec.review.diff.renames import fold_renames
from envspec.review.diff.rows import Move, Review, Row, TargetSize

SHOWN = 4
"""How many names of a list are shown; the JSON output has all of them."""


FLAWS = "What can't be right in this lock"
"""The heading above the flaws of a new lock."""


@dataclass(frozen=True)
class Section:
    """Rows under one heading. `risk` is what colours it, `opened` says that a reviewer must see it."""

    title: str
    heading: str
    rows: tuple[Row, ...]
    risk: Risk
    opened: bool


def sections(review: Review) -> Iterator[Section]:
    """Yield the rows in the order of reading: high risk, new packages, medium, low. `heading` is the short form of
    `title`, which counts them."""
    rows = fold_renames(review.rows)
    for risk in RISKS:
        found = tuple(row for row in rows if row.risk == risk and not row.new)
        if found:
            yield Section(f"{plural(len(found), 'package')} at {risk} risk", f"{risk} risk", found, risk, risk != "low")
        if risk == "high" and (new := tuple(row for row in rows if row.new)):
            yield Section(
                plural(len(new), "new package"), "new packages", new, highest(row.risk for row in new), opened=True
            )


def bytes_text(size: int) -> str:
    """Return "12 kB", "1.3 MB", "2.94 GB"."""
    for limit, unit, digits in ((10**9, "GB", 2), (10**6, "MB", 1), (10**3, "kB", 0)):
        if size >= limit:
            return f"{size / limit:.{digits}f} {unit}"
    return f"{size} B"


def join_names(names: Iterable[str], shown: int = SHOWN) -> str:
    """Return "a, b, c, d and 3 more"."""
    found = list(names)
    more = len(found) - shown
    # "and 1 more" is no shorter than the one
    return ", ".join(found) if more <= 1 else f"{', '.join(found[:shown])} and {more} more"


def summary(review: Review) -> str:
    """Sum a review up in one line: the highest risk, how many packages changed, and how many at each risk."""
    if not review:
        return "no difference"
    risks = ", ".join(f"{review.count(risk)} {risk}" for risk in RISKS if review.count(risk))
    packages = f"{plural(len(review.rows), 'package')} changed"
    return f"{review.risk} risk: {packages}" + (f" ({risks})" if risks else "")


def versions(move: Move) -> str:
    """Return "2.9.1 -> 2.10.0", "new 1.2", "1.2 removed"."""
    if move.renamed:
        return f"{len(move.renamed)} renamed"
    if move.old is None or move.new is None:
        one = move.old or move.new
        version = one.version if one else ""
        return f"new {version}" if move.old is None else f"{version} removed"
    if move.old.version == move.new.version and move.old.variant != move.new.variant:
        return f"{move.new.version} variant {move.old.variant or 'none'} → {move.new.variant or 'none'}"
    if move.old.version == move.new.version:
        return move.new.version
    return f"{move.old.version} -> {move.new.version}"


def jump(move: Move) -> str:
    """Return "minor", "patch down", "another build"; empty where the version stayed."""
    return "another build" if move.jump == "local" else "" if move.jump in ("none", "other") else move.jump


def where(targets: Iterable[str]) -> str:
    """Return "[a, b]"; empty for everywhere."""
    names = join_names(targets, 6)
    return f"[{names}]" if names else ""


def origin(row: Row) -> str:
    """Return "direct", "via torch, peft", or nothing where it isn't known."""
    if row.direct:
        return "direct"
    if row.via:
        return f"via {join_names(row.via)}"
    # conda's solver adds packages that nothing requires
    return "" if row.via is None else "required by nothing"


def size(move: Move) -> str:
    """Return "+12.1 MB", "-3 kB", the whole size of what came or went; empty where it isn't known or didn't change.

    "up to +12.1 MB" where it isn't the same in all targets.
    """
    text = _size(move)
    return f"up to {text}" if text and any(_size(part) != text for part in move.parts) else text


def _size(move: Move) -> str:
    was = move.old.size if move.old else 0
    now = move.new.size if move.new else 0
    if was is None or now is None or was == now:
        return ""
    return f"{'+' if now > was else '-'}{bytes_text(abs(now - was))}"


def edges(move: Move) -> Iterator[str]:
    """Say which packages are called otherwise now, and which requirements appeared or vanished, and where if not in all
    targets of the move."""
    yield from move.renamed
    found: dict[str, list[Move]] = {}
    for part in move.exact:
        if part.needs:
            found.setdefault(f"needs {join_names(part.needs)} now", []).append(part)
        if part.drops:
            found.setdefault(f"no longer needs {join_names(part.drops)}", []).append(part)
    for text, parts in found.items():
        everywhere = len(parts) == len(move.exact)
        yield text if everywhere else f"{text} {where(sorted(name for part in parts for name in part.targets))}"


def fact(one: Fact) -> str:
    """Join a fact's sentence and where it holds."""
    return " ".join(filter(None, (one.message, where(one.targets))))


def alike(row: Row) -> bool:
    """Return whether all moves of a row read the same."""
    return all(move.facts == row.moves[0].facts for move in row.moves)


def downloads(review: Review) -> Iterator[tuple[str, list[str]]]:
    """Return "3.10 GB -> 3.42 GB" with the targets whose download changes so."""
    found: dict[str, list[str]] = {}
    for one in review.sizes:
        if (text := _download(one)) is not None:
            found.setdefault(text, []).append(one.name)
    yield from found.items()


def targets_came_or_went(review: Review) -> Iterator[str]:
    """Return a line for new targets; removed targets have their own fact."""
    if review.came:
        quiet = f" ({plural(review.quiet, 'package')} as in the others)" if review.quiet else ""
        yield f"new {'target' if len(review.came) == 1 else 'targets'}: {join_names(review.came, 8)}{quiet}"


def _download(one: TargetSize) -> str | None:
    if one.old is None or one.new is None or one.old == one.new:
        return None
    was, now = bytes_text(one.old), bytes_text(one.new)
    return f"{was} -> {now}" if was != now else None
