"""Facts from databases' and indexes' knowledge of the old and new versions of a change: plain data in, facts for its
rows out. This module asks no database and no index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from envspec.review.diff.rows import RISKS, Fact, LookedUp, Move, Review, Row, View, highest, in_order


class Vulnerability(Struct, frozen=True):
    """`names` are its identifier and its aliases, `ignored` is the spec's reason to accept it, None if it doesn't."""

    id: str
    names: frozenset[str]
    summary: str = ""
    fixed_in: tuple[str, ...] = ()
    ignored: str | None = None

    @property
    def malicious(self) -> bool:
        """Return whether it reports the release itself as malicious (`envspec.review.audit.rules.is_malicious`)."""
        return any(name.startswith("MAL-") for name in self.names)

    @property
    def title(self) -> str:
        """ "GHSA-1 (CVE-1)"."""
        also = sorted(self.names - {self.id})
        return f"{self.id} ({', '.join(also)})" if also else self.id


class Known(Struct, frozen=True):
    """The facts about a version. `vulnerabilities` is None where no database could say. `yanked` says that the
    publisher yanked the version and why; it is None where that isn't so or isn't known. `published` is the day of
    its upload (2026-11-21), and `releases` its forge's page of releases."""

    vulnerabilities: tuple[Vulnerability, ...] | None = None
    yanked: str | None = None
    published: str | None = None
    releases: str | None = None


UNKNOWN = Known()

Key = tuple[str, str, str, "str | None"]
"""A version of a package: kind, name, version, and the index's name (None where it isn't known)."""


def versions(review: Review) -> frozenset[Key]:
    """Return every old and new version in a review's rows."""
    return frozenset(
        key for row in review.rows for move in row.moves for view in (move.old, move.new) if (key := _key(row, view))
    )


def with_advisories(review: Review, known: Mapping[Key, Known], how: LookedUp | None) -> Review:
    """Add the known facts about `versions(review)` to a review. A version that isn't in `known` is unknown."""
    return replace(review, rows=in_order(_row(row, known) for row in review.rows), looked_up=how)


def facts(old: Known | None, new: Known | None) -> tuple[Fact, ...]:
    """Return the facts of a change of version, by the known facts about both; None stands for a side without the
    package."""
    if new is None:
        fixed = old.vulnerabilities if old else ()
        return (Fact("low", "vulnerability-fixed", f"removing it fixes {_titles(fixed)}"),) if fixed else ()
    published = [Fact("low", "published", f"published on {new.published}")] if new.published is not None else []
    return (*_vulnerable(old, new), *_yank_facts(old, new), *published)


def _row(row: Row, known: Mapping[Key, Known]) -> Row:
    def with_facts(move: Move) -> Move:
        old, new = (known.get(key, UNKNOWN) if (key := _key(row, view)) else None for view in (move.old, move.new))
        added = facts(old, new)
        # an index that was asked about the pin may have said it already
        codes = {fact.code for fact in added}
        merged = (*(fact for fact in move.facts if fact.code != "yanked" or "yanked" not in codes), *added)
        return replace(
            move,
            facts=tuple(sorted(merged, key=lambda fact: RISKS.index(fact.risk))),
            parts=tuple(with_facts(part) for part in move.parts),
            releases=new.releases if new else None,
        )

    moves = tuple(with_facts(move) for move in row.moves)
    return replace(row, moves=moves, risk=highest((row.risk, *(move.risk for move in moves))))


def _key(row: Row, view: View | None) -> Key | None:
    return (row.kind, row.name, view.version, view.index) if view else None


def _vulnerable(old: Known | None, new: Known) -> Iterator[Fact]:
    if new.vulnerabilities is None:
        # without an answer for the new version, nothing counts as fixed
        return
    before = old.vulnerabilities if old else ()
    names = {name for vulnerability in before or () for name in vulnerability.names}
    for vulnerability in new.vulnerabilities:
        if not names & vulnerability.names or _counts_anew(vulnerability):
            yield _new(vulnerability, was_known=before is not None)
    still = [
        vulnerability
        for vulnerability in new.vulnerabilities
        if names & vulnerability.names and not _counts_anew(vulnerability)
    ]
    if still:
        risk = highest("low" if vulnerability.ignored is not None else "medium" for vulnerability in still)
        yield Fact(risk, "still-vulnerable", f"still vulnerable: {'; '.join(map(_with_fix, still))}")
    left = {name for vulnerability in new.vulnerabilities for name in vulnerability.names}
    fixed = [vulnerability for vulnerability in before or () if not left & vulnerability.names]
    if fixed:
        yield Fact("low", "vulnerability-fixed", f"fixes {_titles(fixed)}")


def _counts_anew(vulnerability: Vulnerability) -> bool:
    # a release that was malicious before is no better for it
    return vulnerability.malicious and vulnerability.ignored is None


def _new(vulnerability: Vulnerability, *, was_known: bool) -> Fact:
    summary = f": {vulnerability.summary}" if vulnerability.summary else ""
    if _counts_anew(vulnerability):
        return Fact("high", "malicious", f"KNOWN TO BE MALICIOUS, {vulnerability.title}{summary}: don't install it")
    doubt = "" if was_known else " (unknown for the old version)"
    text = f"{'newly ' * was_known}vulnerable, {vulnerability.title}{summary}{doubt}"
    if vulnerability.ignored is not None:
        return Fact("low", "newly-vulnerable", f"{text}; the spec ignores it: {vulnerability.ignored}")
    return Fact("high", "newly-vulnerable", f"{text}; {_fix(vulnerability)}")


def _yank_facts(old: Known | None, new: Known) -> Iterator[Fact]:
    was = old.yanked if old else None
    if new.yanked is not None:
        yield Fact("medium", "yanked", new.yanked if was is None else f"as before, {new.yanked}")
    elif was is not None:
        yield Fact("low", "was-yanked", f"replaces a version: {was}")


def _titles(vulnerabilities: Iterable[Vulnerability]) -> str:
    return ", ".join(vulnerability.title for vulnerability in vulnerabilities)


def _with_fix(vulnerability: Vulnerability) -> str:
    return (
        f"{vulnerability.title}, {_fix(vulnerability)}"
        if vulnerability.ignored is None
        else f"{vulnerability.title}, ignored by the spec: {vulnerability.ignored}"
    )


def _fix(vulnerability: Vulnerability) -> str:
    return f"fixed in {', '.join(vulnerability.fixed_in)}" if vulnerability.fixed_in else "no release fixes it yet"
