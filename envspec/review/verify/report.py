"""The answers about all claims, as one value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from envspec.base.finding import Finding
from envspec.review.verify.model import Outcome, PinClaim, Told


@dataclass(frozen=True)
class Verification:
    """The claims of a lock that were asked, with what came of each.

    total   the number of the lock's claims, asked or not
    beside  what the lock has beside packages and no publisher was asked about, by the reason
    """

    told: tuple[Told, ...]
    total: int
    beside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def forged(self) -> tuple[tuple[Told, Outcome, Finding], ...]:
        """The lock's claims that their publisher denies, with the publisher."""
        return tuple(
            (one, outcome, difference)
            for one in self.told
            for outcome in one.outcomes
            for difference in outcome.differences
        )

    @property
    def unexpected(self) -> tuple[tuple[Told, Outcome, Finding], ...]:
        """The claims that are published as the lock has them, and that `lock` wouldn't take."""
        return tuple((one, one.outcome, difference) for one in self.told for difference in one.outcome.unexpected)

    @property
    def unasked(self) -> dict[str, tuple[str, ...]]:
        """The packages that couldn't be asked, in whole or in part, by the reason."""
        return _group(
            (outcome.unasked, one.claim) for one in self.told for outcome in one.outcomes if outcome.unasked is not None
        )

    @property
    def unproved(self) -> dict[str, tuple[str, ...]]:
        """The claims that no publisher answers in a form that can be compared, with their packages."""
        found = _group(
            (sentence, one.claim) for one in self.told for outcome in one.outcomes for sentence in outcome.unproved
        )
        return {**found, **self.beside}

    @property
    def yanked(self) -> tuple[tuple[Told, str], ...]:
        """The claims whose file its index yanked, with the index's reason."""
        return tuple((one, one.outcome.yanked) for one in self.told if one.outcome.yanked is not None)

    @property
    def sources(self) -> dict[tuple[str, str], int]:
        """The sources of the answers, by the index's name and the source, with the number of claims."""
        found: dict[tuple[str, str], int] = {}
        for one in self.told:
            for outcome in one.outcomes:
                if outcome.source and outcome.unasked is None:
                    key = (one.claim.pin.index, outcome.source)
                    found[key] = found.get(key, 0) + 1
        return dict(sorted(found.items()))

    @property
    def proved(self) -> int:
        """The number of claims that agree with their publisher in all that it publishes."""
        return sum(not one.is_unasked and not one.differs for one in self.told)

    @property
    def attested(self) -> int:
        """The number of claims whose publisher is proved by attestations."""
        return sum(one.outcome.attested for one in self.told)


def _group(rows: Iterator[tuple[str, PinClaim]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for reason, claim in rows:
        found.setdefault(reason, {})[claim.label] = None
    return {reason: tuple(sorted(names)) for reason, names in found.items()}
