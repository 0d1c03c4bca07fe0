"""`envspec diff --audit`: what is known of the versions that a change removes and adds."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from envspec.base.errors import OutsideError
from envspec.cli import look_up
from envspec.cli.console import warn
from envspec.cli.progress import counting
from envspec.review.audit.learn import How, look_up_facts
from envspec.review.audit.model import AuditedPackage, AuditFinding, Facts
from envspec.review.audit.packages import packages
from envspec.review.audit.rules import findings, not_asked, oldest, published
from envspec.review.diff.advisories import Key, Known, Vulnerability, versions, with_advisories
from envspec.review.diff.rows import LookedUp, Review
from envspec.review.diff.side import LoosePin, Side
from envspec.spec.model import Audit, Spec

_CODES = ("vulnerability", "yanked", "young")
"""The findings that a change of version brings or resolves: an audit's other findings concern the lock as it is."""


def audited(
    review: Review, old: Side, new: Side, spec: Spec | None, how: How, min_age: timedelta
) -> tuple[Review, bool]:
    """Add the findings to a review, and say whether everything was read: what wasn't is on stderr.

    Looks up only the versions in the review's rows. Two files have no spec, so their own indexes and the advisories to
    ignore are unknown. Raises InputError for a database that isn't one.
    """
    wanted = versions(review)
    chosen = _chosen(wanted, old, new)
    now = datetime.now(timezone.utc)
    try:
        with counting("looking up releases") as on_progress:
            indexes = spec.pip.indexes if spec else {}
            name, facts = look_up_facts(indexes, chosen, how, os.environ, now, on_progress, warn)
    except OutsideError as error:
        # the rest of the review is worth showing
        name, facts = "", Facts(files=None, unread=(str(error),))
    incomplete = look_up.say_unread(facts)
    found = findings(chosen, facts, spec.audit if spec else Audit(), now, min_age)
    told = (
        (tuple(code for code in one.codes if code in _CODES), one.reason, one.packages)
        for one in (not_asked(chosen, facts) if name else ())
    )
    looked_up = LookedUp(
        name,
        oldest(chosen, facts),
        (*facts.unread, *facts.unread_files),
        tuple(one for one in told if one[0]),
    )
    known = {key: _known([one for one in chosen if _is(one, key)], facts, found) for key in wanted}
    return with_advisories(review, known, looked_up), not incomplete


def _chosen(wanted: Iterable[Key], old: Side, new: Side) -> tuple[AuditedPackage, ...]:
    """Give the packages of both sides in the wanted versions."""
    targets = [
        replace(target, name=f"{side} {target.name}", pins=tuple(p for p in target.pins if not isinstance(p, LoosePin)))
        for side, lock in (("old", old.lock), ("new", new.lock))
        for target in lock
    ]
    keys = {key[:3] for key in wanted}
    return tuple(
        one
        for one in packages(targets)
        if (one.kind, one.name, one.version) in keys and any(_is(one, key) for key in wanted)
    )


def _is(package: AuditedPackage, key: Key) -> bool:
    return (package.kind, package.name, package.version) == key[:3] and key[3] in (None, package.index)


def _known(alike: Iterable[AuditedPackage], facts: Facts, found: Iterable[AuditFinding]) -> Known:
    """Give the findings of a version, whatever licence or file a side has of it."""
    alike = tuple(alike)
    mine = [one for one in found if one.package in alike]
    answers = [facts.answers.get(one.release) for one in alike if one.release is not None]
    told = [one.advisory for one in mine]
    vulnerabilities = {
        advisory.id: Vulnerability(advisory.id, advisory.names, advisory.summary, advisory.fixed_in, finding.ignored)
        for finding, advisory in zip(mine, told, strict=True)
        if advisory is not None
    }
    is_known = any(answer is not None and answer.known for answer in answers)
    yanked, young = (next((one.message for one in mine if one.code == code), None) for code in ("yanked", "young"))
    return Known(tuple(vulnerabilities.values()) if is_known else None, yanked, published(alike, facts), young=young)
