"""The findings of an audit, for the page: from the JSON that `envspec audit` printed, or from a database of
advisories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from envspec.base.documents import read_json
from envspec.base.errors import InputError, Place
from envspec.lock.graph import Node
from envspec.lock.model import LockedTarget
from envspec.review.audit import rules
from envspec.review.audit.model import DatabaseAnswer, Facts, PublishedRelease, as_json, packages
from envspec.review.audit.osv import OsvDatabase
from envspec.review.report.collect import numbers_of
from envspec.review.report.model import AuditSummary, Trouble
from envspec.spec.model import Audit as Rules
from envspec.spec.newer import moment_of

_SCHEMA = "envspec/audit/1"
_KNOWN = "vulnerability"
_AGAIN = "make a new one: envspec audit SPEC --json > FILE"
_NEVER = datetime(1970, 1, 1, tzinfo=timezone.utc)


def from_json(text: str, place: Place, digest: str, targets: Sequence[LockedTarget]) -> AuditSummary:
    """Read the audit in a document of `envspec audit --json`. It must be of this very lock: `digest` decides.

    Raises InputError for anything else, because packages that another audit doesn't name must not pass for sound.
    """
    try:
        document = read_json(text)
        if document["schema"] != _SCHEMA:
            raise ValueError
        if document.get("digest") != digest:
            fault = "is of another lock" if document.get("digest") else "doesn't name its lock's digest"
            raise InputError(f"this audit {fault}, so it says nothing about this lock", place=place, hint=_AGAIN)
        audited = set(document["targets"])
        return AuditSummary(
            database=str(document["database"]["name"]),
            as_of=_text(document["database"]["oldest"]),
            troubles=tuple(_troubles(document["findings"], targets)),
            unknown=_unknown(
                {one["reason"]: one["packages"] for one in document["not_asked"] if _KNOWN in one.get("codes", _KNOWN)},
                targets,
            ),
            unread=tuple(map(str, document["unread"])) or (() if document["complete"] else ("it wasn't completed",)),
            left_out=tuple(place for place, target in enumerate(targets) if target.name not in audited),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError("this isn't what `envspec audit --json` prints", place=place, hint=_AGAIN) from None


def from_database(database: OsvDatabase, accepted: Rules, targets: Sequence[LockedTarget]) -> AuditSummary:
    """Find the known vulnerabilities of the locked packages in a downloaded database. Uses no network."""
    found = packages(targets)
    answers: dict[PublishedRelease, DatabaseAnswer] = {
        one.release: database.ask(one.release) for one in found if one.release
    }
    facts = Facts(answers, files=None)
    # the database's own day: a page has no clock, and what the spec accepts may have an end
    findings = rules.findings(found, facts, accepted, (moment_of(database.modified) or _NEVER))
    return AuditSummary(
        database=database.name,
        as_of=database.modified or None,
        troubles=tuple(_troubles((as_json(one) for one in findings if one.evidence.advisory), targets)),
        unknown=_unknown(
            {one.reason: one.packages for one in rules.unchecked_packages(found, facts) if _KNOWN in one.codes}, targets
        ),
        unread=(),
        left_out=(),
    )


def _troubles(findings: Iterable[Mapping[str, Any]], targets: Sequence[LockedTarget]) -> Iterable[Trouble]:
    """Yield the findings about these targets."""
    numbers, places = numbers_of(targets), {target.name: place for place, target in enumerate(targets)}
    for one in findings:
        where = tuple(places[name] for name in one["targets"] if name in places)
        if not where:
            continue
        advisory = one["advisory"] or {}
        message = str(advisory.get("summary") or one["message"])
        kind, name, version = one["kind"], one["package"], str(one["version"])
        if one.get("builds"):
            # the page lists what is installed: it stands with the first source that is built with it
            message = f"{name} {version}, which builds it: {message}"
            name = one["builds"][0]
            version = next((pin.version for target in targets if (pin := target.pin(name, kind))), "")
        yield Trouble(
            code=str(one["code"]),
            level=str(one["level"]),
            package=numbers[Node(kind, name)],
            version=version,
            targets=where,
            message=message,
            remedy=str(one["remedy"]),
            ignored=_text(one["ignored"]),
            id=_text(advisory.get("id")),
            aliases=tuple(map(str, advisory.get("aliases", ()))),
            severity=_text(advisory.get("severity")),
            fixed_in=tuple(map(str, advisory.get("fixed_in", ()))),
            link=_text(advisory.get("link")),
        )


def _unknown(
    reasons: Mapping[str, Iterable[str]], targets: Sequence[LockedTarget]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return packages by reason. An audit names them without their kind, so packages of both kinds count."""
    numbers = numbers_of(targets)
    found = []
    for reason, names in sorted(reasons.items()):
        wanted = set(names)
        places = tuple(number for node, number in numbers.items() if node.name in wanted)
        if places:
            found.append((str(reason), places))
    return tuple(found)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
