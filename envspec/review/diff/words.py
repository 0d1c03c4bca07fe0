"""The phrases that text, Markdown and HTML share.

The phrases quote files and indexes as they are. Each renderer passes all its texts through one function, which removes
control characters of terminals and markup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from msgspec import Struct

from envspec.base.texts import byte_size, few, plural
from envspec.facts.cuda_stack import TORCH
from envspec.review.diff.renames import fold
from envspec.review.diff.rows import RISKS, SHOUTED, Fact, Move, Review, Risk, Row, highest

SHOWN = 4
"""How many names of a list are shown; the JSON output has all of them."""


FLAWS = "What can't be right in this lock"
"""The heading above the flaws of a new lock."""


ADVICE: dict[Risk, str] = {
    "high": "Understand each 🔴 line before you merge.",
    "medium": "Look at the 🟡 lines before you merge.",
    "low": "Routine.",
}
"""What to do about a review of this risk."""

T = TypeVar("T")


def by_kind(items: Iterable[T], kind: Callable[[T], object]) -> list[T]:
    """Order a list by turns: the first of each kind before the second of any, otherwise as they came. So a cut list
    loses no kind to another's many."""
    counts: Counter[object] = Counter()
    numbered: list[tuple[int, T]] = []
    for element in items:
        numbered.append((counts[kind(element)], element))
        counts[kind(element)] += 1
    return [element for _, element in sorted(numbered, key=lambda pair: pair[0])]


class Section(Struct, frozen=True):
    """Rows under one heading. `risk` colours it, `opened`: a reviewer must see it."""

    title: str
    heading: str
    rows: tuple[Row, ...]
    risk: Risk
    opened: bool


def sections(review: Review) -> Iterator[Section]:
    """Yield the rows in the order of reading: high risk, new packages, medium, low. `heading` is the short form of
    `title`, which counts them."""
    rows = fold(review.rows)
    for risk in RISKS:
        of_risk = tuple(row for row in rows if row.risk == risk and not row.new and not row.stays)
        if of_risk:
            title = f"{plural(packages_of(of_risk), 'package')} at {risk} risk"
            yield Section(title, f"{risk} risk", of_risk, risk, risk != "low")
        if risk == "high" and (new := tuple(row for row in rows if row.new)):
            yield Section(
                plural(len(new), "new package"), "new packages", new, highest(row.risk for row in new), opened=True
            )
    if unchanged := tuple(row for row in rows if row.stays):
        title = f"{plural(len(unchanged), 'package')} as installed before"
        yield Section(title, "as installed before", unchanged, "low", opened=False)


def packages_of(rows: Iterable[Row]) -> int:
    """Count the packages of rows as a reader sees them."""
    return sum(row.packages for row in rows)


def join_names(names: Iterable[str], shown: int = SHOWN) -> str:
    """Return "a, b, c, d and 3 more"."""
    return few([*names], shown)


def summary(review: Review) -> str:
    """Sum a review up in one line: the highest risk, the vulnerabilities fixed, and the number of changed packages,
    also by risk."""
    if not review:
        return "no difference"
    rows = fold(review.rows)
    moved = [row for row in rows if not row.stays]
    by_risk = {risk: packages_of(row for row in moved if row.risk == risk) for risk in RISKS}
    risks = ", ".join(f"{count} {risk}" for risk, count in by_risk.items() if count)
    count = plural(packages_of(moved), "package") if moved else "no package"
    packages = f"{count} changed" + (f" ({risks})" if risks else "")
    unchanged = f", {len(rows) - len(moved)} stayed as installed" if len(moved) < len(rows) else ""
    return f"{review.risk} risk{_see(review)}: {', '.join((*_fixes(review), packages))}{unchanged}"


def _see(review: Review) -> str:
    """Name the part that has the risk, where no package has it."""
    parts = ((FLAWS, review.flaws), ("GPU", review.gpu), ("Spec and targets", review.settings))
    if review.risk == "low" or any(row.risk == review.risk for row in review.rows):
        return ""
    return next((f', see "{title}"' for title, facts in parts for fact in facts if fact.risk == review.risk), "")


