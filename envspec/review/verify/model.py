"""A lock's claims of its packages, and their publishers' answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from envspec.base.finding import Finding, Severity
from envspec.lock.model import Pin
from envspec.packages.stated import StatedMetadata
from envspec.packages.variant_choice import TargetMachine


class PinClaim(Struct, frozen=True):
    """A lock's claim about a package in a target, with all data that its proof needs.

    Targets that make the same claim need one proof.

    extras         the package's requested extras
    platform       conda's subdir; empty for a conda package, which says it itself
    python         of the target ("3.12.14"); empty for a conda package
    glibc          of the target; None for a platform without
    overrides      the target's overrides, as PEP 508
    stated         the spec's statement on the package's source
    exclude_newer  the moment before which the file was published, RFC 3339, or None
    builds         the source in whose build environment it is; None for a package of the target itself
    uncorrected    names of corrections that the spec switches off
    machine        the target's facts about its machines, for a package of which a variant is pinned
    requirements   the target's requirements on a pre-release's version or a conda package's build number
    """

    pin: Pin
    extras: frozenset[str] = frozenset()
    platform: str = ""
    python: str = ""
    overrides: tuple[str, ...] = ()
    stated: tuple[StatedMetadata, ...] = ()
    exclude_newer: str | None = None
    builds: str | None = None
    uncorrected: tuple[str, ...] = ()
    machine: TargetMachine | None = None
    requirements: tuple[str, ...] = ()
    glibc: str | None = None

    @property
    def label(self) -> str:
        """The package for people."""
        named = f"{self.pin.name} {self.pin.version}"
        return named if self.builds is None else f"{named} (builds {self.builds})"


FACTS = "envspec's own facts"
"""The source of an answer that no index was asked for."""

Claims = Mapping[PinClaim, tuple[str, ...]]
"""Claims, with the names of the targets that make each."""


class IndexedFile(Struct, frozen=True):
    """An index's facts about a file.

    size      in bytes, None where it doesn't say
    uploaded  RFC 3339, None where it doesn't say
    yanked    the reason why it was yanked, empty without one; None for a file that wasn't yanked
    provenance  the address of its attestations (PEP 740), None where the index names none
    """

    file: str
    sha256: str
    size: int | None = None
    uploaded: str | None = None
    yanked: str | None = None
    provenance: str | None = None


def difference(code: str, message: str, locked: str, published: str | None, severity: Severity = "error") -> Finding:
    """Make the finding of a value that the lock has and its publisher doesn't, or that its publisher has and `lock`
    wouldn't take. `published` is None where the publisher has no value."""
    return Finding(severity, code, message, evidence=(("locked", locked), ("published", published)))


class Outcome(Struct, frozen=True):
    """The answer to one claim.

    source       the source of the answer: an address without credentials, or envspec's own facts
    differences  the values that are forged, or were published anew since
    unexpected   the values that are published so, and that `lock` wouldn't take
    unproved     the values that no publisher gives in a comparable form: sentences
    yanked       the index's reason where it yanked the file, else None
    unasked      the reason why the claim, or a part of it, couldn't be asked about; None where all of it was
    attested     its publisher is proved by attestations
    """

    source: str = ""
    differences: tuple[Finding, ...] = ()
    unproved: tuple[str, ...] = ()
    yanked: str | None = None
    unasked: str | None = None
    attested: bool = False
    unexpected: tuple[Finding, ...] = ()


class ClaimResult(Struct, frozen=True):
    """A claim, the targets that make it, and its outcome.

    second  its outcome at the second source that the site's policy demands; None where it demands none
    """

    claim: PinClaim
    targets: tuple[str, ...]
    outcome: Outcome
    second: Outcome | None = None

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        return (self.outcome,) if self.second is None else (self.outcome, self.second)

    @property
    def is_unasked(self) -> bool:
        """Return whether the claim, or a part of it, couldn't be asked somewhere."""
        return any(outcome.unasked is not None for outcome in self.outcomes)

    @property
    def differs(self) -> bool:
        return any(outcome.differences for outcome in self.outcomes)


# The answers about all claims, as one value.


class Verification(Struct, frozen=True):
    """The claims of a lock that were asked about, each with its outcome.

    total   the number of the lock's claims, asked or not
    beside  the parts of the lock beside packages that no publisher was asked about, by the reason
    """

    results: tuple[ClaimResult, ...]
    total: int
    beside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def forged(self) -> tuple[tuple[ClaimResult, Outcome, Finding], ...]:
        """The lock's claims that their publisher denies, with the publisher."""
        return tuple(
            (result, outcome, difference)
            for result in self.results
            for outcome in result.outcomes
            for difference in outcome.differences
        )

    @property
    def unexpected(self) -> tuple[tuple[ClaimResult, Outcome, Finding], ...]:
        """The claims that are published as the lock has them, and that `lock` wouldn't take."""
        return tuple(
            (result, result.outcome, difference) for result in self.results for difference in result.outcome.unexpected
        )

    @property
    def unasked(self) -> dict[str, tuple[str, ...]]:
        """The packages that couldn't be asked, in whole or in part, by the reason."""
        return _group(
            (outcome.unasked, result.claim)
            for result in self.results
            for outcome in result.outcomes
            if outcome.unasked is not None
        )

    @property
    def unproved(self) -> dict[str, tuple[str, ...]]:
        """The claims that no publisher answers in a form that can be compared, with their packages."""
        unproved = _group(
            (sentence, result.claim)
            for result in self.results
            for outcome in result.outcomes
            for sentence in outcome.unproved
        )
        return {**unproved, **self.beside}

    @property
    def yanked(self) -> tuple[tuple[ClaimResult, str], ...]:
        """The claims whose file its index yanked, with the index's reason."""
        return tuple((result, result.outcome.yanked) for result in self.results if result.outcome.yanked is not None)

    @property
    def sources(self) -> dict[tuple[str, str], int]:
        """The sources of the answers, by the index's name and the source, with the number of claims."""
        claims: dict[tuple[str, str], int] = {}
        for result in self.results:
            for outcome in result.outcomes:
                if outcome.source and outcome.unasked is None:
                    key = (result.claim.pin.index, outcome.source)
                    claims[key] = claims.get(key, 0) + 1
        return dict(sorted(claims.items()))

    @property
    def proved(self) -> int:
        """The number of claims that agree with their publisher in all that it publishes."""
        return sum(not result.is_unasked and not result.differs for result in self.results) - self.by_facts

    @property
    def by_facts(self) -> int:
        """The number of claims that agree with envspec's own facts, and whose index wasn't asked."""
        return sum(
            not result.differs and all(each.source == FACTS for each in result.outcomes) for result in self.results
        )

    @property
    def attested(self) -> int:
        """The number of claims whose publisher is proved by attestations."""
        return sum(result.outcome.attested for result in self.results)


def _group(rows: Iterator[tuple[str, PinClaim]]) -> dict[str, tuple[str, ...]]:
    labels: dict[str, dict[str, None]] = {}
    for reason, claim in rows:
        labels.setdefault(reason, {})[claim.label] = None
    return {reason: tuple(sorted(names)) for reason, names in labels.items()}
