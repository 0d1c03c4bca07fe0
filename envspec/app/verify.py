"""A lock asked of the indexes that publish what it pins."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from envspec.app import inputs
from envspec.app.observer import observer
from envspec.app.policy import permit_addresses
from envspec.app.site_policy import site_policy
from envspec.lock.model import Lock, LockedTarget
from envspec.review.verify.ask import SecondSource, ask_all
from envspec.review.verify.claims import apply_bounds, claims_of, new_claims, unasked_parts
from envspec.review.verify.indexes import Indexes, ask_channels
from envspec.review.verify.model import ClaimResult, Claims, Verification
from envspec.spec.model import Spec
from envspec.spec.newer import bounds, with_moments_of_lock


class Verified(Struct, frozen=True):
    """The indexes' answers about some targets of a lock, or about its changes since a revision."""

    spec: Spec
    lock: Lock
    targets: tuple[LockedTarget, ...]
    verification: Verification


def verify(
    path: str, targets: Sequence[str], revision: str | None, locks_dir: Path | None, *, live: bool = False
) -> Verified:
    """Ask the indexes for all that a lock pins; with a revision, for what the lock there doesn't have. Unless `live`,
    envspec's own facts answer for the PyTorch indexes' files that they have.

    Raises as `read_lock`, and InputError for an unknown target or revision.
    """
    spec, lock = inputs.read_lock(path, locks_dir, making="proof", on_base=True)
    chosen = inputs.locked_targets(lock, targets)
    claims = claims_in(spec, lock, chosen)
    old = inputs.lock_at(revision, spec, locks_dir) if revision is not None else None
    subset = claims if old is None else new_claims(claims, claims_in(spec, old, old.targets))
    verification = Verification(ask_indexes(spec, lock, subset, live=live), len(claims), unasked_parts(lock, old))
    return Verified(spec, lock, chosen, verification)


def claims_in(spec: Spec, lock: Lock, targets: Iterable[LockedTarget]) -> Claims:
    """Collect what a lock of a spec claims, within the bounds in time that the spec has for single packages."""
    return apply_bounds(claims_of(lock, targets), bounds(with_moments_of_lock(spec, lock.inputs.exclude_newer)))


def ask_indexes(spec: Spec, lock: Lock, claims: Claims, *, live: bool = False) -> tuple[ClaimResult, ...]:
    """Ask this machine's indexes and channels for claims of a lock. Raises Forbidden where the site's policy forbids
    an address."""
    permit_addresses(spec)
    policy = site_policy()
    second = policy.second if policy is not None else {}
    pins = tuple(pin for target in lock for pin in target.pins)
    indexes = Indexes.of(spec, os.environ, second, facts=not live)
    channels = partial(ask_channels, spec=spec, env=os.environ)
    with observer().progress("asking the indexes") as progress:
        results = ask_all(claims, pins, indexes, channels, progress.count)
    if not second:
        return results
    with observer().progress("asking the second source") as progress:
        return SecondSource(indexes, second).ask(results, pins, progress.count)