def _fixes(review: Review) -> Iterator[str]:
    names = [row.name for row in review.rows if row.fixes]
    if names:
        yield f"known vulnerabilities fixed in {join_names(names)}"


def changelog(review: Review) -> list[tuple[Risk, str]]:
    """List the changes that a reader needs first, a line each, the gravest first, and the first of each kind before the
    second of any: fixes, changes that aren't routine, targets, new packages, then packages that the spec asks for by
    name, and the number of other moves. Shouted changes are left out: they stand above. Where none of these changed,
    all changes."""
    return [*_changelog(review)] or [(change.risk, fact(change)) for change in (*review.gpu, *review.settings)]


def _changelog(review: Review) -> Iterator[tuple[Risk, str]]:
    shouted = {row.name for row, _ in review.shouted}
    rows = [row for row in fold(review.rows) if not row.stays]
    for row in (row for row in rows if row.fixes):
        fixes = (fact.message for move in row.moves for fact in move.facts if fact.code == "vulnerability-fixed")
        yield row.risk, f"{describe_row(row)}: {'; '.join(dict.fromkeys(fixes))}"
    without_fixes = [row for row in rows if not row.fixes]
    facts = (*review.flaws, *review.gpu, *review.settings)
    weighed: list[tuple[str, Risk, str]] = []
    for risk in RISKS[:2]:
        lines = [(change.code, fact(change)) for change in facts if change.risk == risk]
        for row in (row for row in without_fixes if row.risk == risk):
            weighty = [change for move in row.moves for change in move.facts if change.risk == risk]
            if row.name in shouted:
                weighty = [change for change in weighty if change.code not in SHOUTED]
                if not weighty:
                    continue
            reasons = "; ".join(dict.fromkeys(change.message for change in weighty))
            lines.append((weighty[0].code if weighty else "", ": ".join(filter(None, (describe_row(row), reasons)))))
        weighed += [(code, risk, line) for code, line in lines]
    yield from ((risk, line) for _, risk, line in by_kind(weighed, lambda line: line[0]))
    routine = (change for change in review.settings if change.risk == "low" and change.code in _TARGETS)
    yield from ((change.risk, fact(change)) for change in routine)
    quiet = [row for row in without_fixes if row.risk == "low"]
    if majors := [row for row in quiet if not row.direct and any(move.jump == "major" for move in row.moves)]:
        yield "low", f"{plural(len(majors), 'major version')}: {join_names(map(describe_row, majors))}"
    if new := [" ".join(filter(None, (row.name, where(row.moves[0].targets)))) for row in quiet if row.new]:
        yield "low", f"{plural(len(new), 'new package')}: {join_names(new, 5)}"
    direct_rows = sorted((row for row in quiet if row.direct and not row.new), key=lambda row: row.name not in TORCH)
    for start in range(0, len(direct_rows), SHOWN):
        yield "low", ", ".join(map(describe_row, direct_rows[start : start + SHOWN]))
    for row in (row for row in quiet if any(move.renamed for move in row.moves)):
        yield "low", describe_row(row)
    rest = [
        row
        for row in quiet
        if not row.direct and not row.new and not any(move.renamed for move in row.moves) and row not in majors
    ]
    if len(rest) == 1:
        yield "low", describe_row(rest[0])
    elif rest:
        yield "low", f"{plural(packages_of(rest), 'package')} that others require: routine"


_TARGETS = ("target-added", "target-renamed", "exclude-newer-changed")


def describe_row(row: Row) -> str:
    """Return "torch 2.9.1 -> 2.10.0 [cpu], 2.9.1 -> 2.11.0 [hopper]"."""
    moves = (" ".join(filter(None, (versions(move), where(move.targets)))) for move in row.moves)
    return f"{row.name} {', '.join(dict.fromkeys(moves))}"


