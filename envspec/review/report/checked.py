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
                {
                    unchecked["reason"]: unchecked["packages"]
                    for unchecked in document["not_asked"]
                    if _KNOWN in unchecked.get("codes", _KNOWN)
                },
                targets,
            ),
            unread=tuple(map(str, document["unread"])) or (() if document["complete"] else ("it wasn't completed",)),
            left_out=tuple(place for place, target in enumerate(targets) if target.name not in audited),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError("this isn't what `envspec audit --json` prints", place=place, hint=_AGAIN) from None


def from_database(database: OsvDatabase, accepted: Rules, targets: Sequence[LockedTarget]) -> AuditSummary:
    """Find the known vulnerabilities of the locked packages in a downloaded database. Uses no network."""
    audited = packages(targets)
    answers: dict[PublishedRelease, DatabaseAnswer] = {
        package.release: database.ask(package.release) for package in audited if package.release
    }
    facts = Facts(answers, files=None)
    # the database's own day: a page has no clock, and what the spec accepts may have an end
    findings = rules.findings(audited, facts, accepted, (moment_of(database.modified) or _NEVER))
    return AuditSummary(
        database=database.name,
        as_of=database.modified or None,
        troubles=tuple(_troubles((as_json(finding) for finding in findings if finding.evidence.advisory), targets)),
        unknown=_unknown(
            {
                unchecked.reason: unchecked.packages
                for unchecked in rules.unchecked_packages(audited, facts)
                if _KNOWN in unchecked.codes
            },
            targets,
        ),
        unread=(),
        left_out=(),
    )


def _troubles(findings: Iterable[Mapping[str, Any]], targets: Sequence[LockedTarget]) -> Iterable[Trouble]:
    """Yield the findings about these targets."""
    numbers, places = numbers_of(targets), {target.name: place for place, target in enumerate(targets)}
    for finding in findings:
        where = tuple(places[name] for name in finding["targets"] if name in places)
        if not where:
            continue
        advisory = finding["advisory"] or {}
        message = str(advisory.get("summary") or finding["message"])
        kind, name, version = finding["kind"], finding["package"], str(finding["version"])
        if finding.get("builds"):
            # the page lists what is installed: it stands with the first source that is built with it
            message = f"{name} {version}, which builds it: {message}"
            name = finding["builds"][0]
            version = next((pin.version for target in targets if (pin := target.pin(name, kind))), "")
        yield Trouble(
            code=str(finding["code"]),
            level=str(finding["level"]),
            package=numbers[Node(kind, name)],
            version=version,
            targets=where,
            message=message,
            remedy=str(finding["remedy"]),
            ignored=_text(finding["ignored"]),
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
    unknown = []
    for reason, names in sorted(reasons.items()):
        named = set(names)
        places = tuple(number for node, number in numbers.items() if node.name in named)
        if places:
            unknown.append((str(reason), places))
    return tuple(unknown)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
