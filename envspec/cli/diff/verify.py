"""`envspec diff --verify`: the changed pins, asked of the indexes that publish them."""

from __future__ import annotations

from envspec.cli.verify import asked_of, claims_in
from envspec.lock.model import Lock
from envspec.review.diff.facts import Fact
from envspec.review.diff.rows import Asked, Review
from envspec.review.diff.verified import Answers, doubted, with_answers
from envspec.review.verify.claims import changed
from envspec.review.verify.model import Claims, Outcome, PinClaim, Told
from envspec.review.verify.report import Verification, label
from envspec.spec.model import Spec

_OFFLINE = "--offline forbids asking"
_OF_FILES = frozenset({"not-published", "other-hash", "other-size"})


def verified(review: Review, old: Lock, new: Lock, spec: Spec, *, offline: bool) -> tuple[Review, bool]:
    """Add what the indexes say of the pins that changed, and say whether all of them could be asked."""
    before = claims_in(spec, old, old.targets)
    wanted = changed(claims_in(spec, new, new.targets), before)
    names = doubted(review)
    # what another file replaced: lowering its risk needs both
    replaced = {one: where for one, where in before.items() if (one.pin.kind, one.pin.name) in names}
    told = _told({**replaced, **wanted}, spec, new, offline=offline)
    found = Verification(tuple(one for one in told if one.claim in wanted), len(wanted))
    answers = Answers(
        held=frozenset(file for one in told if (file := _held(one)) is not None),
        refuted=_refuted(found, frozenset(target.name for target in new)),
        asked=Asked(
            len(wanted), found.proved, len({one.claim for one, *_ in found.forged}), tuple(found.unasked.items())
        ),
    )
    return with_answers(review, answers), not found.unasked


def _told(claims: Claims, spec: Spec, lock: Lock, *, offline: bool) -> tuple[Told, ...]:
    if offline:
        return tuple(Told(claim, targets, Outcome(unasked=_OFFLINE)) for claim, targets in claims.items())
    return asked_of(spec, lock, claims) if claims else ()


def _held(told: Told) -> tuple[str, str] | None:
    """Return the file of a claim, if its index was found to hold it."""
    outcome, artifact = told.outcome, told.claim.pin.artifact
    if artifact is None or outcome.unasked is not None or not outcome.source:
        return None
    if any(one.code in _OF_FILES for one in outcome.differences):
        return None
    return artifact.file, artifact.sha256


def _refuted(found: Verification, every: frozenset[str]) -> tuple[Fact, ...]:
    return tuple(
        Fact(
            "high",
            difference.code,
            f"NOT WHAT ITS INDEX PUBLISHES: {label(one.claim)}: {difference.sentence}",
            () if set(one.targets) == every else one.targets,
            _package(one.claim),
        )
        for one, *_, difference in found.forged
    )


def _package(claim: PinClaim) -> str:
    return claim.builds or claim.pin.name