def versions(move: Move) -> str:
    """Return "2.9.1 -> 2.10.0", "new 1.2", "1.2 removed"."""
    if move.renamed:
        return f"{len(move.renamed)} {move.what}"
    if move.old is None or move.new is None:
        side = move.old or move.new
        version = side.version if side else ""
        return f"new {version}" if move.old is None else f"{version} removed"
    if move.old.version == move.new.version and move.old.variant != move.new.variant:
        return f"{move.new.version} variant {move.old.variant or 'none'} → {move.new.variant or 'none'}"
    if move.old.version == move.new.version and move.old.build != move.new.build:
        return f"{move.new.version} build {move.old.build or 'unknown'} -> {move.new.build or 'unknown'}"
    if move.old.version == move.new.version:
        return move.new.version
    return f"{move.old.version} -> {move.new.version}"


def jump(move: Move) -> str:
    """Return "minor", "back a patch", "another build"; empty where the version stayed."""
    if move.jump == "local":
        return "another build"
    kind, _, down = move.jump.partition(" ")
    return f"back a {kind}" if down else "" if kind in ("none", "other") else kind


def where(targets: Iterable[str]) -> str:
    """Return the targets of a change, "[a, b]"; empty for all targets."""
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


def sizes(row: Row) -> tuple[tuple[str, str], ...]:
    """Give each size of a row, with its targets where the row has several moves: a table's cells wrap, so lines of two
    cells don't align."""
    is_split = len(row.moves) > 1
    return tuple((text, where(move.targets) if is_split else "") for move in row.moves if (text := size(move)))


def _size(move: Move) -> str:
    was = move.old.size if move.old else 0
    now = move.new.size if move.new else 0
    if was is None or now is None or was == now:
        return ""
    return f"{'+' if now > was else '-'}{byte_size(abs(now - was))}"


def edges(move: Move) -> Iterator[str]:
    """Describe the packages with other names, and the requirements that appeared or vanished, with their targets if
    these aren't all of the move's."""
    yield from move.renamed
    parts_by_text: dict[str, list[Move]] = {}
    for part in move.exact:
        if part.needs:
            parts_by_text.setdefault(f"needs {join_names(part.needs)} now", []).append(part)
        if part.drops:
            parts_by_text.setdefault(f"no longer needs {join_names(part.drops)}", []).append(part)
    for text, parts in parts_by_text.items():
        everywhere = len(parts) == len(move.exact)
        yield text if everywhere else f"{text} {where(sorted(name for part in parts for name in part.targets))}"


def fact(change: Fact) -> str:
    """Join a fact's sentence, its targets and its code, which `envspec explain` and `accept` take."""
    return " ".join(filter(None, (change.message, where(change.targets), f"[{change.code}]")))


def alike(row: Row) -> bool:
    """Return whether all moves of a row read the same."""
    return all(move.facts == row.moves[0].facts for move in row.moves)


def downloads(review: Review) -> list[str]:
    """Return "download 3.10 GB -> 3.42 GB [a, b]", a line each, with the targets whose download changes so."""
    targets_by_sizes: dict[str, list[str]] = {}
    for target in review.sizes:
        if target.old is not None and target.new is not None:
            was, now = byte_size(target.old), byte_size(target.new)
            if was != now:
                targets_by_sizes.setdefault(f"{was} -> {now}", []).append(target.name)
    return [f"download {sizes} {where(names)}" for sizes, names in targets_by_sizes.items()]


def meaning(row: Row) -> Iterable[tuple[Risk | None, str]]:
    """List a row's facts with their risks, and the requirements that changed, each once."""
    lines = (
        line
        for move in row.moves
        for line in (*((change.risk, fact(change)) for change in move.facts), *((None, text) for text in edges(move)))
    )
    return dict.fromkeys(lines)


def releases(row: Row) -> Iterable[str]:
    """List the pages of releases of a row's moves, each once."""
    return dict.fromkeys(move.releases for move in row.moves if move.releases)
